"""What a variant of a tuning means for a run: which graph, which engine, and what is left for the
engine itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.chain.model import ChainGraph
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.variants import with_data_type, with_fusion, with_layout
from bench_run.plan.cases import PlannedCase, plan_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.graph.model import Graph
    from bench_run.plan.cases import PlannedGraph
    from bench_run.plan.engines import PlannedEngine

GRAPH_AXES: Mapping[str, Callable[[Graph, str], Graph | None]] = {
    "dtype": with_data_type,
    "layout": with_layout,
    "fusion": with_fusion,
}
"""Axes that change the graph, in the order in which they do."""


def rewritten(graph: PlannedGraph, variant: Mapping[str, str]) -> PlannedGraph | str:
    """The graph in the type, layout and fusion that a variant names; why not, as a sentence. An
    axis that means nothing to a graph leaves it as it is."""
    made: Graph = graph.loaded.graph
    for axis, rewrite in GRAPH_AXES.items():
        if axis in variant:
            try:
                changed = rewrite(made, variant[axis])
            except GraphError as error:
                return f"not valid with {axis}={variant[axis]}: {error}"
            made = made if changed is None else changed
    return graph if made is graph.loaded.graph else _identified(graph, made, variant)


def _identified(graph: PlannedGraph, made: Graph, variant: Mapping[str, str]) -> PlannedGraph:
    """References, inputs and fingerprints are those of the new graph; its name stays."""
    axes = ",".join(f"{axis}={variant[axis]}" for axis in GRAPH_AXES if axis in variant)
    text = write_graph(made.places[0].graph if isinstance(made, ChainGraph) else made)
    loaded = replace(
        graph.loaded,
        graph=made,
        path=f"{graph.loaded.path}#{axes}",
        text=text,
        sha256=hashlib.sha256(text).hexdigest(),
        golden=None,
    )
    planned = plan_graph(loaded)
    if planned.id.fingerprint == graph.id.fingerprint:
        return graph
    named = replace(planned.id, name=graph.id.name)
    return replace(planned, id=named, namesake=graph.namesake, turns_with=graph.id.path)


def in_math(engine: PlannedEngine, math: str) -> PlannedEngine:
    """The engine with float32 arithmetic of its own; as it is where that is the run's."""
    if math in ("", engine.options.math):
        return engine
    options = replace(engine.options, math=math)
    return replace(engine, key=f"{engine.key} math={math}", options=options)


def variant_case(
    graph: PlannedGraph, engine: PlannedEngine, variant: Mapping[str, str]
) -> PlannedCase:
    extra = "".join(f" {key}={value}" for key, value in sorted(variant.items()))
    number = f" #{graph.namesake}" if graph.namesake > 1 else ""
    name = f"{graph.id.name} on {engine.key}{extra}{number}"
    return PlannedCase(name, graph, engine, dict(variant))
