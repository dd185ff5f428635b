"""Markdown: the answer, its parts and what is missing, for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from bench_compare.report.markdown import prose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.compose.model import Composition


def render(composition: Composition, width: int = 80) -> str:  # noqa: ARG001
    return "\n".join(_lines(composition)) + "\n"


def _lines(made: Composition) -> Iterator[str]:
    yield f"## {prose(headline(made))}"
    yield ""
    for name, text in facts(made):
        yield f"- {name}: {prose(text)}"
    for problem in made.problems:
        yield f"\n**{prose(problem)}**"
    rows = [(name, *total_cells(one)) for name, one in totals(made)]
    yield from _table("", TOTALS, rows)
    if made.checks:
        yield from _table("Against the measurement", CHECKS, [check_cells(c) for c in made.checks])
    if made.model is not None:
        yield f"\n{prose(model_text(made))}"
    if made.chosen is not None:
        yield from _table("Parts", PARTS, [part_cells(part) for part in made.chosen.parts])
    if len(made.front) > 1:
        points = [
            (time_text(p.time_ns), joules_text(p.energy_j), "yes" if p.is_chosen else "")
            for p in made.front
        ]
        yield from _table("Time and energy", ("time", "energy", "chosen"), points)
    if made.remarks:
        yield ""
    for remark in made.remarks:
        yield f"- {prose(remark)}"
    yield from _missing(made)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    if title:
        yield f"### {title}\n"
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(prose(cell) for cell in row)} |"


def _missing(made: Composition) -> Iterator[str]:
    if made.missing:
        yield "\n### Not measured"
    for one in made.missing:
        needed = "needed" if one.blocks else "would make the answer better"
        fence = "```" if "```" not in one.command else "~~~~"
        yield f"\n{prose(one.what)} ({needed})\n\n{fence}sh\n{one.command}\n{fence}"
