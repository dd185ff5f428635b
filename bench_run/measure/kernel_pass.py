"""After the timed passes: what the device itself recorded of the kernels, where that is known.

With ``--timer cupti`` always, with ``--timer auto`` for short executions: two events around a
kernel measure up to 0.7 µs more or less than it took, whatever constant is subtracted, which
matters below 200 µs. Then the records take the place of the events in `device_ns`, and the case
says so: of one kernel its record; of several their sum and the gaps between them, which are
measured while nothing is recorded (`gaps`), since recording stretches them. The pass
repeats the loop of the device pass; nothing is recorded while samples are taken.

Every device time comes with the systematic error that it may have, either way: a step of the
clock for a single record, one gap for several, `EVENTS_BOUND_NS` for events.
"""

from __future__ import annotations

import statistics
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_schema.document import Kernel

from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.measure.loop import (
    Measured,
    SamplingBudget,
    flushes_caches,
    forced_gates,
    on_device,
    parts_of,
    why_ungated,
)
from bench_run.measure.placements import OnePlace
from bench_run.streams import cupti
from bench_run.streams.base import TOO_MANY
from bench_run.streams.cupti import demangle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.engines.base import Plan
    from bench_run.measure.placements import Placements
    from bench_run.streams.base import Stream


# What lies between the kernels of one execution, measured while nothing records.
#
# CUPTI's records tell how long each kernel took, but recording stretches the gaps between them: a
# plan of a fill and a kernel reads 10.0 µs by its records' span and 9.2 µs without. So the gaps
# come from a queue: behind the closed gate executions follow each other, and what one more adds to
# a longer queue is its kernels and as many gaps as it has kernels.
#
# Where a device graph is replayed two gaps are in that: those inside of a graph, and one between
# two graphs, which is longer (0.3 and about 0.9 µs on an H200). An execution has only the first
# ones. They come from a graph of several executions, captured for this: what each of them adds to a
# graph of one is its kernels and as many gaps as it has, none of them between graphs.

QUEUED_NS = 400_000
"""About as long is the longer queue of short executions."""
FEWEST, MOST = 6, 64
REPEATS = 5


@dataclass(frozen=True)
class Gaps:
    """Average times from the end of one kernel to the start of the next; negative if they
    overlap."""

    inner_ns: float
    """Inside of an execution."""
    between_ns: float
    """From one execution to the next: the same as inside, except where each execution is a device
    graph."""


def gaps(plan: Plan, stream: Stream, kernels: int, kernel_sum_ns: float) -> Gaps | None:
    """Measure gaps; return None if the gate does not hold enough executions back."""
    added = added_ns(plan, stream, kernel_sum_ns)
    if added is None:
        return None
    inner = inner_gap_ns(plan, stream, kernels, kernel_sum_ns)
    if inner is None:
        mean = (added - kernel_sum_ns) / kernels
        return Gaps(mean, mean)
    return Gaps(inner, added - kernel_sum_ns - (kernels - 1) * inner)


def inner_gap_ns(plan: Plan, stream: Stream, kernels: int, kernel_sum_ns: float) -> float | None:
    """Return the gap inside of a device graph; None if none is replayed, or none of several
    executions can be captured."""
    abilities = plan.abilities
    captured = None if abilities.captured is None else abilities.captured()
    if captured is None or abilities.uncaptured is None:
        return None
    count = 2 * _count(kernel_sum_ns, MOST)
    try:
        with abilities.uncaptured() as run:
            several = captured.again(lambda: _repeat(run, count))
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
    """Return the time that one more execution adds to a queue; None if the gate's queue is too
    short."""
    if stream.gate_depth < FEWEST:
        return None
    count = _count(estimate_ns, stream.gate_depth)
    run = plan.run
    return _added(stream, lambda: _repeat(run, count), lambda: _repeat(run, 2 * count), count)


def _count(estimate_ns: float, most: int) -> int:
    """Return the number of executions in the shorter of two queues."""
    wanted = round(QUEUED_NS / max(1.0, estimate_ns))
    return min(max(FEWEST, min(MOST, wanted)), most) // 2


def _added(
    stream: Stream, short: Callable[[], None], long: Callable[[], None], count: int
) -> float | None:
    """Return the time that each of `count` more executions adds; None if the gate opened by
    force."""
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


