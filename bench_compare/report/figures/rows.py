"""A row for each case or part, with its name and what became of it in words: dots with their
intervals, or bars. On a narrow screen names and words stand above the marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bench_schema.names import shortened

from bench_compare.report.figures.base import NARROW, figure, label
from bench_compare.report.figures.palette import LIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.report.figures.base import Figure

WIDE_NAME, NARROW_LINE, LEAST_NAME = 46, 51, 14
"""Characters of a name, of a name with its words on a narrow screen, and of a name at least."""
ROW, NARROW_ROW = 26, 46
"""Pixels of a row."""
FRAME, NARROW_FRAME = 80, 76
"""Pixels above and below the rows."""
CHARACTER = 6.6
"""Pixels of a character."""


class Mark(NamedTuple):
    name: str
    value: float | None
    """None: only the words stand there."""
    words: str
    low: float | None = None
    high: float | None = None
    color: str = "plain"
    symbol: str = "circle"
    id: str = ""
    """Address that a press opens."""
    hover: str = ""


def named_rows(
    marks: Sequence[Mark],
    axis: dict[str, Any],
    *,
    bars: bool = False,
    band: tuple[float, float] | None = None,
    line: float | None = None,
) -> Figure:
    """Return the figure, the first mark on top. `band`: a stretch in grey; `line`: a place that
    is marked."""
    places = [*range(len(marks))]
    short = shortened([one.name for one in marks], WIDE_NAME)
    longest = max((len(one.words) for one in marks), default=0)
    brief = shortened([one.name for one in marks], max(NARROW_LINE - longest, LEAST_NAME))
    drawn = [(at, one) for at, one in enumerate(marks) if one.value is not None]
    trace: dict[str, Any] = {
        "x": [one.value for _, one in drawn],
        "y": [at for at, _ in drawn],
        "text": [label(one.hover or f"{one.name}: {one.words}") for _, one in drawn],
        "customdata": [one.id for _, one in drawn],
        "hovertemplate": "%{text}<extra></extra>",
    }
    colors = [LIGHT[one.color] for _, one in drawn]
    if bars:
        trace |= {"type": "bar", "orientation": "h", "marker": {"color": colors}}
        trace["textposition"] = "none"
    else:
        symbols = [one.symbol for _, one in drawn]
        trace |= {"type": "scatter", "mode": "markers"}
        trace["marker"] = {"color": colors, "symbol": symbols, "size": 11, "opacity": 1}
        trace["marker"]["line"] = {"width": 1.5, "color": colors}
    shapes: list[dict[str, Any]] = []
    if band is not None:
        look = {"fillcolor": LIGHT["band"], "line": {"width": 0}, "layer": "below"}
        shapes.append(_across("rect", *band, look))
    if line is not None:
        shapes.append(_across("line", line, line, {"line": {"color": LIGHT["soft"], "width": 1}}))
    # The interval of each mark is a line in its colour; error bars would have one for all.
    for at, one in drawn:
        if one.low is not None and one.high is not None:
            ends = {"x0": one.low, "x1": one.high, "y0": at, "y1": at}
            color = LIGHT["ink" if bars else one.color]
            shapes.append({"type": "line", **ends, "line": {"color": color, "width": 2}})
    words, above = [], []
    for at, one in enumerate(marks):
        words.append(_text(at, one.words, x=1.0, xanchor="left", xshift=8))
        above.append(_text(at, brief[one.name], x=0.0, xanchor="left", yshift=17))
        above.append(_text(at, one.words, x=1.0, xanchor="right", yshift=17))
    down = {"range": [len(marks) - 0.5, -0.5], "showgrid": False, "zeroline": False}
    rows = {**down, "tickvals": places, "ticktext": [label(short[one.name]) for one in marks]}
    layout = {
        "height": FRAME + ROW * len(marks),
        "margin": {"l": 8, "r": 16 + round(CHARACTER * longest), "t": 8, "b": 8},
        "xaxis": axis,
        "yaxis": {**rows, "ticks": ""},
        "bargap": 0.4,
        "shapes": shapes,
        "annotations": words,
        "meta": {
            NARROW: {
                "height": NARROW_FRAME + NARROW_ROW * len(marks),
                "margin": {"l": 8, "r": 8, "t": 24, "b": 8},
                "yaxis": {**down, "showticklabels": False},
                "bargap": 0.75,
                "annotations": above,
            }
        },
    }
    return figure([trace], layout)


def _text(at: int, text: str, **where: Any) -> dict[str, Any]:
    words = {"y": at, "xref": "paper", "showarrow": False, "text": label(text), **where}
    return {**words, "font": {"size": 12}, "bgcolor": LIGHT["ground"], "borderpad": 0}


def _across(kind: str, first: float, last: float, look: dict[str, Any]) -> dict[str, Any]:
    """Return a stretch of the axis over the whole height."""
    return {"type": kind, "yref": "paper", "y0": 0, "y1": 1, "x0": first, "x1": last, **look}
