"""One metric of all aligned cases: units, estimates, what the suite did. Values in, values out."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_compare import units as grids
from bench_compare.intervals import (
    Array,
    Documents,
    Estimates,
    Inner,
    Mask,
    Welch,
    common_movement,
    estimate,
    row_mean,
    units,
    welch,
)
from bench_compare.metrics import Exact, Metric, PerRound, Rate, Sampled
from bench_compare.samples import RoundStatistics, section_variance
from bench_compare.ticks import unsure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.align import Pair
    from bench_compare.model import CaseSide, Side, Unit
    from bench_compare.policy import Policy
    from bench_compare.units import Grid, Rounds

Values: TypeAlias = npt.NDArray[np.float64]

DOCUMENTS_FOR_UNIT = 3
"""From this many documents a side on, documents are the units, else rounds."""
CASES_FOR_CENTRING = 30
LEAST_CASES_FOR_CENTRING = 10
"""Even when it is asked for: of a few cases the common movement is their own."""


@dataclass(frozen=True, eq=False)
class SideSamples:
    """The rounds behind one side of a metric, for the notes beside its verdicts."""

    rounds: Rounds
    statistics: RoundStatistics


@dataclass(frozen=True, eq=False)
class Movement:
    """What each unit did to all cases, and what follows for the sides."""

    welch: Welch
    centred: bool


@dataclass(frozen=True, eq=False)
class Measured:
    """A metric of all pairs of two sides. Logarithms; rows are cases."""

    metric: Metric
    unit: Unit
    documents: Documents
    base: Array
    """Shape (cases, units), as measured."""
    other: Array
    base_level: Array
    """Log of the side's value, from a summary where there are no samples."""
    other_level: Array
    estimates: Estimates
    """Relative to the common movement where `movement` says so."""
    movement: Movement | None
    cycles: Estimates | None = None
    """The same with time multiplied by clock, where clocks are known."""
    samples: tuple[SideSamples, SideSamples] | None = None
    unsure: Array | None = None
    """Log ratio within which the clock tells nothing apart."""


@dataclass(frozen=True, eq=False)
class ExactMeasured:
    """A metric that does not scatter: one value a case and side, NaN where unknown."""

    metric: Metric
    base: Values
    other: Values


@dataclass(frozen=True, eq=False)
class Field:
    """What metrics are measured on: the pairs of two sides, and the policy."""

    pairs: Sequence[Pair]
    base: tuple[CaseSide | None, ...]
    """The measurable base side of each pair."""
    other: tuple[CaseSide | None, ...]
    series: frozenset[str]
    """Names of the series that any case has, samples or a summary."""
    unit: Unit
    documents: Documents
    """Of each side, where rounds are the units and no document is on both sides: then each side
    carries what its documents' machine was doing."""
    policy: Policy


def field_of(pairs: Sequence[Pair], sides: tuple[Side, Side], policy: Policy) -> Field:
    """Cases are measurable where they completed and nothing says that the two are unlike."""
    many = min(len(side.sources) for side in sides) >= DOCUMENTS_FOR_UNIT
    base = tuple(_measurable(pair.base, pair) for pair in pairs)
    other = tuple(_measurable(pair.other, pair) for pair in pairs)
    readers = (grids.series_names, grids.summary_names)
    series = frozenset(name for side in (base, other) for read in readers for name in read(side))
    unit: Unit = "document" if many else "round"
    documents = None if many else _documents(sides)
    return Field(pairs, base, other, series, unit, documents, policy)


def _documents(sides: tuple[Side, Side]) -> Documents:
    """How many documents each side has; None where they share one, whose rounds took turns."""
    base, other = ({source.document.run.id for source in side.sources} for side in sides)
    return None if base & other else (len(base), len(other))


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
    metric: Metric, field: Field, gates: Sequence[Measured]
) -> Measured | ExactMeasured | None:
    """The metric on all pairs; None where no case of either side has it. `gates` are the gate
    metrics measured before, which rates are built on."""
    reading = metric.reading
    if isinstance(reading, Sampled):
        return _sampled(metric, reading, field)
    if isinstance(reading, PerRound):
        return _per_round(metric, reading, field)
    if isinstance(reading, Rate):
        return _rate(metric, reading, field, gates)
    return _exact(metric, reading, field)


