"""Operators of a user's file: the file's own reference, in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.graph.dtypes import DTYPES
from bench_run.user.cases import evaluate_node, source_of

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView


def custom(view: NodeView, **inputs: Array) -> dict[str, Array]:
    node = view.node
    given = {}
    for port, array in inputs.items():
        kind = DTYPES[view[port].data_type].kind
        given[port] = array.astype({"integer": "int64", "boolean": "bool"}.get(kind, array.dtype))
    return evaluate_node(node, given, {port: view[port] for port in node.outputs})


def refuse(view: NodeView) -> None:
    """Raises `UnsupportedGraphError` for operations that no file defines."""
    source_of(view.node)
