"""A measured metric, judged: verdicts, and a `MetricComparison` for each case that is looked at."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from bench_compare.comparison.judging.estimates import ExactMeasured, Measured
from bench_compare.comparison.judging.on_demand import Columns, Results
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
from bench_compare.model import MetricComparison, Verdict
from bench_compare.statistics.discovery import rounds_needed
from bench_compare.statistics.intervals import DOCUMENT, PAIR, ROUND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from bench_compare.comparison.judging.estimates import Values
    from bench_compare.comparison.judging.on_demand import Standing
    from bench_compare.metrics import Metric
    from bench_compare.model import Unit
    from bench_compare.policy.values import Policy
    from bench_compare.statistics.arrays import Array, Mask

Moves: TypeAlias = "npt.NDArray[np.int64]"

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
    return _scattering(measured, (tested.q, seen), (moves, clock), thresholds)


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


def _known(values: Values) -> list[float | None]:
    found: list[float | None] = values.tolist()
    for place in np.flatnonzero(~np.isfinite(values)).tolist():
        found[place] = None
    return found


def _exp(values: Values) -> list[float | None]:
    with np.errstate(over="ignore"):  # beyond every number is beyond every ratio
        return _known(np.exp(values))


def _scattering(
    measured: Measured,
    q_and_seen: tuple[Array, Array],
    moves_and_clock: tuple[Moves, Mask],
    thresholds: Sequence[float],
) -> Results:
    found = measured.estimates
    limit = np.log1p(np.array(thresholds))
    raw = measured.other_level - measured.base_level
    moves, clock = (column.tolist() for column in moves_and_clock)
    base, other = _exp(measured.base_level), _exp(measured.other_level)
    ratio = _exp(np.where(np.isfinite(found.shift), found.shift, raw))
    columns: list[Sequence[Any]] = [
        moves,
        clock,
        base,
        other,
        ratio,
        _exp(found.low),
        _exp(found.high),
        _known(found.p),
        _known(q_and_seen[0]),
        _exp(q_and_seen[1]),
        _known(rounds_needed(found, limit)),
        thresholds,
        list(zip(found.base_units.tolist(), found.other_units.tolist(), strict=True)),
        (found.documents > 0).tolist(),
        found.unit.tolist(),
        _ticks(measured, limit).tolist(),
        measured.other_unit.tolist(),
        _one_visit(measured).tolist(),
        found.looks.tolist(),
    ]
    decides = [one is not None for one in ratio]

    def make(row: int) -> MetricComparison:
        return _row(measured.metric, verdicts[row], [column[row] for column in columns])

    def part(rows: slice) -> Columns:
        return _columns([column[rows] for column in columns])

    verdicts = _verdicts(measured.metric, moves, decides, clock)
    held = np.isfinite(measured.base_level) | np.isfinite(measured.other_level)
    return Results(held.tolist(), decides, verdicts, make, part)


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


def _row(metric: Metric, verdict: Verdict, row: Sequence[Any]) -> MetricComparison:
    move, clock, base, other, ratio, low, high, p, q, seen, needed, threshold, units, *rest = row
    if ratio is None:
        return _one_sided(metric, base, other, threshold)
    documents, kind, *flags = rest
    left, right, unit, provisional, more = _standing(move, units, kind, flags[1], needed)
    if move == Move.UNKNOWN:  # ratio of summaries
        move = Move.UNCLEAR
    lacks: Unit = "document" if documents else unit
    evidence = Evidence(move, ratio, low, high, q, threshold, units, lacks, more, *flags)
    return MetricComparison(
        metric=metric.name,
        base=base,
        other=other,
        ratio=ratio,
        ci_low=low,
        ci_high=high,
        p=p,
        q=q,
        verdict=verdict,
        make_reason=partial(_reason, evidence, clock),
        threshold_ratio=threshold,
        base_rounds=left,
        other_rounds=right,
        unit=unit,
        provisional=provisional,
        rounds_needed=more,
        needed_unit=lacks,
        seen_ratio=seen,
    )


@lru_cache(1024)
def _standing(
    move: int, units: tuple[int, int], kind: int, other_unit: bool, needed: float | None
) -> Standing:
    asked = needed is not None and move in (Move.UNCLEAR, Move.UNKNOWN)
    provisional = min(units) < LEAST_UNITS or other_unit
    more = int(needed) if asked and needed is not None else None
    return *units, _unit(kind, units), provisional, more


def _columns(rows: Sequence[Sequence[Any]]) -> Columns:
    """The same as `_row` says, of many."""
    moves, _, base, other, ratio, low, high, p, q, seen, needed, thresholds, units, *rest = rows
    _, kinds, _, other_units, *_ = rest
    bare = [place for place, one in enumerate(ratio) if one is None]
    low, high, p, q, seen = (list(column) for column in (low, high, p, q, seen))
    standings = list(map(_standing, moves, units, kinds, other_units, needed))
    for place in bare:
        low[place] = high[place] = p[place] = q[place] = seen[place] = None
        standings[place] = _plain_standing(base[place], other[place])
    return Columns((base, other, ratio, low, high, q, thresholds), standings, p, seen)


def _plain_standing(base: float | None, other: float | None) -> Standing:
    return int(base is not None), int(other is not None), "summary", False, None


def _reason(evidence: Evidence, clock: bool) -> str:
    text = reason(evidence)
    return f"{text}; cycles did not move, the clock did" if clock else text


def _unit(kind: int, units: tuple[int, int]) -> Unit:
    if min(units) == 0:
        return "summary"
    if kind in UNITS:
        return UNITS[kind]
    return "iteration" if max(units) == 1 else "round"


def _one_sided(
    metric: Metric, base: float | None, other: float | None, threshold: float
) -> MetricComparison:
    return _plain(metric, (base, other), threshold, (Verdict.UNMEASURED, _only_one))


def _only_one() -> str:
    return "only one side has it"


def _plain(
    metric: Metric,
    values: tuple[float | None, float | None],
    threshold: float,
    outcome: tuple[Verdict, Callable[[], str]],
) -> MetricComparison:
    """A row without statistics."""
    base, other = values
    left, right, unit, provisional, more = _plain_standing(base, other)
    return MetricComparison(
        metric=metric.name,
        base=base,
        other=other,
        ratio=_ratio(base, other),
        ci_low=None,
        ci_high=None,
        p=None,
        q=None,
        verdict=outcome[0],
        make_reason=outcome[1],
        threshold_ratio=threshold,
        base_rounds=left,
        other_rounds=right,
        unit=unit,
        provisional=provisional,
        rounds_needed=more,
        needed_unit=unit,
    )


def _ratio(base: float | None, other: float | None) -> float | None:
    found = other / base if base and other is not None else None
    return found if found is not None and math.isfinite(found) else None


def _exact(measured: ExactMeasured, thresholds: Sequence[float]) -> Results:
    metric, words_of = measured.metric, words(measured.metric)
    base, other = _plain_values(measured.base), _plain_values(measured.other)
    cases = list(zip(base, other, thresholds, strict=True))
    verdicts = [
        Verdict.UNMEASURED
        if one is None or two is None
        else words_of[exact_move(one, two, threshold)]
        for one, two, threshold in cases
    ]

    def make(row: int) -> MetricComparison:
        one, two, threshold = cases[row]
        if one is None or two is None:
            return _one_sided(metric, one, two, threshold)
        reason = partial(_exact_reason, one, two, threshold)
        return _plain(metric, (one, two), threshold, (verdicts[row], reason))

    def part(rows: slice) -> Columns:
        nothing = [None] * len(base[rows])
        standings = list(map(_plain_standing, base[rows], other[rows]))
        numbers = (base, other, ratios)
        return Columns(
            (*(one[rows] for one in numbers), nothing, nothing, nothing, thresholds[rows]),
            standings,
            nothing,
            nothing,
        )

    held = ~(np.isnan(measured.base) & np.isnan(measured.other))
    ratios = [_ratio(one, two) for one, two, _ in cases]
    decides = [one is not None for one in ratios]
    return Results(held.tolist(), decides, verdicts, make, part)


def _plain_values(values: Values) -> list[float | None]:
    """NaN is unknown; an infinite error is a value."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def _exact_reason(base: float, other: float, threshold: float) -> str:
    if base == other:
        return "equal"
    if base == 0 or not (math.isfinite(base) and math.isfinite(other)):
        return f"from {base:g} to {other:g}"
    within = exact_move(base, other, threshold) == Move.SAME
    place = "within" if within else "beyond"
    return f"{percent(other / base)}: {place} the threshold of {100 * threshold:.3g} %"
