"""A measured metric, judged: one `MetricComparison` a case."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from bench_compare.comparison.estimates import ExactMeasured, Measured
from bench_compare.comparison.verdict import (
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
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from bench_compare.comparison.estimates import Values
    from bench_compare.metrics import Metric
    from bench_compare.model import Unit
    from bench_compare.policy.values import Policy
    from bench_compare.statistics.arrays import Array, Mask

Moves: TypeAlias = "npt.NDArray[np.int64]"

UNITS: dict[int, Unit] = {PAIR: "pair", DOCUMENT: "document"}

Results: TypeAlias = list[MetricComparison | None]
"""One entry a case; None where neither side has the metric."""


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
    return list(_rows(measured, (tested.q, seen), (moves, clock), thresholds))


def _clock(measured: Measured, moves: Moves, limit: Array) -> Mask:
    """Cases whose time moved while their cycles are proven the same."""
    if measured.cycles is None:
        return np.zeros(len(moves), bool)
    with np.errstate(invalid="ignore"):
        low, high = measured.cycles.same_low, measured.cycles.same_high
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


def _rows(
    measured: Measured,
    q_and_seen: tuple[Array, Array],
    moves_and_clock: tuple[Moves, Mask],
    thresholds: Sequence[float],
) -> Iterator[MetricComparison | None]:
    found = measured.estimates
    limit = np.log1p(np.array(thresholds))
    raw = measured.other_level - measured.base_level
    table = zip(
        moves_and_clock[0].tolist(),
        moves_and_clock[1].tolist(),
        _exp(measured.base_level),
        _exp(measured.other_level),
        _exp(np.where(np.isfinite(found.shift), found.shift, raw)),
        _exp(found.low),
        _exp(found.high),
        _known(found.p),
        _known(q_and_seen[0]),
        _exp(q_and_seen[1]),
        _known(rounds_needed(found, limit)),
        thresholds,
        zip(found.base_units.tolist(), found.other_units.tolist(), strict=True),
        (found.documents > 0).tolist(),
        found.unit.tolist(),
        _ticks(measured, limit).tolist(),
        measured.other_unit.tolist(),
        _one_visit(measured).tolist(),
        found.looks.tolist(),
        strict=True,
    )
    verdicts = words(measured.metric)
    for row in table:
        yield _row(measured, verdicts, row)


def _row(  # type: ignore[no-untyped-def]
    measured: Measured, verdicts: dict[int, Verdict], row
) -> MetricComparison | None:
    move, clock, base, other, ratio, low, high, p, q, seen, needed, threshold, units, *rest = row
    metric = measured.metric
    if base is None and other is None:
        return None
    if ratio is None:
        return _one_sided(metric, base, other, threshold)
    if move == Move.UNKNOWN:  # ratio of summaries
        move = Move.UNCLEAR
    documents, kind, *flags = rest
    unit = _unit(kind, units)
    more = int(needed) if needed is not None and move == Move.UNCLEAR else None
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
        verdict=Verdict.CLOCK if clock else verdicts[move],
        make_reason=partial(_reason, evidence, clock),
        threshold_ratio=threshold,
        base_rounds=units[0],
        other_rounds=units[1],
        unit=unit,
        provisional=min(units) < LEAST_UNITS or evidence.other_unit,
        rounds_needed=more,
        needed_unit=lacks,
        seen_ratio=seen,
    )


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
    ratio = other / base if base and other is not None else None
    ratio = ratio if ratio is not None and math.isfinite(ratio) else None
    return MetricComparison(
        metric=metric.name,
        base=base,
        other=other,
        ratio=ratio,
        ci_low=None,
        ci_high=None,
        p=None,
        q=None,
        verdict=outcome[0],
        make_reason=outcome[1],
        threshold_ratio=threshold,
        base_rounds=int(base is not None),
        other_rounds=int(other is not None),
        unit="summary",
        provisional=False,
        rounds_needed=None,
        needed_unit="summary",
    )


def _exact(measured: ExactMeasured, thresholds: Sequence[float]) -> Results:
    metric = measured.metric
    verdicts = words(metric)
    results: Results = []
    table = zip(
        _plain_values(measured.base), _plain_values(measured.other), thresholds, strict=True
    )
    for base, other, threshold in table:
        if base is None and other is None:
            results.append(None)
        elif base is None or other is None:
            results.append(_one_sided(metric, base, other, threshold))
        else:
            verdict = verdicts[exact_move(base, other, threshold)]
            make_reason = partial(_exact_reason, base, other, threshold)
            results.append(_plain(metric, (base, other), threshold, (verdict, make_reason)))
    return results


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
