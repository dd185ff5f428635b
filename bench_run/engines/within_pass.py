"""``--cache pass``: before each iteration of a graph the layers run that come before it in a pass
of its pipeline, after as many other bytes were touched as the pass touches.

The run chooses the layers (`with_surroundings`). In a worker on the processor the case has its
place among them (`within_pass`) and reads what the layer before it wrote. So timed iterations run
on values that are not the case's own; what is checked are the same iterations repeated on those. On
a device, and where the engine does not take these layers or share its memory, bytes are touched
instead (`streams/base.py`).
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines import chain
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError
from bench_run.graph.chain import FILE, ChainGraph, PassContext, compose, find
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.sources.suites import own_graphs, read_suite
from bench_run.tensors.seeded.inputs import make_chain_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_schema.pipeline import Layer, Pipeline

    from bench_run.engines.base import Engine, Plan
    from bench_run.graph.model import Graph
    from bench_run.graph.sources.load import LoadedGraph
    from bench_run.tensors.layout import Storage, Storages

MOST_REST_BYTES = 16 * 1024**2
"""Size limit of the layers that run before: several times the caches of one core. The rest of the
pass is replaced by reading as many bytes, which takes far less time."""
MOST_REPEATS = 64
"""Repetition limit of one small layer: more would leave nothing else in the caches."""
FACT = "before each iteration"


@dataclass(frozen=True)
class PipelinePass:
    """A pipeline whose passes say how caches are left, and its graphs by layer id."""

    path: Path
    pipeline: Pipeline
    graphs: Mapping[str, Graph]

    @property
    def bytes(self) -> int:
        """Bytes that a pass touches: its inputs, weights and the outputs of all layers."""
        total, shared = 0, dict[str, int]()
        for layer in self.pipeline.layers:
            graph = self.graphs[layer.id]
            links = {find(graph.inputs, n, layer.id).uid: link for n, link in layer.links.items()}
            for tensor in (*graph.outputs, *graph.inputs):
                link = links.get(tensor.uid)
                if link is None:
                    total += layer.repeat * tensor.bytes
                elif link.layer is None:
                    shared[link.tensor] = max(shared.get(link.tensor, 0), tensor.bytes)
        return total + sum(shared.values())


def read_pass(
    arguments: Sequence[str], graphs_of: Callable[[Pipeline, Path], Mapping[str, Graph]]
) -> PipelinePass:
    """Read a pass. Raises `UsageError` if the arguments are not one pipeline."""
    if len(arguments) != 1:
        raise UsageError("--cache pass: one pipeline, whose size says what a pass leaves in caches")
    path = Path(own_graphs(arguments[0]))
    return PipelinePass(path, pipeline := read_suite(path), graphs_of(pipeline, path))


def with_surroundings(loaded: LoadedGraph, whole: PipelinePass) -> LoadedGraph:
    """Return a graph with the layers around it in a pass, and a note on them; the chain of the
    pipeline is the pass."""
    if loaded.path == str(whole.path):
        return replace(loaded, is_pass=True)
    order = reversed(whole.pipeline.order)
    first = {fingerprint(whole.graphs[layer.id]): layer.id for layer in order}
    graph = loaded.graph
    if isinstance(graph, ChainGraph):
        own, mine = [p.id for p in graph.places], [p.graph.tensors for p in graph.places]
    else:
        known = first.get(fingerprint(graph.connected))
        own, mine = [] if known is None else [known], [graph.connected.tensors]
    around = surroundings(whole, own) if own else None
    if around and mine != [around.chain.places[index].graph.tensors for index in around.own]:
        around = None  # an equal meaning, but other tensors
    note = f"{whole.bytes} bytes are touched before each iteration, as in a pass of the pipeline"
    return replace(loaded, surroundings=around, notes=(*loaded.notes, note))


def surroundings(whole: PipelinePass, own: Sequence[str]) -> PassContext | None:
    """Return the nearest layers that run before these, one pass after another, up to
    `MOST_REST_BYTES`. None without others."""
    others: dict[str, int] = {}  # how often each layer runs, besides the graph's own runs
    held, order = 0, whole.pipeline.order
    last = max(place for place, layer in enumerate(order) if layer.id in own)
    for layer in reversed((*order[last + 1 :], *order[: last + 1])):
        times = layer.repeat - (layer.id in own)
        if times and held < MOST_REST_BYTES:
            each = max(1, held_bytes(whole.graphs[layer.id]))
            others[layer.id] = min(times, -(-(MOST_REST_BYTES - held) // each), MOST_REPEATS)
            held += others[layer.id] * each
    if not others:
        return None
    # Its own run: of a layer that repeats its last run, and of the second of a pair its first, so
    # that nothing runs between the two.
    layers: list[Layer] = []
    places: list[int] = []
    for layer in order:
        count = sum(each.repeat for each in layers)
        repeat = others.get(layer.id, 0) + (layer.id in own)
        if repeat:
            layers.append(replace(layer, repeat=repeat))
            if layer.id in own:
                places.append(count + repeat - 1 if layer.id == own[0] else count)
    layers = [*_linked(layers, whole.graphs, own)]
    inputs = tuple(replace(given, init=_rule(given.init)) for given in whole.pipeline.inputs)
    short = replace(whole.pipeline, layers=tuple(layers), inputs=inputs, outputs=(), left_out=())
    chained = compose(short, whole.graphs, whole.path)
    return PassContext(chained, tuple(places), max(0, whole.bytes - held_bytes(chained)))


def held_bytes(graph: Graph) -> int:
    """Return the bytes that it reads and writes."""
    return sum(tensor.bytes for tensor in (*graph.inputs, *graph.outputs))


def _linked(
    layers: Sequence[Layer], graphs: Mapping[str, Graph], own: Sequence[str]
) -> Iterator[Layer]:
    """Yield the layers with links to present ones; outputs of the others become inputs, filled by
    rule, as are weights whose values are in files. Layers between the two of a pair run before both
    here, so they cannot read what the first one writes."""
    to_come, there = set(own), {None, *(layer.id for layer in layers)}
    read: dict[tuple[str | None, str], list[range]] = {}
    for layer in layers:
        links = {name: link for name, link in layer.links.items() if link.layer in there}
        to_come.discard(layer.id)
        if layer.id not in own:
            links = {n: link for n, link in links.items() if not to_come or link.layer not in own}
        else:  # inputs that are measured have values of their own: no two lie in the same elements
            for name, link in list(links.items()):
                begin, taken = link.offset, read.setdefault((link.layer, link.tensor), [])
                mine = range(begin, begin + find(graphs[layer.id].inputs, name, layer.id).span)
                if any(mine.start < other.stop and other.start < mine.stop for other in taken):
                    del links[name]
                taken += [mine] if link.layer not in own else []
        init = {name: rule for name, rule in layer.init.items() if _rule(rule) is not None}
        yield replace(layer, links=links, after=(), init=init)


def _rule(text: str | None) -> str | None:
    """Return the fill of an input, unless its values are in a file."""
    return None if text is None or text.startswith(FILE) else text


@dataclass(frozen=True)
class Within:
    """A case in its place within a pass."""

    facts: Mapping[str, str]
    """Facts for the document."""
    restore: Callable[[], None] | None = None
    """Puts the case's own inputs in place; None: they always are."""
    run_in_place: Callable[[], Storages] | None = None
    """Runs once more on poisoned outputs, as timed iterations do."""


