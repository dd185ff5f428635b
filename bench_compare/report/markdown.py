"""Markdown that fits a comment on a pull request: summary, bad news, everything else folded away.

Names are code spans, so that nothing in them is formatted, linked or mentions anybody.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_compare.model import Verdict
from bench_compare.report import words
from bench_compare.report.names import safe
from bench_compare.report.rows import QUIET, rows
from bench_compare.report.units import change_text, interval_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_compare.model import CaseComparison, Comparison, View

ROOM = 60_000
"""Characters in all; hosts of repositories cut a comment at 65,536."""
FIRST_ROWS = 25
"""Rows of a table that is not folded away."""
MARKS: dict[Verdict, str] = {
    Verdict.BROKEN: "❌",
    Verdict.NEWLY_WRONG: "❌",
    Verdict.REMOVED: "❌",
    Verdict.NEWLY_UNSUPPORTED: "❌",
    Verdict.WRONG: "❌",
    Verdict.LOST: "❌",
    Verdict.INCOMPARABLE: "⚠️",
    Verdict.SLOWER: "🔺",
    Verdict.WORSE: "🔺",
    Verdict.CLOCK: "⏱️",
    Verdict.FASTER: "🔹",
    Verdict.BETTER: "🔹",
    Verdict.FIXED: "✅",
}
"""Signs beside a verdict; shape and word tell it too, never colour alone."""
BAD = (*words.VANISHED, Verdict.SLOWER, Verdict.WORSE, Verdict.CLOCK)


def render(comparison: Comparison, view: View) -> str:
    shown = rows(comparison, replace(view, all=True))
    bad = [case for case in shown if case.verdict in BAD]
    good = [case for case in shown if case.verdict not in BAD and case.verdict not in QUIET]
    rest = [case for case in shown if case.verdict in QUIET]
    text = "\n\n".join(
        block
        for block in (
            f"### Benchmarks: {words_of(comparison)}",
            _headline(comparison),
            _sentences("Errors", comparison.problems),
            _sentences("Warnings", comparison.warnings),
            _sentences("Bad news", map(words.news_text, words.other_bad_news(comparison))),
            _as_sentences(bad[:FIRST_ROWS]),
            _measured(bad[:FIRST_ROWS], comparison),
            _compared(comparison),
        )
        if block
    )
    folded = {
        "More bad news": bad[FIRST_ROWS:],
        "Improvements and additions": good,
        "Unchanged and unclear cases": rest,
    }
    for title, cases in folded.items():
        text += _folded(title, cases, comparison, ROOM - len(text))
    return text + "\n"


def words_of(comparison: Comparison) -> str:
    others = ", ".join(code(side.label) for side in comparison.others)
    return f"{code(comparison.base.label)} → {others}"


def code(text: str, *, cell: bool = False) -> str:
    """A code span that holds any text; `cell`: inside a table, where a bar must be escaped."""
    shown = safe(text).replace("|", "\\|") if cell else safe(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def prose(text: str) -> str:
    """A sentence in which no sign means anything to Markdown, HTML or the host."""
    plain = safe(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    marked = re.sub(r"^-|:(?=\w+:)|[\\`*_\[\]#!|~$]", r"\\\g<0>", plain)
    return re.sub(r"@(?=\w)", "@&#8203;", marked)


def _headline(comparison: Comparison) -> str:
    counts = ", ".join(
        f"{_mark(verdict)}**{number} {verdict}**" if verdict not in QUIET else f"{number} {verdict}"
        for verdict, number in words.counts(comparison)
    )
    lines = [f"{len(comparison.cases)} cases: {counts}"] if comparison.cases else []
    lines += [prose(words.suite_text(n)) for n in words.headline_numbers(comparison)]
    lines += [prose(text) for text in words.movement_texts(comparison)]
    lines += [prose(text) for text in words.sensitivity_texts(comparison)]
    lines += [prose(text) for text in (words.why_text(comparison),) if text]
    return "  \n".join(lines)


def _mark(verdict: Verdict) -> str:
    return f"{MARKS[verdict]} " if verdict in MARKS else ""


def _sentences(title: str, sentences: Iterable[str]) -> str:
    lines = [f"- {prose(sentence)}" for sentence in sentences]
    shown = [
        *lines[:FIRST_ROWS],
        *([f"- and {len(lines) - FIRST_ROWS} more"] if len(lines) > FIRST_ROWS else []),
    ]
    return "\n".join([f"**{title}**", "", *shown]) if lines else ""


def _as_sentences(cases: Sequence[CaseComparison]) -> str:
    return "\n".join(
        f"- {_mark(case.verdict)}**{case.verdict}** {code(words.case_name(case))}: "
        f"{prose(case.reason)}"
        for case in cases
        if case.verdict in words.VANISHED
    )


def _measured(cases: Sequence[CaseComparison], comparison: Comparison) -> str:
    table = [_row(case, comparison) for case in cases if case.verdict not in words.VANISHED]
    return "\n".join([*_head(comparison), *table]) if table else ""


def _head(comparison: Comparison) -> tuple[str, str]:
    extra = [*(["engine"] if words.many_engines(comparison) else [])]
    extra += ["of"] if words.many_others(comparison) else []
    titles = ["verdict", "case", *extra, "base", "other", "change", "95 % interval"]
    aligns = [":--", ":--", *[":--" for _ in extra], "--:", "--:", "--:", ":-:"]
    return _line(titles), _line(aligns)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _row(case: CaseComparison, comparison: Comparison) -> str:
    base, other, metric = words.values(case)
    extra = [code(case.engine, cell=True)] if words.many_engines(comparison) else []
    extra += [code(case.other_label, cell=True)] if words.many_others(comparison) else []
    change = "" if metric is None else change_text(metric.ratio)
    interval = "" if metric is None else interval_text(metric.ci_low, metric.ci_high)
    verdict = f"{_mark(case.verdict)}{words.verdict_text(case)}"
    return _line(
        [verdict, code(words.case_name(case), cell=True), *extra, base, other, change, interval]
    )


def _compared(comparison: Comparison) -> str:
    """Sides and differences, folded unless a setting that must agree does not."""
    lines = [_line(["", "base", *[code(s.label, cell=True) for s in comparison.others]])]
    lines.append(_line([":--"] * (2 + len(comparison.others))))
    sides = [words.side_facts(side) for side in (comparison.base, *comparison.others)]
    names = dict.fromkeys(name for facts in sides for name in facts)
    lines += [_line([name, *[prose(facts.get(name, "")) for facts in sides]]) for name in names]
    differences = [
        f"- {'**must agree:** ' if d.must_agree else ''}{prose(d.name)}: "
        f"{code(d.base)} → {code(d.other)} ({code(d.other_label)})"
        for d in comparison.differences
    ]
    loud = any(d.must_agree for d in comparison.differences)
    table = "\n".join(lines)
    if not loud:
        table = "\n\n".join([table, *(["\n".join(differences)] if differences else [])])
        return _details("What was compared", table)
    return (
        "**Settings differ**\n\n"
        + "\n".join(differences)
        + "\n\n"
        + _details("What was compared", table)
    )


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _folded(title: str, cases: Sequence[CaseComparison], comparison: Comparison, room: int) -> str:
    """As many rows as there is room for; says how many are left out."""
    if not cases:
        return ""
    lines = [*_head(comparison)]
    left = room - sum(map(len, lines)) - 300
    for case in cases:
        line = _row(case, comparison)
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    missing = len(cases) - (len(lines) - 2)
    if missing == len(cases):
        return f"\n\n{title}: {len(cases)} cases, no room for them here"
    body = "\n".join(lines) + (f"\n\nand {missing} more" if missing else "")
    return "\n\n" + _details(f"{title} ({len(cases)})", body)
