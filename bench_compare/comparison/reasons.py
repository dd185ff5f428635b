"""Words: reasons of verdicts, the answer in one line, the command to type next.

FAIL names the policy's bad news and precedes everything else. UNDECIDED says why the answer is
missing and which command would find one. PASS says what was shown, and how much the rest could
hide.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema import units
from bench_schema.identity import engine_name

from bench_compare.comparison.judge import LEAST_UNITS, OF_PROCESS, on
from bench_compare.comparison.news import ONE_PROCESS, WORSENED
from bench_compare.metrics import METRICS, Exact
from bench_compare.model import NEWS, CommonMovement, Conclusion, Sensitivity, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.comparison.judge import Shift
    from bench_compare.metrics import Metric
    from bench_compare.model import BadNews, CaseComparison, Comparison, MetricComparison, Side

HIDDEN_RATIO = 1.5
"""A slow-down of this size must not hide in more than `HIDDEN_SHARE` of the cases."""
HIDDEN_SHARE = 0.1
USUAL_RATIO = METRICS["e2e_ns"].threshold_ratio
"""Threshold of times without ``--threshold``, in both commands."""
MOST_MORE = 20
"""Largest number of further rounds or documents to suggest."""
MORE_RUNS = 3
"""Further runs of each side to suggest."""
OLD = "OLD"
"""Folder of a build that is kept, in a command that measures it."""
MOVED = frozenset({*WORSENED, Verdict.FASTER, Verdict.BETTER, Verdict.CLOCK, Verdict.UNCLEAR})
"""Verdicts of a metric, which has a ratio."""
TROUBLE = NEWS[: NEWS.index(Verdict.FIXED)]
"""Verdicts of trouble, whether or not they are counted."""
LEFT_OUT = (
    "",
    "on a unit of hardware that base lacks, against the slowest of base: ",
    "in a document that is not like the others, against the slowest of base: ",
)
"""Beginnings of a reason, by the field of `judge.JUDGED`."""
ELSEWHERE = ("device unit", "device kind")
"""Differences that the last line names."""


# A metric of a case.

MOST_LOG = 700.0
"""Largest logarithm of an interval's end that is a number."""


def metric_reason(one: MetricComparison, entry: Any, flags: Sequence[str]) -> str:
    """Return one sentence on a metric; `entry` is its row of `judge.JUDGED`, `flags` what the files
    themselves say against it."""
    metric = METRICS[one.metric]
    if one.base is None or one.other is None:
        return "only one side has it"
    threshold = units.share_text(one.threshold_ratio)
    if isinstance(metric.reading, Exact):
        return _exact(one, metric)
    if one.ratio is None:
        return "only one side has it"
    change = units.change_words(one.ratio, metric.words)
    place = {Verdict.SAME: "within", Verdict.UNCLEAR: ""}.get(one.verdict, "beyond")
    if one.ci_low is None or one.ci_high is None:
        if not place:
            return f"{change}, and no scatter is known: {_doubt(one, entry, flags)}"
        known = f"{change} (no scatter is known: the raw ratio counts)"
        return f"{known}: {place} the threshold of {threshold}"
    interval = f"95 % interval {units.interval_words(one.ci_low, one.ci_high, metric.words)}"
    if place:
        text = f"{change} ({interval}): {place} the threshold of {threshold}"
    elif units.is_too_noisy(one.ci_low, one.ci_high):
        text = f"too noisy to tell: the 95 % interval reaches beyond 2× both ways{_more(one)}"
    else:
        text = f"{change} ({interval}): {_doubt(one, entry, flags)}"
    left = LEFT_OUT[int(entry["left_out"])]
    clock = "; cycles did not move, the clock did" if entry["clock"] else ""
    return f"{left}{text}{clock}{_provisional(one, entry)}"


def _exact(one: MetricComparison, metric: Metric) -> str:
    """Say how two numbers that do not scatter differ."""
    base, other = one.base or 0.0, one.other or 0.0
    if base == other:
        return "equal"
    if base == 0 or not (math.isfinite(base) and math.isfinite(other)):
        return f"from {base:g} to {other:g}"
    place = "within" if one.verdict is Verdict.SAME else "beyond"
    change = units.change_words(other / base, metric.words)
    return f"{change}: {place} the threshold of {units.share_text(one.threshold_ratio)}"


