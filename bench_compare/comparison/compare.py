"""The pure core: sides and a policy in, a `Comparison` out. No I/O, no clock, no randomness that is
not seeded.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from bench_schema.identity import is_tuned

from bench_compare.comparison.circumstances.notes import (
    case_notes,
    disturbed_warnings,
    sample_notes,
)
from bench_compare.comparison.circumstances.pairs import pair_differences
from bench_compare.comparison.circumstances.settings import differences, stopping_warnings
from bench_compare.comparison.judging.estimates import (
    ExactMeasured,
    MeasuredMetric,
    comparison_inputs,
    measure,
)
from bench_compare.comparison.judging.judge import CaseMetrics, Tested, judged
from bench_compare.comparison.judging.left_out import with_left_out
from bench_compare.comparison.judging.suite import (
    between_document_warnings,
    movements,
    sensitivities,
    suite_numbers,
    uncalibrated_warnings,
)
from bench_compare.comparison.outcomes import changes, faults
from bench_compare.comparison.regressions import (
    GOOD,
    WORSENED,
    bad_limits,
    bad_news,
    beside_warnings,
    problems,
    warnings,
)
from bench_compare.input.align import align, engines_compared
from bench_compare.metrics import GATES, METRICS
from bench_compare.model import CaseComparison, Comparison, Detail, Verdict
from bench_compare.statistics.discovery import false_discovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from bench_compare.comparison.judging.calibration import Calibration
    from bench_compare.comparison.judging.judge import JudgedMetric
    from bench_compare.input.align import Pair
    from bench_compare.model import Change, Note, Side, SideName
    from bench_compare.policy import Policy
    from bench_compare.statistics.arrays import Array, Ints

    Narrow: TypeAlias = Ints | npt.NDArray[np.int32]


def unit_warnings(
    sides: tuple[Side, Side], measured: Mapping[str, MeasuredMetric | ExactMeasured]
) -> Iterator[str]:
    """Yield a sentence if cases of base and other ran on no common unit, and one for each side with
    documents that do not count because the other side did not use their unit."""
    gates = [m for m in measured.values() if isinstance(m, MeasuredMetric) and m.metric.gates]
    count = max((int(one.other_unit.sum()) for one in gates), default=0)
    if count:
        yield (
            f"{sides[1].label}: {count} {'case' if count == 1 else 'cases'} ran on another "
            "unit of hardware than in base (device or host): provisional"
        )
    for place in (0, 1) if gates else ():
        counts = []
        for one in gates:
            mine, theirs = one.columns[:: 1 - 2 * place]
            shared = np.intersect1d(mine.block, theirs.block)
            places = set(zip(mine.document.tolist(), mine.block.tolist(), strict=True))
            alone = [block for _, block in places if block not in shared]
            counts.append((len(alone) if shared.size else 0, len(places)))
        left, total = max(counts)
        if left:
            rest = f"{'does' if left == 1 else 'do'} not count"
            if place == 1:
                rest = "can only make a case slower: than all of base there, provisional"
            yield (
                f"{sides[place].label}: {left} of {total} documents ran on no unit of hardware of "
                f"{sides[1 - place].label} and {rest}"
            )


DRAWS = 2000
CHUNK = 1 << 16
"""Samples drawn at a time: half a MiB, so that the work on them stays in the cache."""
MOST_COPIED = 1 << 20
"""Samples in all windows of a series that are made a table: a few MiB."""
SEED = 20240601
PERCENTS = (5, 25, 50, 75, 95)
MOST_PAIRED = 1000
"""Samples of each side that the Hodges-Lehmann shift pairs up."""


def detail(metric: str, base: Sequence[Ints], other: Sequence[Ints]) -> Detail:
    """Return the detail of a metric. `base` and `other`: the rounds of the case without warm-up,
    nanoseconds."""
    random = np.random.default_rng(SEED)
    medians = [_bootstrap_medians(side, random) for side in (base, other)]
    low, high = np.quantile(medians[1] / medians[0], (0.025, 0.975))
    first, second = np.concatenate(base), np.concatenate(other)
    quantiles = np.percentile(second, PERCENTS) / np.maximum(np.percentile(first, PERCENTS), 1)
    return Detail(
        metric=metric,
        median_ratio=float(np.median(second) / max(float(np.median(first)), 1.0)),
        bootstrap_low=float(low),
        bootstrap_high=float(high),
        shift_ns=hodges_lehmann(first, second),
        quantile_ratios=dict(zip(PERCENTS, quantiles.tolist(), strict=True)),
    )


def _bootstrap_medians(rounds: Sequence[Ints], random: np.random.Generator) -> Array:
    """Return medians of `DRAWS` series drawn in blocks of 2 n^(1/3) consecutive samples that never
    cross a round (Künsch 1989: moving blocks)."""
    series = np.concatenate(rounds)
    least = int(series.min())
    shortest = min(one.size for one in rounds)
    length = int(min(max(1, round(2 * len(series) ** (1 / 3))), shortest))
    offsets = np.cumsum([0, *(one.size for one in rounds)])
    starts = np.concatenate(
        [
            np.arange(offset, offset + one.size - length + 1)
            for offset, one in zip(offsets, rounds, strict=False)
        ]
    )
    blocks = -(-len(series) // length)
    windows: Any = np.lib.stride_tricks.sliding_window_view(narrow(series, least), length)
    if windows.size <= MOST_COPIED:
        windows = np.ascontiguousarray(windows)
    step = max(1, CHUNK // (blocks * length))
    room = np.empty((step, blocks, length), windows.dtype)
    medians = []
    for first in range(0, DRAWS, step):
        count = min(step, DRAWS - first)
        places = random.choice(starts, (count, blocks))
        if windows.flags.c_contiguous:  # rows are just copied; "raise" would use another room
            drawn = windows.take(places, axis=0, out=room[:count], mode="clip")
        else:
            drawn = windows[places]
        medians.append(row_median(drawn.reshape(count, -1)[:, : len(series)]))
    return np.maximum(np.concatenate(medians) + least, 1)


def narrow(values: Ints, least: int) -> Narrow:
    """Subtract `least`; return the differences in integers of half the width if neither they nor a
    difference of two can overflow: one step then processes twice as many values."""
    above = values - least
    return above.astype(np.int32) if above.max() < 1 << 31 else above


def row_median(rows: Narrow) -> Array:
    """Return the median of each row, as NumPy's, which looks for both middle values at once and is
    several times slower. The rows are reordered."""
    count = rows.shape[1]
    upper = count // 2
    rows.partition(upper, axis=1)
    high = rows[:, upper]
    low = high if count % 2 else rows[:, :upper].max(axis=1)
    return np.asarray((low.astype(float) + high) / 2)


def hodges_lehmann(base: Ints, other: Ints) -> float:
    """Return the median of all differences other - base, nanoseconds; long series are thinned
    evenly."""
    first, second = (side[:: max(1, side.size // MOST_PAIRED)] for side in (base, other))
    least = int(min(first.min(), second.min()))
    differences = narrow(second, least)[None, :] - narrow(first, least)[:, None]
    return float(row_median(differences.reshape(1, -1))[0])


SampleNotes: TypeAlias = "Mapping[tuple[str, int], Sequence[Note]]"
"""Notes on the samples of a side, by metric and row."""


def _changes(pair: Pair) -> tuple[Change, ...]:
    if pair.unlike is None:
        return changes(pair.base, pair.other, awaited=pair.awaited)
    return () if pair.other is None else tuple(faults(pair.other, "another meaning in other"))


def _case_notes(pair: Pair, base: Side, other: Side) -> Iterator[Note]:
    if pair.base is not None:
        yield from case_notes(pair.base, base, "base")
    if pair.other is not None:
        yield from case_notes(pair.other, other, "other")


def _notes_on_samples(
    measured: Mapping[str, MeasuredMetric | ExactMeasured], side: SideName
) -> SampleNotes:
    """Return the notes of every gate metric."""
    notes: dict[tuple[str, int], list[Note]] = {}
    for name, one in measured.items():
        if isinstance(one, MeasuredMetric) and one.samples is not None and one.metric.gates:
            samples = one.samples[side == "other"]
            found = sample_notes(samples, len(one.base_level), side)
            notes |= {(name, row): some for row, some in found.items()}
    return notes


DETAILED = (Verdict.SLOWER, Verdict.FASTER, Verdict.CLOCK, Verdict.UNCLEAR)


@dataclass(frozen=True, eq=False)
class Match:
    """Base against one other side, measured and judged."""

    other: Side
    pairs: Sequence[Pair]
    measured: Mapping[str, MeasuredMetric | ExactMeasured]
    judged: Mapping[str, MeasuredMetric | ExactMeasured]
    """The same with documents that `measured` leaves out, for the verdicts of cases."""
    results: Mapping[str, JudgedMetric]


def compare(
    base: Side, others: Sequence[Side], policy: Policy, calibration: Calibration | None = None
) -> Comparison:
    """Hold every other side against base. False discoveries are controlled over all of them;
    `calibration` tells what single documents cannot know of themselves."""
    chosen = [name for name in METRICS if name in policy.metrics]
    matches = [_measured((base, other), chosen, policy, calibration) for other in others]
    matches, cases = _decided(base, matches, chosen, policy)
    cases = _with_details(cases, policy.details, matches)
    found = [
        move
        for match in matches
        for move in movements((base, match.other), match.measured, cases, policy)
    ]
    used = {name for match in matches for name in match.measured}
    unlike = [
        one
        for match in matches
        for one in (
            *differences(base, match.other),
            *pair_differences(match.pairs, base, match.other),
        )
    ]
    unlike.sort(key=lambda one: not one.must_agree)
    deciding = {case.gate for case in cases}
    moved = [move for move in found if move.metric in deciding]
    bad = (*bad_news(cases, moved, policy), *bad_limits(unlike, policy))
    gates = Counter(case.gate for case in cases if case.gate is not None)
    gate = gates.most_common(1)[0][0] if gates else None  # of most cases
    verdicts = Counter(case.verdict for case in cases)
    # A case that is checked less has a time all the same, and counts twice where that is worse.
    lost = [case.gate_metric for case in cases if case.verdict is Verdict.LOST]
    verdicts.update(one.verdict for one in lost if one is not None and one.verdict in WORSENED)
    seen = tuple(sensitivities(cases, gate))
    return Comparison(
        base=base,
        others=tuple(others),
        gate=gate,
        metrics=tuple(name for name in chosen if name in used),
        differences=tuple(unlike),
        cases=tuple(cases),
        suite=tuple(n for m in matches for n in suite_numbers(m.other, m.pairs, m.measured)),
        movements=tuple(found),
        counts={verdict: verdicts[verdict] for verdict in Verdict},
        bad_news=bad,
        problems=problems(cases, unlike, seen, bad, policy),
        warnings=(
            *warnings(base, others, cases, [e for m in matches for e in _unasked(base, m)]),
            *(text for m in matches for text in unit_warnings((base, m.other), m.measured)),
            *stopping_warnings((base, *others), policy),
            *disturbed_warnings((base, *others)),
            *beside_warnings(cases, policy),
            *(t for m in matches for t in uncalibrated_warnings(m.other, m.measured, gate)),
            *dict.fromkeys(
                text for m in matches for text in between_document_warnings(m.measured, gate)
            ),
        ),
        sensitivity=seen,
        policy=_policy_text(policy, chosen),
        threshold_ratio=None if gate is None or policy.rules else policy.threshold(gate),
    )


def _unasked(base: Side, match: Match) -> list[tuple[str, str]]:
    """Return engines that are compared, without a grouping by engine, because documents differ."""
    paths = {source.path for source in base.sources}
    asked = paths & {source.path for source in match.other.sources}
    return [] if asked else engines_compared(match.pairs)


def _decided(
    base: Side, matches: Sequence[Match], chosen: Sequence[str], policy: Policy
) -> tuple[list[Match], list[CaseComparison]]:
    """Return the matches with verdicts, and the cases of all of them."""
    found = _judged(matches, policy)
    cases: list[CaseComparison] = []
    names = [name for name in chosen if name in GATES] or list(chosen)
    for match in found:
        of_samples = [_notes_on_samples(match.measured, side) for side in ("base", "other")]
        gates = [(name, match.results[name]) for name in names if name in match.results]
        for row, pair in enumerate(match.pairs):
            gate = next((name for name, one in gates if one.decides[row]), None)
            more = (some.get((gate, row), ()) for some in of_samples if gate)
            notes = (*_case_notes(pair, base, match.other), *chain.from_iterable(more))
            became = _changes(pair)
            decided = None if gate is None else (match.results[gate], row)
            verdict, make_reason = _headline(pair, decided, became, notes)
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
                    metrics=CaseMetrics(match.results, row),
                    changes=became,
                    notes=notes,
                )
            )
    return found, cases


def _measured(
    sides: tuple[Side, Side],
    chosen: Sequence[str],
    policy: Policy,
    calibration: Calibration | None,
) -> Match:
    pairs = align(*sides)
    inputs = comparison_inputs(pairs, sides, policy, calibration)
    # Gates are measured in any case: rates rest on them.
    found = {name: measure(METRICS[name], inputs, ()) for name in GATES}
    judged_gates = (with_left_out(one, inputs) for one in found.values() if one is not None)
    gates = tuple(one for one in judged_gates if isinstance(one, MeasuredMetric))
    found |= {name: measure(METRICS[name], inputs, gates) for name in chosen if name not in found}
    measured = {name: one for name in chosen if (one := found[name]) is not None}
    whole = {name: with_left_out(one, inputs) for name, one in measured.items()}
    return Match(sides[1], pairs, measured, whole, {})


def _judged(matches: Sequence[Match], policy: Policy) -> list[Match]:
    """Return the matches with verdicts. False discoveries of each metric are controlled over the
    cases of all matches together."""
    tested: dict[tuple[int, str], Tested] = {}
    for name in {name for match in matches for name in match.judged}:
        found = [match.judged.get(name) for match in matches]
        p = [one.estimates.p if isinstance(one, MeasuredMetric) else np.empty(0) for one in found]
        q = false_discovery(np.concatenate(p))
        tests = int(np.isfinite(q).sum())
        bounds = np.cumsum([len(part) for part in p])[:-1]
        for number, part in enumerate(np.split(q, bounds)):
            tested[number, name] = Tested(part, tests)
    names = [[pair.side.name for pair in match.pairs] for match in matches]
    return [
        replace(
            match,
            results={
                name: judged(one, tested[number, name], names[number], policy)
                for name, one in match.judged.items()
            },
        )
        for number, match in enumerate(matches)
    ]


def _headline(
    pair: Pair,
    decided: tuple[JudgedMetric, int] | None,
    became: Sequence[Change],
    notes: Sequence[Note],
) -> tuple[Verdict, Callable[[], str]]:
    """Return the headline: bad changes first, then a slow-down, then good changes, then the
    metric's verdict. The reason is a function, as few are used."""
    if pair.unlike is not None:
        return Verdict.INCOMPARABLE, partial(str, pair.unlike)
    if became and (became[0].verdict not in GOOD or decided is None):
        return became[0].verdict, partial(str, became[0].reason)
    if decided is None:
        return Verdict.UNMEASURED, partial(str, "no metric that decides was measured on both sides")
    results, row = decided
    verdict = results.verdict(row)
    if became and verdict not in WORSENED:
        return became[0].verdict, partial(str, became[0].reason)
    return verdict, partial(_measured_reason, results, row, became, notes)


