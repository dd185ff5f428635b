"""Layered drawing of an acyclic graph: boxes and edges in, coordinates out.

By hand, since it gives an SVG (in 1 ms for a fused graph) where no Graphviz is installed; for one
that is, and for pages that render Mermaid, `diagram_text` leaves the places to them. Of Python's
libraries networkx does not order layers, and grandalf is under the GPL.

The classic method (Sugiyama, Tagawa and Toda, 1981): layers by longest path, long edges through
small stand-ins, order within a layer by the means of neighbours, then horizontal places that come
as near to those means as boxes that must not overlap can (isotonic regression).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP_X, GAP_Y, MARGIN = 24.0, 34.0, 16.0
_SWEEPS = 8

Point = tuple[float, float]
Size = tuple[float, float]
Edge = tuple[int, int]


@dataclass(frozen=True)
class Picture:
    width: float
    height: float
    centres: tuple[Point, ...]
    """Of the boxes, in their order."""
    routes: tuple[tuple[Point, ...], ...]
    """Of the edges: from the bottom of one box through stand-ins to the top of the other."""


def arrange(sizes: Sequence[Size], edges: Sequence[Edge]) -> Picture:
    """Places boxes of these sizes (width, height), top to bottom along the edges (from, to)."""
    layer = _layers(len(sizes), edges)
    widths = [width for width, _ in sizes]
    paths = _with_stand_ins(edges, layer, widths)
    pieces = [piece for path in paths for piece in itertools.pairwise(path)]
    rows = _order(layer, pieces)
    x = _horizontal(rows, pieces, widths)
    bands = _vertical(rows, sizes)
    centres = tuple((x[box], sum(bands[layer[box]]) / 2) for box in range(len(sizes)))
    routes = tuple(_route(path, x, layer, bands, sizes) for path in paths)
    width = max(x[box] + widths[box] / 2 for box in range(len(widths))) + MARGIN
    height = (
        max(place[1] + size[1] / 2 for place, size in zip(centres, sizes, strict=True)) + MARGIN
    )
    return Picture(width, height, centres, routes)


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """Longest path from above; what nothing leads to stands just above what it leads to."""
    layer = [0] * count
    for _ in range(count):
        moved = [(b, layer[a] + 1) for a, b in edges if layer[b] <= layer[a]]
        if not moved:
            break
        for box, least in moved:
            layer[box] = max(layer[box], least)
    entered = {b for _, b in edges}
    for box in range(count):
        below = [layer[b] for a, b in edges if a == box]
        if box not in entered and below:
            layer[box] = min(below) - 1
    return layer


def _with_stand_ins(
    edges: Sequence[Edge], layer: list[int], widths: list[float]
) -> list[list[int]]:
    """The boxes that each edge runs through; adds a stand-in for every layer it crosses."""
    paths = []
    for a, b in edges:
        path = [a]
        for between in range(layer[a] + 1, layer[b]):
            path.append(len(layer))
            layer.append(between)
            widths.append(0.0)
        paths.append([*path, b])
    return paths


def _order(layer: list[int], pieces: Sequence[Edge]) -> list[list[int]]:
    """The boxes of each layer from left to right."""
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for box, level in enumerate(layer):
        rows[level].append(box)
    above, below = _neighbours(len(layer), pieces)
    place = {box: index for row in rows for index, box in enumerate(row)}
    for sweep in range(_SWEEPS):
        sides = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            means = {box: _mean([place[n] for n in sides[box]], place[box]) for box in row}
            row.sort(key=means.__getitem__)
            place.update({box: index for index, box in enumerate(row)})
    return rows


def _neighbours(count: int, pieces: Sequence[Edge]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in pieces:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _horizontal(
    rows: list[list[int]], pieces: Sequence[Edge], widths: Sequence[float]
) -> list[float]:
    x = [0.0] * len(widths)
    above, below = _neighbours(len(widths), pieces)
    for row in rows:
        _set(x, row, [0.0] * len(row), widths)
    for sweep in range(_SWEEPS):
        sides = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            _set(x, row, [_mean([x[n] for n in sides[box]], x[box]) for box in row], widths)
    left = min(x[box] - widths[box] / 2 for box in range(len(widths)))
    return [place - left + MARGIN for place in x]


def _set(x: list[float], row: list[int], wanted: list[float], widths: Sequence[float]) -> None:
    """Places a row as near to `wanted` as its order and gaps allow, by least squares."""
    offsets = [0.0]
    for one, two in itertools.pairwise(row):
        offsets.append(offsets[-1] + (widths[one] + widths[two]) / 2 + GAP_X)
    near = isotonic([want - offset for want, offset in zip(wanted, offsets, strict=True)])
    for box, place, offset in zip(row, near, offsets, strict=True):
        x[box] = place + offset


def isotonic(values: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to `values` by least squares: pool adjacent violators."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]


def _vertical(rows: list[list[int]], sizes: Sequence[Size]) -> list[tuple[float, float]]:
    """Top and bottom of each layer."""
    bands, top = [], MARGIN
    for row in rows:
        height = max((sizes[box][1] for box in row if box < len(sizes)), default=0.0)
        bands.append((top, top + height))
        top += height + GAP_Y
    return bands


def _route(
    path: list[int],
    x: Sequence[float],
    layer: Sequence[int],
    bands: Sequence[tuple[float, float]],
    sizes: Sequence[Size],
) -> tuple[Point, ...]:
    """Straight down past the layers between, so that only the gaps see a bend."""
    first, *between, last = path
    start = sum(bands[layer[first]]) / 2 + sizes[first][1] / 2
    end = sum(bands[layer[last]]) / 2 - sizes[last][1] / 2
    past = ((x[box], edge) for box in between for edge in bands[layer[box]])
    return ((x[first], start), *past, (x[last], end))
