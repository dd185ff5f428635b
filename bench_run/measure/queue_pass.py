"""What lies between the kernels of one execution, measured while nothing records.

CUPTI's records tell how long each kernel took, but recording stretches the gaps between them: a
plan of a fill and a kernel reads 10.0 µs by its records' span and 9.2 µs without. So the gaps come
from a queue: behind the closed gate executions follow each other, and what one more adds to a
longer queue is its kernels and as many gaps as it has kernels.

Where a device graph is replayed two gaps are in that: those inside of a graph, and one between two
graphs, which is longer (0.3 and about 0.9 µs on an H200). An execution has only the first ones.
They come from a graph of several executions, captured for this: what each of them adds to a graph
of one is its kernels and as many gaps as it has, none of them between graphs.
"""

from __future__ import annotations

import statistics
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.engines.base import RunsUncaptured
from bench_run.errors import EngineError
from bench_run.measure.loop import forced_gates

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.engines.base import Plan
    from bench_run.streams.base import Stream

QUEUED_NS = 400_000
"""About as long is the longer queue of short executions."""
FEWEST, MOST = 6, 64
REPEATS = 5


@dataclass(frozen=True)
class Gaps:
    """From the end of one kernel to the start of the next, on average; negative where they
    overlap."""

    inner_ns: float
    """Inside of an execution."""
    between_ns: float
    """From one execution to the next: the same, but where each is a device graph."""


def gaps(plan: Plan, stream: Stream, kernels: int, kernel_sum_ns: float) -> Gaps | None:
    """None where the gate does not hold enough executions back."""
    added = added_ns(plan, stream, kernel_sum_ns)
    if added is None:
        return None
    inner = inner_gap_ns(plan, stream, kernels, kernel_sum_ns)
    if inner is None:
        mean = (added - kernel_sum_ns) / kernels
        return Gaps(mean, mean)
    return Gaps(inner, added - kernel_sum_ns - (kernels - 1) * inner)


def inner_gap_ns(plan: Plan, stream: Stream, kernels: int, kernel_sum_ns: float) -> float | None:
    """Inside of a device graph; None where none is replayed, or none of several executions can be
    captured."""
    if not isinstance(plan, RunsUncaptured) or plan.captured is None:
        return None
    count = 2 * _count(kernel_sum_ns, MOST)
    try:
        with plan.uncaptured() as run:
            several = plan.captured.again(lambda: _repeat(run, count))
        with closing(several):
            several.launch()  # loads it
            stream.synchronize()
            added = _added(stream, plan.run, several.launch, count - 1)
    except EngineError:
        return None
    return None if added is None else (added - kernel_sum_ns) / kernels


def _repeat(run: Callable[[], None], times: int) -> None:
    for _ in range(times):
        run()


def added_ns(plan: Plan, stream: Stream, estimate_ns: float) -> float | None:
    """What one more execution adds to a queue of them; None where the gate does not hold enough."""
    if stream.gate_depth < FEWEST:
        return None
    count = _count(estimate_ns, stream.gate_depth)
    run = plan.run
    return _added(stream, lambda: _repeat(run, count), lambda: _repeat(run, 2 * count), count)


def _count(estimate_ns: float, most: int) -> int:
    """Executions in the shorter of two queues."""
    wanted = round(QUEUED_NS / max(1.0, estimate_ns))
    return min(max(FEWEST, min(MOST, wanted)), most) // 2


def _added(
    stream: Stream, short: Callable[[], None], long: Callable[[], None], count: int
) -> float | None:
    """What each of `count` more executions adds; None where the gate opened by force."""
    forced = forced_gates(stream)
    turns = [(_queue_ns(stream, short), _queue_ns(stream, long)) for _ in range(REPEATS)]
    if forced_gates(stream) != forced:
        return None
    longer_ns = statistics.median(longer for _, longer in turns)
    return (longer_ns - statistics.median(shorter for shorter, _ in turns)) / count


def _queue_ns(stream: Stream, enqueue: Callable[[], None]) -> int:
    """From before the first execution to after the last."""
    with stream.gate():
        begin = stream.mark()
        enqueue()
        end = stream.mark()
    stream.synchronize()
    return stream.elapsed_ns(begin, end)
