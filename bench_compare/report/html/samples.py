"""The samples of a case as charts: their distribution, and each iteration in its order.

Nothing here enters a verdict. Samples that are more than a page can hold become the least, the
median and the largest of buckets that never cross a round; the page says so next to the chart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from bench_schema.document import SERIES
from bench_schema.estimate import counted
from bench_schema.units import significant, value_text

from bench_compare.comparison.circumstances.facts import clock_mhz

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy.typing as npt

    from bench_compare.comparison.measure import Array, Ints
    from bench_compare.model import CaseSide

PAGE_VALUES = 600_000
"""Numbers that the courses of all cases of a page may have."""
MOST, LEAST = 2_000, 60
"""Numbers of one series of one side."""
BINS = 48
DOTS = 0.17
"""Share of the height of a distribution for the dots below it."""
MANY_ROUNDS = 12
"""More rounds than these have no names."""
MANY_CASES = 300
"""A page of more cases has one series of each."""
COLORS = ("--side-base", "--side-other")
DASHES = ("dot", "solid")


@dataclass(frozen=True)
class Budget:
    """The share of the page that each case may take for its samples."""

    cases: int
    values: int

    def shares(self, sampled: Collection[str], gate: str | None) -> tuple[list[str], list[str]]:
        """Return names of the series that are shown, that of the verdict first, and of those left
        out."""
        ordered = sorted((n for n in SERIES if n in sampled), key=lambda name: name != gate)
        most = 1 if self.cases > MANY_CASES else len(ordered)
        return ordered[:most], ordered[most:]


def budget(cases: int) -> Budget:
    return Budget(cases, min(max(PAGE_VALUES // max(4 * cases, 1), LEAST), MOST))


class HeldRound(NamedTuple):
    samples: Ints
    cut: int
    """Leading samples that may be warm-up. They count."""
    log: float
    """The time of the round."""
    document: int
    clocks: tuple[float | None, float | None]
    """MHz before and after it."""


class HeldSeries(NamedTuple):
    """One series of one side: its rounds, in the order of the documents."""

    rounds: Sequence[HeldRound]
    documents: Sequence[int]
    """Numbers of the documents that have it."""
    values: Ints
    """All samples, round by round."""
    ordered: Ints


def held_series(side: CaseSide, name: str) -> HeldSeries | None:
    """Return the rounds that have samples of a series; None if there are none."""
    rounds = [
        HeldRound(
            one.series[name],
            one.cut.get(name, 0),
            found.log,
            document,
            (clock_mhz(one.telemetry_before), clock_mhz(one.telemetry_after)),
        )
        for document, case in enumerate(side.cases)
        for one in case.rounds
        if (found := counted(one, name)) is not None
    ]
    if not rounds:
        return None
    values = np.concatenate([one.samples for one in rounds])
    documents = sorted({one.document for one in rounds})
    return HeldSeries(rounds, documents, values, np.sort(values))


class Frame(NamedTuple):
    """The axis of times: all of them, unless a few spikes would press the rest flat."""

    low: float
    high: float
    largest: float
    factor: float
    unit: str
    is_log: bool

    @property
    def axis(self) -> dict[str, Any]:
        ends = [value / self.factor for value in (self.low, self.high)]
        if self.is_log:
            ends = [math.log10(value) for value in ends]
        edge = 0.03 * ((ends[1] - ends[0]) or abs(ends[0]) * 0.01 or 1)
        more = {"type": "log", "nticks": 6} if self.is_log else {}
        return {"range": [ends[0] - edge, ends[1] + edge], **more}

    def scaled(self, values: npt.ArrayLike) -> list[float]:
        """Convert values to the unit of the axis, to five digits of its largest value."""
        digits = max(0, 4 - math.floor(math.log10(max(self.high / self.factor, 1e-9))))
        found: list[float] = np.round(np.asarray(values, float) / self.factor, digits).tolist()
        return found


def frame_of(sides: Sequence[HeldSeries], room: float) -> Frame:
    low = float(min(one.ordered[0] for one in sides))
    tail = float(max(one.ordered[round(0.985 * (one.ordered.size - 1))] for one in sides))
    largest = float(max(one.ordered[-1] for one in sides))
    is_clipped = largest > tail + room * (tail - low)
    high = tail + 0.3 * room * (tail - low) if is_clipped else largest
    return Frame(low, high, largest, *scale_of(high), low > 0 and high > 8 * low)


def scale_of(value_ns: float) -> tuple[float, str]:
    """Return the largest unit of time that leaves a value at least 1: its nanoseconds, and name."""
    units = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
    return next((one for one in units if value_ns >= one[0]), units[-1])


def distribution(
    held: Sequence[HeldSeries | None],
    names: Sequence[str],
    middles: Sequence[float | None],
    end: str,
) -> Iterator[dict[str, Any]]:
    """Yield the chart of the samples' distribution, and a note on it: shares in bins, and below
    them a dot for each round, and for each document if there are several. `middles` are the
    compared times (ns), drawn as lines; `end` is the end of the ids."""
    places = [place for place, one in enumerate(held) if one is not None]
    frame = frame_of([one for one in held if one is not None], 0.5)
    traces: list[dict[str, Any]] = []
    notes = []
    for place in places:
        one = held[place]
        assert one is not None, "it is one of the places"
        traces.append(_share_trace(one.ordered, frame, place, names[place]))
        traces += _dots(one, frame, place, names[place])
        size = one.ordered.size
        beyond = 1 - int(np.searchsorted(one.ordered, frame.high, "right")) / size
        count = f"{size:,} sample{'' if size == 1 else 's'}"
        text = f"{names[place]}: {count}"
        if beyond > 0:
            text += f", about {significant(100 * beyond, 2)} % of them beyond the right edge"
        notes.append(text)
    lines = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper"}
        | {"line": {"color": COLORS[place], "width": 1.5, "dash": DASHES[place]}}
        for place in places
        if (middle := middles[place] if place < len(middles) else None) is not None
        for x in (middle / frame.factor,)
    ]
    layout = {
        "height": 290,
        "showlegend": True,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "shapes": lines,
        "xaxis": {"title": {"text": frame.unit}, **frame.axis, "anchor": "y2"},
        "yaxis": {
            "title": {"text": "% of samples"},
            "rangemode": "tozero",
            "domain": [DOTS + 0.04, 1],
        },
        "yaxis2": {
            "domain": [0, DOTS],
            "range": [1.4 - len(names), 1.6],
            "showgrid": False,
            "zeroline": False,
            "tickvals": [1 - place for place in range(len(names))],
            "ticktext": list(names),
        },
    }
    label = "Distribution of the samples"
    yield {
        "chart": {
            "title": "",
            "traces": traces,
            "layout": layout,
            "id": f"distribution{end}",
            "label": label,
        }
    }
    yield {"note": f"{'. '.join(notes)}.", "id": f"samples-note{end}"}


def _share_trace(ordered: Ints, frame: Frame, place: int, name: str) -> dict[str, Any]:
    bins = max(6, min(BINS, round(2 * math.sqrt(ordered.size))))
    top = frame.high if frame.high > frame.low else frame.low + max(frame.low * 0.01, 1.0)
    edges = (
        np.geomspace(frame.low, top, bins + 1)
        if frame.is_log
        else np.linspace(frame.low, top, bins + 1)
    )
    ends = np.searchsorted(ordered, edges[1:], "left")
    ends[-1] = np.searchsorted(ordered, frame.high, "right")
    shares = np.round(100 * np.diff(ends, prepend=0) / ordered.size, 2).tolist()
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": frame.scaled(edges),
        "y": [*shares, 0],
        "line": {"color": COLORS[place], "width": 1.6, "shape": "hv", "dash": DASHES[place]},
        "fill": "tozeroy",
        "fillcolor": f"{COLORS[place]}/26",
        "hovertemplate": "%{y:.1f} % near %{x:.5~g}<extra></extra>",
    }


def _dots(one: HeldSeries, frame: Frame, place: int, name: str) -> Iterator[dict[str, Any]]:
    """Yield the dots of one series: small ones for rounds; larger ones for documents, if there are
    several."""
    many = len(one.documents) > 1
    logs = [each.log for each in one.rounds]
    numbers = {document: place for place, document in enumerate(one.documents)}
    texts = [
        (f"document {numbers[each.document] + 1}, " if many else "") + f"round {number + 1}"
        for number, each in enumerate(one.rounds)
    ]
    small = {"size": 5 if many else 8, "symbol": "circle", "opacity": 0.55 if many else 0.8}
    yield _dot_trace(np.exp(logs), texts, small, frame, place, name)
    if many:
        means = [
            math.exp(
                float(
                    np.mean(
                        [log for log, r in zip(logs, one.rounds, strict=True) if r.document == d]
                    )
                )
            )
            for d in one.documents
        ]
        texts = [f"document {number + 1}" for number in range(len(means))]
        large = {"size": 12, "symbol": "diamond-open", "line": {"width": 2}}
        yield _dot_trace(np.array(means), texts, large, frame, place, name)


def _dot_trace(
    values: Array, texts: list[str], marker: dict[str, Any], frame: Frame, place: int, name: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [float(f"{value / frame.factor:.7g}") for value in values.tolist()],
        "y": [1 - place] * len(texts),
        "yaxis": "y2",
        "text": texts,
        "showlegend": False,
        "name": name,
        "marker": {"color": COLORS[place], **marker},
        "hovertemplate": "%{text}: %{x:.5~g}<extra></extra>",
    }


GAP, CLOCK_SHARE = 0.09, 0.55


def course(
    held: Sequence[HeldSeries | None], names: Sequence[str], plan: Budget, end: str
) -> Iterator[dict[str, Any]]:
    """Draw each iteration in its order, a panel for each side, with the clock of the device
    beneath."""
    sides = [(place, one) for place, one in enumerate(held) if one is not None]
    frame = frame_of([one for _, one in sides], 3)
    clocks = any(mhz is not None for _, one in sides for r in one.rounds for mhz in r.clocks)
    panels = len(sides) + clocks
    share = (1 - GAP * (panels - 1)) / (len(sides) + (CLOCK_SHARE if clocks else 0))
    layout: dict[str, Any] = {"margin": {"l": 8, "r": 8, "t": 20, "b": 8}}
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for at, (place, one) in enumerate(sides):
        axis, top = f"y{at + 1}" if at else "y", 1 - at * (share + GAP)
        layout[axis.replace("y", "yaxis")] = {
            "domain": [max(top - share, 0), top],
            **frame.axis,
            "title": {"text": f"{names[place]}, {frame.unit}"},
            **({"matches": "y"} if at else {}),
        }
        traces += _course_traces(one, place, frame, axis, names[place], plan)
        marks = _marks(one, axis)
        shapes += marks[0]
        annotations += marks[1]
    if clocks:
        layout[f"yaxis{panels}"] = {
            "domain": [0, share * CLOCK_SHARE],
            "title": {"text": "clock, MHz"},
            "nticks": 3,
        }
        traces += [_clock_trace(one, place, f"y{panels}") for place, one in sides]
    layout |= {
        "height": 150 * len(sides) + (110 if clocks else 0) + 40,
        "shapes": shapes,
        "annotations": annotations,
        "xaxis": {
            "title": {"text": "iteration"},
            "anchor": f"y{panels}" if panels > 1 else "y",
            "showgrid": False,
            "zeroline": False,
        },
    }
    yield {
        "chart": {
            "title": "",
            "traces": traces,
            "layout": layout,
            "id": f"course{end}",
            "label": "Each iteration in its order",
        }
    }
    yield {"note": _legend(sides, frame, plan), "id": f"course-marks{end}"}


def _legend(sides: Sequence[tuple[int, HeldSeries]], frame: Frame, plan: Budget) -> str:
    """Explain the marks of a course that it has."""
    texts = []
    if any(one.cut for _, held in sides for one in held.rounds):
        texts.append("grey band: may be warm-up; it counts all the same")
    if any(len(held.rounds) > 1 for _, held in sides):
        texts.append("dotted line: the next round")
    if any(len(held.documents) > 1 for _, held in sides):
        texts.append("solid line: the next document")
    if any(held.values.size > plan.values for _, held in sides):
        texts.append("line and band: least, median and largest sample of neighbours")
    if frame.largest > frame.high:
        largest = value_text(frame.largest, "ns")
        texts.append(f"spikes up to {largest} lie above the chart; double-click it to see them")
    return "; ".join(texts)


def _spans(one: HeldSeries) -> list[tuple[int, int]]:
    """Return the first iteration and the count of each round."""
    sizes = [each.samples.size for each in one.rounds]
    return list(zip(np.cumsum([0, *sizes[:-1]]).tolist(), sizes, strict=True))


def _course_traces(
    one: HeldSeries, place: int, frame: Frame, axis: str, name: str, plan: Budget
) -> Iterator[dict[str, Any]]:
    look = {"type": "scatter", "name": name, "yaxis": axis, "showlegend": False}
    color, hover = COLORS[place], "iteration %{x}: %{y:.5~g}<extra></extra>"
    values = one.values
    if values.size <= plan.values:
        marker = {"size": 2.5 if values.size > 600 else 4, "color": color}
        y = frame.scaled(values)
        yield {**look, "mode": "markers", "x0": 1, "dx": 1, "y": y, "marker": marker} | {
            "hovertemplate": hover
        }
        return
    share = max(plan.values // 3 // len(one.rounds), 1)
    x: list[float | None] = []
    rows: list[list[float | None]] = [[], [], []]
    for (first, count), each in zip(_spans(one), one.rounds, strict=True):
        size = -(-count // min(share, count))
        # The last bucket is filled up with its last sample.
        filled = np.concatenate([each.samples, np.repeat(each.samples[-1:], -count % size)])
        buckets = np.sort(filled.reshape(-1, size), axis=1)
        x += [*(first + size * (np.arange(len(buckets)) + 0.5) + 0.5).tolist(), None]
        for row, rank in zip(rows, (0, size // 2, -1), strict=True):
            row += [*frame.scaled(buckets[:, rank]), None]
    none = {"width": 0}
    yield {**look, "mode": "lines", "x": x, "y": rows[0], "line": none, "hoverinfo": "skip"}
    yield {**look, "mode": "lines", "x": x, "y": rows[2], "line": none, "hoverinfo": "skip"} | {
        "fill": "tonexty",
        "fillcolor": f"{color}/33",
    }
    line = {"color": color, "width": 1.4}
    yield {**look, "mode": "lines", "x": x, "y": rows[1], "line": line, "hovertemplate": hover}


def _clock_trace(one: HeldSeries, place: int, axis: str) -> dict[str, Any]:
    x: list[int | None] = []
    y: list[float | None] = []
    for (first, count), each in zip(_spans(one), one.rounds, strict=True):
        for at, mhz in zip((first + 1, first + count), each.clocks, strict=True):
            if mhz is not None:
                x.append(at)
                y.append(round(mhz, 1))
        x.append(None)
        y.append(None)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": x,
        "y": y,
        "yaxis": axis,
        "marker": {"size": 4, "color": COLORS[place]},
        "line": {"color": COLORS[place], "width": 1.4, "dash": DASHES[place]},
        "showlegend": False,
        "hovertemplate": "%{y:.0f} MHz<extra></extra>",
    }


def _marks(one: HeldSeries, axis: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return lines between rounds and documents and bands over the warm-up, and the names of
    documents or rounds while they are few."""
    whole = {"y0": 0, "y1": 1, "yref": f"{axis} domain"}
    shapes, starts, previous = [], [], None
    for number, ((first, _), each) in enumerate(zip(_spans(one), one.rounds, strict=True)):
        is_new = each.document != previous
        previous = each.document
        starts += [first] if is_new else []
        if number:
            line = (
                {"color": "--ink", "width": 1.6}
                if is_new
                else {"color": "--soft", "width": 1, "dash": "dot"}
            )
            shapes.append(
                {"type": "line", "x0": first + 0.5, "x1": first + 0.5, **whole, "line": line}
            )
        if each.cut:
            shapes.append(
                {"type": "rect", "x0": first + 0.5, "x1": first + 0.5 + each.cut, **whole}
                | {"fillcolor": "--band", "line": {"width": 0}, "layer": "below"}
            )
    total = one.values.size
    if len(starts) > 1:
        ends = [*starts[1:], total]
        named = [
            (f"document {n + 1}", (a + b) / 2)
            for n, (a, b) in enumerate(zip(starts, ends, strict=True))
        ]
    elif len(one.rounds) <= MANY_ROUNDS:
        named = [(f"round {n + 1}", a + count / 2) for n, (a, count) in enumerate(_spans(one))]
    else:
        named = []
    names = [
        {"x": x, "y": 1, "yref": f"{axis} domain", "yanchor": "bottom", "showarrow": False}
        | {"text": text, "font": {"size": 10, "color": "--soft"}}
        for text, x in named
    ]
    return shapes, names
