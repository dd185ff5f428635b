"""CSV: plain numbers, empty where unknown; texts as `bench_schema.packing.csv_line` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.packing import csv_line

from bench_compare.parallel import share_out

if TYPE_CHECKING:
    from bench_compare.model import View
    from bench_compare.report.model import Report

LEAST_SHARE = 2_000
"""Groups of rows that are worth a process."""
FLOATS = ".10g"


def render(report: Report, view: View) -> str:  # noqa: ARG001 - a table of numbers has no looks
    assert report.records is not None
    records = report.records()
    last = f",{csv_line(records.last, FLOATS)}" if records.last else ""

    def texts(part: range) -> list[str]:
        found = []
        for first, rows in records.groups(part):
            head = csv_line(first, FLOATS)
            found.append("\n".join(f"{head},{csv_line(row, FLOATS)}{last}" for row in rows))
        return found

    groups = share_out(texts, records.count, 1, LEAST_SHARE)
    ordered = groups if records.order is None else [groups[place] for place in records.order]
    return "\n".join([csv_line(records.head), *ordered, ""])
