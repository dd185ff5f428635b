"""A measured metric, judged: verdicts, and a `MetricComparison` for each case that is looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from bench_schema.units import change_words, share_text

from bench_compare.comparison.judging.estimates import ExactMeasured, MeasuredMetric
from bench_compare.comparison.judging.left_out import WithLeftOut
from bench_compare.comparison.judging.verdict import (
    LEAST_UNITS,
    Evidence,
    Move,
    exact_move,
    judge,
    raw_moves,
    reason,
    seen_shift,
    words,
)
from bench_compare.model import MetricComparison, Verdict
from bench_compare.statistics.intervals import DOCUMENT, PAIR, ROUND, rounds_needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from bench_compare.comparison.judging.estimates import Values
    from bench_compare.model import Unit
    from bench_compare.policy import Policy
    from bench_compare.statistics.arrays import Array, Ints, Mask


# Results of metrics that are made when somebody asks for one: most reports show few of them.

NUMBERS = 7
"""Of each metric: rows of `ResultColumns.values`."""
Standing: TypeAlias = "tuple[int, int, Unit, bool, int | None]"
"""What a result rests on: ``base_rounds``, ``other_rounds``, ``unit``, ``provisional`` and
``rounds_needed`` of `MetricComparison`."""


class CaseResult(NamedTuple):
    """What `ResultColumns` tell of one case."""

    base: float | None
    other: float | None
    ratio: float | None
    low: float | None
    high: float | None
    q: float | None
    threshold_ratio: float | None
    p: float | None
    standing: Standing
    needed_unit: Unit


@dataclass(frozen=True, eq=False)
class ResultColumns:
    """What is told of cases, without a `MetricComparison` for each."""

    values: Array
    """A row for each of base, other, ratio, its interval's ends, q and threshold; NaN: not known.
    """
    standings: Sequence[Standing]
    needed_units: Sequence[Unit]
    p: Array
    """NaN: not known."""

    def row(self, place: int) -> CaseResult:
        found = [*self.values[:, place].tolist(), float(self.p[place])]
        numbers = [None if math.isnan(one) else one for one in found]
        base, other, ratio, low, high, q, limit, p = numbers
        standing, unit = self.standings[place], self.needed_units[place]
        return CaseResult(base, other, ratio, low, high, q, limit, p, standing, unit)

    def rows(self, rows: slice) -> Iterator[CaseResult]:
        """Of neighbouring cases, in less time for each."""
        numbers = map(known, (*self.values[:, rows], self.p[rows]))
        return map(CaseResult, *numbers, self.standings[rows], self.needed_units[rows])

    def part(self, rows: slice) -> ResultColumns:
        """Of some of the cases."""
        values = self.values[:, rows]
        return ResultColumns(values, self.standings[rows], self.needed_units[rows], self.p[rows])


def known(values: Array) -> list[float | None]:
    """None for NaN."""
    found: list[float | None] = values.tolist()
    for place in np.flatnonzero(np.isnan(values)).tolist():
        found[place] = None
    return found


@dataclass(eq=False)
class Results:
    """A metric of all cases; what is asked of each of them is there as a column."""

    metric: str
    held: Sequence[bool]
    """Whether a side of the case has the metric."""
    decides: Sequence[bool]
    """Whether both have, so that there is a ratio."""
    verdicts: Sequence[Verdict]
    seen: Sequence[float | None]
    """`MetricComparison.seen_ratio`."""
    raw: Sequence[bool]
    """Whether there are no samples on some side, so that the raw ratio counts."""
    make_columns: Callable[[], ResultColumns]
    make_reason: Callable[[CaseResult, int], str]

    @cached_property
    def columns(self) -> ResultColumns:
        """Of all cases; made when the first one is looked at, as most metrics never are."""
        return self.make_columns()

    def reason(self, row: int) -> str:
        """`MetricComparison.reason` of a case that has the metric."""
        return self.make_reason(self.columns.row(row), row)

    def __getitem__(self, row: int) -> MetricComparison:
        """Of a case that has the metric; made anew each time, as 130,000 of them are 150 MB."""
        return self._comparison(row, self.columns.row(row))

    def some(self, rows: slice) -> list[MetricComparison | None]:
        """Of neighbouring cases; None where a case does not have the metric."""
        places = range(len(self.held))[rows]
        return [
            self._comparison(row, told) if self.held[row] else None
            for row, told in zip(places, self.columns.rows(rows), strict=True)
        ]

    def _comparison(self, row: int, told: CaseResult) -> MetricComparison:
        left, right, unit, provisional, needed = told.standing
        return MetricComparison(
            metric=self.metric,
            base=told.base,
            other=told.other,
            ratio=told.ratio,
            ci_low=told.low,
            ci_high=told.high,
            p=told.p,
            q=told.q,
            verdict=self.verdicts[row],
            make_reason=partial(self.make_reason, told, row),
            threshold_ratio=told.threshold_ratio or 0.0,
            base_rounds=left,
            other_rounds=right,
            unit=unit,
            provisional=provisional,
            rounds_needed=needed,
            needed_unit=told.needed_unit,
            seen_ratio=self.seen[row],
        )


Place: TypeAlias = "tuple[Mapping[str, Results], slice]"
"""The results of all cases, and the rows of some."""


class CaseMetrics(Mapping[str, MetricComparison]):
    """The metrics that a case has, by their names."""

    __slots__ = ("_results", "_row")

    def __init__(self, results: Mapping[str, Results], row: int) -> None:
        self._results, self._row = results, row

    @property
    def place(self) -> tuple[Mapping[str, Results], int]:
        """The results of all cases, and the row of this one."""
        return self._results, self._row

    def __contains__(self, name: object) -> bool:
        return name in self._results and self._results[str(name)].held[self._row]

    def __getitem__(self, name: str) -> MetricComparison:
        if name not in self:
            raise KeyError(name)
        return self._results[name][self._row]

    def __iter__(self) -> Iterator[str]:
        return (name for name, one in self._results.items() if one.held[self._row])

    def __len__(self) -> int:
        return sum(1 for _ in self)


Metrics: TypeAlias = Mapping[str, MetricComparison]
"""Of a case."""


def verdict_of(metrics: Metrics, name: str) -> Verdict | None:
    """Of one metric; None where the case has no such."""
    if name not in metrics:
        return None
    if isinstance(metrics, CaseMetrics):
        results, row = metrics.place
        return results[name].verdicts[row]
    return metrics[name].verdict


def seen_of(metrics: Metrics, name: str) -> float | None:
    """`MetricComparison.seen_ratio` of a metric that the case has."""
    if isinstance(metrics, CaseMetrics):
        results, row = metrics.place
        return results[name].seen[row]
    return metrics[name].seen_ratio


def is_raw(metrics: Metrics, name: str) -> bool:
    """Whether a metric that the case has is told by summaries, which have no interval."""
    if isinstance(metrics, CaseMetrics):
        results, row = metrics.place
        return results[name].raw[row]
    return metrics[name].unit == "summary"


def is_provisional(metrics: Metrics, name: str) -> bool:
    """Of a metric that the case has."""
    if isinstance(metrics, CaseMetrics):
        results, row = metrics.place
        return results[name].columns.standings[row][3]
    return metrics[name].provisional


def values_of(metrics: Sequence[Metrics], names: Sequence[str | None]) -> Array:
    """`ResultColumns.values` of one metric of each case; NaN where a case does not have it."""
    found = np.full((NUMBERS, len(metrics)), np.nan)
    first = 0
    for some, place in stretches(metrics):
        asked = np.array(names[first : first + len(some)], object)
        for name in {*asked.tolist()} - {None}:
            here = np.flatnonzero(asked == name)
            if place is None:
                rows = [numbers_of(some[at].get(name)) for at in here.tolist()]
                found[:, first + here] = np.array(rows, float).T
            elif name in place[0]:
                found[:, first + here] = place[0][name].columns.values[:, place[1].start + here]
        first += len(some)
    return found


def numbers_of(metric: MetricComparison | None) -> tuple[float | None, ...]:
    """A column of `ResultColumns.values`."""
    if metric is None:
        return (None,) * NUMBERS
    m = metric
    return m.base, m.other, m.ratio, m.ci_low, m.ci_high, m.q, m.threshold_ratio


def stretches(cases: Sequence[Metrics]) -> Iterator[tuple[list[Metrics], Place | None]]:
    """Them all, cut where they cease to be neighbours: cases that stand one after another in the
    same results. None: of no results."""

    def key(pair: tuple[int, Metrics]) -> tuple[int, int] | None:
        number, one = pair
        if not isinstance(one, CaseMetrics):
            return None
        results, row = one.place
        return id(results), row - number

    for _, group in groupby(enumerate(cases), key=key):
        some = [one for _, one in group]
        first = some[0]
        if isinstance(first, CaseMetrics):
            results, row = first.place
            yield some, (results, slice(row, row + len(some)))
        else:
            yield some, None


def every_comparison(cases: Sequence[Metrics]) -> Iterator[Metrics]:
    """The metrics of each case, neighbours' made together."""
    for some, place in stretches(cases):
        if place is None:
            yield from some
            continue
        results, rows = place
        for found in zip(*(one.some(rows) for one in results.values()), strict=True):
            named = zip(results, found, strict=True)
            yield {name: one for name, one in named if one is not None}


