"""Warm-up, the timing loops and when they stop. Timing loops exist only here.

The times are never the engine's own. Each loop reads the clock, runs the plan, and reads the clock
again; all other work (validation, resting) happens between two samples.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from bench_schema.settings import RecordedSettings, rows_of

from bench_run.errors import EngineError
from bench_run.measure.canaries import Canaries, NoCanaries
from bench_run.measure.clock import read_clock
from bench_run.measure.placements import OnePlace

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.measure.placements import Placements
    from bench_run.streams.base import Stream

NONE = NoCanaries()

Clock = Callable[[], int]
Hook = Callable[[], object]
RunLikeSample = Callable[[Hook, Hook], int]
"""One execution exactly as samples are taken, and how many nanoseconds it took. The first hook is
called before the caches are brought into their state, the second right before the run."""


class Check(Protocol):
    """Work between the samples, outside of their times."""

    def after_sample(self, index: int, run: RunLikeSample) -> bool:
        """Work after sample number `index`, before another one; return True if it disturbed the
        caches."""

    def after_last(self, index: int, run: RunLikeSample) -> None:
        """Work after the last sample, number `index`."""

    def before_block(self) -> None:
        """Prepare for a block of samples by the device's clock."""

    def after_block(self) -> None:
        """Note that a block was completed."""


MOST_SAMPLES = rows_of(RecordedSettings)["iterations"].most
"""Largest number of samples in a pass, at 40 bytes of this process each."""
MOST_CORRECTION_NS = 100_000
"""Marks of an H200 measure 1400 too much."""
BUSY_BLOCK_NS = 10_000_000
"""Device work behind one gate in cool duty: short enough that the power limit is not reached."""
REST_S = 0.05
"""Rest in cool duty before such a block would be exceeded: after it an H200 is back at its highest
clock."""


@dataclass(frozen=True)
class SamplingBudget:
    """Limits of one round's measuring."""

    warmup: int
    iterations: int
    min_time_ns: int = 0
    """Samples are added until a pass has lasted so long."""
    max_time_ns: int | None = None
    """No sample begins once a pass has lasted so long; at least one is taken. Both are wall time,
    since what comes with a sample (checks, canaries, flushes, rests) can take a thousand times as
    long as the sample."""
    executions: int = 1
    """Executions in one sample; the sample is their total divided by it."""
    rest_s: float = 0.0
    longest_ns: int | None = None
    """No sample may take longer: the worker would be ended before it could tell."""
    first_run_ns: int = 0
    """Duration of an iteration, used without a warm-up."""
    hold_iterations: bool = False
    """True if blocks take exactly `iterations`, and not as many as the time allows."""


@dataclass(frozen=True)
class Measured:
    """Series in time order, nanoseconds; `stopped_by` names the rule that ended the round."""

    warmup: dict[str, list[int]]
    series: dict[str, list[int]]
    stopped_by: str
    placements: Mapping[str, list[int]] = field(default_factory=dict)
    """Number of the first sample after each move of the buffers, by series."""


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
    check: Check | None = None,
    clock: Clock = read_clock,
    canaries: Canaries = NONE,
    placements: Placements | None = None,
) -> Measured:
    """Warm up, then the device pass where the stream has a clock, then the end-to-end pass; the
    same at each place of the buffers."""
    placements = placements or OnePlace()
    with quiet():
        warmup = warm_up(plan, stream, budget, clock, canaries)
        placements.estimate_ns = min(warmup) if warmup else budget.first_run_ns
        names = ("e2e_ns",) if stream.clock == "host" else ("device_ns", "e2e_ns")
        series: dict[str, list[int]] = {name: [] for name in names}
        begins: dict[str, list[int]] = {name: [] for name in names}
        for number, part in enumerate(parts_of(budget, placements.count)):
            if number and placements.move():
                for name in names:
                    begins[name].append(len(series[name]))
            if "device_ns" in series:
                estimate_ns = min(warmup) if warmup else 0
                series["device_ns"] += on_device(
                    plan, stream, part, estimate_ns, canaries, clock, check if not number else None
                )
            watched = None if check is None else PartCheck(check, len(series["e2e_ns"]))
            series["e2e_ns"] += end_to_end(plan, stream, part, watched, clock, canaries)
        if check is not None and series["e2e_ns"]:
            last = sampler(plan, stream, budget.executions, clock)
            check.after_last(len(series["e2e_ns"]) - 1, last)
    return Measured({"e2e_ns": warmup}, series, why_over(budget, series), begins)


