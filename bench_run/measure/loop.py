"""Warm-up, the timing loops and when they stop. Timing loops exist only here.

The times are never the engine's own. Each loop reads the clock, runs the plan, and reads the clock
again; all other work (validation, resting) happens between two samples.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench_schema.settings import RecordedSettings, rows_of

from bench_run.measure.budget import SamplingBudget
from bench_run.measure.checks import NoChecks
from bench_run.measure.clock import read_clock
from bench_run.measure.marks import cost_of_marks, empty_kernel, forced_gates, why_ungated
from bench_run.measure.placements import OnePlace
from bench_run.streams.base import FEWEST, LEAD, TAIL

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.measure.checks import Checks
    from bench_run.measure.placements import Placements
    from bench_run.streams.base import EmptyKernel, Stream

NONE = NoChecks()

Clock = Callable[[], int]
Hook = Callable[[], object]
RunLikeSample = Callable[[Hook, Hook], int]
"""Takes a sample; returns its nanoseconds. The first hook is called before the caches are brought
into their state, the second right before the run."""


MOST_SAMPLES = rows_of(RecordedSettings)["iterations"].most
"""Largest number of samples in a pass, at 40 bytes of this process each."""
BUSY_BLOCK_NS = 10_000_000
"""Device work behind one gate in cool duty: short enough that the power limit is not reached."""
REST_S = 0.05
"""Rest in cool duty before such a block would be exceeded: after it an H200 is back at its highest
clock."""


@dataclass(frozen=True)
class Measured:
    """Series in time order, nanoseconds; `stopped_by` names the rule that ended the round."""

    warmup: dict[str, list[int]]
    series: dict[str, list[int]]
    stopped_by: str
    placements: Mapping[str, list[int]] = field(default_factory=dict)
    """Number of the first sample after each move of the buffers, by series."""
    cost_of_marks_ns: float | None = None
    """Median of what was subtracted from the device's samples; None if there are none."""
    wanted: int = 0
    """Samples of each series that the budget asks for."""
    is_recorded: bool = False
    """True if the device's own records are to take the place of its samples."""


@contextmanager
def quiet() -> Iterator[None]:
    """Collect garbage once before, and not inside of a sample, where it takes up to 0.15 s."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def measure(
    plan: Plan,
    stream: Stream,
    budget: SamplingBudget,
    checks: Checks = NONE,
    clock: Clock = read_clock,
    placements: Placements | None = None,
    has_records: Callable[[int], bool] | None = None,
) -> Measured:
    """Warm up, then the device pass where the stream has a clock, then the end-to-end pass; the
    same at each place of the buffers. `has_records` tells if executions of this duration (ns) will
    be timed by the device's own records: then few are timed here."""
    placements = placements or OnePlace()
    with quiet():
        warmup = warm_up(plan, stream, budget, clock, checks)
        placements.estimate_ns = min(warmup) if warmup else budget.first_run_ns
        each_ns = placements.estimate_ns
        is_asked = budget.by_time or has_records is not None
        if stream.clock != "host" and is_asked and each_ns < ROUND_NS:
            each_ns = device_estimate(plan, stream, budget, each_ns)
        budget = sized(budget, each_ns)
        is_recorded = has_records is not None and has_records(each_ns)
        on_host, on_dev = shares(stream, budget, is_recorded)
        checks.plan(placements.estimate_ns, on_host.iterations, on_dev.iterations)
        names = names_of(stream)
        series: dict[str, list[int]] = {name: [] for name in names}
        begins: dict[str, list[int]] = {name: [] for name in names}
        costs: list[float] = []
        places = min(len(parts_of(share, placements.count)) for share in (on_host, on_dev))
        parts = (parts_of(share, places) for share in (on_host, on_dev))
        for number, (part, device_part) in enumerate(zip(*parts, strict=True)):
            if number and placements.move():
                for name in names:
                    begins[name].append(len(series[name]))
            if "device_ns" in series:
                estimate_ns = min(warmup) if warmup else 0
                series["device_ns"] += on_device(
                    plan, stream, device_part, estimate_ns, checks, clock, costs
                )
            first = len(series["e2e_ns"])
            series["e2e_ns"] += end_to_end(
                plan, stream, part, clock, checks, first, series.get("submit_ns")
            )
    cost_ns = statistics.median(costs) if costs else None
    why, wanted = why_over(on_host, series["e2e_ns"]), budget.iterations
    return Measured({"e2e_ns": warmup}, series, why, begins, cost_ns, wanted, is_recorded)