def make_columns(cases: Sequence[Metrics]) -> None:
    """Before processes are forked that all need them: each would make and hold its own."""
    for _, place in stretches(cases):
        for results in () if place is None else place[0].values():
            _ = results.columns


def neighbours(cases: Sequence[Metrics]) -> Place | None:
    """Where cases are that stand one after another; None where they do not."""
    found = [place for _, place in stretches(cases)]
    return found[0] if len(found) == 1 else None


Moves: TypeAlias = "npt.NDArray[np.int64]"

ONLY_ONE = "only one side has it"
UNITS: dict[int, Unit] = {PAIR: "pair", DOCUMENT: "document"}


class Tested(NamedTuple):
    """After false-discovery control."""

    q: Array
    tests: int
    """Of how many cases, over all sides."""


def judged(
    measured: MeasuredMetric | ExactMeasured, tested: Tested, names: list[str], policy: Policy
) -> Results:
    """`names` are those of the graphs, for thresholds."""
    thresholds = policy.thresholds(measured.metric.name, names)
    if isinstance(measured, ExactMeasured):
        return _exact(measured, thresholds)
    limit = np.log1p(np.array(thresholds))
    found, resolution = measured.estimates, measured.resolution
    moves = judge(found, tested.q, limit, policy.alpha_ratio, resolution)
    clock = np.zeros(len(moves), bool)  # time moved while cycles are proven the same
    if measured.cycles is not None:
        low, high = measured.cycles
        with np.errstate(invalid="ignore"):
            clock = np.isin(moves, (Move.UP, Move.DOWN)) & (low >= -limit) & (high <= limit)
    raw = measured.other_level - measured.base_level
    seen = np.full_like(limit, np.nan)
    if measured.metric.gates:
        seen = seen_shift(found, tested.tests, limit, policy.alpha_ratio, resolution)
        seen = np.where(moves == Move.UNKNOWN, limit, seen)  # by the threshold alone
    is_raw_ratio = (moves == Move.UNKNOWN) & np.isfinite(raw)
    moves = np.where(is_raw_ratio, raw_moves(raw, limit), moves)
    told = _ScatteringMetric(
        measured,
        tested.q,
        limit,
        thresholds,
        moves.tolist(),
        clock.tolist(),
        policy.alpha_ratio,
    )
    decides = told.decided.tolist()
    by_move = words(measured.metric)
    verdicts = [by_move[move] for move in told.moves]
    for row in np.flatnonzero(clock).tolist():
        verdicts[row] = Verdict.CLOCK
    for row in np.flatnonzero(~told.decided).tolist():
        verdicts[row] = Verdict.UNMEASURED
    held = np.isfinite(measured.base_level) | np.isfinite(measured.other_level)
    return Results(
        measured.metric.name,
        held.tolist(),
        decides,
        verdicts,
        known(_exp(told.of_decided(seen))),
        is_raw_ratio.tolist(),
        told.columns,
        told.reason,
    )