def _sampled(metric: Metric, reading: Sampled, field: Field) -> Measured | None:
    if reading.series not in field.series:
        return None
    sides = (field.base, field.other)
    found = [grids.sampled(side, reading.series) for side in sides]
    levels = [grids.summary_level(side, reading.series) for side in sides]
    if not any(np.isfinite(x).any() for x in (*levels, *(one[0].values for one in found))):
        return None
    base, other = (one[0] for one in found)
    samples = tuple(SideSamples(rounds, statistics) for _, rounds, statistics in found)
    clocks = [grids.clocks(one.rounds, len(field.pairs)) for one in samples]
    measured = _build(metric, field, (base, other), _inner(samples, (base, other)))
    middle = (measured.base_level + measured.other_level) / 2
    return replace(
        measured,
        unsure=unsure([one.rounds for one in samples], middle),
        base_level=_or(measured.base_level, levels[0]),
        other_level=_or(measured.other_level, levels[1]),
        cycles=_cycles(field, (base, other), (clocks[0], clocks[1])),
        samples=(samples[0], samples[1]),
    )


def _or(first: Array, second: Array) -> Array:
    return np.where(np.isfinite(first), first, second)


def _inner(samples: Sequence[SideSamples], sides: tuple[Grid, Grid]) -> Inner | None:
    """Spread from inside the rounds, for cases with one round on each side."""
    counts = [units(side.values) for side in sides]
    single = (counts[0] == 1) & (counts[1] == 1)
    if not single.any():
        return None
    variance, dof = np.zeros(len(single)), np.full(len(single), np.inf)
    for side in samples:
        rows = np.flatnonzero(single[side.rounds.case])
        inside, degrees = section_variance([side.rounds.series[i] for i in rows])
        case = side.rounds.case[rows]
        variance[case] += inside
        dof[case] = np.minimum(dof[case], degrees)
    return Inner(variance, dof)


def _build(
    metric: Metric, field: Field, sides: tuple[Grid, Grid], inner: Inner | None = None
) -> Measured:
    base, other = (_in_units(side, field).values for side in sides)
    levels = (row_mean(base), row_mean(other))
    matched = np.isfinite(levels[0]) & np.isfinite(levels[1])
    moved = _movement(metric, field, (base, other), matched)
    centred = (base, other)
    if moved is not None and moved[0].centred:
        centred = (base - moved[1], other - moved[2])
    return Measured(
        metric=metric,
        unit=field.unit,
        documents=field.documents,
        base=base,
        other=other,
        base_level=levels[0],
        other_level=levels[1],
        estimates=estimate(*centred, inner, field.policy.floor_sd, field.documents),
        movement=None if moved is None else moved[0],
    )


def _in_units(side: Grid, field: Field) -> Grid:
    return grids.by_document(side) if field.unit == "document" else side


def _movement(
    metric: Metric, field: Field, sides: tuple[Array, Array], matched: Mask
) -> tuple[Movement, Array, Array] | None:
    """Only what gates is centred: other metrics are shown as they are."""
    if not metric.gates or not matched.any():
        return None
    cases = int(matched.sum())
    auto = field.unit == "document" and cases >= CASES_FOR_CENTRING
    asked = cases >= LEAST_CASES_FOR_CENTRING
    centred = {"auto": auto, "on": asked, "off": False}[field.policy.center]
    base, other = common_movement(sides[0][matched], sides[1][matched])
    if not (np.isfinite(base).any() and np.isfinite(other).any()):
        return None
    zeros = (np.nan_to_num(base), np.nan_to_num(other))
    return Movement(welch(base, other, field.documents), centred), *zeros