def names_of(stream: Stream) -> tuple[str, ...]:
    """Return the series that are measured. A processor has done its work when the call returns."""
    return ("e2e_ns",) if stream.clock == "host" else ("device_ns", "e2e_ns", "submit_ns")


ROUND_NS = 12_000_000
"""Duration of the samples of a round by time, of device time where the device has a clock: 2 ms at
each of six places of the buffers. 12 places of 30 samples did not help on an H200: by events 36 %
of the verdicts on identical runs were unclear at 1 %, with 6 places of 60 samples 25 %."""
LEAST_EACH_ROUND, MOST_EACH_ROUND = 30, 360
"""Numbers of these samples: 5 and 60 at each place."""
MOST_END_TO_END = 60
"""End-to-end samples of a round by time, of a device: each takes the host a hundred microseconds
with its checks."""
PILOT = 3
"""Samples that tell how long they take on the device."""


def device_estimate(plan: Plan, stream: Stream, budget: SamplingBudget, estimate_ns: int) -> int:
    """Return the time of an execution by the device's clock, of a few. `estimate_ns`: end to
    end."""
    pilot = replace(budget, iterations=PILOT, min_time_ns=0)
    return round(statistics.median(on_device(plan, stream, pilot, estimate_ns)))


def sized(budget: SamplingBudget, each_ns: int) -> SamplingBudget:
    """Return the budget with the number of samples that fits in `ROUND_NS`, if it is by time.
    `each_ns`: the time of an execution by the clock of the stream."""
    if not budget.by_time:
        return budget
    fits = ROUND_NS // (budget.executions * max(1, each_ns))
    return replace(budget, iterations=min(max(LEAST_EACH_ROUND, fits), MOST_EACH_ROUND))


def shares(
    stream: Stream, budget: SamplingBudget, has_records: bool
) -> tuple[SamplingBudget, SamplingBudget]:
    """Return the budgets of end-to-end samples and of those by the device's clock."""
    if stream.clock == "host":
        return budget, budget
    few = min(budget.iterations, LEAST_EACH_ROUND) if has_records else budget.iterations
    most = min(budget.iterations, MOST_END_TO_END) if budget.by_time else budget.iterations
    return replace(budget, iterations=most), replace(budget, iterations=few)


def why_over(budget: SamplingBudget, samples: Sequence[int]) -> str:
    """Return the rule that ended a round with these samples."""
    if len(samples) < budget.iterations:
        return "most samples" if len(samples) >= MOST_SAMPLES else "max time"
    return "iterations" if len(samples) == budget.iterations else "min time"


FEWEST_EACH = 3
"""Samples at each place."""