@contextmanager
def within_pass(
    engine: Engine, plan: Plan, graph: Graph, inputs: Storages, around: PassContext | None
) -> Iterator[Within]:
    """Put a case in its place within its pass while the context is open, and yield it; change
    nothing if that was not requested. `inputs`: those of the plan."""
    run_before = engine.stream.abilities.run_before
    layers, facts = None, {}
    if around is not None and run_before is not None:
        try:
            layers = _Pass(engine, around, plan, graph)
        except (UnsupportedGraphError, EngineError, MemoryError) as error:
            why = f"the layers before do not run: {str(error) or 'out of memory'}"
            facts = {FACT: f"as many bytes are read; {why}"}
    if layers is None or around is None or run_before is None:
        del inputs  # the caller does not need them any more
        yield Within(facts)
        return
    try:
        layers.upload(inputs)
        del inputs
        with run_before(layers.run, around.left_bytes):
            yield Within({FACT: layers.fact}, layers.restore, layers.run_in_place)
    finally:
        with suppress(EngineError):  # the case is measured already
            layers.close()


@contextmanager
def whole_pass(engine: Engine) -> Iterator[Within]:
    """Do nothing before each execution of the pass: it leaves the caches in their state itself."""
    without_flush = engine.stream.abilities.without_flush
    with nullcontext() if without_flush is None else without_flush():
        what = "nothing" if without_flush else "as many bytes are read as a pass touches"
        yield Within({FACT: f"{what}: it is the whole pass"})