SHORT_NS = 200_000
EVENTS_BOUND_NS = 700.0
"""Largest difference between corrected events and records of kernels of 2 to 65 µs (H200, nineteen
graphs: `tests/benchmarks/device_bounds.py`)."""
STEP_NS = 32.0
"""Step of the clock behind the records (H200: every duration is a multiple of it, rounded to 1
ns)."""
HOT_ITERATIONS = 20
RECOVERY_NS = 500_000
"""Duration of executions that restore the device's caches after outputs were copied on it. A kernel
of 33 MB, which the second-level cache just holds, takes 5.7 µs; for fifteen executions after copies
of its outputs it took 5.8 to 6.1 (H200)."""
MOST_RECOVERIES = 50
MOST_ITERATIONS = 200
"""Delivering a record costs tens of microseconds."""

SINGLE = "device_ns are the kernel's own, by CUPTI's records"
SEVERAL = (
    "device_ns are the kernels' own times by CUPTI's records and the gaps between them, which were "
    "measured without recording"
)
SPANS = "device_ns are spans of the kernels by CUPTI's records, which stretch the gaps between them"
COLD = "several kernels after a flush: device_ns are events, records would stretch the gaps"
FLUSHED = (
    "device_ns are the kernels' own times by CUPTI's records, and the gaps between them with hot "
    "caches, measured without recording"
)
INSIDE = (
    "gaps: {inner:.2f} us between kernels of a device graph, {between:.2f} us between two graphs"
)
UNCLEAR = "CUPTI's records do not divide into iterations: device_ns are events"
UNGATED = "device_ns hold the host's delays"


@dataclass(frozen=True)
class Recorded:
    """The series with what the pass adds."""

    measured: Measured
    kernels: tuple[Kernel, ...] = ()
    notes: tuple[str, ...] = ()
    replaces_events: bool = False
    """True if `device_ns` are from the records."""
    bound_ns: float | None = None
    """Systematic error that `device_ns` may have, either way; None if nothing is known of it."""
    gaps: Gaps | None = None
    """Between kernels, where these were measured."""


def record_kernels(
    plan: Plan,
    stream: Stream,
    budget: SamplingBudget,
    measured: Measured,
    placements: Placements | None = None,
) -> Recorded:
    """Return the measured series and, where the timer asks for it, the kernels' own times: of some
    iterations at each place of the buffers."""
    why = why_ungated(stream)
    notes = () if why is None else (f"{why}: {UNGATED}",)
    if stream.abilities.kernel_timer is None:
        return Recorded(measured, notes=notes)
    events = Recorded(measured, notes=notes, bound_ns=None if notes else EVENTS_BOUND_NS)
    if not asks_for_records(stream, measured.series.get("device_ns", ())):
        events = _with_kernels(events, plan, stream)
        return events if "device_ns" in measured.series else replace(events, bound_ns=None)
    try:
        _recover(plan, stream, statistics.median(measured.series["device_ns"]))
        wanted = replace(budget, iterations=len(measured.series["device_ns"]))
        groups, begins = _at_each_place(plan, stream, wanted, placements or OnePlace())
        several = groups is not None and len(groups[0]) > 1
        hot = _hot_sums(plan, stream) if several and flushes_caches(stream) else None
    except EngineUnavailableError as error:
        return replace(events, notes=(*notes, str(error)))
    if groups is None:
        return replace(events, notes=(*notes, UNCLEAR))
    moved = dict.fromkeys(("device_ns", "kernel_sum_ns", "kernel_span_ns"), begins)
    recorded = choose_clock(plan, stream, events, groups, flushes_caches(stream), hot)
    recorded = _with_local_memory(recorded, plan, stream)
    if not recorded.replaces_events:
        moved["device_ns"] = measured.placements.get("device_ns", [])
    measured = replace(recorded.measured, placements={**measured.placements, **moved})
    recorded = replace(recorded, measured=measured)
    return replace(recorded, notes=(*notes, *recorded.notes))


