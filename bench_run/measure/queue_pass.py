"""What lies between the kernels of one execution, measured while nothing records.

CUPTI's records tell how long each kernel took, but recording stretches the gaps between them: a
plan of a fill and a kernel reads 10.0 µs by its records' span and 9.2 µs without. So the gaps come
from a queue: behind the closed gate executions follow each other, and what one more adds to a
longer queue is its kernels and as many gaps as it has kernels.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench_run.measure.loop import forced_gates

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.streams.base import Stream

QUEUED_NS = 400_000
"""About as long is the longer queue of short executions."""
FEWEST, MOST = 6, 64
REPEATS = 5


def gap_ns(plan: Plan, stream: Stream, kernels: int, kernel_sum_ns: float) -> float | None:
    """From the end of one kernel to the start of the next, on average; negative where they overlap.
    None where the gate does not hold enough executions back."""
    added = added_ns(plan, stream, kernel_sum_ns)
    return None if added is None else (added - kernel_sum_ns) / kernels


def added_ns(plan: Plan, stream: Stream, estimate_ns: float) -> float | None:
    """What one more execution adds to a queue of them; None where the gate does not hold enough."""
    if stream.gate_depth < FEWEST:
        return None
    wanted = round(QUEUED_NS / max(1.0, estimate_ns))
    count = min(max(FEWEST, min(MOST, wanted)), stream.gate_depth) // 2
    forced = forced_gates(stream)
    turns = [(_queue_ns(plan, stream, count), _queue_ns(plan, stream, 2 * count))
             for _ in range(REPEATS)]  # fmt: skip
    if forced_gates(stream) != forced:
        return None
    longer_ns = statistics.median(long for _, long in turns)
    return (longer_ns - statistics.median(short for short, _ in turns)) / count


def _queue_ns(plan: Plan, stream: Stream, count: int) -> int:
    """From before the first of so many executions to after the last."""
    with stream.gate():
        begin = stream.mark()
        for _ in range(count):
            plan.run()
        end = stream.mark()
    stream.synchronize()
    return stream.elapsed_ns(begin, end)
