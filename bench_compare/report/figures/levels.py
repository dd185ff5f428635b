"""One series of a history: its documents, levels, steps and accepted stretches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_compare.report.figures.base import NARROW, figure, label, ratio_axis
from bench_compare.report.figures.palette import LIGHT

if TYPE_CHECKING:
    from bench_compare.history.model import History, SeriesInfo
    from bench_compare.report.figures.base import Figure

HEIGHT = 220
GAPS = 4
"""Gaps between the names of builds below a figure."""
DIGITS = 6
EDGE = 1.02
TONES = {"slower": "bad", "faster": "good", "both": "odd", "none": "fatal"}


def levels(one: SeriesInfo, history: History) -> Figure:
    """Return points with their intervals, levels and steps, as factors of the last accepted level,
    by the names of the builds."""
    last = one.levels[-1].end_value or one.levels[-1].value
    reference = last / (one.accepted_ratio or 1.0)
    values = [_rounded(point.value / reference) for point in one.points]
    halves = [_rounded(p.half * value) for p, value in zip(one.points, values, strict=True)]
    builds = [history.builds[point.build] for point in one.points]
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": [point.build for point in one.points],
        "y": values,
        "text": [label(f"{build.name}: {', '.join(build.documents)}") for build in builds],
        "hovertemplate": "%{y:.4g}× the accepted level<br>%{text}<extra></extra>",
        "marker": {"size": 5, "color": LIGHT["base"]},
        "error_y": {"array": halves, "thickness": 1, "width": 0, "color": LIGHT["base"]},
    }
    drawn = [(level, level.end_value or level.value) for level in one.levels]
    steps = {
        "type": "scatter",
        "mode": "lines",
        "x": [x for level, _ in drawn for x in (level.first, level.last, None)],
        "y": [
            None if value is None else _rounded(value / reference)
            for level, end in drawn
            for value in (level.value, end, None)
        ],
        "hoverinfo": "skip",
        "line": {"color": LIGHT["other"], "width": 2},
    }
    whole = {"yref": "paper", "y0": 0, "y1": 1}
    shapes: list[dict[str, Any]] = [
        {"type": "rect", **whole, "x0": band.first - 0.5, "x1": band.last + 0.5}
        | {"fillcolor": LIGHT["band"], "line": {"width": 0}, "layer": "below"}
        for band in history.accepted
    ]
    shapes += [
        {"type": "line", **whole, "x0": event.build - 0.5, "x1": event.build - 0.5}
        | {"line": {"color": LIGHT[TONES[event.direction]], "dash": "dot"}}
        for event in history.events
        if any(change.series == one.id for change in event.changes)
    ]
    newest = len(history.builds) - 1
    places = sorted({round(newest * n / GAPS) for n in range(GAPS + 1)})
    pairs = [*zip(values, halves, strict=True)]
    low, high = min(v - half for v, half in pairs), max(v + half for v, half in pairs)
    across = {"range": [-0.5, newest + 0.5], "tickangle": 0}
    names = [label(history.builds[at].name, 14) for at in places]
    ends = {"tickvals": places[:: len(places) - 1 or 1], "ticktext": names[:: len(names) - 1 or 1]}
    layout = {
        "height": HEIGHT,
        "xaxis": {**across, "tickvals": places, "ticktext": names},
        "meta": {NARROW: {"xaxis": {**across, **ends}}},
        "yaxis": ratio_axis(max(low, min(values) / 2) / EDGE, high * EDGE, "accepted"),
        "shapes": shapes,
    }
    return figure([points, steps], layout)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