def _finite(values: Values) -> Array:
    """NaN for what is not."""
    return np.where(np.isfinite(values), values, np.nan)


def _exp(values: Values) -> Array:
    with np.errstate(over="ignore"):  # beyond every number is beyond every ratio
        return _finite(np.exp(values))


@dataclass(frozen=True, eq=False)
class _ScatteringMetric:
    """What is told of a metric that scatters."""

    measured: MeasuredMetric
    q: Array
    limit: Array
    thresholds: Sequence[float]
    moves: Sequence[int]
    clock: Sequence[bool]
    """Cases whose clock moved, and not their cycles."""
    alpha_ratio: float
    """Up to this `q` a move is significant."""

    @cached_property
    def ratio(self) -> Array:
        """Logarithm; of the levels where nothing was estimated."""
        measured, shift = self.measured, self.measured.estimates.shift
        return np.where(np.isfinite(shift), shift, measured.other_level - measured.base_level)

    @cached_property
    def decided(self) -> Mask:
        """Cases with a ratio."""
        with np.errstate(over="ignore"):
            return np.isfinite(np.exp(self.ratio))

    def of_decided(self, values: Array) -> Array:
        return np.where(self.decided, values, np.nan)

    def columns(self) -> ResultColumns:
        found, of = self.measured.estimates, self.of_decided
        base, other = _exp(self.measured.base_level), _exp(self.measured.other_level)
        numbers = [base, other, _exp(self.ratio), _exp(of(found.low)), _exp(of(found.high))]
        standings = self._standings()
        for place in np.flatnonzero(~self.decided).tolist():
            standings[place] = _plain_standing(base[place], other[place])
        apart = ((found.documents > 0) & self.decided).tolist()
        needed: list[Unit] = [
            "document" if one else standing[2]
            for one, standing in zip(apart, standings, strict=True)
        ]
        values = np.array([*numbers, _finite(of(self.q)), self.thresholds])
        return ResultColumns(values, standings, needed, _finite(of(found.p)))

    def _standings(self) -> list[Standing]:
        """Few differ, so each is made once."""
        found = self.measured.estimates
        needed = np.nan_to_num(_finite(rounds_needed(found, self.limit)))
        units = found.base_units, found.other_units, found.unit
        facts = np.array([self.moves, *units, self.measured.other_unit, needed], np.int64)
        least = facts.min(axis=1, initial=0)
        dims = facts.max(axis=1, initial=0) - least + 1
        code = np.ravel_multi_index(tuple(facts - least[:, None]), tuple(dims.tolist()))
        _, first, number = np.unique(code, return_index=True, return_inverse=True)
        made: list[Standing] = []
        for move, base_units, other_units, kind, other_unit, more in facts[:, first].T.tolist():
            fewer = min(base_units, other_units)
            provisional = fewer < LEAST_UNITS or bool(other_unit)
            asked = more > 0 and move in (Move.UNCLEAR, Move.UNKNOWN)
            alone = max(base_units, other_units) == 1
            unit: Unit = UNITS.get(kind, "iteration" if alone else "round")
            unit = unit if fewer else "summary"
            made.append((base_units, other_units, unit, provisional, more if asked else None))
        return [made[one] for one in number.tolist()]

    @cached_property
    def flags(self) -> tuple[Mask, Mask, Mask, Ints]:
        """The last ones of `Evidence`."""
        measured, found = self.measured, self.measured.estimates
        ticks = np.zeros(len(self.limit), bool)
        if measured.resolution is not None:
            with np.errstate(invalid="ignore"):
                size = np.abs(found.shift)
                ticks = (size >= self.limit) & (size < measured.resolution)
        one_visit = (found.unit == ROUND) & (found.documents == 0) & found.one_run & measured.apart
        return ticks, measured.other_unit, one_visit, found.looks

    def reason(self, told: CaseResult, row: int) -> str:
        if not self.decided[row]:
            return ONLY_ONE
        assert told.ratio is not None, "it is decided"
        left, right, unit, _, more = told.standing
        q, lacks = told.q, told.needed_unit
        size = self.moves[row], told.ratio, told.low, told.high, q, self.thresholds[row]
        ticks, other_unit, one_visit, looks = self.flags
        flags = bool(ticks[row]), bool(other_unit[row]), bool(one_visit[row]), int(looks[row])
        is_significant = q is not None and q <= self.alpha_ratio
        text = reason(Evidence(*size, (left, right), lacks, more, *flags, unit, is_significant))
        if isinstance(self.measured, WithLeftOut) and row in self.measured.where:
            text = f"{self.measured.where[row]}: {text}"
        return f"{text}; cycles did not move, the clock did" if self.clock[row] else text