class KernelTimes:
    """Samples of one plan by the device's records, for plans that are compared with each other and
    visited often: what lies between its kernels is measured once."""

    def __init__(self, plan: Plan, stream: Stream) -> None:
        self._plan, self._stream = plan, stream
        self._gap_ns: float | None = None

    def sample(self, budget: SamplingBudget, estimate_ns: int) -> list[int] | None:
        """Return the times of executions (ns) from kernel records; None if the timer does not
        request records for executions of this duration, or if none are available."""
        stream = self._stream
        if why_ungated(stream) is not None:
            return None
        if not asks_for_records(stream, [estimate_ns]):
            return None
        try:
            groups = _record(self._plan, stream, budget, budget.iterations)
        except EngineUnavailableError:
            return None
        if not groups or (len(groups[0]) > 1 and flushes_caches(stream)):
            return None
        count = len(groups[0])
        if count == 1:
            return [cupti.span_ns(group) for group in groups]
        sums = [cupti.sum_ns(group) for group in groups]
        if self._gap_ns is None:
            found = gaps(self._plan, self._stream, count, statistics.median(sums))
            self._gap_ns = None if found is None else found.inner_ns
        if self._gap_ns is None:
            return None
        return [max(1, round(each + (count - 1) * self._gap_ns)) for each in sums]


def prepare_records(stream: Stream) -> None:
    """Load CUPTI's bindings, which takes a third of a second, before anything is measured, and have
    it take hold of the device, which takes 60 ms at the first time in a process."""
    if stream.abilities.kernel_timer in ("auto", "cupti"):
        with suppress(EngineUnavailableError):
            cupti.prepare()


def count_launches(plan: Plan, stream: Stream) -> None:
    """Count the launches of an execution by its records, if the engine cannot, and expects more
    than fit behind the gate."""
    expect, timer = stream.abilities.expect, stream.abilities.kernel_timer
    if why_ungated(stream) != TOO_MANY or expect is None or timer not in ("auto", "cupti"):
        return
    with suppress(EngineUnavailableError):
        with cupti.Recorder() as recorder:
            plan.run()
            stream.synchronize()
        if recorder.records:
            expect(len(recorder.records))


def asks_for_records(stream: Stream, device_ns: Sequence[int]) -> bool:
    """Return True if the timer takes durations of this size from the kernels' own records."""
    timer = stream.abilities.kernel_timer
    if device_ns and timer == "auto":
        return statistics.median(device_ns) < SHORT_NS and cupti.available()
    return bool(device_ns) and timer == "cupti"


def _with_kernels(events: Recorded, plan: Plan, stream: Stream) -> Recorded:
    """Add the kernels of an execution that is too long for timing by records, to show how they are
    launched."""
    if stream.abilities.kernel_timer != "auto" or not cupti.available():
        return events
    try:
        with cupti.Recorder() as recorder:
            plan.run()
            stream.synchronize()
    except EngineUnavailableError as error:
        return replace(events, notes=(*events.notes, str(error)))
    kernels = kernels_of([recorder.records]) if recorder.records else ()
    return _with_local_memory(replace(events, kernels=kernels), plan, stream)


def _with_local_memory(recorded: Recorded, plan: Plan, stream: Stream) -> Recorded:
    """Add the local memory of each kernel, in one more execution; plans that replay a device graph
    launch their kernels in it."""
    kernels = recorded.kernels
    if not any(kernel.launch is not None for kernel in kernels):
        return recorded
    plain = plan.abilities.uncaptured
    try:
        ready = nullcontext(plan.run) if plain is None else plain()
        with cupti.LocalMemory() as watch, ready as run:
            run()
            stream.synchronize()
    except EngineUnavailableError as error:
        return replace(recorded, notes=(*recorded.notes, str(error)))
    held = {demangle(name): size for name, size in watch.bytes_by_name.items()}
    kernels = tuple(
        kernel
        if kernel.launch is None
        else replace(kernel, launch=replace(kernel.launch, local_bytes=held.get(kernel.name)))
        for kernel in kernels
    )
    return replace(recorded, kernels=kernels)


def _recover(plan: Plan, stream: Stream, execution_ns: float) -> None:
    """Restore the device's caches, which the work between the timed passes and this one filled with
    other data."""
    if execution_ns <= 0 or flushes_caches(stream):
        return
    wanted = min(MOST_RECOVERIES, round(RECOVERY_NS / execution_ns), stream.gate_depth)
    with stream.gate():
        for _ in range(max(1, wanted)):
            plan.run()
    stream.synchronize()


