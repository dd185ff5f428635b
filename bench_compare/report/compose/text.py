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
    from collections.abc import Iterator, Sequence

    from bench_compare.compose.model import Composition, Configuration, Part

NAME_WIDTH, SETTING_WIDTH, NOTE_WIDTH = 34, 26, 30
MOST_PARTS = 40
MOST_REMARKS = 12


def render(composition: Composition, width: int) -> str:
    """Command lines are not wrapped: they are copied as they stand."""
    blocks = [
        list(_opening(composition, width)),
        list(_totals(composition)),
        list(_parts(composition)),
        list(_front(composition)),
        list(_checks(composition, width)),
        list(_remarks(composition, width)),
        list(_missing(composition, width)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _opening(made: Composition, width: int) -> Iterator[str]:
    yield from _wrapped(headline(made), width)
    for name, text in facts(made):
        yield from _wrapped(f"{name + ':':10} {text}", width, hang=" " * 11)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    shown = [[safe(cell) for cell in row] for row in rows]
    text = tabulate(shown, headers=head, tablefmt="simple", disable_numparse=True)
    yield from (line.rstrip() for line in text.splitlines())


def _totals(made: Composition) -> Iterator[str]:
    rows = [(cut(name, NAME_WIDTH), *total_cells(one)) for name, one in totals(made)]
    if rows:
        yield from _table(TOTALS, rows)


def _parts(made: Composition) -> Iterator[str]:
    if made.chosen is None:
        return
    rows = [part_cells(part) for part in _largest(made.chosen)]
    yield from _table(PARTS, [_narrow(row) for row in rows])
    hidden = len(made.chosen.parts) - len(rows)
    if hidden > 0:
        yield f"and {hidden} smaller parts: --json, --markdown"


def _narrow(row: Sequence[str]) -> tuple[str, ...]:
    kind, name, setting, *middle, note = row
    return (kind, cut(name, NAME_WIDTH), cut(setting, SETTING_WIDTH), *middle,
            cut(note, NOTE_WIDTH))  # fmt: skip


def _largest(one: Configuration) -> list[Part]:
    """In the order of the pipeline."""
    if len(one.parts) <= MOST_PARTS:
        return list(one.parts)
    sizes = sorted((abs(part.time_ns) for part in one.parts), reverse=True)
    least = sizes[MOST_PARTS - 1]
    return [part for part in one.parts if abs(part.time_ns) >= least][:MOST_PARTS]


def _front(made: Composition) -> Iterator[str]:
    if len(made.front) < 2:
        return
    yield "time and energy, corners of what can be had:"
    rows = [
        ("*" if point.is_chosen else "", time_text(point.time_ns), joules_text(point.energy_j))
        for point in made.front
    ]
    yield from _table(("chosen", "time", "energy"), rows)


def _checks(made: Composition, width: int) -> Iterator[str]:
    if made.checks:
        yield from _table(CHECKS, [check_cells(check) for check in made.checks])
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
        safe(text), width, initial_indent=first, subsequent_indent=hang,
        break_long_words=True, break_on_hyphens=False,
    )  # fmt: skip
