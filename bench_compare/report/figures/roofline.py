"""Cases of one run under the measured ceilings of their device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bench_schema.units import significant

from bench_compare.report.figures.base import figure, label
from bench_compare.report.figures.palette import LIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.report.figures.base import Figure


class RooflinePoint(NamedTuple):
    name: str
    intensity: float
    """FLOP/byte."""
    tflops: float
    text: str
    color: str
    id: str


ALIKE = 1.05
"""Roofs that are closer than this factor are one."""


def roofline(points: Sequence[RooflinePoint], gbps: float, tflops: Mapping[str, float]) -> Figure:
    """Return the figure: a point a case, and a roof for each data type. `gbps`: measured rate of
    the memory, above 0; `tflops`: measured rate of each type."""
    slope = gbps / 1000
    far = [one.intensity for one in points] + [peak / slope for peak in tflops.values()]
    least, most = min(far) / 4, max(far) * 4
    traces: list[dict[str, Any]] = []
    for names, peak in _roofs(tflops):
        text = label(f"{', '.join(names)}: {significant(peak, 3)} TFLOP/s")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+text",
                "x": [least, peak / slope, most],
                "y": [slope * least, peak, peak],
                "text": ["", "", text],
                "textposition": "top left",
                "textfont": {"size": 11, "color": LIGHT["soft"]},
                "line": {"color": LIGHT["soft"], "width": 1.5},
                "hoverinfo": "skip",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [one.intensity for one in points],
            "y": [one.tflops for one in points],
            "text": [label(f"{one.name}: {one.text}") for one in points],
            "customdata": [one.id for one in points],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"size": 10, "opacity": 0.85, "color": [LIGHT[one.color] for one in points]},
        }
    )
    axis = {"type": "log", "dtick": 1}
    layout = {
        "height": 340,
        "xaxis": {**axis, "title": {"text": "FLOP per byte"}},
        "yaxis": {**axis, "title": {"text": "TFLOP/s"}},
    }
    return figure(traces, layout)


def _roofs(tflops: Mapping[str, float]) -> list[tuple[list[str], float]]:
    """Return the rates of types, alike ones together, the highest first."""
    found: list[tuple[list[str], float]] = []
    for name, peak in sorted(tflops.items(), key=lambda pair: -pair[1]):
        if found and found[-1][1] < ALIKE * peak:
            found[-1][0].append(name)
        else:
            found.append(([name], peak))
    return found
