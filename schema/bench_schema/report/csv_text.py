"""CSV: plain numbers, empty if unknown; texts as `bench_schema.packing.csv_line` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.packing import csv_line

if TYPE_CHECKING:
    from bench_schema.report.model import Report, View

FLOATS = ".10g"


def render(report: Report, view: View) -> str:  # noqa: ARG001 - a table of numbers has no looks
    assert report.records is not None
    records = report.records()
    last = f",{csv_line(records.last, FLOATS)}" if records.last else ""
    groups = []
    for first, rows in records.groups(range(records.count)):
        head = csv_line(first, FLOATS)
        groups.append("\n".join(f"{head},{csv_line(row, FLOATS)}{last}" for row in rows))
    ordered = groups if records.order is None else [groups[place] for place in records.order]
    return "\n".join([csv_line(records.head), *ordered, ""])
