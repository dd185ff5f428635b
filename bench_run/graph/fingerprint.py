"""A name for what a graph means: equal for equal work, independent of names in the file.

Dims, strides, types, flags, constants, parameters and wiring count. Names, uids, the order of
tensors and of independent nodes, engine preferences and unknown keys do not; neither do tensors
that no node touches, the strides of dims of length 1, nor the spelling of one and the same mask.

Method: colour refinement (Weisfeiler and Leman, 1968). Each tensor and node starts with its own
description and takes in those of its neighbours by port, until no round tells more of them apart.
Small graphs are refined all at once, round by round, which is what the fingerprints in existing
documents were made of; that costs as many rounds as a chain is long, so larger graphs are refined
a colour at a time (`refinement.py`).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations import OPERATIONS
from bench_run.graph.refinement import quotient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Graph, Node, Tensor

_VERSION = 1
"""Part of every hash: changes with the rules above, so that old and new never match by accident."""

_SMALL = 256
"""Tensors and nodes up to which a graph is refined round by round."""

_Edge = tuple[int, str, int]
"""Index of the node, port (with its place in a list), uid."""


def fingerprint(graph: Graph) -> str:
    """Hex SHA-256."""
    lean = graph.connected
    edges = tuple(_edges(lean))
    small = len(lean.tensors) + len(lean.nodes) <= _SMALL
    return _by_rounds(lean, edges) if small else _by_colours(lean, edges)


def _by_rounds(graph: Graph, edges: tuple[_Edge, ...]) -> str:
    """The sorted hashes of all when a round tells no more of them apart."""
    tensors = {tensor.uid: _hash(_describe_tensor(tensor)) for tensor in graph.tensors}
    nodes = [_hash(_describe_node(node)) for node in graph.nodes]
    apart = 0
    while apart < (count := len({*tensors.values(), *nodes})):
        apart = count
        tensors, nodes = _refined(graph, edges, tensors, nodes)
    return _hash((_VERSION, sorted(tensors.values()), sorted(nodes)))


def _by_colours(graph: Graph, edges: tuple[_Edge, ...]) -> str:
    """The stable colours and how they are joined."""
    descriptions = [repr(_describe_node(node)) for node in graph.nodes]
    places = {tensor.uid: len(descriptions) + i for i, tensor in enumerate(graph.tensors)}
    descriptions += [repr(_describe_tensor(tensor)) for tensor in graph.tensors]
    links: list[list[tuple[str, int]]] = [[] for _ in descriptions]
    for index, port, uid in edges:
        links[index].append((port, places[uid]))
        links[places[uid]].append((port, index))
    for tensor in graph.tensors:
        if tensor.ragged_offset_uid is not None:
            place, offsets = places[tensor.uid], places[tensor.ragged_offset_uid]
            links[place].append(("offsets", offsets))
            links[offsets].append(("offsets of", place))
    return _hash((_VERSION, quotient(descriptions, links)))


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
        if offsets is not None:
            around_tensors[tensor.uid].append(("offsets", tensors[offsets]))
            around_tensors[offsets].append(("offsets of", tensors[tensor.uid]))
    return (
        {uid: _hash((colour, sorted(around_tensors[uid]))) for uid, colour in tensors.items()},
        [_hash((colour, sorted(around_nodes[i]))) for i, colour in enumerate(nodes)],
    )
