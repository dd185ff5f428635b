"""After the timed passes: what the device itself recorded of the kernels, where that is known.

With ``--timer cupti`` always, with ``--timer auto`` for short executions. The pass repeats the loop
of the device pass; nothing is recorded while samples are taken. If an execution is one kernel, its
records take the place of the events in `device_ns`: they vary less. Recording stretches what lies
between kernels, by up to 2 µs, so the time of several is that of the events.

Every device time comes with the systematic error that it may have, either way: a step of the
clock for a single record, that of corrected events otherwise (`bench_run.measure.marks`).
"""

from __future__ import annotations

import statistics
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_schema.document import Kernel

from bench_run.errors import EngineUnavailableError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.loop import (
    Measured,
    flushes_caches,
    on_device,
    parts_of,
)
from bench_run.measure.marks import events_bound_ns, why_ungated
from bench_run.measure.placements import OnePlace
from bench_run.streams import cupti
from bench_run.streams.base import TOO_MANY
from bench_run.streams.cupti import demangle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_run.engines.base import Plan
    from bench_run.measure.placements import Placements
    from bench_run.streams.base import Stream


SHORT_NS = 200_000
STEP_NS = 32.0
"""Step of the clock behind the records (H200: every duration is a multiple of it, rounded to 1
ns)."""
RECOVERY_NS = 500_000
"""Duration of executions that restore the device's caches after outputs were copied on it. A kernel
of 33 MB, which the second-level cache just holds, takes 5.7 µs; for fifteen executions after copies
of its outputs it took 5.8 to 6.1 (H200)."""
MOST_RECOVERIES = 50
MOST_ITERATIONS, MOST_BY_TIME = 200, 40
"""Recorded iterations at each place, and where their number follows from their time: delivering a
record costs tens of microseconds, and with 60 no more verdicts were clear (H200)."""
SEVERAL_ITERATIONS = 24
"""Recorded iterations of a round whose times are the events'."""

SINGLE = "device_ns are the kernel's own, by CUPTI's records"
SEVERAL = "several kernels: device_ns are events, records would stretch the gaps between them"
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
    has_device_times = bool(measured.series.get("device_ns"))
    bound_ns = events_bound_ns(stream) if has_device_times and not notes else None
    events = Recorded(measured, notes=notes, bound_ns=bound_ns)
    if stream.abilities.kernel_timer is None:
        return events
    if not asks_for_records(stream, measured.series.get("device_ns", ())):
        return _with_kernels(events, plan, stream)
    try:
        _recover(plan, stream, statistics.median(measured.series["device_ns"]))
        few = min(SEVERAL_ITERATIONS, measured.wanted)
        wanted = replace(budget, iterations=measured.wanted if measured.is_recorded else few)
        groups, begins = _at_each_place(plan, stream, wanted, placements or OnePlace())
    except EngineUnavailableError as error:
        return replace(events, notes=(*notes, str(error)))
    if groups is None:
        return replace(events, notes=(*notes, UNCLEAR))
    recorded = _with_local_memory(with_records(events, groups, begins), plan, stream)
    return replace(recorded, notes=(*notes, *recorded.notes))


def with_records(events: Recorded, groups: list[cupti.Group], begins: list[int]) -> Recorded:
    """Return the result of the timed passes with the kernels' own times, and with these as
    `device_ns` where an execution is one kernel. `begins`: the first iteration at each further
    place of the buffers."""
    measured, kernels = events.measured, kernels_of(groups)
    added = {
        "kernel_sum_ns": [cupti.sum_ns(group) for group in groups],
        "kernel_span_ns": [cupti.span_ns(group) for group in groups],
    }
    is_single = len(groups[0]) == 1
    if is_single:
        added["device_ns"] = added["kernel_sum_ns"]
    measured = replace(
        measured,
        series={**measured.series, **added},
        placements={**measured.placements, **dict.fromkeys(added, begins)},
    )
    if is_single:
        return Recorded(measured, kernels, (SINGLE,), True, STEP_NS)
    return replace(events, measured=measured, kernels=kernels, notes=(SEVERAL,))


class KernelTimes:
    """Samples of one plan by the device's records, for plans that are compared with each other and
    visited often: that it is several kernels is found out once."""

    def __init__(self, plan: Plan, stream: Stream) -> None:
        self._plan, self._stream = plan, stream
        self._is_several = False

    def sample(self, budget: SamplingBudget, estimate_ns: int) -> list[int] | None:
        """Return the times of executions (ns) from kernel records; None if the timer does not
        request records for executions of this duration, if none are available, or if an execution
        is several kernels."""
        stream = self._stream
        if self._is_several or why_ungated(stream) is not None:
            return None
        if not asks_for_records(stream, [estimate_ns]):
            return None
        try:
            groups = _record(self._plan, stream, budget, budget.iterations)
        except EngineUnavailableError:
            return None
        if not groups:
            return None
        self._is_several = len(groups[0]) > 1
        return None if self._is_several else [cupti.span_ns(group) for group in groups]


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


def is_recorded(plan: Plan, stream: Stream, execution_ns: int) -> bool:
    """Return True if records will be the times of executions of this duration: one kernel each, as
    one more execution shows."""
    if why_ungated(stream) is not None or not asks_for_records(stream, [execution_ns]):
        return False
    try:
        with cupti.Recorder() as recorder:
            plan.run()
            stream.synchronize()
    except EngineUnavailableError:
        return False
    return len(recorder.records) == 1


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
    count = min(MOST_BY_TIME if budget.by_time else MOST_ITERATIONS, samples)
    single = SamplingBudget(0, count, 0, budget.max_time_ns, 1, budget.rest_s)
    with cupti.Recorder() as recorder, _launchable(plan, stream):
        plan.run()  # the first launch under CUPTI is slow
        stream.synchronize()
        begun = len(on_device(plan, stream, single, 0, corrects=False))
    groups = cupti.iterations(recorder.records, begun + 1)
    return None if groups is None else groups[1:]


@contextmanager
def _launchable(plan: Plan, stream: Stream) -> Iterator[None]:
    """Within the block no gate is closed if the plan replays a device graph: its launch waits for
    the device while CUPTI records, so a gate would open by force, after two seconds."""
    able, captured = stream.abilities, plan.abilities.captured
    if captured is None or captured() is None:
        yield
        return
    settings = None if able.gate_settings is None else able.gate_settings()
    if settings is None or able.leave_gate_open is None or able.restore_gate is None:
        yield
        return
    able.leave_gate_open("a device graph is recorded")
    try:
        yield
    finally:
        able.restore_gate(settings)


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


def kernels_of(groups: list[cupti.Group]) -> tuple[Kernel, ...]:
    """Return a row for each kernel, in the order of their first launch."""
    launches = {record.name: record.launch for record in reversed(groups[0])}
    return tuple(
        Kernel(demangle(name), count, float(median), launch=launches.get(name))
        for name, (count, median) in cupti.by_name(groups).items()
    )
