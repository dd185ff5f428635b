"""A graph as a drawing: SVG text, alone or in a page with the description in words."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from bench_run.report.description import (
    describe,
    dims_text,
    layout_text,
    node_facts,
    operation_name,
    plain,
    role,
    tensor_name,
)
from bench_run.text import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.model import Graph


# Layered drawing of an acyclic graph: boxes and edges in, coordinates out.
#
# By hand, since it gives an SVG (in 1 ms for a fused graph) where no Graphviz is installed; for one
# that is, and for pages that render Mermaid, `diagram_text` leaves the places to them. Of Python's
# libraries networkx does not order layers, and grandalf is under the GPL.
#
# The classic method (Sugiyama, Tagawa and Toda, 1981): layers by longest path, long edges through
# small stand-ins, order within a layer by the means of neighbours, then horizontal places that come
# as near to those means as boxes that must not overlap can (isotonic regression).

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
    """Centres of the boxes, in their order."""
    routes: tuple[tuple[Point, ...], ...]
    """Routes of the edges: from the bottom of one box through stand-ins to the top of the other."""


def arrange(sizes: Sequence[Size], edges: Sequence[Edge]) -> Picture:
    """Place boxes of these sizes (width, height), top to bottom along the edges (from, to)."""
    layer = _layers(len(sizes), edges)
    widths = [width for width, _ in sizes]
    paths = []  # the boxes that each edge runs through, with a stand-in for every layer it crosses
    for a, b in edges:
        crossed = range(layer[a] + 1, layer[b])
        paths.append([a, *range(len(layer), len(layer) + len(crossed)), b])
        layer += crossed
        widths += [0.0] * len(crossed)
    pieces = [piece for path in paths for piece in itertools.pairwise(path)]
    rows = _order(layer, pieces)
    x = _horizontal(rows, pieces, widths)
    bands: list[tuple[float, float]] = []  # top and bottom of each layer
    top = MARGIN
    for row in rows:
        tallest = max((sizes[box][1] for box in row if box < len(sizes)), default=0.0)
        bands.append((top, top + tallest))
        top += tallest + GAP_Y
    centres = tuple((x[box], sum(bands[layer[box]]) / 2) for box in range(len(sizes)))
    routes: list[tuple[Point, ...]] = []
    for first, *between, last in paths:  # straight past the layers between: only gaps see a bend
        start = sum(bands[layer[first]]) / 2 + sizes[first][1] / 2
        end = sum(bands[layer[last]]) / 2 - sizes[last][1] / 2
        past = ((x[box], edge) for box in between for edge in bands[layer[box]])
        routes.append(((x[first], start), *past, (x[last], end)))
    width = max(x[box] + widths[box] / 2 for box in range(len(widths))) + MARGIN
    height = (
        max(place[1] + size[1] / 2 for place, size in zip(centres, sizes, strict=True)) + MARGIN
    )
    return Picture(width, height, centres, tuple(routes))


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the longest path from above; a box without a predecessor is placed just above its
    successor."""
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


def _order(layer: list[int], pieces: Sequence[Edge]) -> list[list[int]]:
    """Return the boxes of each layer from left to right."""
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
    """Place a row as near to `wanted` as its order and gaps allow, by least squares."""
    offsets = [0.0]
    for one, two in itertools.pairwise(row):
        offsets.append(offsets[-1] + (widths[one] + widths[two]) / 2 + GAP_X)
    near = isotonic([want - offset for want, offset in zip(wanted, offsets, strict=True)])
    for box, place, offset in zip(row, near, offsets, strict=True):
        x[box] = place + offset


