"""A measured metric of all cases to verdicts: one structured array, a row for each case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from bench_schema.units import change_words, interval_words, is_too_noisy, share_text

from bench_compare.comparison.judging.estimates import ExactMeasured, MeasuredMetric
from bench_compare.comparison.judging.moves import (
    LEAST_UNITS,
    Move,
    exact_move,
    judge,
    raw_moves,
    seen_shift,
    words,
)
from bench_compare.model import NEWS, RANK, MetricComparison, Verdict
from bench_compare.statistics.intervals import DOCUMENT, PAIR, ROUND, rounds_needed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.metrics import Metric
    from bench_compare.model import Unit
    from bench_compare.policy import Policy
    from bench_compare.statistics.arrays import Array

ONLY_ONE = "only one side has it"


class Evidence(NamedTuple):
    """The facts of a sentence; ratios are other / base."""

    move: int
    ratio: float
    low: float | None
    high: float | None
    q: float | None
    threshold_ratio: float
    units: tuple[int, int]
    lacks: Unit
    """The unit of `needed`."""
    needed: int | None
    tick: bool = False
    """The clock does not tell the two apart."""
    other_unit: bool = False
    """The sides ran on different units of hardware."""
    one_visit: bool = False
    """One document a side."""
    looks: int = 1
    """Number of looks that share the error of the interval."""
    unit: Unit = "round"
    """The unit of `units`."""
    is_significant: bool = False
    """After control of false discoveries."""


def reason(evidence: Evidence) -> str:
    """Return the reason why the move is what it is, in one sentence."""
    change = change_words(evidence.ratio)
    if evidence.low is None or evidence.high is None:
        why = "too few samples to know their spread"
        if evidence.lacks == "summary":
            why = "summary only, no samples"
        if evidence.move == Move.UNCLEAR:
            return f"{change}, and no interval: {why}"
        place = "within" if evidence.move == Move.SAME else "beyond"
        threshold = share_text(evidence.threshold_ratio)
        return f"{change} ({why}: the raw ratio counts): {place} the threshold of {threshold}"
    over = "" if evidence.looks == 1 else f" over {evidence.looks} looks"
    interval = f"95 % interval{over} {interval_words(evidence.low, evidence.high)}"
    threshold = share_text(evidence.threshold_ratio)
    if is_too_noisy(evidence.low, evidence.high):
        text = f"too noisy to tell: the 95 % interval reaches beyond ×2{_remedy(evidence)}"
    elif evidence.move == Move.SAME:
        text = f"{change} ({interval}): within the threshold of {threshold}"
    elif evidence.move == Move.UNCLEAR and evidence.tick:
        cause = "another process" if evidence.unit == "iteration" else "the clock's own step"
        text = f"{change} ({interval}): no more than {cause} can make"
    elif evidence.move == Move.UNCLEAR:
        text = f"{change} ({interval}): {_doubt(evidence, threshold)}{_remedy(evidence)}"
    else:
        text = f"{change} ({interval}): beyond the threshold of {threshold}"
    return text + _provisional(evidence)


def _remedy(evidence: Evidence) -> str:
    """Return the words on the rounds or documents that would decide an unclear case."""
    noun = "document" if evidence.lacks == "document" else "round"
    if evidence.needed is None:
        return f"; more {noun}s would hardly decide it"
    return f"; needs about {evidence.needed} more {noun}{'' if evidence.needed == 1 else 's'}"


def _doubt(evidence: Evidence, threshold: str) -> str:
    low, high, edge = evidence.low, evidence.high, 1 + evidence.threshold_ratio
    if low is not None and high is not None and (low >= edge or high <= 1 / edge):
        if evidence.is_significant and evidence.looks > 1:
            return f"beyond {threshold}, but not surely enough for a run that stops when decided"
        if evidence.is_significant:
            return f"beyond {threshold}, but not clearly beyond what all cases here share"
        q = "" if evidence.q is None else f", q {evidence.q:.2g}"
        return f"beyond {threshold} alone, not significant after correction for many comparisons{q}"
    return f"neither beyond nor within {threshold}"


def _provisional(evidence: Evidence) -> str:
    if evidence.other_unit:
        return (
            "; provisional, base and other ran on different units of hardware, and units of one "
            "kind differ by up to a fifth"
        )
    if min(evidence.units) >= LEAST_UNITS:
        one_run = "; one run per side, run-to-run variation is not included"
        return one_run if evidence.one_visit else ""
    noun = evidence.unit if evidence.unit in ("document", "pair") else "round"
    if min(evidence.units) == 1:
        what = "a change from a difference between runs"
        return f"; provisional, a single {noun} a side cannot tell {what}"
    return f"; provisional, two {noun}s a side say little of their spread"


def exact_reason(base: float, other: float, threshold: float) -> str:
    """Say how two numbers that do not scatter differ."""
    if base == other:
        return "equal"
    if base == 0 or not (math.isfinite(base) and math.isfinite(other)):
        return f"from {base:g} to {other:g}"
    within = exact_move(base, other, threshold) == Move.SAME
    place = "within" if within else "beyond"
    return f"{change_words(other / base)}: {place} the threshold of {share_text(threshold)}"


UNITS: tuple[Unit, ...] = ("pair", "document", "round", "iteration", "summary")
NUMBERS = (
    *("base", "other", "ratio", "ci_low", "ci_high", "p", "q"),
    *("threshold_ratio", "rounds_needed", "seen_ratio"),
)
JUDGED = np.dtype(
    [
        *((name, np.float64) for name in NUMBERS),  # NaN: not known
        ("base_rounds", np.int32),
        ("other_rounds", np.int32),
        ("unit", np.int8),  # place in `UNITS`
        ("needed_unit", np.int8),
        ("verdict", np.int8),  # place in `NEWS`
        ("provisional", bool),
        ("move", np.int8),
        ("clock", bool),  # the time moved, and the cycles did not
        ("tick", bool),  # the clock does not tell the sides apart
        ("other_unit", bool),
        ("one_visit", bool),
        ("looks", np.int32),
    ]
)
"""Fields as in `MetricComparison`, and those of which reasons are made."""


class JudgedMetric:
    """One metric of all cases."""

    def __init__(
        self, metric: Metric, table: np.ndarray, alpha_ratio: float, where: Mapping[int, str]
    ) -> None:
        """`where`: of cases that rest on a document that was left out, which it is and why."""
        self.metric, self.table = metric, table
        self._alpha_ratio, self._where = alpha_ratio, where
        held = ~(np.isnan(table["base"]) & np.isnan(table["other"]))
        self.held: list[bool] = held.tolist()
        """True if a side of the case has the metric."""
        self.decides: list[bool] = np.isfinite(table["ratio"]).tolist()
        """True if both sides have it, so that there is a ratio."""

    def verdict(self, row: int) -> Verdict:
        return NEWS[int(self.table["verdict"][row])]

    def __getitem__(self, row: int) -> MetricComparison:
        """Make the values of a case that has the metric."""
        found = self.table[row].tolist()
        numbers = [None if value != value else value for value in found[: len(NUMBERS)]]
        base, other, ratio, low, high, p, q, threshold, needed, seen = numbers
        left, right, unit, needed_unit, verdict, provisional = found[len(NUMBERS) :][:6]
        return MetricComparison(
            metric=self.metric.name,
            base=base,
            other=other,
            ratio=ratio,
            ci_low=low,
            ci_high=high,
            p=p,
            q=q,
            verdict=NEWS[verdict],
            make_reason=partial(self.reason, row),
            threshold_ratio=threshold or 0.0,
            base_rounds=left,
            other_rounds=right,
            unit=UNITS[unit],
            provisional=provisional,
            rounds_needed=None if needed is None else int(needed),
            needed_unit=UNITS[needed_unit],
            seen_ratio=seen,
        )

    def reason(self, row: int) -> str:
        """Say why the verdict of a case is what it is."""
        one, entry = self[row], self.table[row]
        if one.base is None or one.other is None:
            return ONLY_ONE
        if np.isnan(self._alpha_ratio):
            return exact_reason(one.base, one.other, one.threshold_ratio)
        if one.ratio is None:
            return ONLY_ONE
        evidence = Evidence(
            move=int(entry["move"]),
            ratio=one.ratio,
            low=one.ci_low,
            high=one.ci_high,
            q=one.q,
            threshold_ratio=one.threshold_ratio,
            units=(one.base_rounds, one.other_rounds),
            lacks=one.needed_unit,
            needed=one.rounds_needed,
            tick=bool(entry["tick"]),
            other_unit=bool(entry["other_unit"]),
            one_visit=bool(entry["one_visit"]),
            looks=int(entry["looks"]),
            unit=one.unit,
            is_significant=one.q is not None and one.q <= self._alpha_ratio,
        )
        text = reason(evidence)
        if row in self._where:
            text = f"{self._where[row]}: {text}"
        return f"{text}; cycles did not move, the clock did" if entry["clock"] else text


class CaseMetrics(Mapping[str, MetricComparison]):
    """The metrics of a case, by their names; made when they are looked at."""

    __slots__ = ("_judged", "_row")

    def __init__(self, judged: Mapping[str, JudgedMetric], row: int) -> None:
        self._judged, self._row = judged, row

    def __contains__(self, name: object) -> bool:
        return name in self._judged and self._judged[str(name)].held[self._row]

    def __getitem__(self, name: str) -> MetricComparison:
        if name not in self:
            raise KeyError(name)
        return self._judged[name][self._row]

    def __iter__(self) -> Iterator[str]:
        return (name for name, one in self._judged.items() if one.held[self._row])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Tested(NamedTuple):
    """After false-discovery control."""

    q: Array
    tests: int
    """Number of cases that were tested, over all sides."""


def judged(
    measured: MeasuredMetric | ExactMeasured, tested: Tested, names: list[str], policy: Policy
) -> JudgedMetric:
    """Judge a metric of all cases; `names` are those of the graphs, for thresholds."""
    thresholds = policy.thresholds(measured.metric.name, names)
    if isinstance(measured, ExactMeasured):
        return JudgedMetric(measured.metric, _exact(measured, thresholds), np.nan, {})
    table = _scattering(measured, tested, np.array(thresholds, float), policy.alpha_ratio)
    return JudgedMetric(measured.metric, table, policy.alpha_ratio, measured.where)


def _finite(values: Array) -> Array:
    """Replace values that are not finite by NaN."""
    return np.where(np.isfinite(values), values, np.nan)


def _exp(values: Array) -> Array:
    with np.errstate(over="ignore"):  # beyond every number is beyond every ratio
        return _finite(np.exp(values))


def _scattering(
    measured: MeasuredMetric, tested: Tested, thresholds: Array, alpha_ratio: float
) -> np.ndarray:
    found, limit, resolution = measured.estimates, np.log1p(thresholds), measured.resolution
    moves = judge(found, tested.q, limit, alpha_ratio, resolution)
    clock = np.zeros(len(moves), bool)  # time moved while cycles are proven the same
    if measured.cycles is not None:
        low, high = measured.cycles
        with np.errstate(invalid="ignore"):
            clock = np.isin(moves, (Move.UP, Move.DOWN)) & (low >= -limit) & (high <= limit)
    seen = np.full_like(limit, np.nan)
    if measured.metric.gates:
        seen = seen_shift(found, tested.tests, limit, alpha_ratio, resolution)
        seen = np.where(moves == Move.UNKNOWN, limit, seen)  # by the threshold alone
    raw = measured.other_level - measured.base_level
    is_raw = (moves == Move.UNKNOWN) & np.isfinite(raw)
    moves = np.where(is_raw, raw_moves(raw, limit), moves)

    ratio = _exp(np.where(np.isfinite(found.shift), found.shift, raw))
    decided = np.isfinite(ratio)
    table = np.zeros(len(moves), JUDGED)
    of_decided = {
        "ratio": ratio,
        "ci_low": _exp(found.low),
        "ci_high": _exp(found.high),
        "p": _finite(found.p),
        "q": _finite(tested.q),
        "seen_ratio": _exp(seen),
    }
    for name, values in of_decided.items():
        table[name] = np.where(decided, values, np.nan)
    table["base"], table["other"] = _exp(measured.base_level), _exp(measured.other_level)
    table["threshold_ratio"], table["move"] = thresholds, moves
    verdicts = {move: RANK[verdict] for move, verdict in words(measured.metric).items()}
    verdict = np.select([moves == move for move in verdicts], list(verdicts.values()))
    verdict = np.where(clock, RANK[Verdict.CLOCK], verdict)
    table["verdict"] = np.where(decided, verdict, RANK[Verdict.UNMEASURED])
    table["clock"] = clock

    fewer = np.minimum(found.base_units, found.other_units)
    alone = np.maximum(found.base_units, found.other_units) == 1
    unit = np.select(
        [~decided | (fewer == 0), found.unit == PAIR, found.unit == DOCUMENT, alone],
        [UNITS.index(one) for one in ("summary", "pair", "document", "iteration")],
        UNITS.index("round"),
    )
    table["unit"] = unit
    by_document = decided & (found.documents > 0)
    table["needed_unit"] = np.where(by_document, UNITS.index("document"), unit)
    for side, count in (("base", found.base_units), ("other", found.other_units)):
        table[f"{side}_rounds"] = np.where(decided, count, np.isfinite(table[side]))
    table["provisional"] = decided & ((fewer < LEAST_UNITS) | measured.other_unit)
    needed = _finite(rounds_needed(found, limit))
    asked = decided & (needed > 0) & np.isin(moves, (Move.UNCLEAR, Move.UNKNOWN))
    table["rounds_needed"] = np.where(asked, needed, np.nan)
    if resolution is not None:
        with np.errstate(invalid="ignore"):
            size = np.abs(found.shift)
            table["tick"] = (size >= limit) & (size < resolution)
    table["other_unit"], table["looks"] = measured.other_unit, found.looks
    single = (found.unit == ROUND) & (found.documents == 0) & found.one_run
    table["one_visit"] = single & measured.apart
    return table


def _exact(measured: ExactMeasured, thresholds: Sequence[float]) -> np.ndarray:
    base, other = measured.base, measured.other
    table = np.zeros(len(base), JUDGED)
    for name in NUMBERS:
        table[name] = np.nan
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        table["ratio"] = _finite(other / base)
    table["base"], table["other"], table["threshold_ratio"] = base, other, thresholds
    table["base_rounds"], table["other_rounds"] = ~np.isnan(base), ~np.isnan(other)
    table["unit"] = table["needed_unit"] = UNITS.index("summary")
    by_move = words(measured.metric)
    table["verdict"] = RANK[Verdict.UNMEASURED]
    for row in np.flatnonzero(~np.isnan(base) & ~np.isnan(other)).tolist():
        move = exact_move(float(base[row]), float(other[row]), thresholds[row])
        table["verdict"][row] = RANK[by_move[move]]
    return table
