"""The pure core: sides and a policy in, a `Comparison` out. No I/O, no clock, no randomness.

`measure` makes units of the documents, `judge` makes verdicts of the units, `reasons` makes words.
What became of a case apart from its numbers is in `outcomes`, and what differs around it in
`circumstances`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.identity import is_tuned

from bench_compare.comparison import judge
from bench_compare.comparison.circumstances.clocks import systematic, tick_ns
from bench_compare.comparison.circumstances.notes import (
    case_notes,
    disturbed_warnings,
    sample_notes,
)
from bench_compare.comparison.circumstances.pairs import pair_differences
from bench_compare.comparison.circumstances.settings import differences, stopping_warnings
from bench_compare.comparison.measure import EXACT, SERIES, measure, samples_of
from bench_compare.comparison.news import (
    GOOD,
    WORSENED,
    bad_limits,
    bad_news,
    beside_warnings,
    problems,
    warnings,
)
from bench_compare.comparison.outcomes import changes, faults
from bench_compare.comparison.reasons import (
    MOST_LOG,
    cause_of,
    metric_reason,
    movement,
    sensitivity,
)
from bench_compare.input.align import align, engines_compared
from bench_compare.metrics import GATES, METRICS, PerRound, Rate, Sampled, learn
from bench_compare.model import (
    NEWS,
    RANK,
    CaseComparison,
    Comparison,
    MetricComparison,
    SuiteNumber,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_compare.comparison.calibration import Calibration
    from bench_compare.comparison.judge import Judged
    from bench_compare.comparison.measure import Array, Ints, Measured
    from bench_compare.input.align import Pair
    from bench_compare.model import (
        CaseSide,
        Change,
        CommonMovement,
        Note,
        Scope,
        Sensitivity,
        SettingDifference,
        Side,
        SideName,
    )
    from bench_compare.policy import Policy

TICK_BELOW_NS = 50_000
"""Longest time of which the clock's step may matter."""
TICKS = 1.5
"""Steps of the clock that a change must exceed: each side may be half a step off, and a margin of
half a step."""
FLAGS = ("noise_timeout", "noisy", "throttled", "capped")
"""Words of other tools' files against a measurement: such a case is unclear at best."""


@dataclass(frozen=True, eq=False)
class Match:
    """Base against one other side."""

    sides: tuple[Side, Side]
    pairs: Sequence[Pair]
    measured: Measured
    judged: Mapping[str, Judged]
    left_out: Mapping[str, Any]
    """Cases of which what base lacks decides (`judge.with_left_out`)."""
    flags: Mapping[int, tuple[str, ...]]
    """Words of `FLAGS` for a case."""

    @property
    def other(self) -> Side:
        return self.sides[1]


