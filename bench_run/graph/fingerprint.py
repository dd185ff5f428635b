"""A name for what a graph means: equal for equal work, whatever the file calls its parts.

Dims, strides, types, flags, constants, parameters and wiring count. Names, uids, the order of
tensors and of independent nodes, engine preferences and unknown keys do not; neither do tensors
that no node touches, the strides of dims of length 1, nor the spelling of one and the same mask.

Method: colour refinement (Weisfeiler and Leman, 1968). Each tensor and node starts with the hash of
its own description; in each round it takes in the colours of its neighbours by port, until no round
tells more of them apart. The sorted colours of all are the fingerprint.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Graph, Node, Tensor

_VERSION = 1
"""Part of every hash: changes with the rules above, so that old and new never match by accident."""

_Edge = tuple[int, str, int]
"""Index of the node, port (with its place in a list), uid."""


def fingerprint(graph: Graph) -> str:
    """Hex SHA-256."""
    edges = tuple(_edges(graph))
    used = {uid for _, _, uid in edges}
    used |= {t.ragged_offset_uid for t in graph.tensors if t.ragged_offset_uid is not None}
    tensors = {t.uid: _hash(_describe_tensor(t)) for t in graph.tensors if t.uid in used}
    nodes = [_hash(_describe_node(node)) for node in graph.nodes]
    apart = 0
    while apart < (count := len({*tensors.values(), *nodes})):
        apart = count
        tensors, nodes = _refined(graph, edges, tensors, nodes)
    return _hash((_VERSION, sorted(tensors.values()), sorted(nodes)))


def _hash(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _edges(graph: Graph) -> Iterator[_Edge]:
    for index, node in enumerate(graph.nodes):
        yield from ((index, f"in {port}", uid) for port, uid in node.inputs.items())
        yield from ((index, f"out {port}", uid) for port, uid in node.outputs.items())
        for port, uids in node.input_lists.items():
            yield from ((index, f"in {port} {place}", uid) for place, uid in enumerate(uids))


def _describe_tensor(tensor: Tensor) -> tuple[Any, ...]:
    strides = (s if d > 1 else 0 for s, d in zip(tensor.strides, tensor.dims, strict=True))
    value = tensor.value
    if value is not None and DTYPES[tensor.data_type].kind in ("float", "scale"):
        value = float(value)
    return (
        "tensor",
        tensor.data_type,
        tensor.dims,
        tuple(strides),
        tensor.virtual,
        value,
        tensor.runtime_scalar,
        tensor.alignment,
    )


def _describe_node(node: Node) -> tuple[Any, ...]:
    row = OPERATIONS[node.type]
    attributes = row.meaning(row.complete(node.attributes))
    return ("node", node.type, node.compute_data_type, sorted(attributes.items()))


def _refined(
    graph: Graph, edges: tuple[_Edge, ...], tensors: dict[int, str], nodes: list[str]
) -> tuple[dict[int, str], list[str]]:
    """Every colour with those of its neighbours taken in."""
    around_nodes: list[list[tuple[str, str]]] = [[] for _ in nodes]
    around_tensors: dict[int, list[tuple[str, str]]] = {uid: [] for uid in tensors}
    for index, port, uid in edges:
        around_nodes[index].append((port, tensors[uid]))
        around_tensors[uid].append((port, nodes[index]))
    for tensor in graph.tensors:
        offsets = tensor.ragged_offset_uid
        if offsets is not None and tensor.uid in tensors:
            around_tensors[tensor.uid].append(("offsets", tensors[offsets]))
            around_tensors[offsets].append(("offsets of", tensors[tensor.uid]))
    return (
        {uid: _hash((colour, sorted(around_tensors[uid]))) for uid, colour in tensors.items()},
        [_hash((colour, sorted(around_nodes[i]))) for i, colour in enumerate(nodes)],
    )
