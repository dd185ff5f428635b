"""Options to the list of cases: graphs × engines × variants. The only place that multiplies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from bench_schema.document import GraphId, Work

from bench_run.engines import engine_module
from bench_run.engines.spec import KNOB, parse_spec, with_option
from bench_run.errors import UsageError
from bench_run.graph.chain import ChainGraph, chain_fingerprint, layer_fingerprints
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.work import family, main_data_type, total_work, work
from bench_run.plan.engines import PlannedEngine, unique
from bench_run.text import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench_run.engines.base import EngineSpec
    from bench_run.graph.model import Graph
    from bench_run.graph.sources.load import LoadedGraph


@dataclass(frozen=True)
class PlannedGraph:
    """A graph of this run, identified once."""

    loaded: LoadedGraph
    id: GraphId
    work: Work
    namesake: int = 1
    """Position among the graphs of one name in the run, all shards counted; ids of cases follow
    it."""
    turns_with: str | None = None
    """Path of the graph with which it is measured in turn, where that is not its own."""
    exact: Graph | None = None
    """The graph that this one approximates, with the same inputs and outputs."""


@dataclass(frozen=True)
class PlannedCase:
    id: str
    graph: PlannedGraph
    engine: PlannedEngine
    variant: Mapping[str, str] = field(default_factory=dict)


def plan_graph(loaded: LoadedGraph) -> PlannedGraph:
    """Plan a graph. Unused tensors are dropped, except from a graph with golden files, which may
    name them and would fit no other graph."""
    loaded = loaded if loaded.golden else replace(loaded, graph=loaded.graph.connected)
    graph = loaded.graph
    if isinstance(graph, ChainGraph):
        graph_id = GraphId(
            name=graph.name,
            path=loaded.path,
            sha256=loaded.sha256,
            fingerprint=chain_fingerprint(graph),
            family="chain",
            data_type=main_data_type(graph),
            layers=layer_fingerprints(graph),
        )
        return PlannedGraph(loaded, graph_id, total_work(p.graph for p in graph.places))
    graph_id = GraphId(
        name=plain_text(graph.name or PurePath(loaded.path.rpartition("!")[2]).stem),
        path=loaded.path,
        sha256=loaded.sha256,
        fingerprint=fingerprint(graph),
        family=family(graph),
        data_type=main_data_type(graph),
        op=None if loaded.op is None else plain_text(loaded.op),
    )
    return PlannedGraph(loaded, graph_id, work(graph))


def number_namesakes(graphs: Iterable[PlannedGraph]) -> tuple[PlannedGraph, ...]:
    """Assign numbers to graphs of one name by their positions in the whole run."""
    seen: Counter[str] = Counter()
    numbered = []
    for graph in graphs:
        seen[graph.id.name] += 1
        numbered.append(replace(graph, namesake=seen[graph.id.name]))
    return tuple(numbered)


def plan_cases(
    graphs: Iterable[PlannedGraph],
    engines: Sequence[PlannedEngine],
    variants: Mapping[tuple[str, str], Sequence[Mapping[str, str]]],
) -> tuple[PlannedCase, ...]:
    """Return every graph on every engine in every variant that `variants` lists for the pair (graph
    path, engine key)."""
    rows = [
        (graph, engine, variant)
        for graph in graphs
        for engine in engines
        for variant in variants.get((graph.id.path, engine.key), ({},))
    ]
    names = []
    for graph, engine, variant in rows:
        extra = "".join(f" {key}={value}" for key, value in sorted(variant.items()))
        twin = "" if graph.namesake == 1 else f" #{graph.namesake}"
        names.append(f"{graph.id.name} on {engine.key}{extra}{twin}")
    ids = unique(names)
    return tuple(PlannedCase(i, *row) for i, row in zip(ids, rows, strict=True))


# ``--oracle``: beside each engine the same engine after its own search for the fastest way.
#
# Both are engines of the run: interleaved round by round, validated alike, each with caches of its
# own, so that the default does not read what the search left behind.


def with_oracles(specs: Iterable[EngineSpec]) -> Iterator[EngineSpec]:
    """Yield each spec, followed by the one that searches."""
    for spec in specs:
        oracle = engine_module(spec.name).ABILITIES.oracle
        which = f"name the engine that searches: {spec.name}:ID or {spec.name}:all"
        if oracle is None:
            raise UsageError(
                f"--oracle: engine {spec.text} has no search to compare its default with"
            )
        if spec.id is None:
            raise UsageError(f"--oracle: {which}")
        if spec.id in oracle.searching_ids:
            raise UsageError(
                f"--oracle: {spec.name}:{spec.id} searches in any case and has no default "
                f"beside it: {which}"
            )
        yield spec
        yield parse_spec(with_option(spec.text, KNOB + oracle.knob))


def oracle_pairs(keys: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of the keys of engines that belong together, default first."""
    searches = {
        f"+{KNOB}{oracle.knob}"
        for oracle in (engine_module(parse_spec(key).name).ABILITIES.oracle for key in keys)
        if oracle is not None
    }
    return tuple(
        (key.replace(search, ""), key)
        for key in keys
        for search in searches
        if search in key and key.replace(search, "") in keys
    )
