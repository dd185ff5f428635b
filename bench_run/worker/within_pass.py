"""``--cache pass`` on the processor: before each iteration the layers run that come before in a
pass of the pipeline, and the case has its place among them. Runs inside a worker.

Where the engine shares memory the case reads what the layer before it wrote, in the caches where
that left it, and the layers after it read its outputs. So timed iterations run on values that are
not the case's own: what is checked are the same iterations repeated on those. Where the engine does
not take these layers as many bytes are touched as a pass does (`streams/base.py`).
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines import chain
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.chain import ChainGraph
from bench_run.tensors.seeded.inputs import make_chain_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.engines.base import Engine, LocateOutputs, Plan
    from bench_run.graph.chain import PassContext, Place
    from bench_run.graph.model import Tensor
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storage, Storages
    from bench_run.worker.messages import RunCase

FACT = "before each iteration"


@dataclass(frozen=True)
class Within:
    """A case in its place within a pass."""

    upload: Callable[[Storages], None]
    """Instead of the plan's own."""
    facts: Mapping[str, str]
    """Facts for the document."""
    runs_others: bool = False
    """True if other layers run before each iteration."""
    restore: Callable[[], None] | None = None
    """Puts the case's own inputs in place; None: they always are."""
    run_in_place: Callable[[], Storages] | None = None
    """Runs once more on poisoned outputs, as timed iterations do; None: as the first run did."""


@contextmanager
def within_pass(engine: Engine, request: RunCase, plan: Plan, inputs: Storages) -> Iterator[Within]:
    """Put a case in its place within its pass while the context is open, and yield it as a
    `Within`; change nothing if that was not requested. `inputs`: those of the plan."""
    context, stream = request.surroundings, engine.stream
    run_before = stream.abilities.run_before
    if request.is_pass:
        del inputs
        with _as_it_leaves_them(stream) as before:
            yield Within(plan.upload, {FACT: before})
        return
    if context is None or run_before is None:
        del inputs  # the caller does not need them any more
        yield Within(plan.upload, {})
        return
    try:
        layers = _Pass(engine, context, plan, request)
    except (UnsupportedGraphError, EngineError, MemoryError) as error:
        why = str(error) or "out of memory"
        facts = {FACT: f"as many bytes are read; the layers before do not run: {why}"}
        del inputs
        yield Within(plan.upload, facts)
        return
    try:
        layers.upload(inputs)
        del inputs
        with run_before(layers.run, context.left_bytes):
            yield layers.within
    finally:
        with suppress(EngineError):  # the case is measured already
            layers.close()


@contextmanager
def _as_it_leaves_them(stream: Stream) -> Iterator[str]:
    """Do nothing before each execution of the pass, which leaves the caches in their state itself;
    yield the document's text on that."""
    without_flush = stream.abilities.without_flush
    if without_flush is None:
        yield "as many bytes are read as a pass touches, though it is the whole pass"
        return
    with without_flush():
        yield "nothing: it is the whole pass"


@dataclass(frozen=True)
class _Restore:
    """Puts values into what a plan wrote last."""

    locate_outputs: LocateOutputs
    """Outputs of that plan."""
    uid: int
    offset: int
    values: Storage

    def __call__(self) -> None:
        memory = self.locate_outputs(upcoming=False)[self.uid]
        assert isinstance(memory, np.ndarray)
        there, raw = memory.view(np.uint8), self.values.view(np.uint8)
        begin = self.offset * self.values.itemsize
        there[begin : begin + raw.size] = raw


class _Pass:
    """The layers before a case, and the case in its place."""

    def __init__(self, engine: Engine, context: PassContext, plan: Plan, request: RunCase) -> None:
        self._context, self._plan, self._stream = context, plan, engine.stream
        self._graph, self._seed = request.graph, request.data.seed
        own = plan.parts if isinstance(plan, chain.ChainPlan) else (plan,)
        self.is_linked = context.linked and all(
            part.abilities.locate_outputs is not None for part in own
        )
        given = dict(zip(context.own, own, strict=True)) if self.is_linked else {}
        self._chain = chain.plan_around(engine, context.chain, given)
        self._before = [self._chain.parts[index].run for index in context.before]
        self._restores: list[_Restore] = []

    @property
    def within(self) -> Within:
        if not self.is_linked:
            return Within(self.upload, {FACT: self._fact}, runs_others=True)
        facts = {FACT: self._fact}
        return Within(self.upload, facts, True, self.restore, self._run_in_place)

    def _run_in_place(self) -> Storages:
        self.run()
        self._plan.poison()
        self._plan.run()
        self._stream.synchronize()
        return self._plan.download()

    @property
    def _fact(self) -> str:
        left = self._context.left_bytes
        read = f"{left} bytes are read, then " if left else ""
        linked = ", linked with it" if self.is_linked else ""
        return f"{read}{len(self._context.before)} layers of the pipeline run{linked}"

    def run(self) -> None:
        for run in self._before:
            run()

    def restore(self) -> None:
        for restore in self._restores:
            restore()

    def upload(self, inputs: Storages) -> None:
        """Upload the inputs of the case; the other layers have theirs by rule."""
        made = make_chain_inputs(self._context.chain, self._seed, ())
        self._restores = list(self._place(inputs, made)) if self.is_linked else []
        self._chain.upload(made)
        self._plan.upload(inputs)
        self.run()
        self._stream.synchronize()
        self.restore()

    def _place(self, inputs: Storages, made: dict[int, Storage]) -> Iterator[_Restore]:
        """Place the case's inputs among those of the chain, in `made`; yield those that lie in
        outputs of other layers, to be restored there."""
        around, linked = self._context.chain, self._chain.linked
        for place, tensor, value in self._own_inputs(inputs):
            new = place.uids[tensor.uid]
            alias = around.aliases.get(new)
            if alias is None:
                made[new] = value
            elif alias.uid in made:
                whole = made[alias.uid] = made[alias.uid].copy()
                whole[alias.offset : alias.offset + tensor.span] = value
            elif new in linked:
                index, uid = around.where[alias.uid]
                locate = self._chain.parts[index].abilities.locate_outputs
                assert locate is not None
                yield _Restore(locate, uid, alias.offset, value.copy())

    def _own_inputs(self, inputs: Storages) -> Iterator[tuple[Place, Tensor, Storage]]:
        """Yield the inputs of the case in the chain; links within a pair are not inputs."""
        places = [self._context.chain.places[index] for index in self._context.own]
        graph = self._graph
        if not isinstance(graph, ChainGraph):
            yield from ((places[0], tensor, inputs[tensor.uid]) for tensor in graph.inputs)
            return
        for place, mine in zip(places, graph.places, strict=True):
            for tensor in mine.graph.inputs:
                uid = mine.uids[tensor.uid]
                if uid in inputs:
                    yield place, tensor, inputs[uid]

    def close(self) -> None:
        self._chain.close()