def _doubt(one: MetricComparison, entry: Any, flags: Sequence[str]) -> str:
    """Say what keeps a case unclear, and what would decide it."""
    size = abs(math.log(one.ratio)) if one.ratio else 0.0
    limit = math.log1p(one.threshold_ratio)
    if flags:
        return f"the file says {' and '.join(flags)}"
    if size > limit and size <= float(entry["noise"]):
        noise = units.share_text(math.expm1(entry["noise"]), 2)
        return f"within the noise that the files state, {noise}"
    if size > limit and size < float(entry["least"]):
        least = float(entry["least"])
        of_process = least == math.log1p(OF_PROCESS[on(one.metric)])
        cause = "another process" if of_process else "the clock's own step"
        return f"no more than {cause} can make ({units.share_text(math.expm1(least), 2)})"
    edge = 1 + one.threshold_ratio
    if (one.ci_low or 0.0) >= edge or (one.ci_high or math.inf) <= 1 / edge:
        q = "" if one.q is None else f", q {one.q:.2g}"
        return f"beyond {units.share_text(one.threshold_ratio)} alone, not among so many cases{q}"
    return f"neither beyond nor within {units.share_text(one.threshold_ratio)}{_more(one)}"


def _more(one: MetricComparison) -> str:
    """Return the words on the units that would decide an unclear case."""
    noun = _noun(one.needed_unit)
    if one.rounds_needed is None:
        return f"; more {noun}s would hardly decide it"
    return f"; needs about {units.count_text(one.rounds_needed, f'more {noun}')} a side"


def _noun(unit: str) -> str:
    return "document" if unit == "document" else "round"


def _provisional(one: MetricComparison, entry: Any) -> str:
    if entry["other_place"]:
        return (
            "; provisional, base and other ran on different units of hardware, and units of one "
            "kind differ by up to a fifth"
        )
    fewest = min(one.base_rounds, one.other_rounds)
    if fewest < LEAST_UNITS:
        noun = one.unit if one.unit in ("document", "pair") else "round"
        return f"; provisional, {units.count_text(max(fewest, 1), noun)} a side"
    if entry["assumed_sd"] > 0 and METRICS[one.metric].gates:
        floor = units.share_text(float(entry["assumed_sd"]))
        return f"; one document a side: {floor} is assumed for what documents differ by"
    return ""


# All cases together.


def movement(
    label: str, metric: Metric, found: Shift, verdict: Verdict, about: tuple[int, str]
) -> CommonMovement:
    """Return the common movement; `about`: number of cases, and the cause to name."""
    low, high = (
        None if end is None else math.exp(min(end, MOST_LOG)) for end in (found.low, found.high)
    )
    change = (
        units.NOTHING
        if units.is_too_noisy(low, high)
        else units.change_words(math.exp(found.shift), metric.words)
    )
    return CommonMovement(
        other_label=label,
        metric=metric.name,
        ratio=math.exp(found.shift),
        ci_low=low,
        ci_high=high,
        verdict=verdict,
        reason=f"median of all cases {change}: {about[1]}",
        cases=about[0],
    )


def cause_of(
    base: Side, other: Side, metric: Metric, verdict: Verdict, cases: Sequence[Verdict]
) -> str:
    """Return the cause to name for what most cases do together; `cases`: their verdicts."""
    if other.is_unit:
        good, bad = (
            (Verdict.FASTER, Verdict.SLOWER) if metric.speed else (Verdict.BETTER, Verdict.WORSE)
        )
        return (
            f"unit {other.label} is {bad} than {base.label} in {cases.count(bad)} of {len(cases)} "
            f"cases, {good} in {cases.count(good)}"
        )
    if verdict in (Verdict.SAME, Verdict.UNCLEAR):
        return "no common movement"
    first, second = (
        dict.fromkeys(engine_name(k).spec for k in one.engines) for one in (base, other)
    )
    if not first.keys() & second.keys():
        return f"a comparison of engines, {', '.join(second)} against {', '.join(first)}"
    return "environment, or a change of the whole build"


