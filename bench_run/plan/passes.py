"""``--cache pass``: what a pass of a pipeline touches, and what runs in it around each graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.graph.chain import FILE, ChainGraph, PassContext, compose, find
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.sources.suites import own_graphs, read_suite
from bench_run.plan.load import graphs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.pipeline import Layer, Pipeline

    from bench_run.graph.model import Graph
    from bench_run.graph.sources.load import LoadedGraph
    from bench_run.plan.load import Gathered

MOST_REST_BYTES = 16 * 1024**2
"""Size limit of the layers that run before: several times the caches of one core. The rest of the
pass is replaced by reading as many bytes, which takes far less time."""
MOST_REPEATS = 64
"""Repetition limit of one small layer: more would leave nothing else in the caches."""


@dataclass(frozen=True)
class PipelinePass:
    """A pipeline whose passes say how caches are left."""

    path: Path
    pipeline: Pipeline
    graphs: Mapping[str, Graph]
    """Graphs by layer id."""


def read_pass(arguments: Sequence[str]) -> PipelinePass:
    """Read a pass. Raises `UsageError` if the arguments are not one pipeline."""
    paths = [Path(own_graphs(argument)) for argument in arguments]
    if len(paths) != 1:
        raise UsageError("--cache pass: one pipeline, whose size says what a pass leaves in caches")
    path = paths[0]
    pipeline = read_suite(path)
    return PipelinePass(path, pipeline, graphs_of(pipeline, path))


def pass_bytes(whole: PipelinePass) -> int:
    """Return the bytes that a pass touches: its inputs, weights and the outputs of all layers."""
    total, shared = 0, dict[str, int]()
    for layer in whole.pipeline.layers:
        graph = whole.graphs[layer.id]
        linked = {
            find(graph.inputs, name, layer.id).uid: link for name, link in layer.links.items()
        }
        own = [tensor for tensor in graph.inputs if tensor.uid not in linked]
        total += layer.repeat * sum(tensor.bytes for tensor in (*own, *graph.outputs))
        for uid, link in linked.items():
            if link.layer is None:
                shared[link.tensor] = max(shared.get(link.tensor, 0), graph.by_uid[uid].bytes)
    return total + sum(shared.values())


def with_surroundings(gathered: Gathered, whole: PipelinePass, size: int) -> Gathered:
    """Return the gathered graphs, each with the layers around it in a pass, and a note on them; the
    chain of the pipeline is the pass. `size`: bytes of all."""
    path, pipeline, graphs = whole.path, whole.pipeline, whole.graphs
    first: dict[str, str] = {}
    for layer in pipeline.order:
        first.setdefault(fingerprint(graphs[layer.id]), layer.id)
    note = f"{size} bytes are touched before each iteration, as in a pass of the pipeline"
    found = []
    for loaded in gathered.graphs:
        if loaded.path == str(path):
            found.append(replace(loaded, is_pass=True))
            continue
        own = _own(loaded, first)
        around = surroundings(pipeline, graphs, path, own, size) if own else None
        if around is not None:
            around = replace(around, linked=_is_at(around, loaded.graph))
        found.append(replace(loaded, surroundings=around, notes=(*loaded.notes, note)))
    return replace(gathered, graphs=tuple(found))


def _own(loaded: LoadedGraph, first: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the layers that it consists of; of several equal ones the first."""
    if isinstance(loaded.graph, ChainGraph):
        return tuple(place.id for place in loaded.graph.places)
    known = first.get(fingerprint(loaded.graph.connected))
    return () if known is None else (known,)


def _is_at(around: PassContext, graph: Graph) -> bool:
    """Return True if its tensors are those of its places; a graph with an equal meaning is not
    enough."""
    places = [around.chain.places[index].graph for index in around.own]
    if isinstance(graph, ChainGraph):
        return [place.graph.tensors for place in graph.places] == [p.tensors for p in places]
    return [graph.connected.tensors] == [place.tensors for place in places]


def surroundings(
    pipeline: Pipeline, graphs: Mapping[str, Graph], path: Path, own: Sequence[str], size: int
) -> PassContext | None:
    """Return the nearest layers that run before these, one pass after another, up to
    `MOST_REST_BYTES`. None without others."""
    # How often each layer runs, besides the graph's own runs.
    others: dict[str, int] = {}
    held = 0
    order = pipeline.order
    last = max(place for place, layer in enumerate(order) if layer.id in own)
    for layer in reversed((*order[last + 1 :], *order[: last + 1])):
        times = layer.repeat - (layer.id in own)
        if times and held < MOST_REST_BYTES:
            each = max(1, held_bytes(graphs[layer.id]))
            others[layer.id] = min(times, -(-(MOST_REST_BYTES - held) // each), MOST_REPEATS)
            held += others[layer.id] * each
    if not others:
        return None
    layers = [
        replace(layer, repeat=others.get(layer.id, 0) + (layer.id in own))
        for layer in order
        if layer.id in others or layer.id in own
    ]
    # Where its own run: of a layer that repeats its last run, and of the second of a pair its
    # first, so that nothing runs between the two.
    ends: dict[str, tuple[int, int]] = {}
    count = 0
    for layer in layers:
        ends[layer.id] = (count, count + layer.repeat - 1)
        count += layer.repeat
    first, *second = own
    places = (ends[first][1], *(ends[name][0] for name in second))
    inputs = tuple(replace(given, init=_rule(given.init)) for given in pipeline.inputs)
    linked = tuple(_linked(layers, graphs, own))
    short = replace(pipeline, layers=linked, inputs=inputs, outputs=(), left_out=())
    chain = compose(short, graphs, path)
    return PassContext(chain, places, max(0, size - held_bytes(chain)))


def held_bytes(graph: Graph) -> int:
    """Return the bytes that it reads and writes."""
    return sum(tensor.bytes for tensor in (*graph.inputs, *graph.outputs))


def _linked(
    layers: Sequence[Layer], graphs: Mapping[str, Graph], own: Sequence[str]
) -> Iterator[Layer]:
    """Yield the layers with links to present ones; outputs of the others become inputs, filled by
    rule, as are weights whose values are in files. Layers between the two of a pair run before both
    here, so they cannot read what the first one writes."""
    to_come = set(own)
    there = {None, *(layer.id for layer in layers)}
    read: dict[tuple[str | None, str], list[range]] = {}
    for layer in layers:
        links = {name: link for name, link in layer.links.items() if link.layer in there}
        if to_come and layer.id not in own:
            links = {name: link for name, link in links.items() if link.layer not in own}
        to_come.discard(layer.id)
        if layer.id in own:
            # Inputs of a graph that is measured have values of their own, so no two of them can lie
            # in the same elements of another layer's output.
            graph, apart = graphs[layer.id], {}
            for name, link in links.items():
                span = find(graph.inputs, name, graph.name).span
                mine = range(link.offset, link.offset + span)
                taken = read.setdefault((link.layer, link.tensor), [])
                if link.layer in own:
                    apart[name] = link
                elif all(mine.stop <= other.start or other.stop <= mine.start for other in taken):
                    taken.append(mine)
                    apart[name] = link
            links = apart
        init = {name: rule for name, rule in layer.init.items() if _rule(rule) is not None}
        yield replace(layer, links=links, after=(), init=init)


def _rule(text: str | None) -> str | None:
    """Return the fill of an input, unless its values are in a file."""
    return None if text is None or text.startswith(FILE) else text
