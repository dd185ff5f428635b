"""Evaluates a graph node by node: float64 inside, every intermediate in its own type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import GraphError
from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.graph.meaning import refusal
from bench_run.reference.common import Array, Arrays, Operation, Outputs
from bench_run.reference.rounding import expected, rounded, settle, widen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph, Node, Tensor

Values = dict[int, Array]


def run(
    graph: Graph,
    inputs: Mapping[int, Array],
    operations: Mapping[str, Operation],
    *,
    keep: bool = False,
) -> Values:
    """See `bench_run.reference.evaluate`; `operations` is the table of meanings. With `keep` floats
    of 16 bits and more are not rounded between nodes, as in a fused kernel."""
    last_use = {uid: i for i, node in enumerate(graph.nodes) for uid in _read(node)}
    values: Values = {}
    results: Values = {}
    with np.errstate(all="ignore"):
        for index, node in enumerate(graph.nodes):
            for uid in _read(node):
                if uid not in values:
                    values[uid] = _given(graph.by_uid[uid], inputs)
            outputs = {port: graph.by_uid[uid] for port, uid in node.outputs.items()}
            given = {port: values[uid] for port, uid in node.inputs.items()}
            produced = operations[node.type](node, given, outputs)
            for port, tensor in outputs.items():
                fitting = _fitting(node, port, tensor, produced)
                uid, value = tensor.uid, settle(fitting, tensor.data_type)
                if not tensor.virtual:
                    results[uid] = expected(value, tensor.data_type)
                if uid in last_use:
                    kept = keep and _is_kept(tensor)
                    values[uid] = value if kept else rounded(value, tensor.data_type)
            for uid in _read(node):
                if last_use[uid] == index:
                    values.pop(uid, None)
    return results


def custom(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Return the results of the file that defines a custom operation."""
    from bench_run.user.cases import evaluate_node  # few graphs need it

    return evaluate_node(node, inputs, outputs)


def _is_kept(tensor: Tensor) -> bool:
    row = DTYPES[tensor.data_type]
    return row.kind == "float" and row.bits >= 16


def _read(node: Node) -> tuple[int, ...]:
    lists = (uid for uids in node.input_lists.values() for uid in uids)
    return (*node.inputs.values(), *lists)


def _given(tensor: Tensor, inputs: Mapping[int, Array]) -> Array:
    """Return the widened values of a constant or of an input."""
    where = f"tensor {tensor.uid} ({tensor.name})"
    if tensor.value is not None:
        constant = np.full(tensor.dims, tensor.value, array_type(tensor.data_type))
        return widen(constant, tensor.data_type)
    if tensor.uid not in inputs:
        raise GraphError(where, "no data was given, and no earlier node produces it")
    array = np.asarray(inputs[tensor.uid])
    if array.shape != tensor.dims:
        raise GraphError(where, f"the data has shape {array.shape}, the tensor {tensor.dims}")
    return widen(array, tensor.data_type)


def _fitting(node: Node, port: str, tensor: Tensor, produced: Mapping[str, Array]) -> Array:
    """Return the array of a port, which must exist and have the tensor's dims."""
    if port not in produced:
        raise refusal(node, f"output {port!r} is unknown; known are {', '.join(produced)}")
    if produced[port].shape != tensor.dims:
        raise refusal(node, f"{port} has shape {produced[port].shape}, its tensor {tensor.dims}")
    return produced[port]