def _cycles(field: Field, times: tuple[Grid, Grid], clocks: tuple[Grid, Grid]) -> Estimates | None:
    """Estimates of time x clock; unknown for a case unless every round of it has a clock."""
    if not all(np.isfinite(side.values).any() for side in clocks):
        return None
    sums = []
    for time, clock in zip(times, clocks, strict=True):
        cycles = replace(time, values=time.values + clock.values)
        whole = units(cycles.values) == units(time.values)
        values = np.where(whole[:, None], _in_units(cycles, field).values, np.nan)
        sums.append(values)
    return estimate(sums[0], sums[1], None, field.policy.floor_sd, field.documents)


def _per_round(metric: Metric, reading: PerRound, field: Field) -> Measured | None:
    base, other = (grids.per_round(side, reading) for side in (field.base, field.other))
    if not (np.isfinite(base.values).any() or np.isfinite(other.values).any()):
        return None
    return _build(metric, field, (base, other))


def _rate(
    metric: Metric, reading: Rate, field: Field, gates: Sequence[Measured]
) -> Measured | None:
    """Work over time; each case on the first gate that both of its sides have."""
    base, other = (
        np.array([_log_work(side, reading) for side in sides])
        for sides in (field.base, field.other)
    )
    result: Measured | None = None
    for gate in gates:
        part = _over_time(metric, gate, base, other)
        result = part if result is None else _filled(result, part)
    if result is None:
        return None
    known = np.isfinite(result.base_level) | np.isfinite(result.other_level)
    return result if known.any() else None


def _log_work(side: CaseSide | None, reading: Rate) -> float:
    found = None if side is None else reading.work(side.cases[0])
    return math.log(found) if found else math.nan


def _over_time(metric: Metric, gate: Measured, base: Array, other: Array) -> Measured:
    """`base` and `other`: log work of each case."""
    return replace(
        gate,
        metric=metric,
        base_level=base - gate.base_level,
        other_level=other - gate.other_level,
        estimates=_mirrored(gate.estimates, other - base),
        movement=None,
        cycles=None,
        samples=None,
    )


def _mirrored(found: Estimates, offset: Array) -> Estimates:
    """Estimates of offset - x from those of x; p is that of no change where the work is equal."""
    return replace(
        found,
        shift=offset - found.shift,
        low=offset - found.high,
        high=offset - found.low,
        same_low=offset - found.same_high,
        same_high=offset - found.same_low,
        p=np.where(np.isfinite(offset), found.p, np.nan),
    )


def _filled(first: Measured, second: Measured) -> Measured:
    """Cases of `second` where `first` lacks a side, all else from `first`."""
    lacking = ~np.isfinite(first.base_level + first.other_level)
    use = lacking & np.isfinite(second.base_level + second.other_level)

    def pick(a: Any, b: Any) -> Any:
        return np.where(use, b, a)

    names = [field.name for field in fields(Estimates)]
    merged = {name: pick(*(getattr(x.estimates, name) for x in (first, second))) for name in names}
    return replace(
        first,
        base_level=pick(first.base_level, second.base_level),
        other_level=pick(first.other_level, second.other_level),
        estimates=Estimates(**merged),
    )


def _exact(metric: Metric, reading: Exact, field: Field) -> ExactMeasured | None:
    base, other = (
        np.array([_exact_value(side, reading) for side in sides], float)
        for sides in (field.base, field.other)
    )
    if not (np.isfinite(base).any() or np.isfinite(other).any()):
        return None
    return ExactMeasured(metric, base, other)


def _exact_value(side: CaseSide | None, reading: Exact) -> float:
    """The largest over the documents of a side: memory and errors are judged by their worst."""
    values = [] if side is None else [reading.read(case) for case in side.cases]
    known = [value for value in values if value is not None]
    return max(known) if known else math.nan
