"""The table of operators beyond hipDNN's nodes: ``table.toml``, a row each by category.

A new operator is a row. Functions of its formulas that NumPy lacks are in `bench_run.operators`,
those that PyTorch lacks in `bench_run.engines.torch_engine.operators`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError, UsageError
from bench_run.graph.make.operators.row import PREFIX, SUFFIXES, TYPE, Operator, read_table

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node

OPERATORS = read_table(Path(__file__).with_name("table.toml").read_bytes())
_BY_ID = {
    f"{PREFIX}{row.name}{SUFFIXES[direction]}": (row, direction)
    for row in OPERATORS.values()
    for direction in SUFFIXES
}


def row_of(node: Node) -> tuple[Operator, str, dict[str, Any]]:
    """Return the row, the direction and the parameters of a node that `is_operator`."""
    return _row_of(node.attributes["custom_op_id"], node.attributes["data"])


@lru_cache
def _row_of(name: str, data: tuple[int, ...]) -> tuple[Operator, str, dict[str, Any]]:
    row, direction = _BY_ID[name]
    found = json.loads(bytes(data))["shape"]
    if not isinstance(found, dict) or found.keys() != row.params.keys():
        raise ValueError(f"expected shape with {', '.join(row.params)}")
    params = {key: tuple(v) if isinstance(v, list) else v for key, v in found.items()}
    for key, value in params.items():
        if key in row.choices and value not in row.choices[key]:
            raise ValueError(f"{key} is {value!r}, expected one of {', '.join(row.choices[key])}")
        if not _is_like(value, row.params[key]):
            raise ValueError(f"{key} is {value!r}, expected such as {row.params[key]!r}")
    return row, direction, params


def _is_like(value: Any, usual: Any) -> bool:
    if usual is None or isinstance(usual, tuple):
        is_dims = isinstance(value, tuple) and all(type(each) is int for each in value)
        return is_dims or (usual is None and value is None)
    return type(value) is type(usual) or (isinstance(usual, float) and type(value) is int)


def is_operator(node: Node) -> bool:
    """Return True if a row of the table says what the node means."""
    return node.type == TYPE and node.attributes.get("custom_op_id") in _BY_ID


def with_operators(graph: Graph, where: str) -> Graph:
    """Return the graph of a file with the meaning of its nodes that are operators of the table.

    Raises `GraphError` if a tensor differs from the row.
    """
    if not any(map(is_operator, graph.nodes)):
        return graph
    return replace(graph, nodes=tuple(_known(graph, node, where) for node in graph.nodes))


def _known(graph: Graph, node: Node, where: str) -> Node:
    if not is_operator(node):
        return node
    try:
        row, direction, params = row_of(node)
        params = {"dtype": graph.io_data_type, **params}
        ports = row.ports(direction, params)
    except (ValueError, TypeError, KeyError, ArithmeticError, UsageError) as error:
        raise GraphError(where, f"{node.attributes['custom_op_id']}: data: {error}") from None
    for want, uids in zip(ports, (node.inputs, node.outputs), strict=True):
        have = [graph.by_uid[uid] for uid in uids.values()]
        if [(t.dims, t.data_type) for t in have] != [(p.dims, p.dtype) for p in want]:
            words = ", ".join(f"{p.name} {list(p.dims)} {p.dtype}" for p in want)
            what = f"{node.attributes['custom_op_id']}: its tensors are not {words}"
            raise GraphError(where, what)
    return replace(node, custom=row.custom(direction, params))