def limit_of(one: MetricComparison) -> float | None:
    """Return the largest slow-down that is not excluded, as a ratio; None if it is not known."""
    if one.ci_low is None or one.ci_high is None:
        return None
    return one.ci_high if METRICS[one.metric].better == "lower" else 1 / max(one.ci_low, 1e-300)


def is_open(one: MetricComparison) -> bool:
    """Return True for an unclear metric of which a worsening beyond the threshold is not
    excluded."""
    if one.verdict is not Verdict.UNCLEAR:
        return False
    limit = limit_of(one)
    return limit is None or limit > 1 + one.threshold_ratio


def sensitivity(label: str, metric: str, cases: Sequence[MetricComparison]) -> Sensitivity:
    """Return the smallest slow-downs that the comparison with a side would have found."""
    sizes = np.sort([one.seen_ratio or math.inf for one in cases])
    middle, most = (float(sizes[math.ceil(share * len(sizes)) - 1]) for share in (0.5, 0.9))
    limits = [limit_of(one) for one in cases if one.verdict is Verdict.UNCLEAR]
    hidden = sum(limit is None or limit > HIDDEN_RATIO for limit in limits)
    blind = hidden > HIDDEN_SHARE * len(cases)
    if blind:
        where = "" if len(cases) == 1 else f" in {hidden} of {len(cases)} cases"
        sentence = f"a slow-down of {units.size_text(HIDDEN_RATIO)} could hide{where}"
    elif math.isfinite(most):
        where = "" if len(cases) == 1 else " in 9 of 10 cases"
        sentence = f"slow-downs of {units.size_text(most)} would have been seen{where}"
    else:
        sentence = "how small a slow-down would have been seen is not known"
    return Sensitivity(
        other_label=label,
        metric=metric,
        cases=len(cases),
        median_ratio=middle if math.isfinite(middle) else None,
        p90_ratio=most if math.isfinite(most) else None,
        blind=blind,
        sentence=sentence,
    )


# The answer.


def conclude(comparison: Comparison) -> Conclusion:
    """Return the answer in one line, which every report shows, and its exit code."""
    loud = [news for news in comparison.bad_news if not news.allowed]
    doubts = [*_doubts(comparison)]
    if doubts and _is_unrelated(comparison):  # every case looks removed
        loud = [news for news in loud if news.verdict not in (Verdict.REMOVED, Verdict.LOST)]
    elsewhere = _elsewhere(comparison)
    if loud:
        parts = [", ".join(_failures(comparison, loud)), *elsewhere]
        return Conclusion("FAIL", "; ".join(parts))
    if doubts:
        allowed = comparison.invocation.allow_no_answer
        sentence = "; ".join([*doubts, *elsewhere])
        return Conclusion("UNDECIDED", sentence, _hint(comparison), allowed)
    return Conclusion("PASS", "; ".join([*_passed(comparison), *elsewhere]))


def _is_unrelated(comparison: Comparison) -> bool:
    """Return True if both sides have cases, and none in common."""
    cases = comparison.cases
    shared = any(None not in (case.base, case.other) for case in cases)
    return not shared and any(case.other is not None for case in cases)


def _elsewhere(comparison: Comparison) -> list[str]:
    """Return phrases on another device or engine, which explain more than a build does."""
    units = {side.label for side in comparison.others if side.is_unit}
    found = [
        f"another {'kind of device' if d.name == 'device kind' else 'device'}: {d.base} → {d.other}"
        for d in comparison.differences
        if d.name in ELSEWHERE and d.other_label not in units
    ]
    engines = dict.fromkeys(case.engine for case in comparison.cases if " → " in case.engine)
    return [*dict.fromkeys(found), *(f"engines: {one}" for one in list(engines)[:1])]


