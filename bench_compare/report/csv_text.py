"""CSV: plain numbers, empty where unknown."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from bench_schema.packing import plain_cell

from bench_compare.parallel import share_out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_compare.model import View
    from bench_compare.report.model import Report

LEAST_SHARE = 2_000
"""Groups of rows that are worth a process."""


def render(report: Report, view: View) -> str:  # noqa: ARG001 - a table of numbers has no looks
    assert report.records is not None
    records = report.records()
    last = f",{_text(records.last)}" if records.last else ""

    def texts(part: range) -> list[str]:
        found = []
        for first, rows in records.groups(part):
            head = _text(first)
            found.append("\n".join(f"{head},{_text(row)}{last}" for row in rows))
        return found

    groups = share_out(texts, records.count, 1, LEAST_SHARE)
    ordered = groups if records.order is None else [groups[place] for place in records.order]
    return "\n".join([_text(records.head), *ordered, ""])


def _text(cells: Iterable[Any]) -> str:
    plain: list[Any] = []
    for cell in cells:
        if isinstance(cell, str):
            plain.append(plain_cell(cell))
        else:
            plain.append(f"{cell:.10g}" if isinstance(cell, float) else cell)
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(plain)
    return out.getvalue()
