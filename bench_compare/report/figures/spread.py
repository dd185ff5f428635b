"""Thousands of ratios with their intervals in one figure, sorted by change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_compare.report.figures.base import figure, label, ratio_axis
from bench_compare.report.figures.palette import LIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.report.figures.base import Figure
    from bench_compare.report.figures.rows import Mark

HEIGHT = 320
EDGE = 1.06


def spread(marks: Sequence[Mark], band: tuple[float, float] | None) -> Figure:
    """Return the figure. Marks of the colour ``plain`` are intervals only: half of the elements
    that a page of thousands would draw."""
    ordered = sorted(
        ((one.value, one) for one in marks if one.value is not None), key=lambda pair: pair[0]
    )
    by_color: dict[str, list[tuple[int, Mark]]] = {}
    for place, (_, one) in enumerate(ordered):
        by_color.setdefault(one.color, []).append((place, one))
    traces = [_intervals(color, found) for color, found in by_color.items()]
    traces += [_dots(color, found) for color, found in by_color.items() if color != "plain"]
    ends = [value for value, _ in ordered]
    ends += [end for _, one in ordered for end in (one.low, one.high) if end is not None]
    shapes: list[dict[str, Any]] = []
    if band is not None:
        whole = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": band[0], "y1": band[1]}
        look = {"fillcolor": LIGHT["band"], "line": {"width": 0}, "layer": "below"}
        shapes.append({**whole, **look})
    layout = {
        "height": HEIGHT,
        "xaxis": {
            "range": [-1, len(ordered)],
            "showticklabels": False,
            "showgrid": False,
            "zeroline": False,
        },
        "yaxis": ratio_axis(min([*ends, 0.985]) / EDGE, max([*ends, 1.015]) * EDGE),
        "shapes": shapes,
    }
    return figure(traces, layout)


def _intervals(color: str, found: Sequence[tuple[int, Mark]]) -> dict[str, Any]:
    lows = [one.low if one.low is not None and one.low > 0 else one.value for _, one in found]
    highs = [one.value if one.high is None else one.high for _, one in found]
    pairs = [*zip(lows, highs, strict=True)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x for place, _ in found for x in (place, place, None)],
        "y": [y for low, high in pairs for y in (low, high, None)],
        "customdata": [one.id for _, one in found for _ in range(3)],
        "text": [label(one.hover) for _, one in found for _ in range(3)],
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": LIGHT[color], "width": 1, "simplify": False},
    }


def _dots(color: str, found: Sequence[tuple[int, Mark]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [place for place, _ in found],
        "y": [one.value for _, one in found],
        "customdata": [one.id for _, one in found],
        "text": [label(one.hover) for _, one in found],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": LIGHT[color], "size": 7, "symbol": [one.symbol for _, one in found]},
    }
