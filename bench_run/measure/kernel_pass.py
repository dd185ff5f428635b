"""After the timed passes: what the device itself recorded of the kernels, where that is known.

With ``--timer cupti`` always, with ``--timer auto`` for short kernels: two events around a kernel
measure up to 0.3 µs more or less than it took, whatever constant is subtracted, which matters below
50 µs. Then the spans of the records (first kernel's start to last one's end) take the place of the
events in `device_ns`, and the case says so. The pass repeats the loop of the device pass; nothing
is recorded while samples are taken.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_schema.document import Kernel

from bench_run.errors import EngineUnavailableError
from bench_run.measure.loop import Measured, SamplingBudget, on_device, why_ungated
from bench_run.streams import cupti
from bench_run.streams.base import SupportsKernelRecords
from bench_run.streams.demangle import demangle

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.streams.base import Stream

SHORT_NS = 50_000
MOST_ITERATIONS = 200
"""Delivering a record costs tens of microseconds."""

SPANS = "device_ns are spans of the kernels by CUPTI's records (events are too coarse here)"
ASKED = "device_ns are spans of the kernels by CUPTI's records"
UNCLEAR = "CUPTI's records do not divide into iterations: device_ns are events"
UNGATED = "device_ns hold the host's delays"


@dataclass(frozen=True)
class Recorded:
    """The series with what the pass adds; `correction_ns` is 0 where events were replaced."""

    measured: Measured
    kernels: tuple[Kernel, ...] = ()
    notes: tuple[str, ...] = ()
    spans: bool = False


def record_kernels(
    plan: Plan, stream: Stream, budget: SamplingBudget, measured: Measured
) -> Recorded:
    """The measured series and, where the timer asks for it, the kernels' own times."""
    why = why_ungated(stream)
    notes = () if why is None else (f"{why}: {UNGATED}",)
    timer = stream.timer if isinstance(stream, SupportsKernelRecords) else "events"
    if not _asks_for_records(timer, measured):
        return Recorded(measured, notes=notes)
    try:
        recorded = _record(plan, stream, budget, measured)
    except EngineUnavailableError as error:
        return Recorded(measured, notes=(*notes, str(error)))
    if recorded is None:
        return Recorded(measured, notes=(*notes, UNCLEAR))
    return replace(recorded, notes=(*notes, ASKED if timer == "cupti" else SPANS))


def _asks_for_records(timer: str, measured: Measured) -> bool:
    device_ns = measured.series.get("device_ns")
    if not device_ns or timer not in ("auto", "cupti"):
        return False
    return timer == "cupti" or (statistics.median(device_ns) < SHORT_NS and cupti.available())


def _record(
    plan: Plan, stream: Stream, budget: SamplingBudget, measured: Measured
) -> Recorded | None:
    count = min(MOST_ITERATIONS, len(measured.series["device_ns"]))
    single = SamplingBudget(0, count, 0, budget.max_time_ns, 1, budget.rest_s)
    with cupti.Recorder() as recorder:
        plan.run()  # the first launch under CUPTI is slow
        stream.synchronize()
        begun = len(on_device(plan, stream, single, 0))
    groups = cupti.iterations(recorder.records, begun + 1)
    if groups is None:
        return None
    groups = groups[1:]
    series = {
        **measured.series,
        "device_ns": [cupti.span_ns(group) for group in groups],
        "kernel_sum_ns": [cupti.sum_ns(group) for group in groups],
        "kernel_span_ns": [cupti.span_ns(group) for group in groups],
    }
    return Recorded(replace(measured, series=series), kernels_of(groups), spans=True)


def kernels_of(groups: list[cupti.Group]) -> tuple[Kernel, ...]:
    """A row for each kernel, in the order of their first launch."""
    return tuple(
        Kernel(demangle(name), count, float(median))
        for name, (count, median) in cupti.by_name(groups).items()
    )
