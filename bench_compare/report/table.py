"""The terminal: summary first, then the bad news, then the rest on demand."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

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
NARROWEST_NAME = 14
SIDE_FACTS = ("host", "device", "engine", "sampling")
APPEARED = (Verdict.FIXED, Verdict.ADDED)
TOLD = frozenset({*words.VANISHED, *APPEARED})
"""Verdicts told by a sentence: there is nothing to hold side by side."""


def render(comparison: Comparison, view: View) -> str:
    """The report as text of at most `View.width` columns, a newline at the end."""
    shown = rows(comparison, view)
    blocks = [_opening(comparison, view), _differences(comparison, view)]
    blocks.append(_headline(comparison, view))
    if view.sort == "news":
        news, rest = _news_and_rest(shown)
        blocks += [
            _told([case for case in shown if case.verdict in words.VANISHED], comparison, view),
            _measured(news, comparison, view),
            _told([case for case in shown if case.verdict in APPEARED], comparison, view),
            _measured(rest, comparison, view),
        ]
    else:
        blocks.append(_measured(shown, comparison, view))
    blocks += [_other_news(comparison, view), _closing(comparison, shown, view)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _news_and_rest(
    shown: Sequence[CaseComparison],
) -> tuple[list[CaseComparison], list[CaseComparison]]:
    measured = [case for case in shown if case.verdict not in TOLD]
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
    lines += [_wrap(text, view) for text in _suite(comparison)]
    return "\n".join(lines)


def _sides(comparison: Comparison, view: View) -> Iterable[str]:
    """A line for each side; facts that all of them share come once, below."""
    sides = [("base", comparison.base), *(("other", side) for side in comparison.others)]
    facts = [words.side_facts(side) for _, side in sides]
    shared = [n for n in SIDE_FACTS if n in facts[0] and len({f.get(n) for f in facts}) == 1]
    width = min(max(len(safe(side.label)) for _, side in sides), view.width // 3)
    for (role, side), known in zip(sides, facts, strict=True):
        number = len(side.sources)
        parts = [f"{number} documents" if number > 1 else known["documents"]]
        parts += [known[name] for name in SIDE_FACTS if name in known and name not in shared]
        head = f"{role:5}  {cut(safe(side.label), width):{width}}  "
        yield _wrap("; ".join(parts), view, " " * len(head), head)
    if shared:
        text = "; ".join(facts[0][name] for name in shared)
        yield _wrap(text, view, " " * 7, "both   " if len(sides) == 2 else "all    ")


def _suite(comparison: Comparison) -> Iterable[str]:
    many = words.many_others(comparison)
    for number in words.headline_numbers(comparison):
        label = f"{safe(number.other_label)}: " if many else ""
        yield label + words.suite_text(number)
    yield from words.movement_texts(comparison)


def _differences(comparison: Comparison, view: View) -> str:
    if not comparison.differences:
        return ""
    many = words.many_others(comparison)
    cell = (view.width - 38) // (3 if many else 2)
    table = [
        [
            _paint(cut(safe(d.name), 18), "1;31" if d.must_agree else None, view),
            cut(safe(d.base), cell),
            cut(safe(d.other), cell),
            *([cut(safe(d.other_label), cell)] if many else []),
            "must agree" if d.must_agree else "",
        ]
        for d in comparison.differences
    ]
    headers = ["Differs", "base", "other", *(["of"] if many else []), ""]
    return tabulate(table, headers, tablefmt="plain", disable_numparse=True)


def _told(told: Sequence[CaseComparison], comparison: Comparison, view: View) -> str:
    """Cases without numbers: verdict, name in full and the reason below it."""
    width = max((len(str(case.verdict)) for case in told), default=0)
    indent = " " * (width + GAP)
    lines = []
    for case in told:
        verdict = _paint(f"{case.verdict!s:{width}}", COLORS.get(case.verdict), view)
        name = _wrap(_full_name(case, comparison), view, indent, indent)[len(indent) :]
        lines.append(f"{verdict}{' ' * GAP}{name}")
        lines.append(_wrap(safe(case.reason), view, indent, indent))
    return "\n".join(lines)


def _full_name(case: CaseComparison, comparison: Comparison) -> str:
    parts = [words.case_name(case)]
    parts += [f"on {safe(case.engine)}"] if words.many_engines(comparison) else []
    parts += [f"in {safe(case.other_label)}"] if words.many_others(comparison) else []
    return " ".join(parts)


def _measured(group: Sequence[CaseComparison], comparison: Comparison, view: View) -> str:
    """One line a case. The name gets the room that the numbers leave."""
    if not group:
        return ""
    wide = view.width >= WIDE
    columns = [
        ("", [words.verdict_text(case) for case in group], "left"),
        *_numbers(group, wide),
        *(
            [("engine", [safe(c.engine) for c in group], "left")]
            if words.many_engines(comparison)
            else []
        ),
        *(
            [("of", [safe(c.other_label) for c in group], "left")]
            if words.many_others(comparison)
            else []
        ),
    ]
    limit = view.width // 7
    columns = [
        (title, _fit(cells, limit) if title in {"engine", "of"} else cells, align)
        for title, cells, align in columns
    ]
    used = sum(max([len(title) + HEAD, *map(len, cells)]) + GAP for title, cells, _ in columns)
    full = [words.case_name(case) for case in group]
    short = shortened(full, max(view.width - used, NARROWEST_NAME))
    columns.insert(1, ("case", [short[name] for name in full], "left"))
    columns[0] = ("", [_verdict_cell(case, view) for case in group], "left")
    return _plain(columns)


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
    lines = [_wrap(words.news_text(news), view) for news in words.untold(comparison)]
    return "\n".join(["Also", *lines]) if lines else ""


def _closing(comparison: Comparison, shown: Sequence[CaseComparison], view: View) -> str:
    lines = []
    total = len(comparison.cases)
    if len(shown) < total:
        more = "" if view.all else "; --all shows the rest"
        wanted = f" that match {safe(view.filter)!r}" if view.filter else ""
        lines.append(f"{len(shown)} of {total} cases shown{wanted}{more}")
    if any(words.verdict_text(case).endswith("?") for case in shown):
        lines.append("? provisional: a single round a side, see --rounds of bench-run")
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
