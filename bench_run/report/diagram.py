"""A graph as text for programs that draw: DOT for Graphviz, Mermaid for pages that render it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from bench_run.report.description import (
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
    from bench_run.graph.model import Graph

_WIDEST = 40
"""Letters of a line in a box."""
FILLS = {"operation": "#ddebff", "input": "#eaf6ec", "output": "#fff0dc"}
"""Colours of boxes by kind; all others are white."""


@dataclass(frozen=True)
class Box:
    kind: str
    """``operation`` or the tensor's role: the style class."""
    lines: tuple[str, ...]
    """The first one is the heading."""


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


def dot(graph: Graph) -> str:
    """Return the graph for Graphviz: ``dot -Tsvg graph.dot``."""
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