def _measured_reason(
    results: JudgedMetric, row: int, became: Sequence[Change], notes: Sequence[Note]
) -> str:
    texts = [results.reason(row), *(f"{change.verdict}: {change.reason}" for change in became)]
    modes = [note.side for note in notes if note.kind == "bimodal"]
    if modes:
        where = " and ".join(dict.fromkeys(modes))
        texts.append(f"the samples of {where} have two modes")
    return "; ".join(texts)


def _with_details(
    cases: list[CaseComparison], most: int, matches: Sequence[Match]
) -> list[CaseComparison]:
    """Return the cases; the `most` largest moves among those that call for a look get a detail."""
    rows = [(match, row) for match in matches for row in range(len(match.pairs))]
    flagged = [place for place, case in enumerate(cases) if case.verdict in DETAILED]
    flagged.sort(key=lambda place: (cases[place].verdict is Verdict.UNCLEAR, -_size(cases[place])))
    for place in flagged[:most]:
        cases[place] = replace(cases[place], detail=_detail(cases[place], rows[place]))
    return cases


def _detail(case: CaseComparison, at: tuple[Match, int]) -> Detail | None:
    match, row = at
    measured = None if case.gate is None else match.measured[case.gate]
    if not isinstance(measured, MeasuredMetric) or measured.samples is None:
        return None
    base, other = (side.series.take(np.flatnonzero(side.case == row)) for side in measured.samples)
    return detail(measured.metric.name, base, other) if base and other else None


def _size(case: CaseComparison) -> float:
    metric = case.gate_metric
    return 0.0 if metric is None or not metric.ratio else abs(math.log(metric.ratio))


def _policy_text(policy: Policy, chosen: Sequence[str]) -> dict[str, str]:
    table = {
        "threshold": ", ".join(f"{n} {100 * policy.threshold(n):.3g} %" for n in chosen),
        "false-discovery rate": f"{100 * policy.alpha_ratio:.3g} %",
        "fail on": ", ".join(sorted(policy.fail_on)) or "none",
        "noise floor": f"{100 * policy.floor_sd:.3g} %",
        "strict": "yes" if policy.strict else "no",
    }
    if policy.rules:
        table["graph rules"] = str(len(policy.rules))
    if policy.allow:
        table["allowed"] = ", ".join(rule.pattern for rule in policy.allow)
    return table