def compare(
    base: Side, others: Sequence[Side], policy: Policy, calibration: Calibration | None = None
) -> Comparison:
    """Hold every other side against base. False discoveries are controlled over all of them;
    `calibration` tells what single documents cannot know of themselves."""
    for side in (base, *others):
        for source in side.sources:
            learn(source.document.cases)
    wanted = policy.metrics
    chosen = [name for name in METRICS if wanted is None or name in wanted]
    matches = [_match((base, other), chosen, policy, calibration) for other in others]
    tables = _tables(matches, policy)
    cases = _cases(matches, tables, chosen)
    gates = Counter(case.gate for case in cases if case.gate is not None)
    gate = gates.most_common(1)[0][0] if gates else None  # of most cases
    moved = [one for match in matches for one in _movements(base, match, cases, policy)]
    unlike = [one for match in matches for one in _differences(base, match, policy)]
    unlike.sort(key=lambda one: not one.must_agree)
    seen = tuple(_sensitivities(cases))
    bad = (
        *bad_news(cases, [one for one in moved if one.metric in gates], policy),
        *bad_limits(unlike, policy),
    )
    verdicts = Counter(case.verdict for case in cases)
    # A case that is checked less has a time all the same, and counts twice where that is worse.
    lost = [case.gate_metric for case in cases if case.verdict is Verdict.LOST]
    verdicts.update(one.verdict for one in lost if one is not None and one.verdict in WORSENED)
    used = {name for match in matches for name in match.judged}
    return Comparison(
        base=base,
        others=tuple(others),
        gate=gate,
        metrics=tuple(name for name in chosen if name in used),
        differences=tuple(unlike),
        cases=tuple(cases),
        suite=tuple(number for match in matches for number in _suite(match)),
        movements=tuple(moved),
        counts={verdict: verdicts[verdict] for verdict in Verdict},
        bad_news=bad,
        problems=problems(cases, unlike, seen, bad, policy),
        warnings=(
            *warnings(base, others, cases, [e for m in matches for e in _unasked(base, m)]),
            *(text for match in matches for text in _place_warnings(base, match)),
            *stopping_warnings((base, *others), policy),
            *disturbed_warnings((base, *others)),
            *beside_warnings(cases, policy),
            *(text for match in matches for text in _uncalibrated(match, calibration, gate)),
        ),
        sensitivity=seen,
        policy=_policy_text(policy, chosen),
        threshold_ratio=None if gate is None or policy.rules else policy.threshold(gate),
    )


# Documents → judged metrics.


def _match(
    sides: tuple[Side, Side],
    chosen: Sequence[str],
    policy: Policy,
    calibration: Calibration | None,
) -> Match:
    pairs = align(*sides)
    measured = measure(pairs, sides)
    found: dict[str, Judged] = {}
    left_out: dict[str, Any] = {}
    gates = []  # measured in any case: rates rest on them
    for name in dict.fromkeys((*GATES, *chosen)):
        reading = METRICS[name].reading
        if isinstance(reading, Sampled | PerRound):
            if not measured.has(name):
                continue
            extra = None
            if calibration is not None and isinstance(reading, Sampled):
                extra = calibration.between(measured.cases, sides, name)
            one = judge.scattering(measured, name, policy, extra)
            one = replace(one, least=_least(measured, one, policy, sides))
            one, left_out[name] = judge.with_left_out(one, measured)
            found[name] = one
            gates += [one] if name in GATES else []
        elif isinstance(reading, Rate):
            rate = judge.rate_of(METRICS[name], gates, _work(reading, measured))
            if rate is not None:
                found[name] = rate
        elif name in EXACT and name in measured.exact:
            found[name] = judge.exact(METRICS[name], measured.exact[name])
    kept = {name: found[name] for name in chosen if name in found}
    return Match(sides, pairs, measured, kept, left_out, dict(_flags(measured)))


def _least(measured: Measured, one: Judged, policy: Policy, sides: tuple[Side, Side]) -> Array:
    """Return the logarithm of the smallest change that the way of measuring can show: a step of the
    clock, the bound of a device time, what another process of another tool makes."""
    name, found = one.metric.name, one.found
    least = np.zeros(len(found))
    if name not in SERIES:
        return least
    pairs = [*zip(*measured.cases, strict=True)]
    if any(source.imported for side in sides for source in side.sources):
        alone = [all(side is not None and _is_one_process(side) for side in pair) for pair in pairs]
        least[alone] = np.log1p(judge.OF_PROCESS[judge.on(name)])
    limit = np.log1p(min((policy.threshold(name), *(r.threshold_ratio for r in policy.rules))))
    level = (found.base_log + found.other_log) / 2
    for row in np.flatnonzero(np.abs(np.nan_to_num(found.shift)) >= limit).tolist():
        base, other = pairs[row]
        if base is None or other is None:
            continue
        if name == "device_ns":
            least[row] = max(least[row], systematic(base, other, float(level[row])))
        if level[row] < math.log(TICK_BELOW_NS):
            ticks = [tick_ns(samples_of(side, SERIES[name])) for side in (base, other)]
            least[row] = max(least[row], math.log1p(TICKS * max(ticks) / math.exp(level[row])))
    return least


