"""The terminal: what went wrong, what was asked, the answer, then what it rests on."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import tabulate as tables

from bench_schema.names import cut, safe, shortened
from bench_schema.report.cells import cell_text, counts_text
from bench_schema.report.model import RatioInterval
from bench_schema.units import NOTHING, margin_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.report.model import (
        Body,
        Cell,
        Column,
        Conclusion,
        Report,
        ReportRow,
        Table,
        Tone,
        View,
    )

COLORS: dict[Tone, str] = {"fatal": "1;31", "bad": "31", "odd": "35", "good": "32", "open": "33"}
"""ANSI codes; another tone keeps the terminal's colour."""
BOLD, ALARM, WARNING = "1", "1;31", "33"
ANSWERS = {"PASS": "1;32", "FAIL": ALARM, "UNDECIDED": "1;33"}
WIDE = 110
"""Width from which both ends of a ratio's interval are printed."""
GAP = 2
"""Between columns."""
NARROW = 64
"""Below this width differences are sentences instead of columns."""
ROLE = " " * 7
"""The room of ``other`` and the gap after it."""
INDENT = "  "
NAME_ROOM = 9
"""Width of the name of a fact."""


def conclusion_text(conclusion: Conclusion, view: View) -> str:
    """Return one line, however narrow the terminal is: programs read it, too."""
    return _paint(safe(conclusion.line), ANSWERS[conclusion.word], view)


def render(report: Report, view: View) -> str:
    """Return the report as text of at most `View.width` columns (40 at least), a newline at the
    end. Two things are not wrapped: command lines, which are copied as they stand, and the last
    line."""
    hint = report.conclusion.hint
    last = [] if hint is None else ["to decide:", f"{INDENT}{safe(hint)}"]
    answer = "\n".join([*last, conclusion_text(report.conclusion, view)])
    return "\n\n".join(text for text in (body_text(report.body(), view), answer) if text) + "\n"


def body_text(body: Body, view: View) -> str:
    """Return the content of a report without its conclusion and without a newline at the end."""
    opening = [_paint(_wrap(f"error: {safe(p)}", view), ALARM, view) for p in body.problems]
    opening += [_paint(_wrap(f"warning: {safe(w)}", view), WARNING, view) for w in body.warnings]
    if body.headline:
        opening.append(_wrap(safe(body.headline), view, ""))
    for name, text in body.facts:
        lead = f"{name + ':':{NAME_ROOM + 1}} "
        opening.append(_wrap(f"{lead}{safe(text)}", view, " " * (NAME_ROOM + 2)))
    answer = []
    if body.counted is not None:
        told = counts_text(body.counted, ((state.word, count) for state, count in body.counts))
        # A number stays beside its word: a no-break space while wrapping.
        counts = re.sub(r"(\d) ", "\\1\xa0", told)
        answer.append(_paint(_wrap(counts, view).replace("\xa0", " "), BOLD, view))
    answer += [_wrap(text, view) for text in body.statements]
    blocks = ["\n".join([*opening, *_sides(body, view)])]
    blocks += [_differences(body, view), "\n".join(answer)]
    for table in body.tables:
        blocks += _table_blocks(table, view)
    also = [_wrap(safe(text), view) for text in body.also]
    blocks.append("\n".join(["Also", *also]) if also else "")
    notes = [_wrap(f"- {safe(note)}", view) for note in body.notes[: body.most_notes]]
    if len(notes) < len(body.notes):
        notes.append(f"- and {len(body.notes) - len(notes)} more: --json")
    commands = [f"{body.commands_title.lower()}:"] if body.commands else []
    for reason, line in body.commands:
        commands.append(_wrap(safe(reason), view, INDENT + INDENT, INDENT))
        commands.append(f"{INDENT}{INDENT}{safe(line)}")
    blocks += ["\n".join(notes), "\n".join(commands)]
    blocks.append("\n".join(_wrap(line, view) for line in body.closing))
    return "\n\n".join(block for block in blocks if block)


def _paint(text: str, code: str | None, view: View) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if view.color and code and text else text


