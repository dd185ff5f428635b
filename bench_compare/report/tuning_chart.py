"""The gains of a tuning as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.report.model import Chart
from bench_schema.report.tuning import gain_text, variant_text

from bench_compare.report.figures.palette import LOOKS

if TYPE_CHECKING:
    from bench_schema.tuning import Tuned

EDGE = 1.05
MOST_GRAPHS = 40
"""Graphs that a figure names."""


def tuning_chart(tuned: Tuned) -> Chart | None:
    """Return the gain of each graph with its interval, the largest first; None if no graph has
    one."""
    from bench_compare.report.figures.base import ratio_axis
    from bench_compare.report.figures.rows import Mark, named_rows

    known = [(e, e.gain) for e in tuned.entries if e.gain is not None and e.gain.estimate > 0]
    known.sort(key=lambda pair: -pair[1].estimate)
    marks = []
    for entry, gain in known[:MOST_GRAPHS]:
        tone = "good" if entry.winner else "plain"
        symbol = LOOKS["faster" if entry.winner else "same"].symbol
        text = gain_text(gain) if entry.winner else "the default"
        ends = (None, None) if gain.low is None or gain.high is None else (gain.high, gain.low)
        low, high = (None if end is None or end <= 0 else 1 / end for end in ends)
        hover = f"{entry.name}: {text}, {variant_text(entry.chosen) or 'the default'}"
        marks.append(Mark(entry.name, 1 / gain.estimate, text, low, high, tone, symbol, "", hover))
    if not marks:
        return None
    far = [1.02, *(end for one in marks for end in (one.value, one.low, one.high) if end)]
    axis = ratio_axis(min(far) / EDGE, max(far) * EDGE, "default")
    axis |= {"title": {"text": "time of the winner, against that of the default"}}
    return Chart(
        named_rows(marks, axis, line=1.0),
        "What tuning gained",
        "the largest gain first, with 95 % intervals",
        "Gain of each graph; the table below has the same numbers",
        id="gains",
    )