def _plain_standing(base: float, other: float) -> Standing:
    """NaN: not known."""
    return int(not math.isnan(base)), int(not math.isnan(other)), "summary", False, None


def _ratio(base: float | None, other: float | None) -> float | None:
    found = other / base if base and other is not None else None
    return found if found is not None and math.isfinite(found) else None


def _exact(measured: ExactMeasured, thresholds: Sequence[float]) -> Results:
    metric, words_of = measured.metric, words(measured.metric)
    base, other = known(measured.base), known(measured.other)
    cases = list(zip(base, other, thresholds, strict=True))
    verdicts = [
        Verdict.UNMEASURED
        if one is None or two is None
        else words_of[exact_move(one, two, threshold)]
        for one, two, threshold in cases
    ]

    ratios = [_ratio(one, two) for one, two, _ in cases]

    def columns() -> ResultColumns:
        unknown = np.full(len(cases), np.nan)
        values = np.array(
            [measured.base, measured.other, ratios, unknown, unknown, unknown, thresholds], float
        )
        standings = list(map(_plain_standing, measured.base.tolist(), measured.other.tolist()))
        return ResultColumns(values, standings, [one[2] for one in standings], unknown)

    def reason(_told: CaseResult, row: int) -> str:
        one, two, threshold = cases[row]
        return ONLY_ONE if one is None or two is None else _exact_reason(one, two, threshold)

    held = ~(np.isnan(measured.base) & np.isnan(measured.other))
    decides, raw = [one is not None for one in ratios], [False] * len(cases)
    return Results(
        metric.name, held.tolist(), decides, verdicts, [None] * len(cases), raw, columns, reason
    )


def _exact_reason(base: float, other: float, threshold: float) -> str:
    if base == other:
        return "equal"
    if base == 0 or not (math.isfinite(base) and math.isfinite(other)):
        return f"from {base:g} to {other:g}"
    within = exact_move(base, other, threshold) == Move.SAME
    place = "within" if within else "beyond"
    return f"{change_words(other / base)}: {place} the threshold of {share_text(threshold)}"
