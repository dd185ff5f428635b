"""The terminal: summary first, then the bad news, then the rest on demand."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from bench_compare.model import Verdict
from bench_compare.report import words
from bench_compare.report.names import cut, safe, shortened
from bench_compare.report.rows import QUIET, rows
from bench_compare.report.units import change_text, interval_text, margin_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_compare.model import CaseComparison, Comparison, View

COLORS: dict[Verdict, str] = {
    Verdict.BROKEN: "1;31",
    Verdict.NEWLY_WRONG: "1;31",
    Verdict.REMOVED: "1;31",
    Verdict.NEWLY_UNSUPPORTED: "31",
    Verdict.WRONG: "31",
    Verdict.LOST: "31",
    Verdict.INCOMPARABLE: "35",
    Verdict.SLOWER: "31",
    Verdict.WORSE: "31",
    Verdict.CLOCK: "35",
    Verdict.FASTER: "32",
    Verdict.BETTER: "32",
    Verdict.FIXED: "32",
    Verdict.UNCLEAR: "33",
}
"""ANSI codes; a verdict without a row keeps the terminal's colour."""
BOLD = "1"
WIDE = 110
"""From this width on there is room for both ends of the interval."""
GAP, HEAD = 2, 2
"""Between columns, and what tabulate adds to the width of a head."""
NARROWEST_NAME = 18
"""Where a column of names would be narrower, a case has lines of its own."""
NARROW = 64
"""Below this width differences are sentences instead of columns."""
ROLE = " " * 7
"""The room of ``other`` and the gap after it."""
PLAIN: dict[str, Any] = {"disable_numparse": True}
SIDE_FACTS = ("host", "device", "engine", "sampling")
APPEARED = (Verdict.FIXED, Verdict.ADDED)
UNMEASURABLE = frozenset({*words.VANISHED, *APPEARED})
"""Verdicts told by a sentence: there is nothing to hold side by side."""


