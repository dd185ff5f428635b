"""One metric of all aligned cases: units, estimates, what the suite did. Values in, values out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
from bench_schema.estimate import case_log, look_count

from bench_compare.comparison.circumstances.hardware import by_unit, numbered, other_units
from bench_compare.metrics import Exact, Metric, PerRound, Rate, Sampled
from bench_compare.rounds import observations
from bench_compare.rounds.facts import facts
from bench_compare.statistics.arrays import Array, Ints, Mask, units
from bench_compare.statistics.clock_resolution import resolution
from bench_compare.statistics.columns import Columns, together
from bench_compare.statistics.intervals import Elsewhere, Estimates, estimate, same_interval
from bench_compare.statistics.samples import section_variance
from bench_compare.statistics.suite import Shift, common_movement
from bench_compare.statistics.variances import WithinRoundVariance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.comparison.judging.calibration import Calibration
    from bench_compare.input.align import Pair
    from bench_compare.model import CaseSide, Side
    from bench_compare.policy import Policy
    from bench_compare.rounds.observations import ObservationMatrix, SeriesRounds, SideRounds
    from bench_compare.statistics.layers import BetweenDocuments


# What a device time may be off by, as its document says: a verdict never rests on less.
#
# Two sides whose times were taken the same way of the same kernels are off alike, and their ratio
# is not: there the bound does not count. It does between other kernels, and between other clocks.

SERIES = "device_ns"


PROCESS_SPREAD_RATIO = {SERIES: 0.03}
HOST_SPREAD_RATIO = 0.1
"""Share by which two processes of one program may differ, of device times and of times of the host.
Measured: ten processes of a Python function on a shared machine lay within 7 % and 14 %, and 95 %
of their pairs within 10 %; products on an H200 within 2 % (nvbench)."""


def between_processes(
    base: Sequence[CaseSide | None], other: Sequence[CaseSide | None], series: str
) -> Array:
    """Return the logarithm of the ratio that another process may make, for cases of which a file of
    another tool has a single process on each side; 0 for all others."""
    spread = math.log1p(PROCESS_SPREAD_RATIO.get(series, HOST_SPREAD_RATIO))
    alone = [
        all(side is not None and _is_one_process(side) for side in pair)
        for pair in zip(base, other, strict=True)
    ]
    return np.where(alone, spread, 0.0)


def _is_one_process(side: CaseSide) -> bool:
    return (
        len(side.cases) == 1
        and len(side.cases[0].rounds) == 1
        and ("imported" in side.cases[0].notes)
    )


def systematic(
    base: Sequence[CaseSide | None], other: Sequence[CaseSide | None], level: Array
) -> Array:
    """Return the log ratio within which two device times of a case may be one and the same. `level`
    is the mean of both sides' log nanoseconds."""
    bounds_ns = np.zeros(len(level))
    for row, (one, two) in enumerate(zip(base, other, strict=True)):
        if one is not None and two is not None and _way(one) != _way(two):
            bounds_ns[row] = max(_largest(one), _largest(two))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.nan_to_num(np.log1p(bounds_ns / np.exp(level)))


def _way(side: CaseSide) -> tuple[frozenset[object], frozenset[object]]:
    """Return the clocks and the kernels of a side's times."""
    timings = frozenset().union(*(facts(case.rounds).timings for case in side.cases))
    kernels = frozenset(kernel.name for case in side.cases for kernel in case.kernels)
    return timings, kernels


def _largest(side: CaseSide) -> float:
    return max(facts(case.rounds).bound_ns for case in side.cases)


