"""Markdown that fits a comment on a pull request: the answer, bad news, the rest folded away.

Names are code spans, so that nothing in them is formatted, linked or a mention.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_schema.names import safe
from bench_schema.report.cells import cell_text
from bench_schema.report.model import Name, State
from bench_schema.units import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.report.model import Body, Column, Report, ReportRow, Table, View

ROOM = 60_000
"""Characters in all; hosts of repositories cut a comment at 65,536."""
FIRST_ROWS = 25
"""Rows of a table that is not folded away."""
MOST_ROWS = 50
"""Rows of a table of entries."""
MARKS = {"PASS": "✅", "FAIL": "❌", "UNDECIDED": "⚠️"}
ALIGNS = {"left": ":--", "right": "--:", "center": ":-:"}


def render(report: Report, view: View) -> str:  # noqa: ARG001 - Markdown has no columns
    answer = report.conclusion
    head = [f"### {MARKS[answer.word]} {prose(answer.line)}"]
    if answer.hint is not None:
        head.append(_command("To decide:", answer.hint))
    return "\n\n".join([*head, body_text(report.body())])


def body_text(body: Body) -> str:
    """Return the content of a report without its conclusion."""
    every = [replace(table, rows=(*table.rows, *table.quiet())) for table in body.tables]
    tables = [table for table in every if table.rows]
    ranked = [table for table in tables if table.ranked]
    text = "\n\n".join(block for block in _blocks(body, ranked, tables) if block)
    for table in ranked:
        bad, good, rest = (_with_news(table, news) for news in ("bad", "good", "quiet"))
        for title, rows in zip(table.folded, (bad[FIRST_ROWS:], good, rest), strict=True):
            text += _folded(title, rows, _columns(table), ROOM - len(text))
    return text + "\n"


def _blocks(body: Body, ranked: Sequence[Table], tables: Sequence[Table]) -> Iterator[str]:
    base, *others = map(code, body.labels) if body.labels else ("",)
    against = f"{base} → {', '.join(others)}" if others else ""
    yield prose(body.headline) if body.headline else against
    yield "\n".join(f"- {name}: {prose(text)}" for name, text in body.facts)
    answer = []
    if body.counted:
        counts = ", ".join(
            f"{count} {state.word}" if state.news == "quiet" else _marked(state, count, bold=True)
            for state, count in body.counts
        )
        answer.append(f"{count_text(body.counted, 'case')}: {counts}")
    yield "  \n".join([*answer, *(prose(text) for text in body.statements)])
    yield _sentences("Errors", body.problems)
    yield _sentences("Warnings", body.warnings)
    yield _sentences("Bad news", body.also)
    for table in ranked:
        bad = _with_news(table, "bad")[:FIRST_ROWS]
        yield "\n".join(
            f"- {_marked(row.state, bold=True)} {code(row.name)}: {prose(row.reason)}"
            for row in bad
            if row.reason is not None and row.state is not None
        )
        yield _table(_columns(table), [row for row in bad if row.reason is None])
    yield _compared(body)
    for table in tables:
        if not table.ranked:
            yield from _plain_table(table)
    yield "\n".join(f"- {prose(note)}" for note in body.notes)
    if body.commands:
        yield f"**{body.commands_title}**"
    for reason, line in body.commands:
        yield _command(reason, line)


def _command(reason: str, line: str) -> str:
    fence = "```" if "```" not in line else "~~~~"
    return f"{prose(reason)}\n\n{fence}sh\n{safe(line)}\n{fence}"


def code(text: str, *, cell: bool = False) -> str:
    """Format any text as a code span; `cell`: inside a table, where a bar must be escaped."""
    shown = safe(text).replace("|", "\\|") if cell else safe(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def prose(text: str) -> str:
    """Escape a sentence so that no sign has a meaning to Markdown, HTML or the host."""
    plain = safe(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    marked = re.sub(r"^-|:(?=\w+:)|[\\`*_\[\]#!|~$]", r"\\\g<0>", plain)
    return re.sub(r"@(?=\w)", "@&#8203;", marked)


def _marked(state: State | None, number: int | None = None, *, bold: bool = False) -> str:
    """Return the word with its sign: shape and word tell it, never colour alone."""
    if state is None:
        return ""
    mark = f"{state.mark} " if state.mark else ""
    word = f"{state.word}{state.doubt}" if number is None else f"{number} {state.word}"
    return f"{mark}**{word}**" if bold else f"{mark}{word}"


def _sentences(title: str, sentences: Sequence[str]) -> str:
    lines = [f"- {prose(sentence)}" for sentence in sentences[:FIRST_ROWS]]
    if len(sentences) > FIRST_ROWS:
        lines.append(f"- and {len(sentences) - FIRST_ROWS} more")
    return "\n".join([f"**{title}**", "", *lines]) if lines else ""


def _with_news(table: Table, news: str) -> list[ReportRow]:
    return [row for row in table.rows if row.news == news]


def _columns(table: Table) -> list[tuple[int, Column]]:
    """Return the columns with their positions, without optional ones that are empty in every
    row."""
    return [
        (place, column)
        for place, column in enumerate(table.columns)
        if not column.optional
        or any(cell_text(row.cells[place]) not in ("", "-") for row in table.rows)
    ]


def _table(columns: Sequence[tuple[int, Column]], rows: Sequence[ReportRow]) -> str:
    return "\n".join([*_head(columns), *(_row(row, columns) for row in rows)]) if rows else ""


def _head(columns: Sequence[tuple[int, Column]]) -> tuple[str, str]:
    titles = [column.title for _, column in columns]
    return _line(titles), _line(ALIGNS[column.align] for _, column in columns)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _row(row: ReportRow, columns: Sequence[tuple[int, Column]]) -> str:
    texts = []
    for cell in (row.cells[place] for place, _ in columns):
        match cell:
            case Name(text):
                texts.append(code(text, cell=True))
            case State():
                texts.append(_marked(cell))
            case str():
                texts.append(prose(cell))
            case _:
                texts.append(cell_text(cell))
    return _line(texts)


def _plain_table(table: Table) -> Iterator[str]:
    rows = table.rows[:MOST_ROWS] if table.entries else table.rows
    yield f"**{table.title}**" if table.title else ""
    yield _table(_columns(table), rows)
    if len(rows) < len(table.rows):
        yield f"{len(table.rows) - len(rows)} {table.more}"
    yield prose(table.foot)
    for row in rows:
        if row.details:
            lines = "\n".join(f"- {prose(line.strip())}" for line in row.details)
            yield _details(prose(row.name), lines)


def _compared(body: Body) -> str:
    """Return sides and differences, folded unless a setting that must agree does not."""
    if not body.sides:
        return ""
    _, *others = body.sides
    labels = ["base", *(code(side.label, cell=True) for side in others)]
    names = dict.fromkeys(name for side in body.sides for name in side.facts)
    table = "\n".join(
        [
            _line(["", *labels]),
            _line([":--"] * (1 + len(labels))),
            *(_line([n, *(prose(s.facts.get(n, "")) for s in body.sides)]) for n in names),
        ]
    )
    differences = "\n".join(
        f"- {'**must agree:** ' if d.must_agree else ''}{prose(d.name)}: "
        f"{code(d.base)} → {code(d.other)} ({code(d.of)})"
        for d in body.differences
    )
    if any(d.must_agree for d in body.differences):
        return f"**Settings differ**\n\n{differences}\n\n{_details('What was compared', table)}"
    folded = "\n\n".join(part for part in (table, differences) if part)
    return _details("What was compared", folded)


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _folded(
    title: str, rows: Sequence[ReportRow], columns: Sequence[tuple[int, Column]], room: int
) -> str:
    """Return a folded table of as many rows as fit, and the number of rows left out; empty without
    rows."""
    if not rows:
        return ""
    lines = [*_head(columns)]
    left = room - sum(map(len, lines)) - 300
    for row in rows:
        line = _row(row, columns)
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    missing = len(rows) - (len(lines) - 2)
    if missing == len(rows):
        return f"\n\n{title}: {count_text(len(rows), 'case')}, no room for them here"
    body = "\n".join(lines) + (f"\n\nand {missing} more" if missing else "")
    return "\n\n" + _details(f"{title} ({len(rows)})", body)
