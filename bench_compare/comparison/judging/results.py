"""A measured metric, judged: verdicts, and a `MetricComparison` for each case that is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from bench_compare.comparison.judging.estimates import ExactMeasured, Measured
from bench_compare.comparison.judging.on_demand import Columns, Results, known
from bench_compare.comparison.judging.verdict import (
    LEAST_UNITS,
    Evidence,
    Move,
    exact_move,
    judge,
    percent,
    reason,
    seen_shift,
    words,
)
from bench_compare.model import Verdict
from bench_compare.statistics.discovery import rounds_needed
from bench_compare.statistics.intervals import DOCUMENT, PAIR, ROUND

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from bench_compare.comparison.judging.estimates import Values
    from bench_compare.comparison.judging.on_demand import Standing
    from bench_compare.metrics import Metric
    from bench_compare.model import Unit
    from bench_compare.policy.values import Policy
    from bench_compare.statistics.arrays import Array, Mask

Moves: TypeAlias = "npt.NDArray[np.int64]"

ONLY_ONE = "only one side has it"
UNITS: dict[int, Unit] = {PAIR: "pair", DOCUMENT: "document"}


class Tested(NamedTuple):
    """After false-discovery control."""

    q: Array
    tests: int
    """Of how many cases, over all sides."""


def judged(
    measured: Measured | ExactMeasured, tested: Tested, names: list[str], policy: Policy
) -> Results:
    """`names` are those of the graphs, for thresholds."""
    thresholds = policy.thresholds(measured.metric.name, names)
    if isinstance(measured, ExactMeasured):
        return _exact(measured, thresholds)
    limit = np.log1p(np.array(thresholds))
    found, resolution = measured.estimates, measured.resolution
    moves = judge(found, tested.q, limit, policy.alpha_ratio, resolution)
    clock = _clock(measured, moves, limit)
    seen = np.full_like(limit, np.nan)
    if measured.metric.gates:
        seen = seen_shift(found, tested.tests, limit, policy.alpha_ratio, resolution)
    told = _Scattered(measured, tested.q, limit, thresholds, moves.tolist(), clock.tolist())
    return _scattering(told, seen)


def _clock(measured: Measured, moves: Moves, limit: Array) -> Mask:
    """Cases whose time moved while their cycles are proven the same."""
    if measured.cycles is None:
        return np.zeros(len(moves), bool)
    with np.errstate(invalid="ignore"):
        low, high = measured.cycles
        same = (low >= -limit) & (high <= limit)
    return np.asarray(np.isin(moves, (Move.UP, Move.DOWN)) & same)


def _ticks(measured: Measured, limit: Array) -> Mask:
    """Cases that are beyond the threshold, and not beyond what a step of the clock makes."""
    if measured.resolution is None:
        return np.zeros(len(limit), bool)
    with np.errstate(invalid="ignore"):
        size = np.abs(measured.estimates.shift)
        return np.asarray((size >= limit) & (size < measured.resolution))


def _one_visit(measured: Measured) -> Mask:
    """Cases with one document a side, whose spread nothing tells."""
    found = measured.estimates
    return np.asarray((found.unit == ROUND) & (found.documents == 0) & measured.apart)


def _finite(values: Values) -> Array:
    """NaN for what is not."""
    return np.where(np.isfinite(values), values, np.nan)


def _exp(values: Values) -> Array:
    with np.errstate(over="ignore"):  # beyond every number is beyond every ratio
        return _finite(np.exp(values))


@dataclass(frozen=True, eq=False)
class _Scattered:
    """What is told of a metric that scatters."""

    measured: Measured
    q: Array
    limit: Array
    thresholds: Sequence[float]
    moves: Sequence[int]
    clock: Sequence[bool]
    """Cases whose clock moved, and not their cycles."""

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

    def columns(self) -> Columns:
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
        return Columns(values, standings, needed, known(_finite(of(found.p))))

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
        known = [_standing(*one) for one in facts[:, first].T.tolist()]
        return [known[one] for one in number.tolist()]

    @cached_property
    def flags(self) -> list[tuple[bool, bool, bool, int]]:
        """The last ones of `Evidence`, of each case."""
        measured = self.measured
        ticks, alone = _ticks(measured, self.limit), _one_visit(measured)
        columns = ticks, measured.other_unit, alone, measured.estimates.looks
        return list(zip(*(one.tolist() for one in columns), strict=True))

    def reason(self, told: Columns, row: int) -> str:
        if not self.decided[row]:
            return ONLY_ONE
        _, _, ratios, lows, highs, qs, _ = told.numbers
        ratio = ratios[row]
        assert ratio is not None, "it is decided"
        move = self.moves[row]
        if move == Move.UNKNOWN:  # ratio of summaries
            move = Move.UNCLEAR
        left, right, _, _, more = told.standings[row]
        lacks = told.needed_units[row]
        size = move, ratio, lows[row], highs[row], qs[row], self.thresholds[row]
        text = reason(Evidence(*size, (left, right), lacks, more, *self.flags[row]))
        return f"{text}; cycles did not move, the clock did" if self.clock[row] else text


def _scattering(scattered: _Scattered, seen: Array) -> Results:
    measured, decides = scattered.measured, scattered.decided.tolist()
    held = np.isfinite(measured.base_level) | np.isfinite(measured.other_level)
    return Results(
        measured.metric.name,
        held.tolist(),
        decides,
        _verdicts(measured.metric, scattered.moves, decides, scattered.clock),
        known(_exp(scattered.of_decided(seen))),
        scattered.columns,
        scattered.reason,
    )


def _verdicts(
    metric: Metric, moves: Sequence[int], decides: Sequence[bool], clock: Sequence[bool]
) -> list[Verdict]:
    """A ratio of summaries, whose move is unknown, is unclear."""
    by_move = words(metric) | {Move.UNKNOWN: Verdict.UNCLEAR}
    found = [by_move[move] for move in moves]
    for row in np.flatnonzero(clock).tolist():
        found[row] = Verdict.CLOCK
    for row in np.flatnonzero(np.logical_not(decides)).tolist():
        found[row] = Verdict.UNMEASURED
    return found


def _standing(
    move: int, base_units: int, other_units: int, kind: int, other_unit: int, needed: int
) -> Standing:
    """`needed`: 0 where no number is known."""
    units = base_units, other_units
    provisional = min(units) < LEAST_UNITS or bool(other_unit)
    asked = needed > 0 and move in (Move.UNCLEAR, Move.UNKNOWN)
    return *units, _unit(kind, units), provisional, needed if asked else None


def _plain_standing(base: float, other: float) -> Standing:
    """NaN: not known."""
    return int(not math.isnan(base)), int(not math.isnan(other)), "summary", False, None


def _unit(kind: int, units: tuple[int, int]) -> Unit:
    if min(units) == 0:
        return "summary"
    if kind in UNITS:
        return UNITS[kind]
    return "iteration" if max(units) == 1 else "round"


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
    nothing = [None] * len(cases)

    def columns() -> Columns:
        unknown = np.full(len(cases), np.nan)
        values = np.array(
            [measured.base, measured.other, ratios, unknown, unknown, unknown, thresholds], float
        )
        standings = list(map(_plain_standing, measured.base.tolist(), measured.other.tolist()))
        return Columns(values, standings, [one[2] for one in standings], nothing)

    def reason(_told: Columns, row: int) -> str:
        one, two, threshold = cases[row]
        return ONLY_ONE if one is None or two is None else _exact_reason(one, two, threshold)

    held = ~(np.isnan(measured.base) & np.isnan(measured.other))
    decides = [one is not None for one in ratios]
    return Results(metric.name, held.tolist(), decides, verdicts, nothing, columns, reason)


def _exact_reason(base: float, other: float, threshold: float) -> str:
    if base == other:
        return "equal"
    if base == 0 or not (math.isfinite(base) and math.isfinite(other)):
        return f"from {base:g} to {other:g}"
    within = exact_move(base, other, threshold) == Move.SAME
    place = "within" if within else "beyond"
    return f"{percent(other / base)}: {place} the threshold of {100 * threshold:.3g} %"
