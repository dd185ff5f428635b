"""The terminal: the answer first, then its parts, checks and what is missing."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tabulate import tabulate

from bench_compare.report.compose.words import (
    CHECKS,
    PARTS,
    TOTALS,
    check_cells,
    facts,
    headline,
    joules_text,
    model_text,
    part_cells,
    time_text,
    total_cells,
    totals,
)
from bench_compare.report.names import cut, safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.compose.model import Composition, Configuration, PassPart

WIDE = ("choice", "part", "runs as", "note")
"""Columns that give way where a table is wider than the window, none below `NARROWEST`."""
WIDEST, NARROWEST = 34, 12
LESS = ("workspace", "note", "times", "caches")
"""Left out in this order where that is not enough; --markdown and --json have them."""
MOST_PARTS = 40
MOST_REMARKS = 12


def render(composition: Composition, width: int) -> str:
    """Command lines are not wrapped: they are copied as they stand."""
    blocks = [
        list(_opening(composition, width)),
        list(_totals(composition, width)),
        list(_parts(composition, width)),
        list(_front(composition, width)),
        list(_checks(composition, width)),
        list(_remarks(composition, width)),
        list(_missing(composition, width)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _opening(made: Composition, width: int) -> Iterator[str]:
    yield from _wrapped(headline(made), width)
    for name, text in facts(made):
        yield from _wrapped(f"{name + ':':10} {text}", width, hang=" " * 11)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Without columns that say nothing; names are cut as the window asks for."""
    columns = [(name, [safe(row[place]) for row in rows]) for place, name in enumerate(head)]
    told = [
        (name, cells) for name, cells in columns if any(cell not in ("", "-") for cell in cells)
    ]
    lines = _fitted(told, width)
    for less in LESS:
        if max(map(len, lines), default=0) > width:
            told = [(name, cells) for name, cells in told if name != less]
            lines = _fitted(told, width)
    yield from lines


def _fitted(told: Sequence[tuple[str, list[str]]], width: int) -> list[str]:
    cells = dict(told)
    limits = {name: _shown(column, WIDEST) for name, column in told if name in WIDE}
    while (lines := _drawn(told, limits)) and max(map(len, lines)) > width:
        widest = max(limits, key=limits.__getitem__, default="")
        if not widest or limits[widest] <= NARROWEST:
            break
        limits[widest] = _shown(cells[widest], limits[widest]) - 1
    return lines


def _shown(cells: Sequence[str], limit: int) -> int:
    return min(limit, max(map(len, cells)))


def _drawn(told: Sequence[tuple[str, list[str]]], limits: Mapping[str, int]) -> list[str]:
    cells = [
        [cut(cell, limits.get(name, len(cell) + 1)) for cell in column] for name, column in told
    ]
    text = tabulate(
        list(zip(*cells, strict=True)),
        headers=[name for name, _ in told],
        tablefmt="simple",
        disable_numparse=True,
    )
    return [line.rstrip() for line in text.splitlines()]


def _totals(made: Composition, width: int) -> Iterator[str]:
    rows = [(name, *total_cells(one)) for name, one in totals(made)]
    if rows:
        yield from _table(TOTALS, rows, width)


def _parts(made: Composition, width: int) -> Iterator[str]:
    if made.chosen is None:
        return
    rows = [part_cells(part) for part in _largest(made.chosen)]
    yield from _table(PARTS, rows, width)
    hidden = len(made.chosen.parts) - len(rows)
    if hidden > 0:
        yield f"and {hidden} smaller parts: --json, --markdown"


def _largest(one: Configuration) -> list[PassPart]:
    """In the order of the pipeline."""
    if len(one.parts) <= MOST_PARTS:
        return list(one.parts)
    sizes = sorted((abs(part.time_ns) for part in one.parts), reverse=True)
    least = sizes[MOST_PARTS - 1]
    return [part for part in one.parts if abs(part.time_ns) >= least][:MOST_PARTS]


def _front(made: Composition, width: int) -> Iterator[str]:
    if len(made.front) < 2:
        return
    yield "time and energy, corners of what can be had:"
    rows = [
        ("*" if point.is_chosen else "", time_text(point.time_ns), joules_text(point.energy_j))
        for point in made.front
    ]
    yield from _table(("chosen", "time", "energy"), rows, width)


def _checks(made: Composition, width: int) -> Iterator[str]:
    if made.checks:
        yield from _table(CHECKS, [check_cells(check) for check in made.checks], width)
    if made.model is not None:
        yield from _wrapped(model_text(made), width)


def _remarks(made: Composition, width: int) -> Iterator[str]:
    for remark in made.remarks[:MOST_REMARKS]:
        yield from _wrapped(f"- {remark}", width, hang="  ")
    if len(made.remarks) > MOST_REMARKS:
        yield f"- and {len(made.remarks) - MOST_REMARKS} more: --json"


def _missing(made: Composition, width: int) -> Iterator[str]:
    if made.missing:
        yield "not measured:"
    for one in made.missing:
        needed = "needed" if one.blocks else "would make the answer better"
        yield from _wrapped(f"{one.what} ({needed})", width, hang="    ", first="  ")
        yield f"    {safe(one.command)}"


def _wrapped(text: str, width: int, hang: str = "", first: str = "") -> list[str]:
    return textwrap.wrap(
        safe(text),
        width,
        initial_indent=first,
        subsequent_indent=hang,
        break_long_words=True,
        break_on_hyphens=False,
    )
