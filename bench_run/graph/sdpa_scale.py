"""The scale of attention graphs that store none, as the user means it.

The format does not define it. Once said it is part of the graph: every engine, the reference and
the fingerprint take it from there, and the case's note says that it was not in the file.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.graph.operations.sdpa import ROWS, has_scale

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node
    from bench_run.graph.sources.load import LoadedGraph

TYPES = tuple(row.type for row in ROWS)


def with_sdpa_scale(loaded: LoadedGraph, meaning: str) -> LoadedGraph:
    """The loaded graph, scaled; its notes say where."""
    graph, notes = scaled(loaded.graph, meaning)
    return replace(loaded, graph=graph, notes=(*loaded.notes, *notes)) if notes else loaded


def scaled(graph: Graph, meaning: str) -> tuple[Graph, tuple[str, ...]]:
    """The graph with the scale that `meaning` (``one``, ``rsqrt``) gives to nodes without one, and
    a note for each of them."""
    nodes, notes = [], []
    for node in graph.nodes:
        if node.type not in TYPES or has_scale(node):
            nodes.append(node)
            continue
        value = _value(graph, node, meaning)
        nodes.append(replace(node, attributes={**node.attributes, "attn_scale_value": value}))
        notes.append(f"{node.label}: the file stores no scale, taken as {value:.6g} "
                     f"(--sdpa-scale {meaning})")  # fmt: skip
    return (replace(graph, nodes=tuple(nodes)) if notes else graph), tuple(notes)


def _value(graph: Graph, node: Node, meaning: str) -> float:
    head_size = graph.by_uid[node.inputs["q"]].dims[3]
    return 1.0 if meaning == "one" else 1 / math.sqrt(head_size)
