"""The same graph in another data type, layout or fusion: what a caller could have asked for
instead.

Only tensors that hold data of the operation change. Statistics, scales and what only exists inside
of the graph keep their types, as the builders of `bench_run.graph.make` choose them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.chain import Alias, ChainGraph, Place
from bench_run.graph.check import check
from bench_run.graph.layouts import channels_last, packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.graph.model import Graph, Node

DATA_TYPES = ("double", "float", "half", "bfloat16")
LAYOUTS: dict[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    "nchw": packed,
    "nhwc": channels_last,
}
"""Layouts by the name for two spatial dims, also used for one and three."""
BLOCKED = "nchwc"
"""Before the number of channels of a block: ``nchwc4``."""
_DATA = ("x", "y", "w", "dx", "dy", "dw")
_OPERANDS = ("a", "b", "c", "q", "k", "v", "o", "do", "dq", "dk", "dv")
_INDEX = ("index",)
_POINTWISE = ("in_0", "in_1", "in_2", "out_0")
_IMAGE_NODES = ("Convolution", "Batchnorm", "Resample", "Pointwise")


def with_data_type(graph: Graph, data_type: str) -> Graph | None:
    """Return the graph on data of this type; None if it has no data of a type that could be
    exchanged. Raises `GraphError` if no such graph is valid."""
    data = set(_at_ports(graph, (*_DATA, *_OPERANDS, *_POINTWISE)))
    chosen = {
        tensor.uid
        for tensor in graph.tensors
        if tensor.uid in data
        and (not tensor.virtual and tensor.value is None and not tensor.runtime_scalar)
        and tensor.data_type in DATA_TYPES
    }
    if not chosen:
        return None
    tensors = tuple(
        replace(tensor, data_type=data_type) if tensor.uid in chosen else tensor
        for tensor in graph.tensors
    )
    return check(replace(graph, tensors=tensors, io_data_type=data_type))


def with_layout(graph: Graph, layout: str) -> Graph | None:
    """Return the graph with its images and filters in this layout; None without images. Raises
    `GraphError` if no such graph is valid, and for channels in blocks (``nchwc4``) unless a block
    holds all of them, which is ``nhwc``."""
    if not all(node.type.startswith(_IMAGE_NODES) for node in graph.nodes):
        return None
    images = set(_at_ports(graph, (*_DATA, *_INDEX, *_POINTWISE)))
    chosen = {t.uid for t in graph.tensors if t.uid in images and 3 <= len(t.dims) <= 5}
    if not chosen:
        return None
    if layout not in LAYOUTS:
        block = int(layout.removeprefix(BLOCKED))
        if {t.dims[1] for t in graph.tensors if t.uid in chosen} != {block}:
            what = "a tensor has one stride an axis, and channels in blocks need two"
            raise GraphError(graph.name, what)
        layout = "nhwc"
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


def with_fusion(graph: Graph, fusion: str) -> Graph | None:
    """Return, for ``off``, a chain of graphs of one node each; None if there is nothing to
    separate. Raises `GraphError` if a node is not a valid graph."""
    if fusion == "on" or len(graph.nodes) < 2 or isinstance(graph, ChainGraph):
        return None
    places = tuple(_place(graph, index) for index in range(len(graph.nodes)))
    # What a place reads that another one wrote, or read before, lies in that one's memory.
    homes: dict[int, int] = {}
    aliases: dict[int, Alias] = {}
    for place in places:
        for tensor in place.graph.inputs:
            own = place.uids[tensor.uid]
            if tensor.uid in homes and not tensor.runtime_scalar:
                aliases[own] = Alias(homes[tensor.uid], 0)
            homes.setdefault(tensor.uid, own)
        for tensor in place.graph.outputs:
            homes[tensor.uid] = place.uids[tensor.uid]
    return ChainGraph(
        name=graph.name,
        io_data_type=graph.io_data_type,
        intermediate_data_type=graph.intermediate_data_type,
        compute_data_type=graph.compute_data_type,
        tensors=tuple(tensor for place in places for tensor in place.placed.tensors),
        nodes=tuple(node for place in places for node in place.placed.nodes),
        places=places,
        aliases=aliases,
    )


def _place(graph: Graph, index: int) -> Place:
    """Return one node as a graph, a place of the chain; its tensors get new uids in the chain."""
    node = graph.nodes[index]
    uids = {uid for _, uid in _ports(node)}
    uids |= {uid for many in node.input_lists.values() for uid in many}
    uids |= {u for uid in uids if (u := graph.by_uid[uid].ragged_offset_uid) is not None}
    tensors = []
    for tensor in graph.tensors:
        if tensor.uid in uids:
            # What only existed inside of the graph is stored, in the type of the graph's data.
            exchanged = tensor.data_type in DATA_TYPES and graph.io_data_type in DATA_TYPES
            kind = graph.io_data_type if tensor.virtual and exchanged else tensor.data_type
            tensors.append(replace(tensor, virtual=False, data_type=kind))
    single = check(
        replace(graph, name=f"{graph.name}_{index}", tensors=tuple(tensors), nodes=(node,))
    )
    step = 1 + max(graph.by_uid)
    return Place(str(index), single, {uid: uid + index * step for uid in uids})
