"""Validity of graphs: graphs/FORMAT.md (Rules), and each operation's own rules.

Empty tensors (a dim of 0) are refused: there is nothing to compute and nothing to measure. Strides
may leave gaps, and tensors that are only read may even overlap themselves; written tensors may not.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations import OPERATIONS
from bench_run.graph.operations.base import INTEGER_HINTS, view

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.graph.operations import NodeView, Operation, Port

LARGEST_BYTES = 2**46
"""64 TiB: more than this in one graph is a mistake in its file, on any machine."""

_ENUMERATED = 2**16
"""Elements up to which odd strides are tried out one by one."""


def check(graph: Graph, where: str = "graph") -> Graph:
    """Return the graph with its nodes in topological order. Raises `GraphError` if a rule is
    broken."""
    if not graph.nodes:
        raise GraphError(f"{where}: nodes", "is empty, expected at least one node")
    for index, tensor in enumerate(graph.tensors):
        _check_tensor(tensor, f"{where}: tensors[{index}]")
    _check_uids(graph, where)
    for index, node in enumerate(graph.nodes):
        _check_node(graph, node, f"{where}: nodes[{index}]")
    _check_wiring(graph, where)
    order = _topological(graph, where)
    for index, node in enumerate(graph.nodes):
        row = OPERATIONS[node.type]
        row.check(view(graph, node, row, f"{where}: nodes[{index}]"))
    in_order = all(a < b for a, b in pairwise(order))
    return graph if in_order else replace(graph, nodes=tuple(graph.nodes[i] for i in order))


def _check_tensor(tensor: Tensor, where: str) -> None:
    if tensor.data_type not in DTYPES:
        what = f"is {tensor.data_type!r}, expected one of {', '.join(DTYPES)}"
        raise GraphError(f"{where}.data_type", what)
    if not tensor.dims:
        raise GraphError(f"{where}.dims", "is empty, expected at least one dim")
    if len(tensor.strides) != len(tensor.dims):
        what = f"has {len(tensor.strides)} entries for {len(tensor.dims)} dims"
        raise GraphError(f"{where}.strides", what)
    if min(tensor.dims) < 1:
        what = f"is {list(tensor.dims)}, expected 1 or more in each: an empty tensor has no work"
        raise GraphError(f"{where}.dims", what)
    if min(tensor.strides) < 0:
        raise GraphError(f"{where}.strides", f"is {list(tensor.strides)}, expected 0 or more")
    idle = (s for s, d in zip(tensor.strides, tensor.dims, strict=True) if d == 1)
    if max(idle, default=0) > LARGEST_BYTES:  # others count in the span
        what = f"is {list(tensor.strides)}, expected at most {LARGEST_BYTES} (2^46) in each"
        raise GraphError(f"{where}.strides", what)
    if tensor.alignment < 1:
        raise GraphError(f"{where}.alignment", f"is {tensor.alignment}, expected 1 or more bytes")
    _check_scalar(tensor, where)


def _check_scalar(tensor: Tensor, where: str) -> None:
    if tensor.value is None and not tensor.runtime_scalar:
        return
    if tensor.value is not None and tensor.runtime_scalar:
        raise GraphError(f"{where}.value", "is set, but so is is_runtime_pass_by_value")
    if tensor.virtual:
        raise GraphError(f"{where}.virtual", "is true, but the tensor is a scalar that is given")
    if tensor.elements != 1:
        raise GraphError(f"{where}.dims", f"is {list(tensor.dims)}, expected one element: a scalar")
    if tensor.value is not None and not math.isfinite(tensor.value):
        raise GraphError(f"{where}.value", f"is {tensor.value}, expected a finite number")
    if tensor.value is not None and _is_integer(tensor):
        row = DTYPES[tensor.data_type]
        if not row.lowest <= tensor.value < row.lowest + 2**row.bits:
            raise GraphError(f"{where}.value", f"is {tensor.value}, which {row.name} cannot hold")


def _check_uids(graph: Graph, where: str) -> None:
    first: dict[int, int] = {}
    for index, tensor in enumerate(graph.tensors):
        if tensor.uid in first:
            what = f"is {tensor.uid}, as in tensors[{first[tensor.uid]}]; uids must differ"
            raise GraphError(f"{where}: tensors[{index}].uid", what)
        first[tensor.uid] = index
    total = sum(tensor.span * DTYPES[tensor.data_type].bits // 8 for tensor in graph.tensors)
    if total > LARGEST_BYTES:
        largest = max(graph.tensors, key=lambda tensor: tensor.span)
        what = f"hold {total / 2**40:,.0f} TiB, more than any machine (dims {list(largest.dims)})"
        raise GraphError(f"{where}: tensors", what)
    for index, tensor in enumerate(graph.tensors):
        ragged = tensor.ragged_offset_uid
        if ragged is not None and ragged not in first:
            place = f"{where}: tensors[{index}].ragged_offset_tensor_uid"
            raise GraphError(place, f"is {ragged}, which is not a tensor of this graph")


def _check_node(graph: Graph, node: Node, where: str) -> None:
    """Require known ports and parameters of the right kind, and references that resolve."""
    row = OPERATIONS.get(node.type)
    if row is None:
        raise GraphError(f"{where}.type", f"is {node.type!r}, expected {', '.join(OPERATIONS)}")
    if node.compute_data_type not in DTYPES:
        what = f"is {node.compute_data_type!r}, and the graph gives no default"
        raise GraphError(f"{where}.compute_data_type", what)
    lists = ((port, uid) for port, uids in node.input_lists.items() for uid in uids)
    for port, uid in (*node.inputs.items(), *node.outputs.items(), *lists):
        if uid not in graph.by_uid:
            known = ", ".join(str(known) for known in list(graph.by_uid)[:12])
            what = f"is {uid}, which is not a tensor of this graph (uids: {known})"
            raise GraphError(f"{where}.{row.port_place(port)}", what)
    seen = view(graph, node, row, where)
    _check_ports(seen, row.inputs, node.inputs, "inputs")
    _check_ports(seen, row.outputs, node.outputs, "outputs")
    _check_attributes(seen, row)


def _check_ports(seen: NodeView, ports: tuple[Port, ...], used: object, place: str) -> None:
    names = set(used) if isinstance(used, dict) else set()
    for port in ports:
        names.discard(port.name)
        tensor = seen.get(port.name)
        if port.required and tensor is None:
            raise GraphError(f"{seen.where}.{seen.operation.port_place(port.name)}", "is missing")
        if tensor is not None and port.hint in INTEGER_HINTS and not _is_integer(tensor):
            raise seen.port_error(port.name, f"is {tensor.data_type}, expected integers")
        is_scale = tensor is not None and DTYPES[tensor.data_type].kind == "scale"
        if tensor is not None and is_scale and place == "outputs" and port.hint != "block_scale":
            what = "holds powers of two: it can be the scale of blocks, not a result"
            raise seen.port_error(port.name, f"is {tensor.data_type}, which {what}")
        if port.numbered:
            names = {name for name in names if name.rpartition("_")[0] != port.name}
    if names:
        known = ", ".join(port.name for port in ports)
        what = f"{sorted(names)[0]!r} is not a port of {seen.node.type}, expected {known}"
        raise GraphError(f"{seen.where}.{place}", what)


def _is_integer(tensor: Tensor) -> bool:
    return DTYPES[tensor.data_type].kind == "integer"


def _check_attributes(seen: NodeView, row: Operation) -> None:
    attributes = seen.node.attributes
    for parameter in row.parameters:
        value = attributes.get(parameter.name)
        if parameter.required and value is None:
            raise seen.parameter_error(parameter.name, "is missing")
        if isinstance(value, float) and not math.isfinite(value):
            raise seen.parameter_error(parameter.name, f"is {value}, expected a finite number")
    unknown = set(attributes) - {parameter.name for parameter in row.parameters}
    if unknown:
        name = sorted(unknown)[0]
        known = ", ".join(parameter.name for parameter in row.parameters) or "none"
        raise seen.parameter_error(name, f"is not a parameter of {row.type}, expected {known}")


def _check_wiring(graph: Graph, where: str) -> None:
    """Require that each tensor is written at most once, each virtual one exactly once, and then
    read."""
    writer: dict[int, str] = {}
    for index, node in enumerate(graph.nodes):
        row = OPERATIONS[node.type]
        for port, uid in node.outputs.items():
            place = f"nodes[{index}].{row.port_place(port)}"
            if uid in writer:
                raise GraphError(f"{where}: {place}", f"is {uid}, which {writer[uid]} writes too")
            if graph.by_uid[uid].value is not None:
                raise GraphError(f"{where}: {place}", f"is {uid}, which is a constant")
            writer[uid] = place
    for index, tensor in enumerate(graph.tensors):
        place = f"{where}: tensors[{index}]"
        if tensor.virtual and tensor.uid not in writer:
            raise GraphError(place, f"{_name(tensor)} is virtual, but no node produces it")
        if tensor.virtual and tensor.uid not in graph.consumed:
            raise GraphError(place, f"{_name(tensor)} is virtual, but no node reads it")
        if tensor.uid in writer and not distinct_elements(tensor):
            what = f"is {list(tensor.strides)}: elements of {_name(tensor)}, an output, overlap"
            raise GraphError(f"{place}.strides", what)


def _name(tensor: Tensor) -> str:
    return f"tensor {tensor.uid} {tensor.name!r}"


def distinct_elements(tensor: Tensor) -> bool:
    """Return True if the strides give every element a separate address.

    Nested strides always do. Interleaved ones are enumerated if that is cheap and otherwise counted
    as overlapping.
    """
    axes = sorted((s, d) for s, d in zip(tensor.strides, tensor.dims, strict=True) if d > 1)
    reach, nested = 0, True
    for stride, length in axes:
        nested = nested and stride > reach
        reach += (length - 1) * stride
    if nested or tensor.elements > _ENUMERATED:
        return nested
    offsets = {0}
    for stride, length in axes:
        offsets = {base + i * stride for base in offsets for i in range(length)}
    return len(offsets) == tensor.elements


def _topological(graph: Graph, where: str) -> list[int]:
    """Return the indices of the nodes, producers first, otherwise in file order."""
    producer = {uid: i for i, node in enumerate(graph.nodes) for uid in node.outputs.values()}
    waiting: dict[int, set[int]] = {}
    followers: dict[int, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        reads = (*node.inputs.values(), *(u for us in node.input_lists.values() for u in us))
        waiting[index] = {producer[uid] for uid in reads if uid in producer}
        for before in waiting[index]:
            followers.setdefault(before, []).append(index)
    ready = [index for index, before in waiting.items() if not before]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for after in followers.get(index, ()):
            waiting[after].discard(index)
            if not waiting[after]:
                heapq.heappush(ready, after)
    if len(order) < len(graph.nodes):
        stuck = sorted(set(waiting) - set(order))
        nodes = ", ".join(f"nodes[{i}]" for i in stuck[:8])
        raise GraphError(f"{where}: nodes", f"form a cycle: {nodes}")
    return order
