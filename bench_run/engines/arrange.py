"""Cache states that are made of copies: a plan of several copies of its buffers that take turns.

``rotate``: every buffer is copied. ``weights-cold``: weights only; the copies share the rest with
the first, so that activations stay where they are, as in a network that runs over and over.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bench_run.engines.base import Home, SharesMemory
from bench_run.engines.chain import ChainPlan
from bench_run.engines.rotate import RotatingPlan, copies
from bench_run.errors import BenchRunError, EngineError
from bench_run.graph.weights import weights_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph

ROTATE, WEIGHTS_COLD = "rotate", "weights-cold"


def arrange(
    make: Callable[[], Plan], graph: Graph, cache: str, cache_bytes: int,
    finish: Callable[[Plan], None],
) -> Plan:  # fmt: skip
    """One plan, or as many as the cache state takes, as one. `finish` is called for each once it
    has its memory: it runs the plan for the first time."""
    plans = [make()]
    try:
        homes = _homes(plans[0], graph) if cache == WEIGHTS_COLD else {}
        done = []
        for _ in range(_count(plans[0], graph, cache, cache_bytes) - 1):
            plans.append(make())
            done.append(_share(plans[-1], homes))  # before the next one takes memory
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
    """Of everything but the weights."""
    weights = weights_of(graph)
    ends = (*graph.inputs, *graph.outputs)
    return {t.uid: Home(first, t.uid) for t in ends if t.uid not in weights}


def _share(plan: Plan, homes: dict[int, Home]) -> frozenset[int]:
    """The uids for which that was done."""
    return plan.share(homes) if homes and isinstance(plan, SharesMemory) else frozenset()