def _failures(comparison: Comparison, loud: Sequence[BadNews]) -> Iterator[str]:
    """Yield each kind of bad news with its count, worst first."""
    cases = {case.id: case for case in comparison.cases}
    kinds: dict[tuple[Verdict, str | None], dict[str, CaseComparison]] = defaultdict(dict)
    for news in (one for one in loud if one.case is not None):
        case = cases[news.case or ""]
        beside = None if news.metric == case.gate else news.metric
        kinds[news.verdict, beside][case.id] = case
    of_metrics = False
    for verdict, beside in sorted(kinds, key=lambda kind: (NEWS.index(kind[0]), kind[1] or "")):
        some = [*kinds[verdict, beside].values()]
        if verdict not in MOVED:
            more = "" if len(some) == 1 else f" and {len(some) - 1} more"
            yield f"{len(some)} {verdict} ({some[0].name}{more})"
            continue
        of_metrics = True
        where = "" if beside is None else f" in {METRICS[beside].title}"
        worst = "worst " if len(some) > 1 else ""
        yield f"{len(some)} of {len(cases)} {verdict}{where} ({worst}{_largest(some, beside)})"
    for news in (one for one in loud if one.case is None):
        moves = [m for m in comparison.movements if m.reason == news.sentence]
        if moves:
            of_metrics = True
            change = units.change_words(moves[0].ratio, METRICS[moves[0].metric].words)
            yield f"median of all cases {change}"
        else:
            yield f"{news.name} differs"
    if of_metrics and comparison.threshold_ratio is not None:
        yield f"threshold {units.share_text(comparison.threshold_ratio)}"


def _largest(cases: Sequence[CaseComparison], beside: str | None) -> str:
    """Return the largest change among cases of one verdict, with the case's name."""
    found = []
    for case in cases:
        name = case.gate if beside is None else beside
        metric = None if name is None else case.metrics.get(name)
        if metric is not None and metric.ratio:
            change = units.change_words(metric.ratio, METRICS[metric.metric].words)
            size = max(metric.ratio, 1 / metric.ratio)
            found.append((size, change.removesuffix(" slower").removesuffix(" faster"), case.name))
    if not found:
        return cases[0].name
    _, change, name = max(found)
    return f"{change}, {name}"


def _doubts(comparison: Comparison) -> Iterator[str]:
    """Yield the reasons for a missing answer; nothing if there is an answer."""
    problems, passed_over = comparison.problems, comparison.invocation.passed_over
    if problems:
        yield _first_of(problems)
    else:
        unlike = [d for d in comparison.differences if d.must_agree and not d.allowed]
        if unlike:
            names = " ".join(
                f"--allow {shlex.quote(n)}" for n in dict.fromkeys(d.name for d in unlike)
            )
            texts = [f"{d.name} differs, {d.base} → {d.other}" for d in unlike]
            yield f"{_first_of(list(dict.fromkeys(texts)))} ({names} compares them all the same)"
        many = len(comparison.others) > 1
        for one in comparison.sensitivity:
            text = _doubt_of(comparison, one)
            if text is not None:
                yield f"{one.other_label}: {text}" if many else text
    yield from _awaited(comparison)
    if passed_over:
        yield _first_of(passed_over)


def _doubt_of(comparison: Comparison, one: Sensitivity) -> str | None:
    """Return the reason why a side has no answer; None if it has one."""
    mine = [case for case in comparison.cases if case.other_label == one.other_label]
    measured = [case for case in mine if case.gate is not None]
    if {case.gate_metric.verdict for case in measured if case.gate_metric} == {Verdict.UNCLEAR}:
        return _all_unclear(measured, comparison.warnings)
    suspects = [case for case in measured if case.is_suspect]
    if suspects:
        many = f"{len(suspects)} of {len(measured)} cases may be slower"
        return f"{many} ({_largest(suspects, None)}), and no interval says so"
    return one.sentence if one.blind else None


def _awaited(comparison: Comparison) -> Iterator[str]:
    """Yield the number of cases that a run which has not ended may still measure."""
    for side in comparison.others:
        mine = [case for case in comparison.cases if case.other_label == side.label]
        left = [
            case
            for case in mine
            if (case.verdict is Verdict.UNMEASURED if case.other is None else case.other.awaited)
        ]
        if left:
            path = next(one.path for one in side.sources if not one.document.run.complete)
            yield (
                f"{len(left)} of {units.count_text(len(mine), 'case')} not measured yet: "
                f"{path}: the run has not ended"
            )