def parts_of(budget: SamplingBudget, count: int) -> list[SamplingBudget]:
    """Return the budget of each of at most so many places."""
    count = max(1, min(count, budget.iterations // FEWEST_EACH))
    share, rest = divmod(budget.iterations, count)
    limit_ns = budget.max_time_ns
    return [
        replace(
            budget,
            iterations=share + (number < rest),
            min_time_ns=-(-budget.min_time_ns // count),
            max_time_ns=None if limit_ns is None else limit_ns // count,
        )
        for number in range(count)
    ]


def warm_up(
    plan: Plan, stream: Stream, budget: SamplingBudget, clock: Clock, checks: Checks = NONE
) -> list[int]:
    """Take samples that do not count, for at most half the time limit of a pass."""
    limit = None if budget.max_time_ns is None else budget.max_time_ns // 2
    few = SamplingBudget(budget.warmup, budget.warmup, 0, limit, budget.executions)
    return end_to_end(plan, stream, few, clock, checks, None)


def end_to_end(
    plan: Plan,
    stream: Stream,
    budget: SamplingBudget,
    clock: Clock,
    checks: Checks = NONE,
    first: int | None = 0,
    submits: list[int] | None = None,
) -> list[int]:
    """Take samples of call, execution and wait, one after another. `first`: number of the first
    one in its series; None: they do not count. `submits`: the part of each that the call took is
    appended to it."""
    samples: list[int] = []
    if budget.iterations == 0:
        return samples
    synchronize, keep = stream.synchronize, samples.append
    count, began = 0, clock()
    timed = sampler(plan, stream, budget.executions, clock, submits)
    while True:
        keep(timed(checks.before, checks.touch))
        was_read = checks.after(None if first is None else first + count)
        count += 1
        is_over = _is_over(budget, count, clock() - began)
        if was_read and not is_over:
            plan.run()  # brings the caches back to what the next sample expects
            synchronize()
            is_over = _is_over(budget, count, clock() - began)
        if is_over:
            checks.drain()
            return samples


def _is_over(budget: SamplingBudget, count: int, lasted_ns: int) -> bool:
    """Return True if no further sample follows this many."""
    if count >= budget.iterations and lasted_ns >= budget.min_time_ns:
        return True
    return lasted_ns >= _limit_ns(budget) or count >= MOST_SAMPLES


def sampler(
    plan: Plan, stream: Stream, executions: int, clock: Clock, submits: list[int] | None = None
) -> RunLikeSample:
    """Return what takes one sample: nanoseconds of one execution, the mean of `executions`. The
    time until the calls returned is appended to `submits`."""
    synchronize, flush = stream.synchronize, stream.flush
    turns, parts = range(executions), _runs(plan)
    # Right after something pushed everything out of the processor's caches: the timing loop once
    # without work. Else its own code, fetched from afar, is a microsecond of each sample.
    is_cold = stream.clock == "host" and flushes_caches(stream)
    rehearsal = ((None, ()),) if is_cold else ()
    passes = (*rehearsal, (parts[0] if executions == len(parts) == 1 else None, parts))

    def run_like_sample(before: Hook, touch: Hook) -> int:
        before()
        flush()
        synchronize()
        touch()
        for only, runs in passes:
            begin = clock()
            if only is not None:
                only()
            else:
                for _ in turns:
                    for run in runs:
                        run()
            if submits is not None:
                submits.append((clock() - begin) // executions)
            synchronize()
            end = clock()
        return (end - begin) // executions

    return run_like_sample


def _limit_ns(budget: SamplingBudget) -> float:
    """Return the time limit of a pass; infinite if there is none."""
    return math.inf if budget.max_time_ns is None else budget.max_time_ns


def _runs(plan: Plan) -> tuple[Callable[[], None], ...]:
    """Return the calls of one execution. The parts of a chain are called from the timing loop as
    any plan is: a loop of the chain's own would be in what two graphs take together and in neither
    alone, a quarter of a microsecond for each seam."""
    runs_of_parts = plan.abilities.runs_of_parts
    return (plan.run,) if runs_of_parts is None else runs_of_parts()


def on_device(
    plan: Plan,
    stream: Stream,
    budget: SamplingBudget,
    estimate_ns: int,
    checks: Checks = NONE,
    clock: Clock = read_clock,
    costs: list[float] | None = None,
    corrects: bool = True,
) -> list[int]:
    """Take samples by the device's own clock, in blocks enqueued behind a closed gate.

    Behind the gate the device never waits for the host, so launch costs stay out of the samples.
    What the marks themselves cost is subtracted (`bench_run.measure.marks`), and appended to
    `costs`; without `corrects` it is not measured. A gate that opened by force voids its block: the
    series begins anew, since gated and other samples are unlike. A block that was begun is measured
    to its end, so none is longer than the time that is left allows.
    """
    empty = empty_kernel(plan, stream) if corrects else None
    samples: list[int] = []
    empties: list[int] = []
    limit_ns, began = _limit_ns(budget), clock()
    busy_ns, forced = 0, forced_gates(stream)
    block = _block_size(stream, budget, estimate_ns, checks.queue_share)
    each_ns: float = budget.executions * (estimate_ns or budget.first_run_ns)
    while True:
        count = min(block, max(1, budget.iterations - len(samples)))
        if each_ns > 0:
            left_ns = limit_ns - (clock() - began)
            count = max(1, int(min(count, left_ns / each_ns)))
        marks, around = _gated_block(plan, stream, budget.executions, count, checks, empty)
        if forced_gates(stream) != forced:
            samples, empties = [], []
            began, forced = clock(), forced_gates(stream)
            empty = None  # without a gate the time between marks is the host's
            block = _block_size(stream, budget, estimate_ns, checks.queue_share)
            continue
        taken = [stream.elapsed_ns(*pair) for pair in marks]
        samples += taken
        empties += [stream.elapsed_ns(*pair) for pair in around]
        busy_ns += (block_ns := sum(taken))
        lasted_ns = clock() - began
        if len(samples) >= budget.iterations and lasted_ns >= budget.min_time_ns:
            break
        if lasted_ns >= limit_ns or len(samples) >= MOST_SAMPLES:
            break
        each_ns = lasted_ns / len(samples)
        if budget.rest_s > 0 and busy_ns + block_ns > BUSY_BLOCK_NS:
            # Without a gate, the first iteration afterwards finds the host asleep, which
            # makes one of 8 ms and 900 launches 3 % longer: of long ones it is not timed.
            time.sleep(budget.rest_s)
            is_long = estimate_ns * budget.executions > BUSY_BLOCK_NS // 4
            if is_long and why_ungated(stream) is not None:
                plan.run()
                stream.synchronize()
            busy_ns = 0
    cost_ns = 0.0 if empty is None else cost_of_marks(empty, empties)
    if costs is not None:
        costs.append(cost_ns)
    # Logarithms are taken of them.
    return [max(1, max(0, round(each - cost_ns)) // budget.executions) for each in samples]


Marks = list[tuple[object, object]]


def _gated_block(
    plan: Plan,
    stream: Stream,
    executions: int,
    count: int,
    checks: Checks,
    empty: EmptyKernel | None,
) -> tuple[Marks, Marks]:
    """Return the marks around so many samples, and those around the empty kernels among them, all
    enqueued behind one gate; they are done."""
    marks: Marks = []
    around: Marks = []
    checks.before_block()
    with stream.gate():
        if empty is not None:
            _measured(stream, empty.launch, LEAD)
            around += _measured(stream, empty.launch, FEWEST - count)
        for _ in range(count):
            checks.before_queued()
            stream.flush()
            if empty is not None:
                around += _measured(stream, empty.launch, 1)
            begin = stream.mark()
            for _ in range(executions):
                plan.run()
            marks.append((begin, stream.mark()))
            checks.after_queued()
        if empty is not None:
            _measured(stream, empty.launch, TAIL)
    stream.synchronize()
    checks.after_block()
    return marks, around


def _measured(stream: Stream, run: Callable[[], None], times: int) -> Marks:
    """Enqueue `run` so many times, between marks; return these."""
    marks: Marks = []
    for _ in range(times):
        begin = stream.mark()
        run()
        marks.append((begin, stream.mark()))
    return marks


def flushes_caches(stream: Stream) -> bool:
    """Return True if the caches are brought into their state before each iteration."""
    flushes = stream.abilities.flushes
    return flushes is not None and flushes()


def _block_size(stream: Stream, budget: SamplingBudget, estimate_ns: int, share: float) -> int:
    """Return the number of iterations behind one gate: never more than the queue holds, in cool
    duty no long blocks.

    `share` of the queue is for samples, the rest for what `Checks` enqueue between them.
    """
    depth = max(1, int(share * stream.gate_depth) // budget.executions)
    if budget.rest_s <= 0 or estimate_ns <= 0:
        return depth
    return max(1, min(depth, BUSY_BLOCK_NS // (estimate_ns * budget.executions)))