def _is_one_process(side: CaseSide) -> bool:
    """Return True for a case of one file of another tool, measured in one process."""
    return (
        len(side.cases) == 1
        and len(side.cases[0].rounds) <= 1
        and "imported" in side.cases[0].notes
    )


def _work(reading: Rate, measured: Measured) -> tuple[Array, Array]:
    """Return the logarithm of the work of each case, base and other."""
    found = []
    for held in measured.cases:
        work = [None if side is None else reading.work(side.cases[0]) for side in held]
        found.append(np.array([math.log(done) if done else math.nan for done in work]))
    return found[0], found[1]


def _flags(measured: Measured) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield what other tools' files say against a comparison of a case: their words, and two ways
    of timing."""
    for row, pair in enumerate(zip(*measured.cases, strict=True)):
        cases = [case for side in pair if side for case in side.cases]
        notes = {note for case in cases for note in case.notes}
        said = tuple(word for word in FLAGS if word in notes)
        timed = sorted({case.plan["timing"] for case in cases if "timing" in case.plan})
        if len(timed) > 1:
            said = (*said, f"timed by {' and by '.join(timed)}")
        if said:
            yield row, said


def _tables(matches: Sequence[Match], policy: Policy) -> list[dict[str, Any]]:
    """Return the rows of `judge.JUDGED` of each metric of each match. False discoveries of a metric
    are controlled over the cases of all matches together."""
    found: list[dict[str, Any]] = [{} for _ in matches]
    names = [[pair.side.name for pair in match.pairs] for match in matches]
    for name in dict.fromkeys(name for match in matches for name in match.judged):
        mine = [n for n, match in enumerate(matches) if name in match.judged]
        ones = [matches[n].judged[name] for n in mine]
        q = judge.false_discovery(np.concatenate([one.found.p for one in ones]))
        tests = int(np.isfinite(q).sum())
        parts = np.split(q, np.cumsum([len(one.found) for one in ones])[:-1])
        for n, one, part in zip(mine, ones, parts, strict=True):
            thresholds = np.array(policy.thresholds(name, names[n]), float)
            match = matches[n]
            table = judge.table(one, part, tests, thresholds, match.measured)
            if name in match.left_out:
                table["left_out"] = match.left_out[name]
                table["provisional"] |= table["left_out"] > 0
            if name in SERIES:
                _with_clock(match, one, table, thresholds)
                of_moves = np.isin(table["verdict"], [RANK[v] for v in CALLED])
                for row in (row for row in match.flags if of_moves[row]):
                    table["verdict"][row] = RANK[Verdict.UNCLEAR]
            found[n][name] = table
    return found


CALLED = (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME)


def _with_clock(match: Match, one: Judged, table: Any, thresholds: Array) -> None:
    """Mark cases whose time moved while the cycles did not; where each round has a clock."""
    moved = np.isin(table["verdict"], [RANK[Verdict.SLOWER], RANK[Verdict.FASTER]])
    clocks = match.measured.units["clock_mhz"]
    if not moved.any() or not np.isfinite(clocks).any():
        return
    found, limit = judge.cycles(match.measured, one), np.log1p(thresholds)
    with np.errstate(invalid="ignore"):
        still = moved & (found.same_low >= -limit) & (found.same_high <= limit)
    table["clock"] = still
    table["verdict"][still] = RANK[Verdict.CLOCK]


# Cases.


class CaseMetrics(Mapping[str, MetricComparison]):
    """The metrics of a case, by their names; made when they are looked at."""

    __slots__ = ("_made", "_match", "_row", "_tables")

    def __init__(self, match: Match, tables: Mapping[str, Any], row: int) -> None:
        self._match, self._tables, self._row = match, tables, row
        self._made: dict[str, MetricComparison] = {}

    def __contains__(self, name: object) -> bool:
        if name not in self._tables:
            return False
        entry = self._tables[str(name)][self._row]
        return not (math.isnan(entry["base"]) and math.isnan(entry["other"]))

    def __getitem__(self, name: str) -> MetricComparison:
        if name not in self._made:
            if name not in self:
                raise KeyError(name)
            flags = self._match.flags.get(self._row, ())
            self._made[name] = _metric(name, self._tables[name][self._row], flags)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._tables if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _metric(name: str, entry: Any, flags: tuple[str, ...]) -> MetricComparison:
    told = entry.tolist()
    numbers = [None if value != value else value for value in told[: len(judge.NUMBERS)]]
    base, other, ratio, low, high, p, q, threshold, needed, seen = numbers
    left, right, unit, needed_unit, verdict, provisional = told[len(judge.NUMBERS) :][:6]
    made: MetricComparison

    def reason() -> str:
        return metric_reason(made, entry, flags)

    made = MetricComparison(
        metric=name,
        base=base,
        other=other,
        ratio=ratio,
        ci_low=low,
        ci_high=high,
        p=p,
        q=q,
        verdict=NEWS[verdict],
        make_reason=reason,
        threshold_ratio=threshold or 0.0,
        base_rounds=left,
        other_rounds=right,
        unit=judge.UNITS[unit],
        provisional=provisional,
        rounds_needed=None if needed is None else int(needed),
        needed_unit=judge.UNITS[needed_unit],
        seen_ratio=seen,
    )
    return made


def _cases(
    matches: Sequence[Match], tables: Sequence[Mapping[str, Any]], chosen: Sequence[str]
) -> list[CaseComparison]:
    names = [name for name in chosen if name in GATES] or list(chosen)
    cases: list[CaseComparison] = []
    for match, of_match in zip(matches, tables, strict=True):
        decides = {name: ~np.isnan(of_match[name]["ratio"]) for name in names if name in of_match}
        for row, pair in enumerate(match.pairs):
            gate = next((name for name, known in decides.items() if known[row]), None)
            became = _changes(pair)
            metrics = CaseMetrics(match, of_match, row)
            moved = None if gate is None else NEWS[int(of_match[gate]["verdict"][row])]
            verdict, make_reason = _headline(
                pair, moved, became, partial(_gate_reason, metrics, gate)
            )
            last = pair.side.cases[-1]
            cases.append(
                CaseComparison(
                    id=f"c{len(cases) + 1:04d}",
                    name=pair.name,
                    fingerprint=pair.fingerprint,
                    family=last.graph.family,
                    data_type=last.graph.data_type,
                    engine=pair.engine,
                    variant={} if is_tuned(last) else last.variant,
                    other_label=match.other.label,
                    base=pair.base,
                    other=pair.other,
                    verdict=verdict,
                    make_reason=make_reason,
                    gate=gate,
                    metrics=metrics,
                    changes=became,
                    make_notes=partial(_notes, match, row, gate),
                )
            )
    return cases


def _changes(pair: Pair) -> tuple[Change, ...]:
    if pair.unlike is None:
        return changes(pair.base, pair.other, awaited=pair.awaited)
    return () if pair.other is None else tuple(faults(pair.other, "another meaning in other"))


def _headline(
    pair: Pair,
    moved: Verdict | None,
    became: Sequence[Change],
    make_reason: Callable[[], str],
) -> tuple[Verdict, Callable[[], str]]:
    """Return the headline: bad changes first, then a slow-down, then good changes, then the verdict
    of the metric that decides. The reason is a function, as few are used."""
    if pair.unlike is not None:
        return Verdict.INCOMPARABLE, partial(str, pair.unlike)
    if became and (became[0].verdict not in GOOD or moved is None):
        return became[0].verdict, partial(str, became[0].reason)
    if moved is None:
        return Verdict.UNMEASURED, partial(str, "no metric that decides was measured on both sides")
    if became and moved not in WORSENED:
        return became[0].verdict, partial(str, became[0].reason)
    also = [f"{change.verdict}: {change.reason}" for change in became]
    return moved, partial(_joined, make_reason, also)


def _gate_reason(metrics: CaseMetrics, gate: str | None) -> str:
    return "" if gate is None else metrics[gate].reason


def _joined(make_reason: Callable[[], str], also: Sequence[str]) -> str:
    return "; ".join((make_reason(), *also))


def _notes(match: Match, row: int, gate: str | None) -> tuple[Note, ...]:
    pair = match.pairs[row]
    found: list[Note] = []
    names: tuple[SideName, SideName] = ("base", "other")
    for side, owner, name in zip((pair.base, pair.other), match.sides, names, strict=True):
        if side is not None:
            found += case_notes(side, owner, name)
            if gate in SERIES:
                found += sample_notes(side, SERIES[gate], name)
    return tuple(found)


# All cases together.


def _suite(match: Match) -> Iterator[SuiteNumber]:
    """Yield the geometric mean of the ratios of each metric over all matched cases; of metrics that
    gate also by family, by engine, and weighted by time."""
    families: dict[str, list[int]] = defaultdict(list)
    engines: dict[str, list[int]] = defaultdict(list)
    for row, pair in enumerate(match.pairs):
        families[pair.side.cases[-1].graph.family].append(row)
        engines[pair.side.engine].append(row)
    groups: list[tuple[Scope, str, list[int]]] = [
        *(("family", name, rows) for name, rows in families.items()),
        *(("engine", name, rows) for name, rows in engines.items()),
    ]
    for name, one in match.judged.items():
        if one.rows is None or one.offset is not None:
            continue
        matched = np.flatnonzero(np.isfinite(one.found.shift))
        if not matched.size:
            continue
        yield _suite_number(match.other, one, ("all", "all"), matched)
        if METRICS[name].gates:
            times = np.exp(one.found.base_log[matched])
            yield _suite_number(match.other, one, ("weighted", "weighted by time"), matched, times)
            for scope, title, rows in groups:
                inside = np.intersect1d(rows, matched, assume_unique=True)
                if inside.size:
                    yield _suite_number(match.other, one, (scope, title), inside)


def _suite_number(
    other: Side,
    one: Judged,
    scope: tuple[Scope, str],
    cases: Ints,
    weights: Array | None = None,
) -> SuiteNumber:
    found = judge.suite(one, cases, weights)
    return SuiteNumber(
        other_label=other.label,
        metric=one.metric.name,
        scope=scope[0],
        name=scope[1],
        ratio=math.exp(found.shift),
        ci_low=None if found.low is None else math.exp(min(found.low, MOST_LOG)),
        ci_high=None if found.high is None else math.exp(min(found.high, MOST_LOG)),
        count=len(cases),
        rounds=found.units,
        unit=judge.UNITS[int(np.bincount(one.found.unit[cases]).argmax())],
    )


def _movements(
    base: Side, match: Match, cases: Sequence[CaseComparison], policy: Policy
) -> Iterator[CommonMovement]:
    """Yield what most cases of a side do together, for each metric that can decide."""
    label, of_unit = match.other.label, match.other.is_unit
    mine = [case for case in cases if of_unit and case.other_label == label]
    for name, one in match.judged.items():
        matched = np.flatnonzero(np.isfinite(one.found.shift))
        if METRICS[name].gates and matched.size:
            found = judge.suite(one, matched, middle=True)
            is_raw = bool(np.isfinite(one.noise[matched]).all())
            verdict = judge.common_verdict(METRICS[name], found, policy.threshold(name), is_raw)
            verdicts = [c.metrics[name].verdict for c in mine if name in c.metrics]
            cause = cause_of(base, match.other, METRICS[name], verdict, verdicts)
            yield movement(match.other.label, METRICS[name], found, verdict, (len(matched), cause))


def _sensitivities(cases: Sequence[CaseComparison]) -> Iterator[Sensitivity]:
    """Yield for each side what its cases could have shown, each by the metric that decides it."""
    for label in dict.fromkeys(case.other_label for case in cases):
        gates = [m for c in cases if c.other_label == label and (m := c.gate_metric) is not None]
        if gates and all(METRICS[one.metric].gates for one in gates):
            most = Counter(one.metric for one in gates).most_common(1)[0][0]
            yield sensitivity(label, most, gates)


def _differences(base: Side, match: Match, policy: Policy) -> Iterator[SettingDifference]:
    found = [*differences(base, match.other), *pair_differences(match.pairs, base, match.other)]
    for one in found:
        allowed = policy.allows_word(one.name, Verdict.INCOMPARABLE)
        yield replace(one, allowed=allowed) if allowed else one


# Sentences to read first.


def _unasked(base: Side, match: Match) -> list[tuple[str, str]]:
    """Return engines that are compared, without a grouping by engine, because documents differ."""
    paths = {source.path for source in base.sources}
    asked = paths & {source.path for source in match.other.sources}
    return [] if asked else engines_compared(match.pairs)


def _place_warnings(base: Side, match: Match) -> Iterator[str]:
    """Yield a sentence if cases of base and other ran on no common unit of hardware, and one for
    each side with documents on units that the other did not use."""
    count = int(match.measured.other_place.sum())
    if count:
        yield (
            f"{match.other.label}: {count} {'case' if count == 1 else 'cases'} ran on another "
            "unit of hardware than in base (device or host): provisional"
        )
    units, labels = match.measured.units, (base.label, match.other.label)
    places = [set(units["place"][units["side"] == n].tolist()) for n in (0, 1)]
    shared = places[0] & places[1]
    for n in (0, 1) if shared else ():
        mine = np.unique(units[["run", "place"]][units["side"] == n])
        left = int((~np.isin(mine["place"], list(shared))).sum())
        if left:
            rest = f"{'does' if left == 1 else 'do'} not count"
            if n == 1:
                rest = "can only make a case slower: than all of base there, provisional"
            yield (
                f"{labels[n]}: {left} of {len(mine)} documents ran on no unit of hardware of "
                f"{labels[1 - n]} and {rest}"
            )


def _uncalibrated(match: Match, calibration: Calibration | None, gate: str | None) -> list[str]:
    """Return a sentence if a calibration does not know cases of single documents; for the metric
    that decides."""
    if calibration is None or gate is None or gate not in match.judged:
        return []
    if match.measured.shares_run:
        return []
    found = match.judged[gate].found
    single = (found.base_runs == 1) & (found.other_runs == 1) & np.isfinite(found.shift)
    extra = calibration.between(match.measured.cases, match.sides, gate)
    unknown = int((single & ~np.isfinite(extra.variance)).sum())
    if not unknown:
        return []
    return [
        f"{match.other.label}: the calibration knows nothing of {unknown} of {int(single.sum())} "
        f"cases (their machines, engines or {gate}): the usual difference is assumed"
    ]


def _policy_text(policy: Policy, chosen: Sequence[str]) -> dict[str, str]:
    floors = judge.FLOORS if policy.floor_sd is None else {"all": policy.floor_sd}
    table = {
        "threshold": ", ".join(f"{n} {100 * policy.threshold(n):.3g} %" for n in chosen),
        "false-discovery rate": f"{100 * judge.FALSE_DISCOVERIES:.3g} %",
        "fail on": ", ".join(sorted(policy.fail_on)) or "none",
        "noise floor": ", ".join(f"{name} {100 * sd:.3g} %" for name, sd in floors.items()),
        "strict": "yes" if policy.strict else "no",
    }
    if policy.rules:
        table["graph rules"] = str(len(policy.rules))
    if policy.allow:
        table["allowed"] = ", ".join(rule.pattern for rule in policy.allow)
    return table
