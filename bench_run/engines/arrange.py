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
        count = _count(plans[0], graph, cache, cache_bytes)
        plans += (make() for _ in range(count - 1))
        shared = _share(plans, graph) if cache == WEIGHTS_COLD else frozenset()
        for plan in plans:
            if isinstance(plan, ChainPlan):
                plan.link()
            finish(plan)
    except BenchRunError:
        for plan in plans:
            with suppress(EngineError):
                plan.close()
        raise
    return plans[0] if len(plans) == 1 else RotatingPlan(plans, shared)


def _count(first: Plan, graph: Graph, cache: str, cache_bytes: int) -> int:
    if cache == ROTATE:
        return copies(first.facts.buffer_bytes or 0, cache_bytes)
    if cache == WEIGHTS_COLD:
        weights = weights_of(graph)
        held = sum(tensor.bytes for tensor in graph.inputs if tensor.uid in weights)
        return copies(held, cache_bytes) if held else 1
    return 1


def _share(plans: list[Plan], graph: Graph) -> frozenset[int]:
    """Everything but the weights with the first plan; the uids for which that was done."""
    weights = weights_of(graph)
    first, *others = plans
    ends = (*graph.inputs, *graph.outputs)
    homes = {t.uid: Home(first, t.uid) for t in ends if t.uid not in weights}
    done = [p.share(homes) if isinstance(p, SharesMemory) else frozenset() for p in others]
    return frozenset.intersection(*done) if done else frozenset()
