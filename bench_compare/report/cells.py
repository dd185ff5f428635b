"""Cells of a report as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_compare.report.model import Amount, Name, Ratio, RatioInterval, Span, State
from bench_compare.report.names import safe
from bench_compare.report.units import change_text, interval_text, span_text, value_text

if TYPE_CHECKING:
    from bench_compare.report.model import Cell


def cell_text(cell: Cell) -> str:
    """Printable, in one line."""
    match cell:
        case str():
            return safe(cell)
        case Amount(value, unit):
            return value_text(value, unit)
        case Ratio(value):
            return "" if value is None else change_text(value)
        case RatioInterval(ratio, low, high):
            return "" if ratio is None else interval_text(low, high)
        case Span(low, high, unit):
            return span_text(low, high, unit)
        case Name(text):
            return safe(text)
        case State():
            return f"{cell.word}{cell.doubt}"
