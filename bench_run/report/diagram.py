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
from bench_run.report.layers import arrange
from bench_run.text import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.report.layers import Point

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
    """The drawing as a whole SVG file: operations and tensors, top to bottom."""
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
    """The drawing and the description as one HTML page that needs nothing else."""
    words = escape(describe(graph).rstrip())
    return _PAGE.format(title=_text(graph.name), drawing=diagram(graph), words=words)


def boxes_of(graph: Graph) -> list[Box]:
    """Operations first, then the tensors."""
    operations = [_operation(node) for node in graph.nodes]
    return [*operations, *(_tensor(graph, tensor) for tensor in graph.tensors)]


def _operation(node: Node) -> Box:
    name = plain(node.name)
    named = () if name in ("", operation_name(node)) else (shorten(name, _WIDEST),)
    facts = (shorten(fact, _WIDEST) for fact in node_facts(node))
    return Box("operation", (operation_name(node), *named, *facts))


def _tensor(graph: Graph, tensor: Tensor) -> Box:
    kind = f"{tensor.data_type} {layout_text(graph, tensor)}"
    lines = (tensor_name(tensor), shorten(dims_text(tensor), _WIDEST), shorten(kind, _WIDEST))
    return Box(role(graph, tensor), lines)


def edges_of(graph: Graph) -> list[tuple[int, int]]:
    """Between places in the list of boxes; the same pair once."""
    place = {tensor.uid: len(graph.nodes) + i for i, tensor in enumerate(graph.tensors)}
    pairs = []
    for index, node in enumerate(graph.nodes):
        lists = (uid for uids in node.input_lists.values() for uid in uids)
        pairs += [(place[uid], index) for uid in (*node.inputs.values(), *lists)]
        pairs += [(index, place[uid]) for uid in node.outputs.values()]
    return list(dict.fromkeys(pairs))


def _curve(route: Sequence[Point]) -> str:
    """A path that leaves and arrives upright, through all points."""
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