def _first_of(sentences: Sequence[str]) -> str:
    return sentences[0] + (f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else "")


def _all_unclear(cases: Sequence[CaseComparison], warnings: Sequence[str]) -> str:
    metrics = [metric for case in cases if (metric := case.gate_metric) is not None]
    lead = (
        "the only measured case is" if len(cases) == 1 else f"all {len(cases)} measured cases are"
    )
    text = f"{lead} unclear"
    limits = [limit_of(metric) for metric in metrics]
    if None not in limits:
        most = max(limit for limit in limits if limit is not None)
        thresholds = {units.share_text(metric.threshold_ratio) for metric in metrics}
        text += f" at {' and '.join(sorted(thresholds))}"
        text += f" (none can be slower by more than {units.size_text(most)})" if most > 1 else ""
    needed = [(m.rounds_needed, m.needed_unit) for m in metrics if m.rounds_needed is not None]
    number = round(median(count for count, _ in needed)) if needed else 0
    if ONE_PROCESS in warnings or not 0 < number <= MOST_MORE:
        return text
    unit, _ = Counter(unit for _, unit in needed).most_common(1)[0]
    return f"{text}; about {units.count_text(number, f'more {_noun(unit)}')} a side would decide"


def _passed(comparison: Comparison) -> Iterator[str]:
    """Yield what was shown, what is open, and what else happened."""
    counts = comparison.counts
    metrics = [m for case in comparison.cases if (m := case.gate_metric) is not None]
    limit = comparison.threshold_ratio
    threshold = "its threshold" if limit is None else units.share_text(limit)
    left = [one for one in metrics if is_open(one)]
    moved = [one for one in metrics if one.verdict in (*WORSENED, Verdict.CLOCK)]
    shown, total = len(metrics) - len(left) - len(moved), len(comparison.cases)
    word = "slower"
    if comparison.gate is not None and not METRICS[comparison.gate].speed:
        word = "worse"
    if not left and not moved and metrics and shown == total:
        none = "not" if total == 1 else "none"
        parts = [f"{units.count_text(total, 'case')}, {none} {word} by more than {threshold}"]
    else:
        are = "is" if total == 1 else "are"
        count = f"{shown} of {units.count_text(total, 'case')}"
        parts = [f"{count} {are} not {word} by more than {threshold}"]
    if left:
        limits = [limit_of(one) for one in left]
        known = [one for one in limits if one is not None]
        most = f"none can be {word} by more than {units.size_text(max(known))}" if known else ""
        nothing = len(limits) - len(known)
        unknown = f"of {nothing} nothing is known" if nothing else ""
        parts.append(f"{len(left)} open ({'; '.join(filter(None, (most, unknown)))})")
    allowed = Counter(
        verdict for _, verdict in {(n.case, n.verdict) for n in comparison.bad_news if n.allowed}
    )
    for verdict in TROUBLE:
        if allowed[verdict]:
            parts.append(f"{allowed[verdict]} {verdict} (allowed)")
        if (rest := counts.get(verdict, 0) - allowed[verdict]) > 0:
            parts.append(f"{rest} {verdict} (not counted)")
    for verdict in NEWS[len(TROUBLE) :]:
        if counts.get(verdict) and verdict not in (Verdict.SAME, Verdict.UNCLEAR):
            some = [case for case in comparison.cases if case.verdict is verdict]
            largest = f" (largest {_largest(some, None)})" if verdict is Verdict.FASTER else ""
            parts.append(f"{counts[verdict]} {verdict}{largest}")
    yield from parts


# The command to type next.


