"""The operations table: one row for each node type, one module for each family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.graph.model import Graph, Node
from bench_run.graph.operations import (
    batchnorm,
    block_scale,
    convolution,
    custom,
    matmul,
    moe,
    norms,
    pointwise,
    reduction,
    resample,
    sdpa,
)
from bench_run.graph.operations.base import HINTS, NodeView, Operation, Parameter, Port, view
from bench_run.graph.operations.pointwise import POINTWISE_MODES, PointwiseMode

if TYPE_CHECKING:
    from collections.abc import Mapping

_FAMILIES = (
    convolution,
    batchnorm,
    norms,
    matmul,
    pointwise,
    reduction,
    resample,
    sdpa,
    block_scale,
    moe,
    custom,
)

OPERATIONS: dict[str, Operation] = {row.type: row for family in _FAMILIES for row in family.ROWS}
"""Operations by the type string of the file."""

BY_NAME: dict[str, Operation] = {row.name: row for row in OPERATIONS.values()}
"""Operations by our short name."""


def node_view(graph: Graph, index: int, where: str = "graph") -> NodeView:
    """Return node `index` of the graph with its tensors and its row; `where` names the graph."""
    node = graph.nodes[index]
    return view(graph, node, OPERATIONS[node.type], f"{where}: nodes[{index}]")


def make_node(
    name: str,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    attributes: Mapping[str, Any] | None = None,
    *,
    label: str = "",
    compute_data_type: str = "float",
) -> Node:
    """Return a node in canonical form: `name` is our short name, defaults of parameters are filled
    in."""
    row = BY_NAME[name]
    complete = row.complete(attributes or {})
    return Node(row.type, label, compute_data_type, dict(inputs), dict(outputs), complete)


__all__ = [
    "BY_NAME",
    "HINTS",
    "OPERATIONS",
    "POINTWISE_MODES",
    "NodeView",
    "Operation",
    "Parameter",
    "PointwiseMode",
    "Port",
    "make_node",
    "node_view",
]
