"""Parts that all figures share: the check by plotly, its template, texts and ticks."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_schema.names import safe
from bench_schema.units import PERCENT_BELOW, TIMES, change_text

from bench_compare.report.figures.palette import LIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Figure: TypeAlias = dict[str, Any]
"""``{"data": [trace, …], "layout": {…}}``, as plotly.js takes it. ``layout.meta`` holds `NARROW`:
what takes the place of parts of the layout on a narrow screen."""
NARROW = "narrow"

_AXIS = {
    "gridcolor": LIGHT["line"],
    "linecolor": LIGHT["line"],
    "zerolinecolor": LIGHT["line"],
    "tickfont": {"color": LIGHT["soft"], "size": 12},
    "title": {"font": {"color": LIGHT["soft"], "size": 12}},
    "automargin": True,
}
TEMPLATE: dict[str, Any] = {
    "layout": {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "color": LIGHT["ink"], "size": 12},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hovermode": "closest",
        "showlegend": False,
        "hoverlabel": {
            "bgcolor": LIGHT["panel"],
            "bordercolor": LIGHT["line"],
            "font": {"color": LIGHT["ink"]},
            "align": "left",
        },
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
}
"""Looks of all figures."""

_checked: set[object] = set()


def figure(data: Sequence[dict[str, Any]], layout: dict[str, Any]) -> Figure:
    """Return a figure. The first one of each shape (types of traces, keys) is checked by
    `plotly.graph_objects`, which raises `ValueError` for what plotly would not draw."""
    made = {"data": list(data), "layout": layout}
    shape = (tuple((one["type"], *one) for one in data[:4]), *layout)
    if shape not in _checked:
        import plotly.graph_objects as go

        go.Figure(made)
        _checked.add(shape)
    return made


def exported(made: Mapping[str, Any]) -> str:
    """Return a figure with its template as JSON, checked by plotly, which opens it."""
    import plotly.graph_objects as go

    text: str = go.Figure({**made, "layout": {**made["layout"], "template": TEMPLATE}}).to_json()
    return text


def label(text: str, most: int | None = None) -> str:
    """Return a text for a figure, in which plotly reads a little HTML; `most` characters."""
    plain = safe(text)
    if most is not None and len(plain) > most:
        plain = f"{plain[: most // 2 - 1]}…{plain[-(most - most // 2) :]}"
    return html.escape(plain, quote=False)


def time_scale(value_ns: float) -> tuple[float, str]:
    """Return the largest unit of time that leaves a value at least 1: its nanoseconds, its name."""
    return next(
        ((factor, name.strip()) for factor, name in TIMES if value_ns >= factor), (1.0, "ns")
    )


LADDER = (
    *(1.001, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2),
    *(3, 5, 10, 30, 100, 1000, 1e6, 1e9),
)
"""Factors at which an axis of ratios has ticks."""
APART = 7
"""Ticks that an axis has room for."""


def ratio_axis(low: float, high: float, same: str = "same") -> dict[str, Any]:
    """Return a logarithmic axis of ratios with ticks in words, at most two on either side of 1."""
    up = [one for one in LADDER if one <= high][-2:]
    down = [1 / one if one >= PERCENT_BELOW else 2 - one for one in LADDER]
    found, apart = [1.0], (math.log(high) - math.log(low)) / APART
    for one in (*up[::-1], *[one for one in down if one >= low][-1:-3:-1]):
        if all(abs(math.log(one / other)) >= apart for other in found):
            found.append(one)
    ticks = sorted(found)
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [same if one == 1 else change_text(one).replace(".0%", "%") for one in ticks],
    }
