"""The same graph in another data type or layout: what a caller could have asked for instead.

Only tensors that hold data of the operation change. Statistics, scales and what only exists inside
of the graph keep their types, as the builders of `bench_run.graph.make` choose them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.check import check
from bench_run.graph.layouts import channels_last, packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.graph.model import Graph, Node, Tensor

DATA_TYPES = ("double", "float", "half", "bfloat16")
LAYOUTS: dict[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    "nchw": packed,
    "nhwc": channels_last,
}
"""By the name of two spatial dims; of one and of three alike."""
_DATA = ("x", "y", "w", "dx", "dy", "dw")
_OPERANDS = ("a", "b", "c", "q", "k", "v", "o", "do", "dq", "dk", "dv")
_POINTWISE = ("in_0", "in_1", "in_2", "out_0")
_IMAGE_NODES = ("Convolution", "Batchnorm", "Resample", "Pointwise")


def with_data_type(graph: Graph, data_type: str) -> Graph | None:
    """The graph on data of this type; None where it has no data of a type that could be exchanged.
    Raises `GraphError` where no such graph is valid."""
    data = set(_at_ports(graph, (*_DATA, *_OPERANDS, *_POINTWISE)))
    chosen = {
        tensor.uid
        for tensor in graph.tensors
        if tensor.uid in data and _is_exchangeable(tensor) and tensor.data_type in DATA_TYPES
    }
    if not chosen:
        return None
    tensors = tuple(
        replace(tensor, data_type=data_type) if tensor.uid in chosen else tensor
        for tensor in graph.tensors
    )
    return check(replace(graph, tensors=tensors, io_data_type=data_type))


def _is_exchangeable(tensor: Tensor) -> bool:
    return not tensor.virtual and tensor.value is None and not tensor.runtime_scalar


def with_layout(graph: Graph, layout: str) -> Graph | None:
    """The graph with its images and filters in this layout; None where it has none. Raises
    `GraphError` where no such graph is valid."""
    if not all(node.type.startswith(_IMAGE_NODES) for node in graph.nodes):
        return None
    images = set(_at_ports(graph, (*_DATA, *_POINTWISE)))
    chosen = {t.uid for t in graph.tensors if t.uid in images and 3 <= len(t.dims) <= 5}
    if not chosen:
        return None
    tensors = tuple(
        replace(tensor, strides=LAYOUTS[layout](tensor.dims)) if tensor.uid in chosen else tensor
        for tensor in graph.tensors
    )
    return check(replace(graph, tensors=tensors))


def _at_ports(graph: Graph, names: tuple[str, ...]) -> Iterator[int]:
    for node in graph.nodes:
        yield from (uid for port, uid in _ports(node) if port in names)


def _ports(node: Node) -> list[tuple[str, int]]:
    return [*node.inputs.items(), *node.outputs.items()]


def single_nodes(graph: Graph) -> tuple[Graph, ...]:
    """One graph for each node, in the order in which they run; what went from node to node inside
    of the graph is stored in between. Raises `GraphError` where a node is no valid graph."""
    return tuple(_single(graph, node, index) for index, node in enumerate(graph.nodes))


def _single(graph: Graph, node: Node, index: int) -> Graph:
    uids = {uid for _, uid in _ports(node)}
    uids |= {uid for many in node.input_lists.values() for uid in many}
    offsets = {graph.by_uid[uid].ragged_offset_uid for uid in uids}
    tensors = tuple(
        replace(tensor, virtual=False)
        for tensor in graph.tensors
        if tensor.uid in uids or tensor.uid in offsets
    )
    if not tensors:
        raise GraphError(node.label, "has no tensors")
    single = replace(graph, name=f"{graph.name}_{index}", tensors=tensors, nodes=(node,))
    return check(single)
