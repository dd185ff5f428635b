"""A graph as text for programs that draw: DOT for Graphviz, Mermaid for pages that render it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bench_run.report.description import plain
from bench_run.report.diagram import boxes_of, edges_of

if TYPE_CHECKING:
    from bench_run.graph.model import Graph

FILLS = {"operation": "#ddebff", "input": "#eaf6ec", "output": "#fff0dc"}
"""Colours of boxes by kind, as in the SVG; all others are white."""


def dot(graph: Graph) -> str:
    """For Graphviz: ``dot -Tsvg``."""
    lines = [f"digraph {_quoted(graph.name)} {{", "  node [shape=box, style=filled]"]
    for number, box in enumerate(boxes_of(graph)):
        label = "\\n".join(map(_escaped, box.lines))
        lines.append(f'  n{number} [label="{label}", fillcolor="{_fill(box.kind)}"]')
    lines += [f"  n{a} -> n{b}" for a, b in edges_of(graph)]
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(graph: Graph) -> str:
    """For a fenced block ``mermaid`` of a ticket or a README."""
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


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'
