"""Bad news, and reasons for a missing answer: sentences for people and for CI."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from bench_schema.provenance import DEVICE_LIMITS
from bench_schema.units import change_words

from bench_compare.comparison.circumstances.pairs import CIRCUMSTANCES
from bench_compare.comparison.circumstances.settings import DEVICE_KIND, MUST_AGREE, mixed
from bench_compare.metrics import METRICS, PHASES, Rate
from bench_compare.model import BadNews, Verdict
from bench_compare.policy import ALWAYS_BAD, SUITE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.model import (
        CaseComparison,
        CommonMovement,
        Sensitivity,
        SettingDifference,
        Side,
    )
    from bench_compare.policy import Policy


LEAST_CASES = 10
"""Fewer cases have no common movement: their own verdicts tell all of it."""
WORSENED = frozenset({Verdict.SLOWER, Verdict.WORSE})
GOOD = frozenset({Verdict.FIXED, Verdict.ADDED})


def bad_news(
    cases: Sequence[CaseComparison], movements: Sequence[CommonMovement], policy: Policy
) -> tuple[BadNews, ...]:
    """Return the policy's bad news, allowed or not, in the order of the cases, the suite last."""
    found = [news for case in cases for news in _of_case(case, policy)]
    for movement in movements:
        # The common movement gates whatever `--fail-on` lists; of a few cases it is their own.
        verdict = movement.verdict
        if movement.cases >= LEAST_CASES and verdict in WORSENED:
            allowed = policy.allows_word(SUITE, verdict)
            found.append(BadNews(None, SUITE, movement.metric, verdict, movement.reason, allowed))
    return tuple(found)


def _of_case(case: CaseComparison, policy: Policy) -> Iterator[BadNews]:
    """Yield each kind of bad news of a case separately, so that ``--allow`` for one does not hide
    another."""
    watched = sorted(name for name in policy.fail_on if name in case.metrics)
    if not (case.changes or watched or case.verdict.value in policy.fail_on):
        return  # the verdict is that of the metric that decides: it need not be looked at
    for change in case.changes:
        if change.verdict in ALWAYS_BAD or change.verdict.value in policy.fail_on:
            yield _news(case, None, change, policy)
    gate = case.gate_metric
    outcomes = {change.verdict for change in case.changes}
    if gate is not None and gate.verdict.value in policy.fail_on:
        yield _news(case, case.gate, (gate.verdict, gate.reason), policy)
    elif case.verdict.value in policy.fail_on and case.verdict not in outcomes:
        yield _news(case, case.gate, (case.verdict, case.reason), policy)
    for name in watched:
        metric = case.metrics[name]
        counted = name == case.gate and metric.verdict.value in policy.fail_on
        if metric.verdict in WORSENED and not counted:
            yield _news(case, name, (metric.verdict, metric.reason), policy)


def _news(
    case: CaseComparison, metric: str | None, change: tuple[Verdict, str], policy: Policy
) -> BadNews:
    verdict, sentence = change
    return BadNews(case.id, case.name, metric, verdict, sentence, _allows(policy, case, verdict))


def _allows(policy: Policy, case: CaseComparison, verdict: Verdict) -> bool:
    return bool(policy.allow) and policy.allows(*_names(case), verdict)


def _names(case: CaseComparison) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of a case for ``--allow``: its graph's names and fingerprints."""
    sides = [side for side in (case.base, case.other) if side is not None]
    prints = [case.fingerprint, *(side.cases[-1].graph.fingerprint for side in sides)]
    return [case.name, *(side.name for side in sides)], prints


LIMITS = {word for word, _ in DEVICE_LIMITS.values()}


def unused_allowances(cases: Sequence[CaseComparison], policy: Policy) -> list[str]:
    """Return a list of one sentence if patterns of ``--allow`` name nothing here, because they are
    mistyped or outdated; otherwise an empty list."""
    words = {SUITE, *LIMITS, *MUST_AGREE, *CIRCUMSTANCES, DEVICE_KIND}
    left = [rule for rule in policy.allow if rule.pattern not in words]
    for case in cases if left else ():
        names = _names(case)
        left = [rule for rule in left if not rule.names(*names)]
    texts = ", ".join(repr(str(rule)) for rule in left)
    return [f"--allow: no graph here is, or fits, {texts}"] if left else []


def bad_limits(unlike: Sequence[SettingDifference], policy: Policy) -> list[BadNews]:
    """Return bad news for devices of one kind that were held to other limits: the numbers are those
    of another device, whatever they say."""
    return [
        BadNews(
            case=None,
            name=d.name,
            metric=None,
            verdict=Verdict.INCOMPARABLE,
            sentence=f"{d.name} differs: {d.base} against {d.other} ({d.other_label})",
            allowed=policy.allows_word(d.name, Verdict.INCOMPARABLE),
        )
        for d in unlike
        if d.name in LIMITS
    ]


