"""Cells of a report as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema import units
from bench_schema.names import safe
from bench_schema.report.model import Amount, Name, RatioCell, RatioInterval, Span, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_schema.report.model import Cell


def counts_text(total: int, counts: Iterable[tuple[object, int]]) -> str:
    """Return the counts as text, such as ``3 cases: 1 slower, 2 same``; `counts`: words and their
    counts."""
    cases = units.count_text(total, "case")
    parts = ", ".join(f"{count} {word}" for word, count in counts)
    return f"{cases}: {parts}" if parts else cases


def cell_text(cell: Cell) -> str:
    """Return printable text, in one line."""
    match cell:
        case str():
            return safe(cell)
        case Amount(value, unit):
            return units.value_text(value, unit)
        case RatioCell(value, words):
            return "" if value is None else units.change_text(value, words)
        case RatioInterval(ratio, low, high, words):
            return "" if ratio is None else units.interval_text(low, high, words)
        case Span(low, high, unit):
            return units.span_text(low, high, unit)
        case Name(text):
            return safe(text)
        case State():
            return f"{cell.word}{cell.doubt}"
