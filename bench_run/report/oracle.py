"""Gain of an engine's own search for a plan over its default plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench_schema.estimate import change, main_series
from bench_schema.units import NOTHING, is_too_noisy
from tabulate import tabulate

from bench_run.report.labels import (
    UNGATED,
    UNGATED_MEANS,
    UNLIKE,
    UNLIKE_MEANS,
    WRONG,
    are_unlike,
    is_wrong,
    marked,
)
from bench_run.text import one_line, shorten, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case, Document
    from bench_schema.estimate import Change

HEADERS = ("graph", "engine", "default", "searched", "left on the table")
ALIGN = ("left", "left", "right", "right", "right")
NAME_WIDTH = 26


def oracle_table(document: Document, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the table with a row for each graph, engine and variant of which both sides have
    samples."""
    cases = {(c.graph.path, c.engine, tuple(sorted(c.variant.items()))): c for c in document.cases}
    rows = []
    for (path, key, variant), default in cases.items():
        for first, second in pairs:
            searched = cases.get((path, second, variant))
            series = main_series(default.summary)
            if key != first or searched is None or series is None or series not in searched.summary:
                continue
            found = change(default, searched, series)
            ends = (None, None) if found is None else (found.base_ns, found.other_ns)
            times = [
                marked("–" if ns is None else time_text(ns), case)
                for case, ns in zip((default, searched), ends, strict=True)
            ]
            rows.append(
                (
                    shorten(one_line(default.graph.name), NAME_WIDTH),
                    " ".join([default.engine, *default.variant.values()]),
                    *times,
                    _left(default, searched, found),
                )
            )
    if not rows:
        return "left on the table: no engine has both a default and a searched time"
    table = tabulate(rows, HEADERS, tablefmt="simple", colalign=ALIGN, disable_numparse=True)
    notes = []
    if any(cell.endswith(UNGATED) for row in rows for cell in row[2:4]):
        notes.append(f"{UNGATED} {UNGATED_MEANS}")
    if any(row[4] == UNLIKE for row in rows):
        notes.append(f"{UNLIKE}: {UNLIKE_MEANS}")
    return "\n".join([table, *(["", *notes] if notes else [])])


def _left(default: Case, searched: Case, found: Change | None) -> str:
    """Return the share of the default's time that the search saves, with its 95 % interval: ``12 %
    (9 to 15)``. Negative where the search made it slower."""
    if is_wrong(default) or is_wrong(searched):
        return WRONG
    if are_unlike(default, searched):
        return UNLIKE
    if found is None:
        return "–"
    if found.low is None or found.high is None:
        return f"{_saved(found.log)} %"
    if is_too_noisy(math.exp(found.low), math.exp(found.high)):
        return NOTHING
    return f"{_saved(found.log)} % ({_saved(found.high)} to {_saved(found.low)})"


def _saved(log_ratio: float) -> str:
    return f"{100 * (1 - math.exp(log_ratio)):.1f}".removesuffix(".0")
