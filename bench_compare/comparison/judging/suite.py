"""Numbers of the whole suite: geometric means with intervals over units, and common movement."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.identity import engine_name
from bench_schema.units import NOTHING, change_words, is_too_noisy, share_text, size_text

from bench_compare.comparison.judging.estimates import MeasuredMetric
from bench_compare.comparison.judging.moves import HALF, Move, raw_moves, words
from bench_compare.metrics import METRICS, PerRound, Sampled
from bench_compare.model import CommonMovement, Sensitivity, SuiteNumber, Verdict
from bench_compare.statistics.intervals import DOCUMENT, PAIR, ROUND
from bench_compare.statistics.layers import of_rows
from bench_compare.statistics.suite import Shift, suite
from bench_compare.statistics.variances import pooled_variance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.comparison.judging.estimates import ExactMeasured
    from bench_compare.input.align import Pair
    from bench_compare.metrics import Metric
    from bench_compare.model import CaseComparison, Scope, Side, Unit
    from bench_compare.policy import Policy
    from bench_compare.statistics.arrays import Array, Ints
    from bench_compare.statistics.intervals import Estimates


def suite_numbers(
    other: Side, pairs: Sequence[Pair], measured: Mapping[str, MeasuredMetric | ExactMeasured]
) -> Iterator[SuiteNumber]:
    """Yield the suite numbers of each metric over all matched cases; for metrics that gate, also by
    family, by engine, and weighted by time."""
    families: dict[str, list[int]] = defaultdict(list)
    engines: dict[str, list[int]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        families[pair.side.cases[-1].graph.family].append(row)
        engines[pair.side.engine].append(row)
    groups: list[tuple[Scope, str, Ints]] = [
        *(("family", name, np.array(rows)) for name, rows in families.items()),
        *(("engine", name, np.array(rows)) for name, rows in engines.items()),
    ]
    for one in measured.values():
        if not isinstance(one, MeasuredMetric) or not isinstance(
            one.metric.reading, Sampled | PerRound
        ):
            continue  # the matrices of rates are those of the time beneath
        matched = np.flatnonzero(np.isfinite(one.estimates.shift))
        if not matched.size:
            yield from _of_summaries(other, one)
            continue
        yield _number(other, one, ("all", "all"), matched)
        if one.metric.gates:
            weights = np.exp(one.base_level)
            yield _number(other, one, ("weighted", "weighted by time"), matched, weights)
            for scope, name, rows in groups:
                inside = np.intersect1d(rows, matched, assume_unique=True)
                if inside.size:
                    yield _number(other, one, (scope, name), inside)


def _of_summaries(other: Side, measured: MeasuredMetric) -> Iterator[SuiteNumber]:
    """Yield numbers from summaries, without intervals, for metrics without samples on both
    sides."""
    shift = measured.other_level - measured.base_level
    known = shift[np.isfinite(shift)]
    if known.size:
        yield SuiteNumber(
            other_label=other.label,
            metric=measured.metric.name,
            scope="all",
            name="all",
            ratio=math.exp(float(known.mean())),
            ci_low=None,
            ci_high=None,
            count=known.size,
            rounds=(0, 0),
            unit="summary",
        )


def _number(
    other: Side,
    measured: MeasuredMetric,
    scope: tuple[Scope, str],
    rows: Ints,
    weights: Array | None = None,
) -> SuiteNumber:
    found = measured.estimates[rows]
    weight = None if weights is None else weights[rows]
    sides = measured.base[rows], measured.other[rows]
    between = None if measured.between is None else of_rows(measured.between, rows)
    shift, used = suite(*sides, measured.columns, found, weight, between)
    return SuiteNumber(
        other_label=other.label,
        metric=measured.metric.name,
        scope=scope[0],
        name=scope[1],
        ratio=math.exp(shift.shift),
        ci_low=None if shift.low is None else math.exp(shift.low),
        ci_high=None if shift.high is None else math.exp(shift.high),
        count=len(rows),
        rounds=used,
        unit=common_unit(found),
    )


def between_document_warnings(
    measured: Mapping[str, MeasuredMetric | ExactMeasured], gate: str | None
) -> list[str]:
    """Return a sentence if single documents of a machine with known drift are compared; for the
    metric that decides."""
    one = measured.get(gate) if gate is not None else None
    if not isinstance(one, MeasuredMetric):
        return []
    if common_unit(one.estimates) != "round":
        return []
    count = int((one.estimates.documents > 0).sum())
    if 2 * count <= int(np.isfinite(one.estimates.shift).sum()):
        return []
    variance, _ = pooled_variance(one.base, one.other)
    known = variance[np.isfinite(variance)]
    if known.size == 0:
        return []
    scatter = math.sqrt(np.quantile(known, 0.5))
    return [
        f"rounds scatter by {share_text(scatter, 2)} ({one.metric.name}, middle case): machine "
        "noise persists across rounds, so single documents are taken to differ by as much; several "
        "documents a side (--label) give narrower intervals"
    ]


def uncalibrated_warnings(
    other: Side, measured: Mapping[str, MeasuredMetric | ExactMeasured], gate: str | None
) -> list[str]:
    """Return a sentence if a calibration does not include single documents that are compared; for
    the metric that decides."""
    one = measured.get(gate) if gate is not None else None
    if not isinstance(one, MeasuredMetric) or one.between is None or not one.apart:
        return []
    single = (one.estimates.unit == ROUND) & np.isfinite(one.estimates.shift)
    known = np.isfinite(one.between.common + one.between.own)
    unknown, count = int((single & ~known).sum()), int(single.sum())
    if not unknown:
        return []
    return [
        f"{other.label}: the calibration knows nothing of {unknown} of {count} cases (their "
        f"machines, engines or {one.metric.name}): run-to-run variation is not in their verdicts"
    ]


def movements(
    sides: tuple[Side, Side],
    measured: Mapping[str, MeasuredMetric | ExactMeasured],
    cases: Sequence[CaseComparison],
    policy: Policy,
) -> Iterator[CommonMovement]:
    """Yield the median change of all cases together for each metric that can decide. `cases`: the
    cases with their verdicts, possibly also of other sides."""
    other = sides[1]
    mine = [case for case in cases if case.other_label == other.label]
    compared = _engines_compared(*sides)
    for one in measured.values():
        found = _movement(one) if isinstance(one, MeasuredMetric) and one.metric.gates else None
        if not isinstance(one, MeasuredMetric) or found is None:
            continue
        verdict, why = _judge(one, found, policy)
        if compared and verdict not in (Verdict.SAME, Verdict.UNCLEAR):
            why = f"a comparison of engines, {compared}"
        if other.is_unit:
            of_unit = _of_unit(sides, one.metric, mine)
            is_decided = verdict not in (Verdict.SAME, Verdict.UNCLEAR)
            why = of_unit if is_decided else f"{why}; {of_unit}"
        low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
        change = change_words(math.exp(found.shift))
        if is_too_noisy(low, high):
            change, why = NOTHING, "its interval reaches beyond ×2"
        yield CommonMovement(
            other_label=other.label,
            metric=one.metric.name,
            ratio=math.exp(found.shift),
            ci_low=low,
            ci_high=high,
            verdict=verdict,
            reason=f"median of all cases {change}: {why}",
            cases=int(np.isfinite(_raw(one) if _is_raw(one) else one.estimates.shift).sum()),
        )


def _movement(measured: MeasuredMetric) -> Shift | None:
    """Return the common movement; of the raw ratios, without an interval, if most cases lack
    samples."""
    if not _is_raw(measured):
        return measured.movement
    return Shift(float(np.nanmedian(_raw(measured))), None, None, None)


def _is_raw(measured: MeasuredMetric) -> bool:
    sampled = int(np.isfinite(measured.estimates.shift).sum())
    return int(np.isfinite(_raw(measured)).sum()) > 2 * sampled


def _raw(measured: MeasuredMetric) -> Array:
    return measured.other_level - measured.base_level


def _engines_compared(base: Side, other: Side) -> str:
    """Return ``torch against numpy``; empty if the sides have an engine in common."""
    names = [dict.fromkeys(engine_name(key).spec for key in side.engines) for side in (base, other)]
    if names[0].keys() & names[1].keys():
        return ""
    return " against ".join(", ".join(some) for some in reversed(names))


def _of_unit(sides: tuple[Side, Side], metric: Metric, cases: Sequence[CaseComparison]) -> str:
    """Return a sentence on the cases in which a unit of hardware is slower than base, and
    faster."""
    found = [case.metrics[metric.name].verdict for case in cases if metric.name in case.metrics]
    good, bad = words(metric)[Move.DOWN], words(metric)[Move.UP]
    if metric.better != "lower":
        good, bad = bad, good
    base, other = sides
    return (
        f"unit {other.label} is {bad.value} than {base.label} in {found.count(bad)} of "
        f"{len(found)} cases, {good.value} in {found.count(good)}"
    )


def common_unit(found: Estimates) -> Unit:
    """Return the unit of observation that most cases have."""
    kind = int(np.bincount(found.unit).argmax())
    single = found.single.sum() * 2 > len(found.single)
    by_kind: dict[int, Unit] = {PAIR: "pair", DOCUMENT: "document"}
    return "iteration" if single else by_kind.get(kind, "round")


def _judge(measured: MeasuredMetric, found: Shift, policy: Policy) -> tuple[Verdict, str]:
    """Return the verdict and its reason. *Same* requires the 95 % interval: there is one such
    number, and it gates."""
    limit = math.log1p(policy.threshold(measured.metric.name))
    if _is_raw(measured):
        move = raw_moves(np.array([found.shift]), np.array([limit]))[0]
        return words(measured.metric)[move], "summaries only, no samples: the raw ratio counts"
    known = np.isfinite(measured.estimates.shift)
    unit = common_unit(measured.estimates[known])
    if found.low is None or found.high is None or found.p is None:
        return Verdict.UNCLEAR, f"a single {_noun(unit)} a side has no interval"
    least = limit
    if measured.resolution is not None:  # of the clock, in the middle case
        least = max(limit, float(np.median(measured.resolution[known])))
    beyond = max(found.low, -found.high) >= HALF * limit
    if found.p <= policy.alpha_ratio and abs(found.shift) >= least and beyond:
        move = 1 if found.shift > 0 else -1
        return words(measured.metric)[move], "environment, or a change of the whole build"
    if found.low >= -limit and found.high <= limit:
        return Verdict.SAME, "within the threshold"
    return Verdict.UNCLEAR, f"its interval over {_noun(unit)}s reaches across the threshold"


def _noun(unit: Unit) -> str:
    return "round" if unit == "iteration" else unit


# What a comparison could have seen: the smallest slow-down of a case that would have been called
# with a probability of 90 %, by the rules of the verdict. A case without an
# interval sees none, however large.

BLIND_RATIO = 1.5
"""The slow-down that one case in ten may hide; if more could, the comparison is undecided."""
BEYOND = 1.25
"""The slow-down, over that of a large threshold, which one case in ten may hide."""
MOST_SHARE = 0.9
SILENT = frozenset({Verdict.SAME, Verdict.UNCLEAR, Verdict.UNMEASURED})


def sensitivities(cases: Sequence[CaseComparison], gate: str | None) -> Iterator[Sensitivity]:
    """Yield a sensitivity for each other side that has measured cases, whatever metric decides each
    of them; `gate` is that of most."""
    labels = dict.fromkeys(case.other_label for case in cases)
    for label in labels if gate is not None else ():
        of_side = [case for case in cases if case.other_label == label and case.gate is not None]
        if not of_side:
            continue
        sizes, hidden, limit = [], [], BLIND_RATIO
        for case in of_side:
            gate_metric = case.gate_metric
            seen = None if gate_metric is None else gate_metric.seen_ratio
            sizes.append(math.inf if seen is None else seen)
            if gate_metric is not None:
                limit = max(limit, BEYOND * (1 + gate_metric.threshold_ratio))
            if case.verdict in SILENT:  # a verdict hides nothing, and opens no other case's eyes
                hidden.append(sizes[-1])
        most = _reached(hidden, MOST_SHARE) if hidden else 1.0
        blind = most is None or most > limit
        unseen = sum(size > limit for size in hidden) if blind else 0
        yield Sensitivity(
            other_label=label,
            metric=str(gate),
            cases=len(sizes),
            median_ratio=_reached(sizes, 0.5),
            p90_ratio=_reached(sizes, MOST_SHARE),
            blind=blind,
            sentence=_sentence(of_side, unseen, most, limit),
        )


def _reached(sizes: Sequence[float], share: float) -> float | None:
    """Return the size from which on this share of the cases would be called; None if no size is."""
    found = sorted(sizes)[min(math.ceil(share * len(sizes)), len(sizes)) - 1]
    return found if math.isfinite(found) else None


def _sentence(
    cases: Sequence[CaseComparison], unseen: int, most: float | None, limit: float
) -> str:
    """`unseen`: cases that could hide a slow-down by `limit`, where these are too many;
    `most`: the slow-down that nine of ten cases would have shown."""
    raw = [
        case
        for case in cases
        if case.gate_metric is not None
        and case.gate_metric.unit == "summary"
        and METRICS[case.gate_metric.metric].gates
    ]
    if 2 * len(raw) > len(cases):
        return "summaries without samples do not tell which slow-downs would have been seen"
    if unseen:
        share = f" in {unseen} of {len(cases)} cases" if len(cases) > 1 else ""
        size = share_text(limit - 1)
        return f"a slow-down of {size} could have passed unseen{share}"
    if most is None or most <= 1:
        return "every case shows a change"
    return f"slow-downs of {size_text(most)} would have been seen in 9 of 10 cases"