Values: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeasuredMetric:
    """A metric of all pairs of two sides. Logarithms; rows are cases."""

    metric: Metric
    base: Array
    """Shape (cases, rounds), as measured."""
    other: Array
    columns: tuple[Columns, Columns]
    base_level: Array
    """Location of the case on the side that the change is made of, from a summary if samples are
    missing."""
    other_level: Array
    estimates: Estimates
    movement: Shift | None
    """Common movement of all cases; only for metrics that gate."""
    cycles: tuple[Array, Array] | None = None
    """90 % interval of the shift of time multiplied by clock, where clocks are known."""
    samples: tuple[SeriesRounds, SeriesRounds] | None = None
    between: BetweenDocuments | None = None
    """Calibration of the machines, if there is one."""
    other_unit: Mask = field(default_factory=lambda: np.zeros(0, bool))
    """Cases whose sides have no unit of hardware in common."""
    apart: bool = True
    """True if the sides do not share a document."""
    resolution: Array | None = None
    """Log ratio within which the clock tells nothing apart."""
    where: Mapping[int, str] = field(default_factory=dict)
    """Row of a case that rests on a document that was left out, to that document and why."""


@dataclass(frozen=True, eq=False)
class ExactMeasured:
    """A metric that does not scatter: one value a case and side, NaN if unknown."""

    metric: Metric
    base: Values
    other: Values


@dataclass(frozen=True, eq=False)
class ComparisonInputs:
    """Inputs of the estimates: the pairs of two sides, and the policy."""

    pairs: Sequence[Pair]
    base: tuple[CaseSide | None, ...]
    """The measurable base side of each pair."""
    other: tuple[CaseSide | None, ...]
    rounds: tuple[SideRounds, SideRounds]
    """Rounds of base and of other."""
    series: frozenset[str]
    """Names of the series that any case has, samples or a summary."""
    documents: tuple[Ints, Ints]
    """Number of the run of each source of either side (`hardware.by_unit`)."""
    blocks: tuple[Ints, Ints]
    """Number of the unit of hardware of each source."""
    policy: Policy
    sides: tuple[Side, Side]
    """Sides with one source for each unit of a document."""
    calibration: Calibration | None = None
    looks: int = 1
    """Number of looks that share the error: above 1 if a run stopped when its cases were
    decided."""


def comparison_inputs(
    pairs: Sequence[Pair],
    sides: tuple[Side, Side],
    policy: Policy,
    calibration: Calibration | None = None,
) -> ComparisonInputs:
    """Return the inputs; cases are measurable if they completed and nothing shows that the two are
    unlike."""
    measurable = (
        tuple(_measurable(pair.base, pair) for pair in pairs),
        tuple(_measurable(pair.other, pair) for pair in pairs),
    )
    split = [by_unit(side, cases) for side, cases in zip(sides, measurable, strict=True)]
    base, other = (one.cases for one in split)
    rounds = observations.gather(base), observations.gather(other)
    series = frozenset().union(
        *(one.samples for one in rounds), *map(observations.summary_names, (base, other))
    )
    documents, blocks = numbered(split)
    settings = (source.document.run.settings for side in sides for source in side.sources)
    return ComparisonInputs(
        pairs=pairs,
        base=base,
        other=other,
        rounds=rounds,
        series=series,
        documents=documents,
        blocks=blocks,
        policy=policy,
        sides=(split[0].side, split[1].side),
        calibration=calibration,
        looks=max(map(look_count, settings), default=1),
    )


def _measurable(side: CaseSide | None, pair: Pair) -> CaseSide | None:
    if side is None or pair.unlike is not None:
        return None
    kept = [
        (case, source)
        for case, source in zip(side.cases, side.sources, strict=True)
        if case.outcome.status == "completed"
    ]
    if len(kept) == len(side.cases):
        return side
    if not kept:
        return None
    cases, sources = zip(*kept, strict=True)
    return replace(side, cases=cases, sources=sources)


def measure(
    metric: Metric, inputs: ComparisonInputs, gates: Sequence[MeasuredMetric]
) -> MeasuredMetric | ExactMeasured | None:
    """Return the metric on all pairs; None if no case of either side has it. `gates` are the gate
    metrics measured before, which rates are built on."""
    reading = metric.reading
    if isinstance(reading, Sampled):
        return _sampled(metric, reading, inputs)
    if isinstance(reading, PerRound):
        base, other = (observations.per_round(side, metric) for side in inputs.rounds)
        known = np.isfinite(base.values).any() or np.isfinite(other.values).any()
        return _build(metric, inputs, (base, other)) if known else None
    if isinstance(reading, Rate):
        return _rate(metric, reading, inputs, gates)
    return _exact(metric, reading, inputs)


