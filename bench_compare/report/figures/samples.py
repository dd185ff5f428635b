"""The samples of a case: their distribution on both sides, and each iteration in its order.

Nothing here enters a verdict. Samples that are more than a page can hold become the least, the
median and the largest of buckets that never cross a round; the page says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from bench_schema.document import SERIES
from bench_schema.estimate import counted
from bench_schema.units import significant, value_text

from bench_compare.report.figures.base import figure, time_scale
from bench_compare.report.figures.palette import LIGHT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy.typing as npt

    from bench_compare.comparison.measure import Ints
    from bench_compare.model import CaseSide
    from bench_compare.report.figures.base import Figure

PAGE_VALUES = 22_000
"""Buckets that the courses of all sides of a page may have."""
MOST, LEAST = 700, 16
"""Buckets of one side; so many samples are points of their own."""
FEW_CASES = 40
"""A page of more cases has only the series that decides."""
BINS = 32
DOTS = 0.2
"""Share of the height of a distribution for the dots below it."""
MOST_NAMES = 8
"""More rounds than these have no names, and no more moves of buffers are marked."""
SIDES = ("base", "other")
TAIL = 0.985
"""Share of the samples that an axis must hold; a spike beyond it may lie outside."""


class HeldRound(NamedTuple):
    samples: Ints
    time_ns: float
    """The time of the round."""
    document: int
    moves: Ints
    """Samples before which the buffers were moved."""


class HeldSeries(NamedTuple):
    """One series of one side: its rounds, in the order of the documents."""

    rounds: Sequence[HeldRound]
    ordered: Ints


def held_series(side: CaseSide | None, name: str) -> HeldSeries | None:
    """Return the rounds that have samples of a series; None if there are none."""
    if side is None:
        return None
    rounds = [
        HeldRound(
            one.series[name],
            math.exp(found.log),
            document,
            one.placements.get(name, np.array([], int)),
        )
        for document, case in enumerate(side.cases)
        for one in case.rounds
        if (found := counted(one, name)) is not None
    ]
    if not rounds:
        return None
    return HeldSeries(rounds, np.sort(np.concatenate([one.samples for one in rounds])))


def buckets_of(cases: int) -> int:
    """Return the buckets that a side of each case may have on a page of so many cases."""
    return min(max(PAGE_VALUES // max(2 * cases, 1), LEAST), MOST)


def shown_series(cases: int, sampled: Collection[str], gate: str | None) -> tuple[list[str], ...]:
    """Return names of the series that are shown, that of the verdict first, and those left out."""
    ordered = sorted((name for name in SERIES if name in sampled), key=lambda name: name != gate)
    most = 1 if cases > FEW_CASES else len(ordered)
    return ordered[:most], ordered[most:]


class Frame(NamedTuple):
    """The axis of times: all of them, unless a few spikes would press the rest flat."""

    low: float
    high: float
    beyond: float
    """The largest sample, if it lies outside; otherwise 0."""
    factor: float
    unit: str

    def scaled(self, values: npt.ArrayLike) -> list[float]:
        """Convert values to the unit of the axis, to four digits of its largest value."""
        digits = max(0, 3 - math.floor(math.log10(max(self.high / self.factor, 1e-9))))
        if self.high - self.low < 0.02 * self.high:
            digits += 1
        found: list[float] = np.round(np.asarray(values, float) / self.factor, digits).tolist()
        return found

    @property
    def axis(self) -> dict[str, Any]:
        ends = [value / self.factor for value in (self.low, self.high)]
        edge = 0.03 * (ends[1] - ends[0]) or 0.01 * abs(ends[0]) or 1
        return {"range": [ends[0] - edge, ends[1] + edge], "title": {"text": self.unit}}


def frame_of(sides: Sequence[HeldSeries]) -> Frame:
    low = float(min(one.ordered[0] for one in sides))
    tail = float(max(one.ordered[round(TAIL * (one.ordered.size - 1))] for one in sides))
    largest = float(max(one.ordered[-1] for one in sides))
    room = tail + (tail - low)
    is_clipped = largest > room
    return Frame(
        low,
        room if is_clipped else largest,
        largest if is_clipped else 0.0,
        *time_scale(max(tail, 1.0)),
    )


def distribution(held: Sequence[HeldSeries | None], names: Sequence[str], frame: Frame) -> Figure:
    """Return shares of the samples in bins, and below them a dot for each round; with several
    documents also a diamond for each."""
    traces: list[dict[str, Any]] = []
    top = frame.high if frame.high > frame.low else frame.low + max(frame.low * 0.01, 1.0)
    edges = np.linspace(frame.low, top, BINS + 1)
    for place, one in enumerate(held):
        if one is None:
            continue
        ends = np.searchsorted(one.ordered, edges[1:], "left")
        ends[-1] = np.searchsorted(one.ordered, frame.high, "right")
        shares = np.round(100 * np.diff(ends, prepend=0) / one.ordered.size, 1).tolist()
        color, area = LIGHT[SIDES[place]], LIGHT[f"{SIDES[place]}-area"]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": names[place],
                "x0": edges[0] / frame.factor,
                "dx": (edges[1] - edges[0]) / frame.factor,
                "y": [*shares, 0],
                "line": {"color": color, "width": 1.6, "shape": "hv", "dash": _dash(place)},
                "fill": "tozeroy",
                "fillcolor": area,
                "hovertemplate": "%{y:.1f} % near %{x:.5~g}<extra></extra>",
            }
        )
        traces += _dots(one, place, names[place], frame)
    layout = {
        "height": 260,
        "showlegend": True,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "xaxis": {**frame.axis, "anchor": "y2"},
        "yaxis": {
            "title": {"text": "% of samples"},
            "rangemode": "tozero",
            "domain": [DOTS + 0.04, 1],
        },
        "yaxis2": {
            "domain": [0, DOTS],
            "range": [1.5 - len(names), 1.5],
            "showgrid": False,
            "zeroline": False,
            "tickvals": [1 - place for place in range(len(names))],
            "ticktext": list(names),
        },
    }
    return figure(traces, layout)


def _dash(place: int) -> str:
    return "solid" if place else "dot"


def _dots(one: HeldSeries, place: int, name: str, frame: Frame) -> Iterator[dict[str, Any]]:
    """Yield dots for rounds, and for documents if there are several: the means of their rounds."""
    found: dict[int, list[float]] = {}
    for each in one.rounds:
        found.setdefault(each.document, []).append(each.time_ns)
    many = len(found) > 1
    times = [time for group in found.values() for time in group]
    texts = [
        (f"document {number}, " if many else "") + f"round {at}"
        for number, group in enumerate(found.values(), start=1)
        for at in range(1, len(group) + 1)
    ]
    small = {"size": 6 if many else 8, "opacity": 0.6 if many else 0.85, "symbol": "circle"}
    look = {"type": "scatter", "mode": "markers", "name": name, "yaxis": "y2", "showlegend": False}
    rows: list[tuple[list[float], list[str], dict[str, Any]]] = [(times, texts, small)]
    if many:
        means = [math.exp(sum(map(math.log, group)) / len(group)) for group in found.values()]
        large = {"size": 12, "opacity": 1, "symbol": "diamond-open"}
        rows.append((means, [f"document {n}" for n in range(1, len(means) + 1)], large))
    for values, told, marker in rows:
        yield {
            **look,
            "x": frame.scaled(values),
            "y": [1 - place] * len(values),
            "text": told,
            "marker": {"color": LIGHT[SIDES[place]], **marker},
            "hovertemplate": "%{text}: %{x:.5~g}<extra></extra>",
        }


GAP = 0.1


def course(held: Sequence[HeldSeries | None], names: Sequence[str], buckets: int) -> Figure:
    """Return each iteration in its order, round after round, a panel for each side with an axis of
    its own. Dotted lines divide rounds; a tick at the foot is a move of the buffers."""
    sides = [(place, one) for place, one in enumerate(held) if one is not None]
    share = (1 - GAP * (len(sides) - 1)) / len(sides)
    layout: dict[str, Any] = {
        "height": 40 + 140 * len(sides),
        "margin": {"l": 8, "r": 8, "t": 20, "b": 8},
    }
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for at, (place, one) in enumerate(sides):
        axis, top = f"y{at + 1}" if at else "y", 1 - at * (share + GAP)
        frame = frame_of([one])
        title = {"title": {"text": f"{names[place]}, {frame.unit}"}}
        layout[axis.replace("y", "yaxis")] = {
            **frame.axis,
            **title,
            "domain": [max(top - share, 0), top],
            "nticks": 5,
        }
        traces += _course_traces(one, place, axis, frame, buckets)
        marks = _round_marks(one, axis)
        shapes += marks[0]
        notes += marks[1]
    last = f"y{len(sides)}" if len(sides) > 1 else "y"
    layout["xaxis"] = {
        "title": {"text": "iteration"},
        "anchor": last,
        "showgrid": False,
        "zeroline": False,
    }
    return figure(traces, {**layout, "shapes": shapes, "annotations": notes})


def _course_traces(
    one: HeldSeries, place: int, axis: str, frame: Frame, buckets: int
) -> Iterator[dict[str, Any]]:
    look = {"type": "scatter", "yaxis": axis}
    color, hover = LIGHT[SIDES[place]], "iteration %{x}: %{y:.5~g}<extra></extra>"
    size = one.ordered.size
    if size <= buckets:
        values = frame.scaled(np.concatenate([each.samples for each in one.rounds]))
        marker = {"size": 4 if size < 300 else 2.5, "color": color}
        yield {
            **look,
            "mode": "markers",
            "x0": 1,
            "dx": 1,
            "y": values,
            "marker": marker,
            "hovertemplate": hover,
        }
    else:
        share = max(buckets // len(one.rounds), 2)
        xs: list[float | None] = []
        rows: list[list[float | None]] = [[], [], []]
        first = 0
        for each in one.rounds:
            x, *found = _buckets(each.samples, share)
            xs += [*(first + x).tolist(), None]
            for row, some in zip(rows, found, strict=True):
                row += [*frame.scaled(some), None]
            first += each.samples.size
        line = {**look, "mode": "lines", "x": xs}
        none = {"width": 0, "color": color}
        yield {**line, "y": rows[0], "line": none, "hoverinfo": "skip"}
        yield {**line, "y": rows[2], "line": none, "hoverinfo": "skip"} | {
            "fill": "tonexty",
            "fillcolor": LIGHT[f"{SIDES[place]}-area"],
        }
        yield {**line, "y": rows[1], "line": {"color": color, "width": 1.4}, "hovertemplate": hover}
    moves = [*_moves(one)]
    if moves:
        marker = {"symbol": "line-ns-open", "size": 8, "color": LIGHT["soft"]}
        yield {
            **look,
            "mode": "markers",
            "x": moves,
            "y": frame.scaled([frame.low] * len(moves)),
            "marker": marker,
            "hovertemplate": "buffers moved<extra></extra>",
        }


def _buckets(samples: Ints, share: int) -> tuple[Any, Any, Any, Any]:
    """Return the middle of each bucket, and its least, median and largest sample."""
    size = -(-samples.size // min(share, samples.size))
    # The last bucket is filled up with its last sample.
    filled = np.concatenate([samples, np.repeat(samples[-1:], -samples.size % size)])
    rows = np.sort(filled.reshape(-1, size), axis=1)
    x = size * (np.arange(len(rows)) + 0.5) + 0.5
    return x, rows[:, 0], rows[:, size // 2], rows[:, -1]


def _moves(one: HeldSeries) -> Iterator[int]:
    first = 0
    for each in one.rounds:
        if each.moves.size <= MOST_NAMES:
            yield from (first + 1 + each.moves).tolist()
        first += each.samples.size


def _round_marks(one: HeldSeries, axis: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return lines between rounds, solid between documents; and names while they are few."""
    shapes, names, first, before = [], [], 0, one.rounds[0].document
    documents = len({each.document for each in one.rounds})
    for number, each in enumerate(one.rounds, start=1):
        if number > 1:
            is_new = each.document != before
            color, dash = (LIGHT["ink"], "solid") if is_new else (LIGHT["soft"], "dot")
            look = {"color": color, "width": 1, "dash": dash}
            ends = {"x0": first + 0.5, "x1": first + 0.5, "y0": 0, "y1": 1}
            shapes.append({"type": "line", **ends, "yref": f"{axis} domain", "line": look})
        begins = documents == 1 or each.document != before or number == 1
        if begins and len(one.rounds) <= MOST_NAMES:
            text = f"round {number}" if documents == 1 else f"document {each.document + 1}"
            at = {"x": first + 0.5, "y": 1, "yref": f"{axis} domain"}
            look = {"font": {"size": 11, "color": LIGHT["soft"]}, "showarrow": False}
            names.append({**at, "xanchor": "left", "yanchor": "bottom", "text": text, **look})
        before = each.document
        first += each.samples.size
    return shapes, names


def counts_note(held: Sequence[HeldSeries | None], names: Sequence[str], frame: Frame) -> str:
    """Return a sentence on the number of samples, and on those that the figures do not show."""
    parts = []
    for name, one in zip(names, held, strict=False):
        if one is None:
            continue
        size = one.ordered.size
        beyond = 1 - int(np.searchsorted(one.ordered, frame.high, "right")) / size
        far = f", {significant(100 * beyond, 2)} % beyond the edge" if beyond > 0 else ""
        parts.append(f"{name}: {size:,} sample{'' if size == 1 else 's'}{far}")
    most = f" (the largest: {value_text(frame.beyond, 'ns')})" if frame.beyond else ""
    return f"{'; '.join(parts)}{most}."