def why_over(budget: SamplingBudget, series: Mapping[str, Sequence[int]]) -> str:
    """Return the rule that ended a round with these samples, of the series that has fewest."""
    fewest = min(map(len, series.values()))
    if fewest < budget.iterations:
        return "most samples" if fewest >= MOST_SAMPLES else "max time"
    return "iterations" if fewest == budget.iterations else "min time"


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


class PartCheck:
    """Checks of a part of the samples: its last one is not the last of all."""

    def __init__(self, check: Check, before: int) -> None:
        """`before`: samples before this part."""
        self._check, self._before = check, before

    def after_sample(self, index: int, run: RunLikeSample) -> bool:
        return self._check.after_sample(self._before + index, run)

    def after_last(self, index: int, run: RunLikeSample) -> None:
        self._check.after_sample(self._before + index, run)

    def before_block(self) -> None:
        self._check.before_block()

    def after_block(self) -> None:
        self._check.after_block()


def warm_up(
    plan: Plan, stream: Stream, budget: SamplingBudget, clock: Clock, canaries: Canaries
) -> list[int]:
    """Take samples that do not count, for at most half the time limit of a pass."""
    limit = None if budget.max_time_ns is None else budget.max_time_ns // 2
    few = SamplingBudget(budget.warmup, budget.warmup, 0, limit, budget.executions)
    warmup = end_to_end(plan, stream, few, None, clock, canaries)
    canaries.choose(min(warmup) if warmup else budget.first_run_ns)
    return warmup


def end_to_end(
    plan: Plan,
    stream: Stream,
    budget: SamplingBudget,
    check: Check | None,
    clock: Clock,
    canaries: Canaries = NONE,
) -> list[int]:
    """Take samples of call, execution and wait, one after another."""
    samples: list[int] = []
    if budget.iterations == 0:
        return samples
    synchronize, keep = stream.synchronize, samples.append
    count, began = 0, clock()
    sample = sampler(plan, stream, budget.executions, clock)
    while True:
        keep(sample(canaries.before, canaries.touch))
        canaries.after()
        count += 1
        is_over = _is_over(budget, count, clock() - began)
        if not is_over and check is not None and check.after_sample(count - 1, sample):
            plan.run()  # brings the caches back to what the next sample expects
            synchronize()
            is_over = _is_over(budget, count, clock() - began)
        if is_over:
            canaries.drain()
            if check is not None:
                check.after_last(count - 1, sample)
            return samples


def _is_over(budget: SamplingBudget, count: int, lasted_ns: int) -> bool:
    """Return True if no further sample follows this many."""
    if count >= budget.iterations and lasted_ns >= budget.min_time_ns:
        return True
    return lasted_ns >= _limit_ns(budget) or count >= MOST_SAMPLES