class _Pass:
    """The layers before a case, and the case in its place."""

    def __init__(self, engine: Engine, context: PassContext, plan: Plan, graph: Graph) -> None:
        self._context, self._plan, self._graph = context, plan, graph
        own = plan.parts if isinstance(plan, chain.ChainPlan) else (plan,)
        if not all(part.abilities.locate_outputs for part in own):
            raise EngineError("the engine does not tell where outputs lie")
        given = dict(zip(context.own, own, strict=True))
        self._chain = chain.plan_around(engine, context.chain, given)
        self._restores: list[Callable[[], None]] = []
        self.run = partial(_each, [self._chain.parts[index].run for index in context.before])
        self.restore = partial(_each, self._restores)
        left = f"{context.left_bytes} bytes are read, then " if context.left_bytes else ""
        self.fact = f"{left}{len(context.before)} layers of the pipeline run, linked with it"
        self.close = self._chain.close

    def run_in_place(self) -> Storages:
        self.run()
        self._plan.poison()
        self._plan.run()
        return self._plan.download()

    def upload(self, inputs: Storages) -> None:
        """Upload the inputs of the case; the other layers have theirs by rule."""
        made = make_chain_inputs(self._context.chain, 0, ())
        self._restores += self._place(inputs, made)
        self._chain.upload(made)
        self._plan.upload(inputs)
        self.run()  # on the processor, where it has ended when it returns
        self.restore()

    def _place(self, inputs: Storages, made: dict[int, Storage]) -> Iterator[Callable[[], None]]:
        """Place the case's inputs among those of the chain, in `made`; yield what restores those
        that lie in outputs of other layers."""
        around, graph = self._context.chain, self._graph
        mine = [(graph, {uid: uid for uid in inputs})]
        if isinstance(graph, ChainGraph):  # a pair, whose links are not inputs
            mine = [(place.graph, dict(place.uids)) for place in graph.places]
        for index, (part, uids) in zip(self._context.own, mine, strict=True):
            for tensor in part.inputs:
                if uids[tensor.uid] not in inputs:
                    continue
                new, value = around.places[index].uids[tensor.uid], inputs[uids[tensor.uid]]
                alias = around.aliases.get(new)
                if alias is None:
                    made[new] = value
                elif alias.uid in made:
                    whole = made[alias.uid] = made[alias.uid].copy()
                    whole[alias.offset : alias.offset + tensor.span] = value
                elif new in self._chain.linked:
                    at, uid = around.where[alias.uid]
                    rest = (uid, alias.offset * value.itemsize, value.view(np.uint8).copy())
                    yield partial(_put, self._chain.parts[at].abilities.locate_outputs, *rest)


def _put(locate: Any, uid: int, begin: int, raw: Storage) -> None:
    """Put bytes into the output that a part wrote last. `locate`: its `LocateOutputs`."""
    np.asarray(locate(upcoming=False)[uid]).view(np.uint8)[begin : begin + raw.size] = raw


def _each(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()
