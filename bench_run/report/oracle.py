"""Gain of an engine's own search for a plan over its default plan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_schema.estimate import change, main_series
from bench_schema.units import NOTHING, is_too_noisy
from tabulate import tabulate

from bench_run.report.labels import UNGATED, UNGATED_MEANS, UNLIKE, UNLIKE_MEANS, are_unlike, marked
from bench_run.text import one_line, shorten, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case, Document


# How much faster B is than A in one run, from their interleaved rounds.


@dataclass(frozen=True)
class SpeedUp:
    """Time of A over time of B (above 1: B is faster), with its 95 % interval where known."""

    value: float
    low: float | None
    high: float | None


def speed_up(a: Case, b: Case, series: str) -> SpeedUp | None:
    """Return the speed-up. Rounds are interleaved, so that effects on both sides of a round cancel;
    None if a side has no rounds."""
    found = change(b, a, series)
    if found is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return SpeedUp(math.exp(found.log), low, high)


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
            unlike = are_unlike(default, searched)
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
                    UNLIKE if unlike else left_text(default, searched, series),
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


def left_text(default: Case, searched: Case, series: str) -> str:
    """Share of the default's time that the search saves, with its 95 % interval: ``12 % (9 to
    15)``. Negative where the search made it slower."""
    ratio = speed_up(default, searched, series)
    if ratio is None:
        return "–"
    if ratio.low is None or ratio.high is None:
        return f"{_saved(ratio.value)} %"
    if is_too_noisy(ratio.low, ratio.high):
        return NOTHING
    return f"{_saved(ratio.value)} % ({_saved(ratio.low)} to {_saved(ratio.high)})"


def _saved(ratio: float) -> str:
    return f"{100 * (1 - 1 / ratio):.1f}".removesuffix(".0")