def render(comparison: Comparison, view: View) -> str:
    """The report as text of at most `View.width` columns (40 at least), a newline at the end."""
    shown = rows(comparison, view)
    blocks = [_opening(comparison, view), _differences(comparison, view)]
    blocks.append(_headline(comparison, view))
    for side in comparison.others:
        of_side = [case for case in shown if case.other_label == side.label]
        if of_side and words.many_others(comparison):
            blocks.append(_paint(_wrap(f"== {safe(side.label)}", view), BOLD, view))
        blocks += _cases(of_side, comparison, view)
    blocks += [_other_news(comparison, view), _closing(comparison, shown, view)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _cases(shown: Sequence[CaseComparison], comparison: Comparison, view: View) -> list[str]:
    """Of one side, in the order that was asked for."""
    if view.sort != "news":
        return [_measured(shown, comparison, view)]
    news, rest = _news_and_rest(shown)
    return [
        _as_sentences([case for case in shown if case.verdict in words.VANISHED], comparison, view),
        _measured(news, comparison, view),
        _as_sentences([case for case in shown if case.verdict in APPEARED], comparison, view),
        _measured(rest, comparison, view),
    ]


def _news_and_rest(
    shown: Sequence[CaseComparison],
) -> tuple[list[CaseComparison], list[CaseComparison]]:
    measured = [case for case in shown if case.verdict not in UNMEASURABLE]
    return (
        [case for case in measured if case.verdict not in QUIET],
        [case for case in measured if case.verdict in QUIET],
    )


def _paint(text: str, code: str | None, view: View) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if view.color and code and text else text


def _wrap(text: str, view: View, indent: str = "  ", first: str = "") -> str:
    return textwrap.fill(
        text,
        view.width,
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _opening(comparison: Comparison, view: View) -> str:
    """Errors and warnings, then what was compared."""
    lines = [_paint(_wrap(f"error: {safe(p)}", view), "1;31", view) for p in comparison.problems]
    lines += [_paint(_wrap(f"warning: {safe(w)}", view), "33", view) for w in comparison.warnings]
    return "\n".join([*lines, *_sides(comparison, view)])


def _headline(comparison: Comparison, view: View) -> str:
    # A number stays beside its word: a no-break space while wrapping.
    counts = re.sub(r"(\d) ", "\\1\xa0", words.counts_text(comparison))
    lines = [_paint(_wrap(counts, view).replace("\xa0", " "), BOLD, view)]
    lines += [
        _wrap(text, view) for text in (*_suite(comparison), words.why_text(comparison)) if text
    ]
    return "\n".join(lines)


def _sides(comparison: Comparison, view: View) -> Iterable[str]:
    """Lines for each side; facts that all of them share come once, below."""
    sides = [("base", comparison.base), *(("other", side) for side in comparison.others)]
    facts = [words.side_facts(side) for _, side in sides]
    shared = [n for n in SIDE_FACTS if n in facts[0] and len({f.get(n) for f in facts}) == 1]
    width = max(len(safe(side.label)) for _, side in sides)
    for (role, side), known in zip(sides, facts, strict=True):
        number = len(side.sources)
        parts = [f"{number} documents" if number > 1 else known["documents"]]
        parts += [known[name] for name in SIDE_FACTS if name in known and name not in shared]
        yield from _side(f"{role:5}  ", f"{safe(side.label):{width}}", "; ".join(parts), view)
    if shared:
        text = "; ".join(facts[0][name] for name in shared)
        yield _wrap(text, view, ROLE, "both   " if len(sides) == 2 else "all    ")


def _side(role: str, label: str, facts: str, view: View) -> Iterable[str]:
    """On one line where the labels are short, else the facts below the whole label."""
    if len(label) <= view.width // 3:
        head = f"{role}{label}  "
        yield _wrap(facts, view, " " * len(head), head)
    else:
        yield _wrap(label.rstrip(), view, ROLE, role)
        yield _wrap(facts, view, ROLE, ROLE)


def _suite(comparison: Comparison) -> Iterable[str]:
    many = words.many_others(comparison)
    for number in words.headline_numbers(comparison):
        label = f"{safe(number.other_label)}: " if many else ""
        yield label + words.suite_text(number)
    yield from words.movement_texts(comparison)
    yield from words.sensitivity_texts(comparison)


def _differences(comparison: Comparison, view: View) -> str:
    if not comparison.differences:
        return ""
    if words.many_others(comparison) or view.width < NARROW:
        return "\n".join(["Differs", *_difference_lines(comparison, view)])
    cell = (view.width - 38) // 2
    table = [
        [
            _paint(cut(safe(d.name), 18), "1;31" if d.must_agree else None, view),
            cut(safe(d.base), cell),
            cut(safe(d.other), cell),
            "must agree" if d.must_agree else "",
        ]
        for d in comparison.differences
    ]
    return tabulate(table, ["Differs", "base", "other", ""], tablefmt="plain", **PLAIN)


def _difference_lines(comparison: Comparison, view: View) -> Iterable[str]:
    """A sentence each: labels are told in full, and no column is too narrow to read."""
    many = words.many_others(comparison)
    for d in comparison.differences:
        must = "must agree, " if d.must_agree else ""
        of = f" ({safe(d.other_label)})" if many else ""
        text = _wrap(
            f"{must}{safe(d.name)}: {safe(d.base)} → {safe(d.other)}{of}", view, "    ", "  "
        )
        yield _paint(text, "1;31" if d.must_agree else None, view)


def _as_sentences(cases: Sequence[CaseComparison], comparison: Comparison, view: View) -> str:
    """Cases without numbers: verdict, name in full and the reason below it."""
    width = max((len(str(case.verdict)) for case in cases), default=0)
    indent = " " * (width + GAP)
    lines = []
    for case in cases:
        verdict = _paint(f"{case.verdict!s:{width}}", COLORS.get(case.verdict), view)
        name = _wrap(_full_name(case, comparison), view, indent, indent)[len(indent) :]
        lines.append(f"{verdict}{' ' * GAP}{name}")
        lines.append(_wrap(safe(case.reason), view, indent, indent))
    return "\n".join(lines)


def _full_name(case: CaseComparison, comparison: Comparison) -> str:
    parts = [words.case_name(case)]
    parts += [f"on {safe(case.engine)}"] if words.many_engines(comparison) else []
    return " ".join(parts)


def _measured(group: Sequence[CaseComparison], comparison: Comparison, view: View) -> str:
    """One line a case. The name gets the room that the numbers leave."""
    if not group:
        return ""
    columns = [
        ("", [words.verdict_text(case) for case in group], "left"),
        *_numbers(group, view.width >= WIDE),
    ]
    if words.many_engines(comparison):
        engines = _fit([safe(case.engine) for case in group], view.width // 7)
        columns.append(("engine", engines, "left"))
    used = sum(max([len(title) + HEAD, *map(len, cells)]) + GAP for title, cells, _ in columns)
    if view.width - used < NARROWEST_NAME:
        return "\n".join(_stacked(case, comparison, view) for case in group)
    full = [words.case_name(case) for case in group]
    short = shortened(full, view.width - used)
    columns.insert(1, ("case", [short[name] for name in full], "left"))
    columns[0] = ("", [_verdict_cell(case, view) for case in group], "left")
    return _plain(columns)


def _stacked(case: CaseComparison, comparison: Comparison, view: View) -> str:
    """A case on lines of its own, where there is no room for columns."""
    verdict = words.verdict_text(case)
    name = words.case_name(case)
    if words.many_engines(comparison):
        name += f" on {safe(case.engine)}"
    first = _wrap(name, view, "  ", f"{verdict} ")[len(verdict) :]
    base, other, change, _ = _number_cells(case, wide=True)
    lines = [_paint(verdict, COLORS.get(case.verdict), view) + first]
    if change:
        margin = _number_cells(case, wide=False)[3]
        lines.append(_wrap(f"{base} → {other}, {change} {margin}".rstrip(), view, "  ", "  "))
    return "\n".join(lines)


def _numbers(group: Sequence[CaseComparison], wide: bool) -> list[tuple[str, list[str], str]]:
    cells = [_number_cells(case, wide) for case in group]
    titles = ("base", "other", "change", "95 % interval" if wide else "95 %")
    return [(title, [row[i] for row in cells], "right") for i, title in enumerate(titles)]


def _number_cells(case: CaseComparison, wide: bool) -> tuple[str, str, str, str]:
    base, other, metric = words.values(case)
    if metric is None:
        return base, other, "", ""
    low, high = metric.ci_low, metric.ci_high
    interval = interval_text(low, high) if wide else margin_text(metric.ratio, low, high)
    return base, other, change_text(metric.ratio), interval


def _fit(cells: list[str], width: int) -> list[str]:
    short = shortened(cells, width)
    return [short[cell] for cell in cells]


def _verdict_cell(case: CaseComparison, view: View) -> str:
    return _paint(words.verdict_text(case), COLORS.get(case.verdict), view)


def _plain(columns: Sequence[tuple[str, list[str], str]]) -> str:
    table = list(zip(*(cells for _, cells, _ in columns), strict=True))
    return tabulate(
        table,
        headers=[title for title, _, _ in columns],
        tablefmt="plain",
        colalign=[align for _, _, align in columns],
        disable_numparse=True,
    )


def _other_news(comparison: Comparison, view: View) -> str:
    lines = [_wrap(words.news_text(news), view) for news in words.other_bad_news(comparison)]
    return "\n".join(["Also", *lines]) if lines else ""


def _closing(comparison: Comparison, shown: Sequence[CaseComparison], view: View) -> str:
    lines = []
    total = len(comparison.cases)
    if len(shown) < total:
        more = "" if view.all else "; --all shows the rest"
        wanted = f" that match {safe(view.filter)!r}" if view.filter else ""
        lines.append(f"{len(shown)} of {total} cases shown{wanted}{more}")
    lines += [text for text in [words.provisional_text(shown)] if text]
    lines += _notes(shown)
    return "\n".join(_wrap(line, view) for line in lines)


def _notes(shown: Sequence[CaseComparison]) -> list[str]:
    """How many of the shown cases carry each kind of note."""
    kinds: dict[str, int] = {}
    for case in shown:
        for kind in {note.kind for note in case.notes}:
            kinds[kind] = kinds.get(kind, 0) + 1
    if not kinds:
        return []
    text = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
    return [f"Notes on the samples of these cases: {text} (--html or --json tell each)"]
