"""The page of a report that is tables and charts: what the terminal and Markdown show, and more.

Charts are figures of plotly. A colour is the name of one of the page's (``--tone-bad``), so that it
follows the reader's scheme.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench_compare.report.cells import cell_text
from bench_compare.report.model import Amount, Page, RatioCell, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.report.model import Body, Cell, Chart, Command, ReportRow, Table


def page_of(
    title: str,
    body: Body,
    tables: Sequence[Table],
    charts: Sequence[Chart],
    texts: Mapping[str, Sequence[str]],
) -> Page:
    """Make the page of `body` with `tables` in place of its own; `texts`: lists of texts to which
    traces refer by name, by their places on x."""
    data = {
        "problems": body.problems,
        "remarks": [*body.warnings, *body.notes],
        "statements": body.statements,
        "facts": body.facts,
        "tables": [_table(one) for one in tables if one.rows],
        "charts": [vars(one) for one in charts],
        "commands": {"title": body.commands_title, "lines": _commands(body.commands)},
        "texts": dict(texts),
    }
    return Page("tables", title, data)


def _commands(commands: Sequence[Command]) -> list[list[str]]:
    return [[one.reason, one.line] for one in commands]


def _table(table: Table) -> dict[str, Any]:
    used = [
        place
        for place, column in enumerate(table.columns)
        if not column.optional
        or any(cell_text(row.cells[place]) not in ("", "-") for row in table.rows)
    ]
    return {
        "title": table.title,
        "entries": table.entries,
        "heads": [[table.columns[place].title, table.columns[place].align] for place in used],
        "rows": [_row(replace(row, cells=tuple(row.cells[p] for p in used))) for row in table.rows],
        "foot": table.foot,
    }


def _row(row: ReportRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "link": row.link,
        "state": None if row.state is None else _cell(row.state),
        "entry": row.entry,
        "cells": [_cell(cell) for cell in row.cells],
        "details": row.details,
        "commands": _commands(row.commands),
    }


def _cell(cell: Cell) -> Any:
    """Return a text; with the number by which it sorts, if it shows one; a state with its looks."""
    match cell:
        case State():
            tone = "none" if cell.tone == "plain" else cell.tone
            return {"word": cell.word, "tone": tone, "mark": cell.mark}
        case Amount(value, _) | RatioCell(value, _):
            return [cell_text(cell), value]
        case _:
            return cell_text(cell)
