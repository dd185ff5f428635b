"""Tables of a report as markup: what the browser shows at once, and rows that its script sorts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench_schema.report import model as m
from bench_schema.report.cells import cell_text
from bench_schema.units import count_text

from bench_compare.report.figures.palette import LOOKS, PLAIN
from bench_compare.report.html.markup import Html, escaped, joined, note, tag

if TYPE_CHECKING:
    from collections.abc import Sequence


SHOWN = 50
"""Rows that are there without the script."""
SEARCHED = 12
"""A table with more rows has a search."""


def badge(word: str, tone: str, sign: str = "") -> Html:
    """Return a state: its sign, and its word in its colour."""
    sign = sign or LOOKS.get(word, PLAIN).sign
    return tag(
        "span", tag("span", sign, class_="sign", aria_hidden="true"), word, class_=f"state {tone}"
    )


def state_badge(state: m.State) -> Html:
    known = state.word.partition(",")[0]
    sign = LOOKS[known].sign if known in LOOKS else state.mark
    made = badge(state.word + (", provisional" if state.doubt else ""), state.tone, sign)
    return tag("a", made, href=f"#{state.link}") if state.link else made


def columns_of(table: m.Table, rows: Sequence[m.ReportRow]) -> list[tuple[int, m.Column]]:
    """Return the columns with their positions, without optional ones that are empty."""
    return [
        (place, column)
        for place, column in enumerate(table.columns)
        if not column.optional or any(cell_text(row.cells[place]) not in ("", "-") for row in rows)
    ]


def table_section(table: m.Table, number: int) -> tuple[Html, list[Any]]:
    """Return a table with its title, and its rows for the script: markup, words to search, state,
    and a value a column to sort by. The `number` is that of the table on its page."""
    rows = [*table.rows, *table.quiet()]
    columns = columns_of(table, rows)
    made = [_row(row, columns) for row in rows]
    heads = [
        tag(
            "th",
            tag("button", column.title or "state", type="button", class_="head", data_key=at),
            scope="col",
            class_="number" if column.align == "right" else None,
        )
        for at, (_, column) in enumerate(columns)
    ]
    grid = tag(
        "table",
        tag("caption", table.title or "Cases", class_="hidden"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *(Html(row[0]) for row in made[:SHOWN])),
        class_="cards",
    )
    more = tag("button", "Show more", type="button", class_="more", hidden=True)
    parts = [_controls(table, rows, columns), grid, tag("p", more)]
    if table.foot:
        parts.append(note(table.foot))
    title = tag("h2", table.title or "Cases")
    section = tag(
        "section",
        title,
        *parts,
        class_="list",
        data_rows=number,
        id="list" if table.ranked else None,
    )
    return section, made


def _controls(
    table: m.Table, rows: Sequence[m.ReportRow], columns: Sequence[tuple[int, m.Column]]
) -> Html:
    """Return the search, the order (for phones, which show no heads) and a button a state."""
    if len(rows) <= SEARCHED and not table.ranked:
        return Html()
    states: dict[str, tuple[str, int]] = {}
    for row in rows if table.ranked else ():
        if row.state is not None:
            known = states.get(row.state.word, (row.state.tone, 0))
            states[row.state.word] = known[0], known[1] + 1
    chips = [
        tag(
            "button",
            badge(f"{count} {word}", tone, LOOKS.get(word, PLAIN).sign),
            type="button",
            class_="chip",
            data_state=word,
            aria_pressed="false",
        )
        for word, (tone, count) in states.items()
    ]
    orders = [tag("option", "as listed", value="")]
    orders += [
        tag("option", column.title or "state", value=at) for at, (_, column) in enumerate(columns)
    ]
    hint = "Search: words of name, family, state … (* and ? match)"
    search = tag("input", type="search", placeholder=hint, aria_label="Search", spellcheck="false")
    order = tag("label", "Sort ", tag("select", *orders))
    told = tag("p", count_text(len(rows), "row"), class_="note shown", aria_live="polite")
    named = tag("div", *chips, class_="chips", role="group", aria_label="States") if chips else ""
    return joined([named, tag("div", search, order, told, class_="bar")])


def _row(row: m.ReportRow, columns: Sequence[tuple[int, m.Column]]) -> list[Any]:
    cells, keys, words = [], [], [row.name, row.about]
    inner: str
    for place, column in columns:
        cell = row.cells[place]
        text = cell_text(cell)
        kind = "number" if column.align == "right" else None
        if isinstance(cell, m.State):
            inner, kind = state_badge(cell), "cell-state"
        elif isinstance(cell, m.Name) and place == _name_place(row):
            inner, kind = _named(row, text), "cell-name"
        else:
            inner = escaped("" if text == "-" else text)
        label = column.title if inner and kind not in ("cell-state", "cell-name") else None
        cells.append(tag("td", inner, class_=kind, data_label=label))
        keys.append(_key(cell, text))
        if not isinstance(cell, m.Amount | m.RatioCell | m.RatioInterval | m.Span):
            words.append(text)
    state = "" if row.state is None else row.state.word
    markup = tag("tr", *cells, id=row.id or None, data_id=row.link or None)
    return [markup, " ".join(words).lower(), state, keys]


def _name_place(row: m.ReportRow) -> int:
    return next(at for at, cell in enumerate(row.cells) if isinstance(cell, m.Name))


def _named(row: m.ReportRow, text: str) -> Html:
    """Return the name with what stands below it: a line, a reason, details that unfold."""
    parts = [tag("a", text, href=f"#{row.link}") if row.link else tag("span", text, class_="name")]
    if row.reason:
        parts.append(tag("span", row.reason, class_="reason"))
    if row.about:
        parts.append(tag("span", row.about, class_="note"))
    if row.details:
        summary = tag("summary", count_text(len(row.details), "line"))
        lines = (tag("li", line.strip()) for line in row.details)
        parts.append(tag("details", summary, tag("ul", *lines, class_="note")))
    return joined(parts)


def _key(cell: m.Cell, text: str) -> float | str | None:
    """Return the value that a cell sorts by; None comes last."""
    value: float | None
    match cell:
        case m.Amount(value, _) | m.RatioCell(value, _):
            pass
        case m.RatioInterval(ratio, low, high, _):
            value = None if ratio is None or high is None or not low else high / low
        case m.Span(value, _, _):
            pass
        case _:
            return text.lower() or None
    return value if value is not None and math.isfinite(value) else None


def entries(table: m.Table) -> Html:
    """Return a table of entries: a paragraph a row, with its details and commands folded."""
    parts = []
    for row in table.rows:
        first, *lines = row.entry
        mark = state_badge(row.state) if row.state is not None else ""
        body = [tag("h3", mark, " ", first)]
        body += [tag("p", line.strip(), class_="note") for line in lines]
        if row.details or row.commands:
            inner = [tag("ul", *(tag("li", line) for line in row.details), class_="note")]
            inner += [command(one) for one in row.commands]
            body.append(tag("details", tag("summary", "details"), *inner))
        parts.append(tag("article", *body, class_="event", id=row.id or None))
    return tag("section", *([tag("h2", table.title)] if table.title else []), *parts)


def facts(rows: Sequence[Sequence[str]], heads: Sequence[str] = ()) -> Html:
    """Return a table of names and texts. A row with one text has it in all columns."""
    width = max((len(row) for row in rows), default=2)
    body = []
    for name, *texts in rows:
        span = f' colspan="{width - 1}"' if len(texts) == 1 and width > 2 else ""
        cells = "".join([f"<td{span}>{escaped(text)}</td>" for text in texts])
        body.append(f'<tr><th scope="row">{escaped(name)}</th>{cells}</tr>')
    return _grid("facts", heads, body)


def plain(heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> Html:
    """Return a table of texts in a box that scrolls; all but the first `words` columns are
    numbers."""
    opened = ["<td>" if at < words else NUMBER for at in range(1, len(heads))]
    body = []
    for name, *texts in rows:
        cells = "".join(
            [f"{tag}{escaped(text)}</td>" for tag, text in zip(opened, texts, strict=True)]
        )
        body.append(f'<tr><th scope="row">{escaped(name)}</th>{cells}</tr>')
    box = _grid("plain", heads, body, words)
    return Html(f'<div class="scroll" tabindex="0" role="group" aria-label="Table">{box}</div>')


NUMBER = '<td class="number">'


def _grid(kind: str, heads: Sequence[str], body: Sequence[str], words: int = 99) -> Html:
    titles = [
        tag("th", one, scope="col", class_="number" if at >= words else None)
        if one
        else "<td></td>"
        for at, one in enumerate(heads)
    ]
    head = f"<thead><tr>{''.join(titles)}</tr></thead>" if heads else ""
    return Html(f'<table class="{kind}">{head}<tbody>{"".join(body)}</tbody></table>')


def command(one: m.Command) -> Html:
    copy = tag("button", "Copy", type="button", class_="quiet copy")
    line = tag("div", tag("pre", one.line, tabindex="0"), copy, class_="command")
    return tag("div", tag("p", one.reason), line)
