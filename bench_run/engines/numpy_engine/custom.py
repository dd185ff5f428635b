"""Custom nodes: the formula of the table of operators, or the reference of a user's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.make.operators import is_operator, row_of
from bench_run.user.cases import evaluate_node, source_of

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView

NUMPY = "numpy"


def custom(view: NodeView, **inputs: Array) -> dict[str, Array]:
    node = view.node
    given = {}
    for port, array in inputs.items():
        kind = DTYPES[view[port].data_type].kind
        given[port] = array.astype({"integer": "int64", "boolean": "bool"}.get(kind, array.dtype))
    outputs = {port: view[port] for port in node.outputs}
    return evaluate_node(node, given, outputs, drawn=True)


def refuse(view: NodeView) -> None:
    """Raises `UnsupportedGraphError` for operations that nothing here defines."""
    if not is_operator(view.node):
        source_of(view.node)
    elif NUMPY in (refused := row_of(view.node)[0].refused):
        raise UnsupportedGraphError(f"numpy: {refused[NUMPY]}")
