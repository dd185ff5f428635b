"""CSV: plain numbers, empty where unknown."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from bench_schema.packing import plain_cell

from bench_compare.parallel import share_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench_compare.model import View
    from bench_compare.report.model import Records, Report

LEAST_SHARE = 2_000
"""Groups of rows that are worth a process."""


def render(report: Report, view: View) -> str:  # noqa: ARG001 - a table of numbers has no looks
    assert report.records is not None
    records = report.records()
    last = f",{_text(records.last)}" if records.last else ""
    groups = share_out(
        lambda part: list(_groups(records, part, last)), records.count, 1, LEAST_SHARE
    )
    ordered = groups if records.order is None else [groups[place] for place in records.order]
    return "\n".join([_text(records.head), *ordered, ""])


def _groups(records: Records, part: range, last: str) -> Iterator[str]:
    for first, rows in records.groups(part):
        head = _text(first)
        yield "\n".join(f"{head},{_text(row)}{last}" for row in rows)


def _text(cells: Iterable[Any]) -> str:
    plain = [
        plain_cell(one)
        if isinstance(one, str)
        else f"{one:.10g}"
        if isinstance(one, float)
        else one
        for one in cells
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(plain)
    return out.getvalue()
