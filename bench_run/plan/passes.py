"""``--cache pass``: what a pass of a pipeline touches, and what runs in it before each graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.graph.chain.compose import FILE, compose, find
from bench_run.graph.chain.model import ChainGraph, Preceding
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.sources.suites import own_graphs, read_suite
from bench_run.plan.chains import graphs_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.pipeline.values import Layer, Pipeline

    from bench_run.graph.model import Graph
    from bench_run.graph.sources.load import LoadedGraph
    from bench_run.plan.load import Gathered

MOST_REST_BYTES = 16 * 1024**2
"""Of the layers that run before: several times the caches of one core. What a pass touches before
them is read instead, which takes far less time."""
MOST_REPEATS = 64
"""Of one small layer that repeats: more of them leave nothing else in the caches."""


def pass_bytes(arguments: Sequence[str]) -> int:
    """What a pass of the pipeline touches: its inputs, weights and all that its layers write."""
    path = _one(arguments)
    pipeline = read_suite(path)
    graphs = graphs_of(pipeline, path)
    total, shared = 0, dict[str, int]()
    for layer in pipeline.layers:
        graph = graphs[layer.id]
        linked = {
            find(graph.inputs, name, layer.id).uid: link for name, link in layer.links.items()
        }
        own = [tensor for tensor in graph.inputs if tensor.uid not in linked]
        total += layer.repeat * sum(tensor.bytes for tensor in (*own, *graph.outputs))
        for uid, link in linked.items():
            if link.layer is None:
                shared[link.tensor] = max(shared.get(link.tensor, 0), graph.by_uid[uid].bytes)
    return total + sum(shared.values())


def _one(arguments: Sequence[str]) -> Path:
    paths = [Path(own_graphs(argument)) for argument in arguments]
    if len(paths) != 1:
        raise UsageError("--cache pass: one pipeline, whose size says what a pass leaves in caches")
    return paths[0]


def with_preceding(gathered: Gathered, arguments: Sequence[str], size: int) -> Gathered:
    """Each graph with what runs before it in a pass, and a note on that. `size`: bytes of all."""
    path = _one(arguments)
    pipeline = read_suite(path)
    graphs = graphs_of(pipeline, path)
    first: dict[str, str] = {}
    for layer in pipeline.order:
        first.setdefault(fingerprint(graphs[layer.id]), layer.id)
    note = f"{size} bytes are touched before each iteration, as in a pass of the pipeline"
    found = []
    for loaded in gathered.graphs:
        own = _own(loaded, first)
        chain = rest_of_pass(pipeline, graphs, path, own) if own else None
        before = None
        if chain is not None:
            before = Preceding(chain, max(0, size - held_bytes(chain) - held_bytes(loaded.graph)))
        found.append(replace(loaded, preceding=before, notes=(*loaded.notes, note)))
    return replace(gathered, graphs=tuple(found))


def _own(loaded: LoadedGraph, first: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the layers that it is; of several equal ones the first."""
    if isinstance(loaded.graph, ChainGraph):
        return tuple(place.id for place in loaded.graph.places)
    known = first.get(fingerprint(loaded.graph.connected))
    return () if known is None else (known,)


def rest_of_pass(
    pipeline: Pipeline, graphs: Mapping[str, Graph], path: Path, own: Sequence[str]
) -> ChainGraph | None:
    """The layers that run before these ones in a pass, one pass after another: the nearest of them,
    as many as `MOST_REST_BYTES` take. None: there are no others."""
    order = pipeline.order
    last = max(place for place, layer in enumerate(order) if layer.id in own)
    kept: list[Layer] = []
    held = 0
    for layer in reversed((*order[last + 1 :], *order[: last + 1])):
        times = layer.repeat - (layer.id in own)
        if times and held < MOST_REST_BYTES:
            each = max(1, held_bytes(graphs[layer.id]))
            times = min(times, -(-(MOST_REST_BYTES - held) // each), MOST_REPEATS)
            kept.insert(0, replace(layer, repeat=times))
            held += times * each
    if not kept:
        return None
    short = replace(pipeline, layers=_linked(kept), inputs=(), outputs=(), left_out=())
    return compose(short, graphs, path)


def held_bytes(graph: Graph) -> int:
    """By what it reads and writes."""
    return sum(tensor.bytes for tensor in (*graph.inputs, *graph.outputs))


def _linked(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """With the links to those that run before; what the others wrote is an input, filled by rule,
    as are weights whose values lie in files."""
    found, before = [], set[str]()
    for layer in layers:
        links = {name: link for name, link in layer.links.items() if link.layer in before}
        init = {name: rule for name, rule in layer.init.items() if not rule.startswith(FILE)}
        found.append(replace(layer, links=links, after=(), init=init))
        before.add(layer.id)
    return tuple(found)