def sampler(plan: Plan, stream: Stream, executions: int, clock: Clock) -> RunLikeSample:
    """Return what takes one sample: nanoseconds of one execution, the mean of `executions`."""
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
    canaries: Canaries = NONE,
    clock: Clock = read_clock,
    check: Check | None = None,
) -> list[int]:
    """Take samples by the device's own clock, in blocks enqueued behind a closed gate.

    Behind the gate the device never waits for the host, so launch costs stay out of the samples.
    What the marks themselves cost is subtracted (`Stream.correction_ns`). A gate that opened by
    force voids its block: the series begins anew, since gated and other samples are unlike. A block
    that was begun is measured to its end, so none is longer than the time that is left allows.
    """
    samples: list[int] = []
    correction_ns = _correction_ns(stream)
    limit_ns, began = _limit_ns(budget), clock()
    busy_ns, forced = 0, forced_gates(stream)
    block = _block_size(stream, budget, estimate_ns, canaries.queue_share)
    each_ns: float = budget.executions * (estimate_ns or budget.first_run_ns)
    while True:
        count = min(block, max(1, budget.iterations - len(samples)))
        if each_ns > 0:
            left_ns = limit_ns - (clock() - began)
            count = max(1, int(min(count, left_ns / each_ns)))
        marks, block_ns = _gated_block(plan, stream, budget.executions, count, canaries, check), 0
        if forced_gates(stream) != forced:
            samples, began, forced = [], clock(), forced_gates(stream)
            block = _block_size(stream, budget, estimate_ns, canaries.queue_share)
            continue
        for begin, end in marks:
            elapsed_ns = stream.elapsed_ns(begin, end)
            corrected_ns = max(0, round(elapsed_ns - correction_ns))
            samples.append(max(1, corrected_ns // budget.executions))  # logarithms are taken of it
            block_ns += round(elapsed_ns)
        busy_ns += block_ns
        lasted_ns = clock() - began
        if len(samples) >= budget.iterations and lasted_ns >= budget.min_time_ns:
            return samples
        if lasted_ns >= limit_ns or len(samples) >= MOST_SAMPLES:
            return samples
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


def _correction_ns(stream: Stream) -> float:
    """Return the excess of two marks. Raises `EngineError` for an impossible one."""
    correction_ns = stream.correction_ns()
    if not 0 <= correction_ns <= MOST_CORRECTION_NS:
        raise EngineError(
            f"stream.correction_ns() is {correction_ns!r}, not from 0 to {MOST_CORRECTION_NS}"
        )
    return correction_ns


def _gated_block(
    plan: Plan,
    stream: Stream,
    executions: int,
    count: int,
    canaries: Canaries,
    check: Check | None,
) -> list[tuple[object, object]]:
    """Return the marks around so many samples, which were enqueued behind one gate; they are
    done."""
    marks = []
    if check is not None:
        check.before_block()
        stream.synchronize()  # a gate closes on an idle stream
    with stream.gate():
        for _ in range(count):
            canaries.before()
            stream.flush()
            begin = stream.mark()
            for _ in range(executions):
                plan.run()
            marks.append((begin, stream.mark()))
            canaries.after()
    stream.synchronize()
    canaries.drain()
    if check is not None:
        check.after_block()
    return marks


def flushes_caches(stream: Stream) -> bool:
    """Return True if the caches are brought into their state before each iteration."""
    flushes = stream.abilities.flushes
    return flushes is not None and flushes()


def forced_gates(stream: Stream) -> int:
    """Return the number of gates that opened by force."""
    forced = stream.abilities.forced_gates
    return 0 if forced is None else forced()


def why_ungated(stream: Stream) -> str | None:
    """Return the reason why the plan runs without the gate that its stream has, in a few words;
    None if it runs behind it."""
    because = stream.abilities.no_gate_because
    return None if because is None else because()


def _block_size(stream: Stream, budget: SamplingBudget, estimate_ns: int, share: float) -> int:
    """Return the number of iterations behind one gate: never more than the queue holds, in cool
    duty no long blocks.

    `share` of the queue is for samples, the rest for what `Canaries` enqueue between them.
    """
    depth = max(1, int(share * stream.gate_depth) // budget.executions)
    if budget.rest_s <= 0 or estimate_ns <= 0:
        return depth
    return max(1, min(depth, BUSY_BLOCK_NS // (estimate_ns * budget.executions)))
