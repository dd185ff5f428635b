"""The same graph with a smaller batch: what a large graph becomes where time or memory is short.

The batch is axis 0 of the tensors at the ports of `BATCHED`; through pointwise nodes it is passed
on to operands of the same length. If there are only pointwise nodes it is axis 0 of what they
write, from rank 3 on. Strides stay where the batch is the slowest axis, otherwise they are packed
anew in the same memory order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.check import check
from bench_run.graph.operations.sdpa import ROWS, has_scale

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.graph.sources.load import LoadedGraph


_IMAGES = ("x", "y", "dx", "dy", "index")
_ATTENTION = (
    "q",
    "k",
    "v",
    "o",
    "do",
    "dq",
    "dk",
    "dv",
    "stats",
    "attn_mask",
    "dbias",
    "seq_len_q",
    "seq_len_kv",
    "max",
    "sum_exp",
)
BATCHED = {
    "ConvolutionFwdAttributes": _IMAGES,
    "ConvolutionBwdAttributes": _IMAGES,
    "ConvolutionWrwAttributes": _IMAGES,
    "BatchnormAttributes": _IMAGES,
    "BatchnormInferenceAttributes": _IMAGES,
    "BatchnormInferenceAttributesVarianceExt": _IMAGES,
    "BatchnormBackwardAttributes": _IMAGES,
    "LayernormAttributes": (*_IMAGES, "mean", "inv_variance"),
    "LayernormBackwardAttributes": (*_IMAGES, "mean", "inv_variance"),
    "RMSNormAttributes": (*_IMAGES, "inv_rms"),
    "RMSNormBackwardAttributes": (*_IMAGES, "inv_rms"),
    "ResampleFwdAttributes": _IMAGES,
    "ResampleBwdAttributes": _IMAGES,
    "MatmulAttributes": ("a", "b", "c"),
    "SdpaAttributes": _ATTENTION,
    "SdpaBackwardAttributes": _ATTENTION,
}
"""Ports whose tensor has the batch as axis 0. Of a matrix product only from rank 3 on."""

POINTWISE = "PointwiseAttributes"
UNSCALABLE = ("page_table_k", "page_table_v")
"""Ports of packed sequences, whose number is not an axis of the operands."""


def scale_batch(graph: Graph, batch: int) -> Graph | None:
    """Return the graph with batches of at most `batch`; None if the batch axis is unknown, or if
    the smaller graph would not be valid."""
    # Uids of the tensors that have the batch as axis 0, and its length.
    uids = {
        uid
        for node in graph.nodes
        for port, uid in _ports(node)
        if port in BATCHED.get(node.type, ())
        and len(graph.by_uid[uid].dims) >= (3 if node.type == "MatmulAttributes" else 1)
    }
    if all(node.type == POINTWISE for node in graph.nodes):
        uids = {uid for uid in graph.produced if len(graph.by_uid[uid].dims) >= 3}
    length = max((graph.by_uid[uid].dims[0] for uid in uids), default=0)
    uids = {uid for uid in uids if graph.by_uid[uid].dims[0] == length}
    while len(uids) < len(uids := uids | _neighbours(graph, uids, length)):
        pass
    if not uids or any(port in node.inputs for node in graph.nodes for port in UNSCALABLE):
        return None
    if length <= batch:
        return graph
    tensors = tuple(_cut(t, batch) if t.uid in uids else t for t in graph.tensors)
    try:
        return check(replace(graph, tensors=tensors))
    except GraphError:
        return None


def _ports(node: Node) -> list[tuple[str, int]]:
    return [*node.inputs.items(), *node.outputs.items()]


def _neighbours(graph: Graph, found: set[int], length: int) -> set[int]:
    """Return operands of pointwise nodes whose batch axis is that of another operand in `found`;
    `length` is the batch."""
    return {
        uid
        for node in graph.nodes
        if node.type == POINTWISE and any(u in found for _, u in _ports(node))
        for _, uid in _ports(node)
        if graph.by_uid[uid].dims[0] == length
    }


def _cut(tensor: Tensor, batch: int) -> Tensor:
    dims = (min(batch, tensor.dims[0]), *tensor.dims[1:])
    if tensor.strides[0] == max(tensor.strides):
        return replace(tensor, dims=dims)
    strides, step = list(tensor.strides), 1
    for axis in sorted(range(len(dims)), key=lambda axis: tensor.strides[axis]):
        strides[axis] = step
        step *= dims[axis]
    return replace(tensor, dims=dims, strides=tuple(strides))


# The scale of attention graphs that store none, as the user means it.
#
# The format does not define it. Once said it is part of the graph: every engine, the reference and
# the fingerprint take it from there, and the case's note says that it was not in the file.

TYPES = tuple(row.type for row in ROWS)


def with_sdpa_scale(loaded: LoadedGraph, meaning: str) -> LoadedGraph:
    """Return the loaded graph, scaled; its notes say where."""
    graph, notes = scaled(loaded.graph, meaning)
    return replace(loaded, graph=graph, notes=(*loaded.notes, *notes)) if notes else loaded


def scaled(graph: Graph, meaning: str) -> tuple[Graph, tuple[str, ...]]:
    """Return the graph with the scale that `meaning` (``one``, ``rsqrt``) gives to nodes without
    one, and a note for each of them."""
    nodes, notes = [], []
    for node in graph.nodes:
        if node.type not in TYPES or has_scale(node):
            nodes.append(node)
            continue
        head_size = graph.by_uid[node.inputs["q"]].dims[3]
        value = 1.0 if meaning == "one" else 1 / math.sqrt(head_size)
        nodes.append(replace(node, attributes={**node.attributes, "attn_scale_value": value}))
        notes.append(
            f"{node.label}: the file stores no scale, taken as {value:.6g} (--sdpa-scale {meaning})"
        )
    return (replace(graph, nodes=tuple(nodes)) if notes else graph), tuple(notes)