def _wrap(text: str, view: View, indent: str = INDENT, first: str = "") -> str:
    return textwrap.fill(
        text,
        view.width,
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _sides(body: Body, view: View) -> Iterator[str]:
    """Yield lines for each side; common facts come once, below."""
    if not body.sides:
        return
    facts = [side.facts for side in body.sides]
    shared = [n for n in body.brief if n in facts[0] and len({f.get(n) for f in facts}) == 1]
    width = max(len(safe(side.label)) for side in body.sides)
    for side in body.sides:
        own = [side.facts[name] for name in body.brief if name in side.facts and name not in shared]
        text = "; ".join([side.lead, *own])
        role, label = f"{side.role:5}  ", f"{safe(side.label):{width}}"
        if len(label) <= view.width // 3:
            head = f"{role}{label}  "
            yield _wrap(text, view, " " * len(head), head)
        else:  # the facts below the whole label
            yield _wrap(label.rstrip(), view, ROLE, role)
            yield _wrap(text, view, ROLE, ROLE)
    if shared:
        text = "; ".join(facts[0][name] for name in shared)
        yield _wrap(text, view, ROLE, "both   " if len(body.sides) == 2 else "all    ")


def _differences(body: Body, view: View) -> str:
    if not body.differences:
        return ""
    if len(body.sides) > 2 or view.width < NARROW:
        lines = []
        for d in body.differences:
            must = "must agree, " if d.must_agree else ""
            of = f" ({safe(d.of)})" if len(body.sides) > 2 else ""
            told = f"{must}{safe(d.name)}: {safe(d.base)} → {safe(d.other)}{of}"
            text = _wrap(told, view, INDENT + INDENT, INDENT)
            lines.append(_paint(text, ALARM if d.must_agree else None, view))
        return "\n".join(["Differs", *lines])
    room = (view.width - 38) // 2
    rows = [
        [
            _paint(cut(safe(d.name), 18), ALARM if d.must_agree else None, view),
            cut(safe(d.base), room),
            cut(safe(d.other), room),
            "must agree" if d.must_agree else "",
        ]
        for d in body.differences
    ]
    heads = ["Differs", "base", "other", ""]
    return _tabulated(rows, heads, ["left"] * len(heads))


def _table_blocks(table: Table, view: View) -> Iterator[str]:
    groups = [place for place, column in enumerate(table.columns) if column.group]
    if not groups:
        yield from _group_blocks(table, table.rows, view)
        return
    [place] = groups
    for label in dict.fromkeys(cell_text(row.cells[place]) for row in table.rows):
        yield _paint(_wrap(f"== {label}", view), BOLD, view)
        yield from _group_blocks(
            table, [row for row in table.rows if cell_text(row.cells[place]) == label], view
        )


def _group_blocks(table: Table, rows: Sequence[ReportRow], view: View) -> Iterator[str]:
    if table.entries:
        yield from ("\n".join(_entry(row, view)) for row in rows[: table.most])
        yield _rest(table, len(rows))
        return
    if table.ranked and view.sort == "news":
        told = [row for row in rows if row.reason is not None]
        measured = [row for row in rows if row.reason is None]
        yield _sentences([row for row in told if row.news == "bad"], view)
        yield _columns(table, [row for row in measured if row.news != "quiet"], view)
        yield _sentences([row for row in told if row.news != "bad"], view)
        yield _columns(table, [row for row in measured if row.news == "quiet"], view)
        return
    if not rows:
        return
    shown = list(rows)
    if table.most is not None and len(shown) > table.most:
        size = table.size
        if size is not None:
            least = sorted(map(size, shown), reverse=True)[table.most - 1]
            shown = [row for row in shown if size(row) >= least]
        shown = shown[: table.most]
    lines = [table.lead, _columns(table, shown, view)]
    lines.append(_rest(table, len(rows)) if len(shown) < len(rows) else "")
    lines.append(_wrap(safe(table.foot), view, "") if table.foot else "")
    yield "\n".join(line for line in lines if line)


def _rest(table: Table, count: int) -> str:
    left = 0 if table.most is None else count - table.most
    return f"{left} {table.more}" if left > 0 else ""


def _entry(row: ReportRow, view: View) -> Iterator[str]:
    """Yield the lines of an entry: the first is the title; those below it begin with their
    indent."""
    title, *lines = row.entry
    color = None if row.state is None else COLORS.get(row.state.tone)
    mark = "" if row.state is None else f"{row.state.mark} "
    text = _wrap(safe(title), view, INDENT, mark)
    yield _paint(text[: len(mark)], color, view) + text[len(mark) :]
    for line in lines:
        indent = INDENT + line[: len(line) - len(line.lstrip(" "))]
        yield _wrap(safe(line.strip()), view, indent, indent)


def _sentences(rows: Sequence[ReportRow], view: View) -> str:
    """Return the state and the full name of each row, with the reason below it."""
    width = max((len(row.state.word) for row in rows if row.state is not None), default=0)
    indent = " " * (width + GAP)
    lines = []
    for row in rows:
        assert row.state is not None
        state = _paint(f"{row.state.word:{width}}", COLORS.get(row.state.tone), view)
        name = _wrap(safe(row.name), view, indent, indent)[len(indent) :]
        lines.append(f"{state}{' ' * GAP}{name}")
        lines.append(_wrap(safe(row.reason or ""), view, indent, indent))
    return "\n".join(lines)


def _columns(table: Table, rows: Sequence[ReportRow], view: View) -> str:
    """Lay out columns: names get the width that numbers leave; then spare columns are dropped; then
    each row gets lines of its own."""
    if not rows:
        return ""
    columns: list[tuple[Column, list[str]]] = []
    for place, column in enumerate(table.columns):
        texts = [_shown(row.cells[place], view) for row in rows]
        unsaid = column.optional and not any(text not in ("", "-") for text in texts)
        if not column.group and not unsaid:
            columns.append((column, texts))
    spare = sorted({column.spare for column, _ in columns} - {0})
    while (limits := _limits(columns, view)) is None and spare:
        columns = [one for one in columns if one[0].spare != spare[0]]
        spare = spare[1:]
    if limits is None and table.stacked:
        return "\n".join(_stacked(table, row, view) for row in rows)
    drawn = []
    for column, texts in columns:
        limit = None if limits is None else limits.get(column.title)
        short = shortened(texts, limit) if limit is not None else None
        drawn.append([text if short is None else short[text] for text in texts])
    for place, (column, _) in enumerate(columns):
        if column is table.columns[0]:
            states = [None if row.state is None else COLORS.get(row.state.tone) for row in rows]
            drawn[place] = [
                _paint(t, code, view) for t, code in zip(drawn[place], states, strict=True)
            ]
    heads = [_head(column, view) for column, _ in columns]
    aligns = ["left" if column.align == "left" else "right" for column, _ in columns]
    return _tabulated(list(zip(*drawn, strict=True)), heads, aligns)


def _tabulated(rows: Sequence[Sequence[str]], heads: Sequence[str], aligns: Sequence[str]) -> str:
    """Return the table with heads that are not padded beyond their own width: 80 columns are few.

    tabulate has that padding only as a setting of the module, so it is put back.
    """
    padding, tables.MIN_PADDING = tables.MIN_PADDING, 0
    try:
        return tables.tabulate(
            rows, heads, tablefmt="plain", colalign=aligns, disable_numparse=True
        )
    finally:
        tables.MIN_PADDING = padding


def _shown(cell: Cell, view: View) -> str:
    if isinstance(cell, RatioInterval) and view.width < WIDE:
        return margin_text(cell.ratio, cell.low, cell.high)
    return cell_text(cell)


def _alone(cell: Cell, view: View) -> str:
    """Return a cell without the head of its column."""
    text = _shown(cell, view)
    is_margin = isinstance(cell, RatioInterval) and text not in ("", NOTHING)
    return f"{text} (95 % CI)" if is_margin else text


def _head(column: Column, view: View) -> str:
    if column.short is not None and view.width < WIDE:
        return column.short
    return column.title if column.head is None else column.head


def _limits(columns: Sequence[tuple[Column, list[str]]], view: View) -> dict[str, int] | None:
    """Return the width of each column that may be cut; None if the columns do not fit."""
    heads = {column.title: len(_head(column, view)) for column, _ in columns}
    widths = {c.title: max([heads[c.title], *map(len, texts)]) for c, texts in columns}
    for column, texts in columns:
        if column.share is not None:
            room = max(view.width // column.share, 8)
            widths[column.title] = min(max(map(len, texts)), room)
    cut_down = {c.title: c.least for c, _ in columns if c.least is not None}
    over = sum(widths.values()) + GAP * (len(widths) - 1) - view.width
    while over > 0:
        able = [name for name, least in cut_down.items() if widths[name] > max(least, heads[name])]
        if not able:
            return None
        widest = max(able, key=widths.__getitem__)
        others = [widths[name] for name in able if name != widest]
        least = max(cut_down[widest], heads[widest])
        step = min(over, widths[widest] - max([least, *(w for w in others if w < widths[widest])]))
        widths[widest] -= max(step, 1)
        over -= max(step, 1)
    flexible = {c.title for c, _ in columns if c.least is not None or c.share is not None}
    return {name: width for name, width in widths.items() if name in flexible}


def _stacked(table: Table, row: ReportRow, view: View) -> str:
    """Return a row on lines of its own: state and name, then its numbers."""
    word = "" if row.state is None else cell_text(row.state)
    color = None if row.state is None else COLORS.get(row.state.tone)
    name = _wrap(safe(row.name), view, INDENT, f"{word} ")[len(word) :]
    texts = {
        column.title.replace(" ", "_").replace("%", "percent"): _alone(cell, view)
        for column, cell in zip(table.columns, row.cells, strict=True)
    }
    numbers = " ".join(table.stacked.format_map(texts).split())
    lines = [_paint(word, color, view) + name]
    if any(char.isdigit() for char in numbers):
        lines.append(_wrap(numbers, view, INDENT, INDENT))
    return "\n".join(lines)