def _record(
    plan: Plan, stream: Stream, budget: SamplingBudget, samples: int
) -> list[cupti.Group] | None:
    """Return the records of each iteration; None if they do not divide so."""
    count = min(MOST_ITERATIONS, samples)
    single = SamplingBudget(0, count, 0, budget.max_time_ns, 1, budget.rest_s)
    return _recorded(plan, stream, lambda: len(on_device(plan, stream, single, 0)))


def _at_each_place(
    plan: Plan, stream: Stream, budget: SamplingBudget, placements: Placements
) -> tuple[list[cupti.Group] | None, list[int]]:
    """Return the records of each iteration, and the number of the first one after each move."""
    groups: list[cupti.Group] = []
    begins: list[int] = []
    for number, part in enumerate(parts_of(budget, placements.count)):
        if number and placements.move():
            begins.append(len(groups))
        found = _record(plan, stream, part, part.iterations)
        if found is None or (groups and len(found[0]) != len(groups[0])):
            return None, []
        groups += found
    return groups, begins


def _recorded(plan: Plan, stream: Stream, work: Callable[[], int]) -> list[cupti.Group] | None:
    """Return the records of each iteration of `work`, which says how many there were."""
    with cupti.Recorder() as recorder:
        plan.run()  # the first launch under CUPTI is slow
        stream.synchronize()
        begun = work()
    groups = cupti.iterations(recorder.records, begun + 1)
    return None if groups is None else groups[1:]


def _hot_sums(plan: Plan, stream: Stream) -> list[int] | None:
    """Return the sums of the kernels of consecutive executions, without a flush."""

    def work() -> int:
        count = min(HOT_ITERATIONS, max(1, stream.gate_depth))
        with stream.gate():
            for _ in range(count):
                plan.run()
        stream.synchronize()
        return count

    groups = _recorded(plan, stream, work)
    return None if groups is None else [cupti.sum_ns(group) for group in groups]


def choose_clock(
    plan: Plan,
    stream: Stream,
    events: Recorded,
    groups: list[cupti.Group],
    flushes: bool,
    hot_sums: list[int] | None = None,
) -> Recorded:
    """Choose the clock that fills `device_ns`. `hot_sums`: of kernels without the flush before each
    sample."""
    sums = [cupti.sum_ns(group) for group in groups]
    spans = [cupti.span_ns(group) for group in groups]
    series = {**events.measured.series, "kernel_sum_ns": sums, "kernel_span_ns": spans}
    kernels, count = kernels_of(groups), len(groups[0])
    if count == 1:
        chosen, bound_ns, note = spans, STEP_NS, SINGLE
        gap = None
    else:
        hot = hot_sums if flushes else sums
        gap = None if hot is None else gaps(plan, stream, count, statistics.median(hot))
        if gap is not None:
            chosen = [max(1, round(each + (count - 1) * gap.inner_ns)) for each in sums]
            bound_ns, note = max(STEP_NS, abs(gap.inner_ns)), FLUSHED if flushes else SEVERAL
        elif flushes:
            measured = replace(events.measured, series=series)
            return replace(events, measured=measured, kernels=kernels, notes=(COLD,))
        else:
            inner_ns = statistics.median(spans) - statistics.median(sums)
            chosen, bound_ns, note = spans, max(STEP_NS, abs(inner_ns)), SPANS
    measured = replace(events.measured, series={**series, "device_ns": chosen})
    notes = [note]
    if gap is not None and gap.inner_ns != gap.between_ns:
        inner, between = gap.inner_ns / 1000, gap.between_ns / 1000
        notes.append(INSIDE.format(inner=inner, between=between))
    return Recorded(measured, kernels, tuple(notes), True, bound_ns, gap)


def kernels_of(groups: list[cupti.Group]) -> tuple[Kernel, ...]:
    """Return a row for each kernel, in the order of their first launch."""
    launches = {record.name: record.launch for record in reversed(groups[0])}
    return tuple(
        Kernel(demangle(name), count, float(median), launch=launches.get(name))
        for name, (count, median) in cupti.by_name(groups).items()
    )