def _sampled(metric: Metric, reading: Sampled, inputs: ComparisonInputs) -> MeasuredMetric | None:
    if reading.series not in inputs.series:
        return None
    sides = (inputs.base, inputs.other)
    found = [observations.sampled(side, reading.series) for side in inputs.rounds]
    levels = [observations.summary_level(side, reading.series) for side in sides]
    if not any(np.isfinite(x).any() for x in (*levels, *(one[0].values for one in found))):
        return None
    base, other = (one[0] for one in found)
    samples = [rounds for _, rounds in found]
    clocks = [observations.clocks(one, len(inputs.pairs)) for one in samples]
    within = _within_round(samples, (base, other))
    inside = np.zeros(len(inputs.pairs))  # mean variance of the samples in a round, the larger side
    for one in samples:
        known = np.isfinite(one.statistics.scatter)
        case = one.case[known]
        squares = np.bincount(case, one.statistics.scatter[known] ** 2, len(inside))
        count = np.bincount(case, minlength=len(inside))
        inside = np.maximum(inside, squares / np.maximum(count, 1))
    paired = observations.in_blocks(inputs.rounds, reading.series, (base, other), inputs.documents)
    measured = _build(metric, inputs, paired, within, inside)
    middle = (measured.base_level + measured.other_level) / 2
    coarse = resolution([(s.case, s.series) for s in samples], middle)
    if reading.series == SERIES:
        coarse = np.maximum(coarse, systematic(*sides, middle))
    coarse = np.maximum(coarse, between_processes(*sides, reading.series))
    return replace(
        measured,
        resolution=coarse,
        base_level=_or(measured.base_level, levels[0]),
        other_level=_or(measured.other_level, levels[1]),
        cycles=_cycles(inputs, (base, other), (clocks[0], clocks[1])),
        samples=(samples[0], samples[1]),
    )


def _or(first: Array, second: Array) -> Array:
    return np.where(np.isfinite(first), first, second)


def _within_round(
    samples: Sequence[SeriesRounds], sides: tuple[ObservationMatrix, ObservationMatrix]
) -> WithinRoundVariance | None:
    """Spread from inside the rounds, for cases with one round on each side."""
    counts = [units(side.values) for side in sides]
    single = (counts[0] == 1) & (counts[1] == 1)
    if not single.any():
        return None
    variance, dof = np.zeros(len(single)), np.full(len(single), np.inf)
    for side in samples:
        rows = np.flatnonzero(single[side.case])
        inside, degrees = section_variance(side.series.part(rows))
        case = side.case[rows]
        variance[case] += inside
        dof[case] = np.minimum(dof[case], degrees)
    return WithinRoundVariance(variance, dof)


def _build(
    metric: Metric,
    inputs: ComparisonInputs,
    sides: tuple[ObservationMatrix, ObservationMatrix],
    within: WithinRoundVariance | None = None,
    inside: Array | None = None,
) -> MeasuredMetric:
    (base, other), columns = _placed(inputs, sides)
    between = None
    if inputs.calibration is not None and isinstance(metric.reading, Sampled):
        between = inputs.calibration.between(
            inputs.base, inputs.other, inputs.sides, metric.reading.series
        )
    known = Elsewhere(within, between, inside)
    settings = (known, inputs.policy.floor_sd, inputs.looks)
    found = estimate(base, other, columns, *settings)
    return MeasuredMetric(
        metric=metric,
        base=base,
        other=other,
        columns=columns,
        base_level=_or(found.base_level, case_log(base, columns[0].document)),
        other_level=_or(found.other_level, case_log(other, columns[1].document)),
        estimates=found,
        between=between,
        movement=common_movement(found) if metric.gates else None,
        other_unit=other_units((inputs.base, inputs.other), inputs.blocks, inputs.sides),
        apart=not np.intersect1d(*inputs.documents).size,
    )


