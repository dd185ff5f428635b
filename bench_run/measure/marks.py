"""Cost of two marks, measured among the samples, and time that one more execution adds to a queue.

Two events around a kernel measure more than the kernel takes, and how much depends on what else
lies in the queue (`streams/base.py`). So right before each sample an empty kernel is measured in
the same way. A sample is the time between its marks, less the median of these, and the empty
kernel's own time is added again.

That time no event tells. It follows from a queue of empty kernels: `OWN_SHARE` of what one more of
them adds.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.engines.base import Plan
    from bench_run.streams.base import EmptyKernel, Stream

OWN_SHARE = 0.25
"""Share with which corrected times of 16 plans of one kernel are within 0.2 µs of their records.
An empty kernel adds 1.34 to 1.37 µs to a queue of them (H200, cuDNN and PyTorch, 2026-12-01)."""
QUEUED = 32
REPEATS = 5


def is_ours(stream: Stream) -> bool:
    """Return True if no engine from elsewhere has made the class of the stream."""
    return type(stream).__module__.startswith("bench_run.")


def empty_kernel(plan: Plan, stream: Stream) -> EmptyKernel | None:
    """Return the empty kernel for the samples of a plan; None if there is none, or no gate: without
    one the time between marks is that of the host. Measures its own time at the first call. For a
    plan that replays a device graph it is one as well: two marks around these cost 0.7 µs less on
    an H200. Only of our own streams: an engine whose empty kernel works would be as fast as it
    likes."""
    find = stream.abilities.empty if is_ours(stream) else None
    empty = None if find is None or not stream.gate_depth or why_ungated(stream) else find()
    if empty is None:
        return None
    if empty.own_ns is None:
        run = empty.launch
        added = added_ns(
            stream, lambda: repeat(run, QUEUED), lambda: repeat(run, 2 * QUEUED), QUEUED
        )
        if added is None:
            return None
        empty.own_ns = OWN_SHARE * added
    find_captured = plan.abilities.captured
    captured = None if find_captured is None else find_captured()
    if captured is None:
        return empty
    if empty.replay is None:
        try:
            empty.replay = captured.again(empty.launch).launch
        except EngineError:
            return None
        empty.replay()
        stream.synchronize()
    return replace(empty, launch=empty.replay)


def events_bound_ns(stream: Stream) -> float | None:
    """Return the largest error of corrected times, either way; None if nothing was corrected. On a
    device for which it was not measured it is what is unknown of the empty kernel's own time."""
    find = stream.abilities.empty if is_ours(stream) else None
    empty = None if find is None else find()
    if empty is None or empty.own_ns is None:
        return None
    if empty.bound_ns is not None:
        return empty.bound_ns
    return empty.own_ns * (1 - OWN_SHARE) / OWN_SHARE


def cost_of_marks(empty: EmptyKernel, measured_ns: Sequence[int]) -> float:
    """Return the time that two marks add to what is between them, by the times measured around
    empty kernels."""
    return max(0.0, statistics.median(measured_ns) - (empty.own_ns or 0.0))


def forced_gates(stream: Stream) -> int:
    """Return the number of gates that opened by force."""
    forced = stream.abilities.forced_gates
    return 0 if forced is None else forced()


def why_ungated(stream: Stream) -> str | None:
    """Return the reason why the plan runs without the gate that its stream has, in a few words;
    None if it runs behind it."""
    because = stream.abilities.no_gate_because
    return None if because is None else because()


def repeat(run: Callable[[], None], times: int) -> None:
    for _ in range(times):
        run()


def added_ns(
    stream: Stream, short: Callable[[], None], long: Callable[[], None], count: int
) -> float | None:
    """Return the time that each of `count` more executions adds to a queue; None if the gate opened
    by force."""
    forced = forced_gates(stream)
    turns = [(_queue_ns(stream, short), _queue_ns(stream, long)) for _ in range(REPEATS)]
    if forced_gates(stream) != forced:
        return None
    longer_ns = statistics.median(longer for _, longer in turns)
    return (longer_ns - statistics.median(shorter for shorter, _ in turns)) / count


def _queue_ns(stream: Stream, enqueue: Callable[[], None]) -> int:
    """Return the time from before the first execution to after the last."""
    with stream.gate():
        begin = stream.mark()
        enqueue()
        end = stream.mark()
    stream.synchronize()
    return stream.elapsed_ns(begin, end)
