"""Inputs that are positions, lengths and page numbers: random, and always inside of their range.

A wild index makes a GPU read outside of its memory, so nothing here is drawn before its range is
known, and what graphs/FORMAT.md leaves open is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.tensors.seeded.draws import bit_stream, whole_numbers

Values = npt.NDArray[Any]
Maker = Callable[[Graph, Node, Tensor, int], Values]
"""(graph, reading node, tensor, seed) → one value for each element of the tensor, in order."""


def _operand(graph: Graph, node: Node, port: str) -> Tensor | None:
    uid = node.inputs.get(port)
    return None if uid is None else graph.by_uid[uid]


def _needed(graph: Graph, node: Node, port: str) -> Tensor:
    tensor = _operand(graph, node, port)
    if tensor is None:
        raise UnsupportedGraphError(f"{node.label}: inputs cannot be made without port {port}")
    return tensor


def _lengths(node: Node, tensor: Tensor, sequences: int, longest: int, seed: int) -> Values:
    """Between half and all of `longest`. The i-th query and key length share their random number,
    so that queries are no longer than their keys where the tensors are not."""
    if tensor.elements != sequences:
        raise UnsupportedGraphError(
            f"{node.label}: {tensor.elements} sequence lengths for {sequences} sequences; "
            "cumulative offsets are not supported"
        )
    shares = 1.0 - whole_numbers(bit_stream(seed, 0), sequences, 1 << 20) / (1 << 21)
    return np.maximum(1, np.floor(shares * longest)).astype(np.int64)


def _sequences(graph: Graph, node: Node) -> int:
    table = _operand(graph, node, "page_table_k")
    return (table or _needed(graph, node, "q")).dims[0]


def _query_lengths(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    q = _needed(graph, node, "q")
    sequences = _sequences(graph, node)
    packed = q.dims[0] != sequences  # paged: all queries in one row of tokens
    longest = q.dims[2] // sequences if packed else q.dims[2]
    return _lengths(node, tensor, sequences, max(1, longest), seed)


def _key_lengths(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    table, k = _operand(graph, node, "page_table_k"), _needed(graph, node, "k")
    longest = k.dims[2]
    if table is not None:
        capacity = math.prod(table.dims[1:]) * k.dims[2]
        longest = min(capacity, node.attributes.get("max_seq_len_kv") or capacity)
    return _lengths(node, tensor, _sequences(graph, node), longest, seed)


def _pages(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    """Each page once, in random order, as long as there are enough."""
    is_key = node.inputs.get("page_table_k") == tensor.uid
    pages = _needed(graph, node, "k" if is_key else "v").dims[0]
    stream = bit_stream(seed, tensor.uid)
    if tensor.elements > pages:
        return whole_numbers(stream, tensor.elements, pages)
    return _permutation(pages, stream)[: tensor.elements]


def _permutation(count: int, stream: np.random.BitGenerator) -> Values:
    return np.argsort(np.asarray(stream.random_raw(count)), kind="stable")


def _first_rows(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    """Ascending from 0, over the rows that are computed: with an index as many as it has."""
    picked = _operand(graph, node, "token_index")
    rows = _needed(graph, node, "token").dims[-2] if picked is None else picked.elements
    cuts = np.sort(whole_numbers(bit_stream(seed, tensor.uid), tensor.elements, rows + 1))
    cuts[0] = 0
    return cuts


def _slots(graph: Graph, node: Node, seed: int) -> tuple[Values, int]:
    """A random order of the places (token, rank), and how many ranks a token has."""
    index = _needed(graph, node, "token_index")
    ranks = max(1, node.attributes.get("top_k") or 1)
    return _permutation(index.elements, bit_stream(seed, index.uid)), ranks


def _token_rows(graph: Graph, node: Node, _tensor: Tensor, seed: int) -> Values:
    """A gather repeats each token top_k times; a scatter gives each row a place of its own."""
    order, ranks = _slots(graph, node, seed)
    if node.attributes.get("mode") == "gather":
        return order % _needed(graph, node, "token").dims[-2]
    return order // ranks


def _token_ranks(graph: Graph, node: Node, _tensor: Tensor, seed: int) -> Values:
    order, ranks = _slots(graph, node, seed)
    return order % ranks


def _window_winners(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    """For each window a position in it that lies inside of the tensor, flattened over space."""
    target = graph.by_uid[node.outputs["dx"]].dims[2:]
    stream = bit_stream(seed, tensor.uid)
    flat = np.zeros(tensor.dims, np.int64)
    for axis, length in enumerate(target):
        pre, stride, window = (
            node.attributes[name][axis] for name in ("pre_padding", "stride", "window")
        )
        shape = [-1 if i == axis + 2 else 1 for i in range(len(tensor.dims))]
        start = np.arange(tensor.dims[axis + 2]).reshape(shape) * stride - pre
        first, last = np.maximum(start, 0), np.minimum(start + window, length) - 1
        draw = whole_numbers(stream, tensor.elements, 1 << 20).reshape(tensor.dims)
        place = first + draw * np.maximum(last - first + 1, 1) // (1 << 20)
        flat = flat * length + np.clip(place, 0, length - 1)
    return flat.reshape(-1)


MAKERS: dict[str, Maker] = {
    "seq_len_q": _query_lengths,
    "seq_len_kv": _key_lengths,
    "page_table": _pages,
    "token_offset": _first_rows,
    "token_index": _token_rows,
    "token_rank": _token_ranks,
    "window_index": _window_winners,
}
"""By hint (`bench_run.graph.operations.HINTS`)."""