def _placed(
    inputs: ComparisonInputs, sides: tuple[ObservationMatrix, ObservationMatrix]
) -> tuple[tuple[Array, Array], tuple[Columns, Columns]]:
    """Return the values of both sides, and the origin of their columns."""
    base, other = (
        together(
            side.values,
            Columns(inputs.documents[n][side.sources], side.rounds, inputs.blocks[n][side.sources]),
        )
        for n, side in enumerate(sides)
    )
    return (base[0], other[0]), (base[1], other[1])


def _cycles(
    inputs: ComparisonInputs,
    times: tuple[ObservationMatrix, ObservationMatrix],
    clocks: tuple[ObservationMatrix, ObservationMatrix],
) -> tuple[Array, Array] | None:
    """Return the 90 % interval of time x clock, None without clocks; unknown for a case unless
    every round of it has a clock."""
    if not all(np.isfinite(side.values).any() for side in clocks):
        return None
    sums = []
    for time, clock in zip(times, clocks, strict=True):
        cycles = replace(time, values=time.values + clock.values)
        whole = units(cycles.values) == units(time.values)
        sums.append(replace(cycles, values=np.where(whole[:, None], cycles.values, np.nan)))
    values, columns = _placed(inputs, (sums[0], sums[1]))
    return same_interval(*values, columns, inputs.policy.floor_sd, inputs.looks)


def _rate(
    metric: Metric, reading: Rate, inputs: ComparisonInputs, gates: Sequence[MeasuredMetric]
) -> MeasuredMetric | None:
    """Work over time; each case on the first gate that both of its sides have."""
    work = np.full((2, len(inputs.pairs)), np.nan)  # logarithms
    for number, sides in enumerate((inputs.base, inputs.other)):
        for row, side in enumerate(sides):
            done = None if side is None else reading.work(side.cases[0])
            if done:
                work[number, row] = math.log(done)
    result: MeasuredMetric | None = None
    for gate in gates:
        offset, found = work[1] - work[0], gate.estimates
        # Estimates of offset - x from those of x; p is that of no change where the work is equal.
        mirrored = found.copy()
        mirrored.shift = offset - found.shift
        mirrored.base_level = mirrored.other_level = np.nan
        mirrored.low, mirrored.high = offset - found.high, offset - found.low
        mirrored.same_low, mirrored.same_high = offset - found.same_high, offset - found.same_low
        mirrored.p = np.where(np.isfinite(offset), found.p, np.nan)
        part = replace(
            gate,
            metric=metric,
            base_level=work[0] - gate.base_level,
            other_level=work[1] - gate.other_level,
            estimates=mirrored,
            movement=None,
            cycles=None,
            samples=None,
        )
        result = part if result is None else _filled(result, part)
    if result is None:
        return None
    known = np.isfinite(result.base_level) | np.isfinite(result.other_level)
    return result if known.any() else None


def _filled(first: MeasuredMetric, second: MeasuredMetric) -> MeasuredMetric:
    """Return `first` with the values of `second` in the cases for which `first` lacks a side and
    `second` does not."""
    lacking = ~np.isfinite(first.base_level + first.other_level)
    use = lacking & np.isfinite(second.base_level + second.other_level)

    merged = first.estimates.copy()
    merged[use] = second.estimates[use]
    return replace(
        first,
        base_level=np.where(use, second.base_level, first.base_level),
        other_level=np.where(use, second.other_level, first.other_level),
        estimates=merged,
    )


def _exact(metric: Metric, reading: Exact, inputs: ComparisonInputs) -> ExactMeasured | None:
    """Return the largest value of each side's documents: memory and errors are judged by the
    worst."""
    found = np.full((2, len(inputs.pairs)), np.nan)
    for number, sides in enumerate((inputs.base, inputs.other)):
        for row, side in enumerate(sides):
            values = [] if side is None else [reading.read(case) for case in side.cases]
            known = [value for value in values if value is not None]
            if known:
                found[number, row] = max(known)
    if not np.isfinite(found).any():
        return None
    return ExactMeasured(metric, found[0], found[1])