def problems(
    cases: Sequence[CaseComparison],
    unlike: Sequence[SettingDifference],
    seen: Sequence[Sensitivity],
    bad: Sequence[BadNews],
    policy: Policy,
) -> tuple[str, ...]:
    """Return reasons for a missing answer. A comparison of nothing is never a pass."""
    found = []
    required, limit = policy.required_sensitivity_ratio, policy.max_unclear
    if required is not None:
        found += [
            f"--require-sensitivity {100 * required:.3g}% ({one.other_label}): {one.sentence}"
            for one in seen
            if one.p90_ratio is None or one.p90_ratio > 1 + required
        ]
    if limit is not None:
        verdicts = [case.gate_metric.verdict for case in cases if case.gate_metric is not None]
        count = verdicts.count(Verdict.UNCLEAR)
        most = limit.count if limit.share is None else limit.share * len(verdicts)
        if count > most:
            found.append(
                f"--max-unclear {limit}: {count} of {len(verdicts)} measured cases are unclear"
            )
    shared = [case for case in cases if case.base is not None and case.other is not None]
    if not shared:
        found.append("nothing compared: the documents have no case in common")
    elif not any(case.gate is not None for case in shared) and not any(
        news.case is not None and news.verdict is not Verdict.LOST for news in bad
    ):  # what became of a case answers the question without any measurement
        found.append(f"nothing compared: no case was measured on both sides{_apart(shared)}")
    if policy.strict:
        found += [
            f"{d.name} differs: {d.base} against {d.other} ({d.other_label})"
            for d in unlike
            if d.must_agree
        ]
    found += [
        f"{case.name}: {case.reason}"
        for case in cases
        if case.verdict is Verdict.INCOMPARABLE and not _allows(policy, case, case.verdict)
    ]
    return tuple(found)


def _apart(cases: Sequence[CaseComparison]) -> str:
    """Return a phrase on the metrics of each side, if both have some that the other lacks."""
    metrics = [metric for case in cases for metric in case.metrics.values()]
    base = dict.fromkeys(m.metric for m in metrics if m.other is None)
    other = dict.fromkeys(m.metric for m in metrics if m.base is None)
    if not base or not other:
        return ""
    return f"; base has {', '.join(base)}, other has {', '.join(other)}"


def warnings(
    base: Side,
    others: Sequence[Side],
    cases: Sequence[CaseComparison],
    engines: Sequence[tuple[str, str]],
) -> tuple[str, ...]:
    """Return warnings to print before any number. `engines`: engines of base and of other that are
    compared without a request."""
    sides = (base, *others)
    found = [sentence for side in sides for sentence in mixed(side)]
    for side in sides:
        for source in side.sources:
            if not source.document.run.complete:
                found.append(f"{source.path}: the run was not finished; cases may be missing")
            notes = (*source.document.run.notes, *source.notes)
            found += [f"{source.path}: {note}" for note in notes]
    runs = {source.document.run.id for source in base.sources}
    for other in others:
        if runs & {source.document.run.id for source in other.sources} and base is not other:
            shared_engines = set(base.engines) & set(other.engines)
            if shared_engines and not other.is_unit:  # of one run on several units
                found.append(f"{base.label} and {other.label} hold the same run")
    if any(_is_one_process(side) for side in sides):
        found.append(ONE_PROCESS)
    found += [f"engines are compared: {first} against {second}" for first, second in engines]
    unlike = sum(case.verdict is Verdict.INCOMPARABLE for case in cases)
    if unlike:
        graphs = "graph has" if unlike == 1 else "graphs have"
        found.append(f"{unlike} {graphs} the same name and another meaning: not compared")
    return tuple(dict.fromkeys(found))


ONE_PROCESS = (
    "all samples of a file are of one process, and two processes of one program can differ: "
    "measure each side three times, and compare --a 'base*.json' --b 'other*.json'"
)


def _is_one_process(side: Side) -> bool:
    """Return True for one file of another tool, whose cases have samples of a single process."""
    cases = [case for source in side.sources for case in source.document.cases]
    rounds = max((len(case.rounds) for case in cases), default=0)
    return len(side.sources) == 1 and side.sources[0].imported and rounds == 1


UNSURE = "peak_bytes"
"""On a processor one number a document, counted by the kernel in pages: between identical runs it
moved by 17 %, and its scatter is unknown."""
TOLD = tuple(
    name
    for name, row in METRICS.items()
    if row.unit and name not in (*PHASES, UNSURE) and not isinstance(row.reading, Rate)
)
"""Times, initialisation as a whole, workspace and energy; rates follow the times."""


def beside_warnings(cases: Sequence[CaseComparison], policy: Policy) -> Iterator[str]:
    """Yield a sentence for each other side with cases that became worse in a metric that does not
    decide, which no verdict reports. Metrics that `policy` counts are bad news anyway; an effect of
    a reported slow-down is not reported again."""
    worse: dict[str, dict[str, list[CaseComparison]]] = defaultdict(lambda: defaultdict(list))
    told = [name for name in TOLD if name not in policy.fail_on]
    for case in cases:
        if case.gate_metric is None or case.gate_metric.verdict in WORSENED:
            continue
        for name in told:
            if name in case.metrics and case.metrics[name].verdict in WORSENED:
                worse[case.other_label][name].append(case)
    for label, metrics in worse.items():
        parts = []
        for name, some in metrics.items():
            ratios = [case.metrics[name].ratio or 0.0 for case in some]
            ratio = max(ratios)
            worst = some[ratios.index(ratio)].name
            where = worst if len(some) == 1 else f"{len(some)} cases, most that of {worst}"
            change = f", {change_words(ratio, METRICS[name].words)}" if ratio else ""
            parts.append(f"{METRICS[name].title} of {where}{change}")
        yield (
            f"{label}: worse beside what decides: {'; '.join(parts)} "
            f"(--fail-on {','.join(metrics)} makes it count)"
        )