def isotonic(values: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence nearest to `values` by least squares: pool adjacent
    violators."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]


_LETTER, _LINE, _PAD = 7.0, 16.0, 10.0
_WIDEST = 40
"""Letters of a line in a box."""

_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1b1f24; text-anchor: middle }
.head { font-weight: bold }
rect { stroke: #57606a; fill: #ffffff }
.operation rect { fill: #ddebff; stroke: #2f6fbf }
.input rect { fill: #eaf6ec; stroke: #3a8a4d }
.output rect { fill: #fff0dc; stroke: #b36b00 }
.between rect { stroke-dasharray: 4 3 }
.constant rect, .unused rect { fill: #f2f2f2; stroke: #8a8a8a }
path { fill: none; stroke: #57606a; marker-end: url(#tip) }
"""

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{ font: 14px system-ui, sans-serif; margin: 2em }} pre {{ overflow-x: auto }}
svg {{ max-width: 100%; height: auto }}</style>
{drawing}
<pre>{words}</pre>
</html>
"""


@dataclass(frozen=True)
class Box:
    kind: str
    """``operation`` or the tensor's role: the style class."""
    lines: tuple[str, ...]
    """The first one is the heading."""

    @property
    def size(self) -> tuple[float, float]:
        width = max(len(line) for line in self.lines) * _LETTER + 2 * _PAD
        return width, len(self.lines) * _LINE + _PAD


def diagram(graph: Graph) -> str:
    """Return the drawing as a whole SVG file: operations and tensors, top to bottom."""
    boxes, edges = boxes_of(graph), edges_of(graph)
    picture = arrange([box.size for box in boxes], edges)
    size = f'width="{picture.width:.0f}" height="{picture.height:.0f}"'
    frame = f'viewBox="0 0 {picture.width:.0f} {picture.height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {frame} role="img">',
        f"<title>{_text(graph.name)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill:#57606a;'
        'stroke:none;marker-end:none"/></marker></defs>',
        *(f'<path d="{_curve(route)}"/>' for route in picture.routes),
        *(_draw(box, centre) for box, centre in zip(boxes, picture.centres, strict=True)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def page(graph: Graph) -> str:
    """Return the drawing and the description as one self-contained HTML page."""
    words = escape(describe(graph).rstrip())
    return _PAGE.format(title=_text(graph.name), drawing=diagram(graph), words=words)


def boxes_of(graph: Graph) -> list[Box]:
    """Return the boxes of operations, then those of tensors."""
    boxes = []
    for node in graph.nodes:
        name = plain(node.name)
        named = () if name in ("", operation_name(node)) else (shorten(name, _WIDEST),)
        facts = (shorten(fact, _WIDEST) for fact in node_facts(node))
        boxes.append(Box("operation", (operation_name(node), *named, *facts)))
    for tensor in graph.tensors:
        kind = f"{tensor.data_type} {layout_text(graph, tensor)}"
        lines = (tensor_name(tensor), shorten(dims_text(tensor), _WIDEST), shorten(kind, _WIDEST))
        boxes.append(Box(role(graph, tensor), lines))
    return boxes


def edges_of(graph: Graph) -> list[tuple[int, int]]:
    """Return edges between indices of boxes; the same pair once."""
    place = {tensor.uid: len(graph.nodes) + i for i, tensor in enumerate(graph.tensors)}
    pairs = []
    for index, node in enumerate(graph.nodes):
        lists = (uid for uids in node.input_lists.values() for uid in uids)
        pairs += [(place[uid], index) for uid in (*node.inputs.values(), *lists)]
        pairs += [(index, place[uid]) for uid in node.outputs.values()]
    return list(dict.fromkeys(pairs))


def _curve(route: Sequence[Point]) -> str:
    """Return a path that leaves and arrives upright, through all points."""
    text = "M{:.1f} {:.1f}".format(*route[0])
    for (x, y), (to_x, to_y) in itertools.pairwise(route):
        middle = (y + to_y) / 2
        text += f" C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
    return text


def _draw(box: Box, centre: Point) -> str:
    width, height = box.size
    left, top = centre[0] - width / 2, centre[1] - height / 2
    rows = []
    for number, line in enumerate(box.lines):
        y = top + _PAD / 2 + _LINE * (number + 0.75)
        head = ' class="head"' if number == 0 else ""
        rows.append(f'<text x="{centre[0]:.1f}" y="{y:.1f}"{head}>{_text(line)}</text>')
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<g class="{box.kind}"><rect {place} rx="4"/>{"".join(rows)}</g>'


def _text(name: str) -> str:
    return escape(plain(name))


# A graph as text for programs that draw: DOT for Graphviz, Mermaid for pages that render it.


FILLS = {"operation": "#ddebff", "input": "#eaf6ec", "output": "#fff0dc"}
"""Colours of boxes by kind, as in the SVG; all others are white."""


def dot(graph: Graph) -> str:
    """Return the graph for Graphviz: ``dot -Tsvg``."""
    lines = [f'digraph "{_escaped(graph.name)}" {{', "  node [shape=box, style=filled]"]
    for number, box in enumerate(boxes_of(graph)):
        label = "\\n".join(map(_escaped, box.lines))
        lines.append(f'  n{number} [label="{label}", fillcolor="{_fill(box.kind)}"]')
    lines += [f"  n{a} -> n{b}" for a, b in edges_of(graph)]
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(graph: Graph) -> str:
    """Return the graph for a fenced block ``mermaid`` of a ticket or a README."""
    lines = ["flowchart TB"]
    for number, box in enumerate(boxes_of(graph)):
        label = "<br/>".join(escape(plain(line)) for line in box.lines)
        lines.append(f'  n{number}["{label}"]')
        lines.append(f"  style n{number} fill:{_fill(box.kind)}")
    lines += [f"  n{a} --> n{b}" for a, b in edges_of(graph)]
    return "\n".join(lines) + "\n"


def _fill(kind: str) -> str:
    return FILLS.get(kind, "#ffffff")


def _escaped(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace('"', '\\"')
