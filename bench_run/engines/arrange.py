"""Cache states that are made of copies: a plan of several copies of its buffers that take turns.

``rotate``: every buffer is copied. ``weights-cold``: weights only; the copies share the rest with
the first, so that activations stay where they are, as in a network that runs over and over.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

from bench_run.engines.base import Home, PlanAbilities
from bench_run.engines.chain import ChainPlan, share_memory
from bench_run.errors import BenchRunError, EngineError
from bench_run.graph.chain import weights_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from bench_run.engines.base import Captured, Plan, PlanFacts
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storage, Storages


# A plan of several copies of the buffers, each run on the next of them (`arrange.py`).
#
# By the time a copy comes round again, the others have pushed it out of the cache. Unlike a flush
# this leaves the outputs of the run before in the cache as dirty lines, as real programs do.

TIMES_CACHE = 3
"""Buffers of all copies together, in sizes of the last-level cache."""
MOST_COPIES = 256


def copies(buffer_bytes: int, cache_bytes: int) -> int:
    """Return the number of copies for a cache of this size: from 2 to `MOST_COPIES`, which leaves
    very small buffers in the cache."""
    wanted = -(-TIMES_CACHE * cache_bytes // max(1, buffer_bytes))
    return min(max(2, wanted), MOST_COPIES)


class RotatingPlan:
    """Plans of one graph as one plan; `download` is of the copy that ran last."""

    def __init__(self, plans: Sequence[Plan], shared: Collection[int] = ()) -> None:
        """`shared`: uids of the tensors that all copies have in common."""
        self._plans = plans
        self._next = 0
        self._last = plans[0]
        self._shared = shared

    @property
    def abilities(self) -> PlanAbilities:
        return PlanAbilities(
            locate_outputs=self.locate_outputs,
            locate_inputs=self.locate_inputs,
            changed_inputs=self.changed_inputs,
            captured=self.captured,
            uncaptured=self.uncaptured,
        )

    @property
    def facts(self) -> PlanFacts:
        first = self._plans[0].facts
        chosen = {**first.chosen, "buffer copies": str(len(self._plans))}
        if self._shared:
            chosen["shared by the copies"] = f"{len(self._shared)} tensors"
        return replace(first, chosen=chosen)

    def upload(self, inputs: Storages) -> None:
        """Copy inputs from the host once if the device can do the rest: all copies together are
        three times as large as its cache."""
        first, *others = self._plans
        first.upload(inputs)
        for plan in others:
            copy_inputs = plan.abilities.copy_inputs
            if copy_inputs is not None:
                copy_inputs(first)
            else:
                plan.upload(inputs)

    def poison(self) -> None:
        for plan in self._plans:
            plan.poison()

    def run(self) -> None:
        self._last = self._plans[self._next]
        self._next = (self._next + 1) % len(self._plans)
        self._last.run()

    def captured(self) -> Captured | None:
        """Return the capture of the first copy."""
        captured = self._plans[0].abilities.captured
        return None if captured is None else captured()

    @contextmanager
    def uncaptured(self) -> Iterator[Callable[[], None]]:
        """Yield a function that enqueues an uncaptured execution of the next copy with each
        call."""
        with ExitStack() as stack:
            able = [plan.abilities.uncaptured for plan in self._plans]
            turns = cycle([stack.enter_context(each()) for each in able if each is not None])
            yield lambda: next(turns)()

    def download(self) -> dict[int, Storage]:
        return self._last.download()

    def locate_outputs(self, *, upcoming: bool) -> Mapping[int, Storage | int]:
        plan = self._plans[self._next] if upcoming else self._last
        locate = plan.abilities.locate_outputs
        return {} if locate is None else locate(upcoming=upcoming)

    def locate_inputs(self) -> Mapping[int, Storage | int]:
        locate = self._plans[self._next].abilities.locate_inputs
        return {} if locate is None else locate()

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        able = [plan.abilities.changed_inputs for plan in self._plans]
        return tuple(sorted({uid for each in able if each is not None for uid in each(inputs)}))

    def close(self) -> None:
        for plan in reversed(self._plans):
            plan.close()


ROTATE, WEIGHTS_COLD = "rotate", "weights-cold"


def arrange(
    make: Callable[[], Plan],
    graph: Graph,
    cache: str,
    cache_bytes: int,
    finish: Callable[[Plan], None],
) -> Plan:
    """Return one plan that may consist of several copies, as the cache state requires. `finish` is
    called for each once it has its memory: it runs the plan for the first time."""
    plans = [make()]
    try:
        homes = _homes(plans[0], graph) if cache == WEIGHTS_COLD else {}
        done = []
        for _ in range(_count(plans[0], graph, cache, cache_bytes) - 1):
            plans.append(make())
            done.append(share_memory(plans[-1], homes))  # before the next one takes memory
        for plan in plans:
            if isinstance(plan, ChainPlan):
                plan.link()
            finish(plan)
    except BenchRunError:
        for plan in plans:
            with suppress(EngineError):
                plan.close()
        raise
    if len(plans) == 1:
        return plans[0]
    return RotatingPlan(plans, frozenset.intersection(*done))


def _count(first: Plan, graph: Graph, cache: str, cache_bytes: int) -> int:
    if cache == ROTATE:
        return copies(first.facts.buffer_bytes or 0, cache_bytes)
    if cache == WEIGHTS_COLD:
        weights = weights_of(graph)
        held = sum(tensor.bytes for tensor in graph.inputs if tensor.uid in weights)
        return copies(held, cache_bytes) if held else 1
    return 1


def _homes(first: Plan, graph: Graph) -> dict[int, Home]:
    """Return the homes of the graph's inputs and outputs, except weights."""
    weights = weights_of(graph)
    ends = (*graph.inputs, *graph.outputs)
    return {t.uid: Home(first, t.uid) for t in ends if t.uid not in weights}
