"""The answer in one line, and its exit code: every report shows the same.

FAIL names the policy's bad news and precedes everything else. UNDECIDED gives the reason for a
missing answer and the command line that would find one. Everything else is PASS, with the smallest
change that would have been seen.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench_schema.units import change_words, count_text, share_text

from bench_compare.comparison.regressions import ONE_PROCESS, WORSENED
from bench_compare.metrics import METRICS
from bench_compare.model import NEWS, Conclusion, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.model import BadNews, CaseComparison, Comparison, Side

MOVED = frozenset({*WORSENED, Verdict.FASTER, Verdict.BETTER, Verdict.CLOCK, Verdict.UNCLEAR})
"""Verdicts of a metric, which has a ratio."""
USUAL_RATIO = METRICS["e2e_ns"].threshold_ratio
"""Threshold of times without ``--threshold``, in both commands."""
MOST_MORE = 20
"""Largest number of further rounds or documents to suggest."""
MORE_RUNS = 3
"""Further runs of each side to suggest."""
OLD = "OLD"
"""Folder of a build that is kept, in a command that measures it."""
GONE = frozenset({Verdict.REMOVED, Verdict.LOST})
TROUBLE = NEWS[: NEWS.index(Verdict.FIXED)]
"""Verdicts of trouble, whether or not they are counted."""


def conclude(comparison: Comparison) -> Conclusion:
    loud = [news for news in comparison.bad_news if not news.allowed]
    doubts, beside = [*_doubts(comparison)], _beside_the_point(comparison)
    if doubts:
        loud = [news for news in loud if news.verdict not in beside]
    if loud:
        return Conclusion("FAIL", ", ".join(_failures(comparison, loud)))
    if doubts:
        hint = _hint(comparison)
        allowed = comparison.invocation.allow_no_answer
        return Conclusion("UNDECIDED", "; ".join(doubts), hint, allowed)
    parts = [", ".join(_passed(comparison))]
    if comparison.sensitivity:  # of several sides the one that shows least
        least_able = max(
            comparison.sensitivity,
            key=lambda one: math.inf if one.p90_ratio is None else one.p90_ratio,
        )
        parts.append(least_able.sentence)
    return Conclusion("PASS", "; ".join(parts))


def _beside_the_point(comparison: Comparison) -> frozenset[Verdict]:
    """Return verdicts that are not yet failures if nothing could be compared: in documents of
    unrelated things every case looks removed."""
    shared = [case for case in comparison.cases if None not in (case.base, case.other)]
    if not shared:
        return GONE
    measured = any(case.gate is not None for case in shared)
    return frozenset() if measured else frozenset({Verdict.LOST})


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
            yield f"median of all cases {change_words(moves[0].ratio)}"
        else:
            yield f"{news.name} differs"
    if of_metrics and comparison.threshold_ratio is not None:
        yield f"threshold {share_text(comparison.threshold_ratio)}"


def _largest(cases: Sequence[CaseComparison], beside: str | None) -> str:
    """Return the largest change among cases of one verdict, with the case's name."""
    found = []
    for case in cases:
        name = case.gate if beside is None else beside
        metric = None if name is None else case.metrics.get(name)
        if metric is not None and metric.ratio:
            found.append((max(metric.ratio, 1 / metric.ratio), metric.ratio, case.name))
    if not found:
        return cases[0].name
    _, ratio, name = max(found)
    return f"{change_words(ratio)} {name}"


def _doubts(comparison: Comparison) -> Iterator[str]:
    """Yield the reasons for a missing answer; nothing if there is an answer."""
    problems, passed_over = comparison.problems, comparison.invocation.passed_over
    if problems:
        yield _first_of(problems)
    else:
        many = len(comparison.others) > 1
        for one in comparison.sensitivity:
            if one.blind:
                yield f"{one.other_label}: {one.sentence}" if many else one.sentence
        for side in comparison.others:
            measured = [
                case
                for case in comparison.cases
                if case.gate is not None and case.other_label == side.label
            ]
            verdicts = {one.gate_metric.verdict for one in measured if one.gate_metric}
            if verdicts == {Verdict.UNCLEAR}:
                text = _all_unclear(measured, comparison.warnings)
                yield f"{side.label}: {text}" if many else text
            elif suspects := [case for case in measured if case.is_suspect]:
                text = (
                    f"{len(suspects)} of {len(measured)} cases may be slower "
                    f"({_largest(suspects, None)}), and no interval says so"
                )
                yield f"{side.label}: {text}" if many else text
    yield from _awaited(comparison)
    if passed_over:
        yield _first_of(passed_over)


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
                f"{len(left)} of {count_text(len(mine), 'case')} not measured yet: "
                f"{path}: the run has not ended"
            )


def _first_of(sentences: Sequence[str]) -> str:
    return sentences[0] + (f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else "")


def _all_unclear(cases: Sequence[CaseComparison], warnings: Sequence[str]) -> str:
    lead = (
        "the only measured case is" if len(cases) == 1 else f"all {len(cases)} measured cases are"
    )
    text = f"{lead} unclear"
    needed = [
        (metric.rounds_needed, metric.needed_unit)
        for case in cases
        if (metric := case.gate_metric) is not None and metric.rounds_needed is not None
    ]
    number = round(median(count for count, _ in needed)) if needed else 0
    if ONE_PROCESS in warnings or not 0 < number <= MOST_MORE:
        return text
    unit, _ = Counter(unit for _, unit in needed).most_common(1)[0]
    noun = "document" if unit == "document" else "round"
    return f"{text}, about {number} more {noun}{'' if number == 1 else 's'} a side would decide"


def _passed(comparison: Comparison) -> Iterator[str]:
    counts, total = comparison.counts, len(comparison.cases)
    yield count_text(total, "case")
    if comparison.gate is not None and not any(counts.get(one) for one in WORSENED):
        speed, limit = METRICS[comparison.gate].speed, comparison.threshold_ratio
        threshold = "its threshold" if limit is None else share_text(limit)
        none = "not" if total == 1 else "none"
        yield f"{none} {'slower' if speed else 'worse'} by more than {threshold}"
    allowed = Counter(
        verdict for _, verdict in {(n.case, n.verdict) for n in comparison.bad_news if n.allowed}
    )
    for verdict in TROUBLE:
        if allowed[verdict]:
            yield f"{allowed[verdict]} {verdict} (allowed)"
        if (left := counts.get(verdict, 0) - allowed[verdict]) > 0:
            yield f"{left} {verdict} (not counted)"
    for verdict in NEWS[len(TROUBLE) :]:
        if counts.get(verdict) and verdict is not Verdict.SAME:
            some = [case for case in comparison.cases if case.verdict is verdict]
            largest = (
                f" (largest {_largest(some, None)})" if some and verdict is Verdict.FASTER else ""
            )
            yield f"{counts[verdict]} {verdict}{largest}"


def _hint(comparison: Comparison) -> str | None:
    """Return the command line that measures more; None if that would not help, or the command of
    the document is unknown."""
    unlike = comparison.counts.get(Verdict.INCOMPARABLE) or (
        comparison.policy.get("strict") == "yes"
        and any(d.must_agree for d in comparison.differences)
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