def _hint(comparison: Comparison) -> str | None:
    """Return the command line that measures more; None if that would not help, or the command of
    the document is unknown."""
    unlike = comparison.counts.get(Verdict.INCOMPARABLE) or any(
        d.must_agree and not d.allowed for d in comparison.differences
    )
    if comparison.gate is None or unlike or not comparison.counts.get(Verdict.UNCLEAR):
        return None
    base, other = comparison.base, comparison.others[-1]
    last = other.sources[-1]
    command, settings = last.document.run.command, last.document.run.settings
    if not _is_repeatable(command):
        return None
    hosts = {s.document.machine.host for side in (base, other) for s in side.sources}
    if len(hosts) > 1:
        return run_again(command, last.path, comparison.invocation.record)
    words = ["bench-run", "--rerun-from", comparison.invocation.record or last.path]
    if not {one.path for one in base.sources} & {one.path for one in other.sources}:
        if len(base.engines) > 1 or len(other.engines) > 1:
            return _more_of_both(base, other, comparison.threshold_ratio)
        words += ["--a", _as_it_was(base, other), "--b", other.engines[0]]
    threshold, pairs = _threshold(comparison.threshold_ratio), _next_name(last.path, "pairs")
    words += ["--until", "decided", *threshold]
    if settings.until is not None and settings.max_rounds:  # it ended without an answer
        words += ["--max-rounds", str(2 * settings.max_rounds)]
    compared = ["bench-compare", pairs, "--group-by", "engine", *threshold]
    return f"{shlex.join([*words, '-o', pairs])} && {shlex.join(compared)}"


def _is_repeatable(command: Sequence[str]) -> bool:
    """Return True if `bench-run --rerun-from` repeats a document that this command wrote."""
    return bool(command) and command[1:2] not in (("tune",), ("judge",))


def _threshold(ratio: float | None) -> list[str]:
    """Return the words of a threshold that is not the usual one of both commands."""
    return [] if ratio in (None, USUAL_RATIO) else ["--threshold", f"{100 * ratio:g}%"]


def _as_it_was(base: Side, other: Side) -> str:
    """Return the spec of the base's engine. If the other side has another build under this spec, it
    names a place where the old build is kept."""
    spec = base.engines[0]
    one, two = (side.sources[-1].document.engines[0] for side in (base, other))
    if spec != other.engines[0] or (one.libraries, one.plugin_sha256) == (
        two.libraries,
        two.plugin_sha256,
    ):
        return spec
    if one.plugin_sha256 != two.plugin_sha256 and "@" in spec:
        name, _, path = spec.partition("@")
        return f"{name}@{OLD}/{Path(path).name}"
    return f"{spec}+python={OLD}/bin/python"


def _more_of_both(base: Side, other: Side, threshold_ratio: float | None) -> str:
    """Return a line that runs both sides `MORE_RUNS` times, in turns, and compares all
    documents."""
    runs, sides = [], []
    for flag, side in (("--a", base), ("--b", other)):
        first = Path(side.sources[0].path)
        begin = str(first.with_name(f"{first.name.split('.')[0]}-more-"))
        path = shlex.quote(side.sources[-1].path)
        runs.append(f"bench-run --rerun-from {path} -o {shlex.quote(begin)}$n.json")
        earlier = [one.path for one in side.sources if not one.path.startswith(begin)]
        sides += [word for path in (*earlier, f"{begin}*.json") for word in (flag, path)]
    compared = shlex.join(["bench-compare", *sides, *_threshold(threshold_ratio)])
    begun = max(len(side.sources) for side in (base, other))
    numbers = " ".join(map(str, range(begun, begun + MORE_RUNS)))
    return f"for n in {numbers}; do {'; '.join(runs)}; done; {compared}"


def run_again(command: Sequence[str], path: str, record: str | None = None) -> str | None:
    """Return the command line that runs a document again; where a JSON report was written, only the
    cases that it holds open. None if the command of the document is unknown."""
    if not _is_repeatable(command):
        return None
    again = _next_name(path, "again")
    return shlex.join(["bench-run", "--rerun-from", record or path, "-o", again])


def _next_name(path: str, word: str) -> str:
    """Return a name next to a document: ``run-again.json`` of ``run.json``, and of that
    ``run-again-2.json``."""
    file = Path(path)
    stem = file.name.split(".")[0]
    found = re.fullmatch(rf"(.*-{word})(?:-(\d+))?", stem)
    name = f"{stem}-{word}" if found is None else f"{found[1]}-{int(found[2] or 1) + 1}"
    return str(file.with_name(f"{name}.json"))
