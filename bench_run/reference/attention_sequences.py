"""Where the queries, keys and values of each sequence lie: dense, padded or paged.

Dense: q [B, H, Sq, D], k [B, Hk, Skv, D], v [B, Hv, Skv, Dv]. Padded: seq_len_q and seq_len_kv
hold one real length a sequence, whatever `padding_mask` says, as in hipDNN's captured graphs.
Paged: k and v are [pages, Hkv, page size, D], page_table_k and page_table_v [sequences, pages of
one]; a q with a batch of 1 holds the sequences packed one after another, seq_len_q rows each.
Source: hipDNN's SDPA nodes and graphs. That lengths are plain and not cumulative, and that rows
past a length give 0 (statistics −∞), is our definition; other numbers of lengths are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import Array, Arrays, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node


@dataclass(frozen=True)
class Sequence:
    batch: int
    """Index into q and o."""
    first: int
    """Row of q that is the sequence's query 0."""
    queries: int
    k: Array
    """[Hk, keys, D]."""
    v: Array
    """[Hv, keys, Dv]."""

    @property
    def keys(self) -> int:
        return int(self.k.shape[1])


def sequences(node: Node, inputs: Arrays) -> Iterator[Sequence]:
    if node.attributes.get("padding_mask") and "seq_len_kv" not in inputs:
        raise refusal(node, "padding_mask needs seq_len_q and seq_len_kv")
    tables = [port for port in ("page_table_k", "page_table_v") if port in inputs]
    if not tables:
        return _dense(node, inputs)
    if len(tables) == 1:
        raise refusal(node, f"{tables[0]} has no counterpart")
    return _paged(node, inputs)


def _dense(node: Node, inputs: Arrays) -> Iterator[Sequence]:
    q, k, v = (inputs[port] for port in "qkv")
    if len({len(q), len(k), len(v)}) > 1 or k.shape[2] != v.shape[2]:
        raise refusal(node, f"q {q.shape}, k {k.shape} and v {v.shape} do not fit together")
    rows = _lengths(node, inputs, "seq_len_q", len(q), q.shape[2])
    columns = _lengths(node, inputs, "seq_len_kv", len(q), k.shape[2])
    for batch, (queries, keys) in enumerate(zip(rows, columns, strict=True)):
        yield Sequence(batch, 0, queries, k[batch, :, :keys], v[batch, :, :keys])


def _paged(node: Node, inputs: Arrays) -> Iterator[Sequence]:
    q, tables = inputs["q"], len(inputs["page_table_k"])
    if "seq_len_kv" not in inputs:
        raise refusal(node, "paged keys need seq_len_kv")
    capacity = _capacity(node, inputs)
    columns = _lengths(node, inputs, "seq_len_kv", tables, capacity)
    packed = len(q) == 1 and tables > 1
    if packed and "seq_len_q" not in inputs:
        raise refusal(node, "packed queries need seq_len_q")
    if not packed and len(q) != tables:
        raise refusal(node, f"{tables} page tables for a batch of {len(q)}")
    rows = _lengths(node, inputs, "seq_len_q", tables, q.shape[2])
    starts = np.cumsum([0, *rows]).tolist() if packed else [0] * (tables + 1)
    if starts[-1] > q.shape[2]:
        raise refusal(node, f"seq_len_q adds up to {starts[-1]}, past the {q.shape[2]} rows of q")
    for index, (queries, keys) in enumerate(zip(rows, columns, strict=True)):
        k, v = (_pages(node, inputs, port, index, keys) for port in "kv")
        yield Sequence(0 if packed else index, starts[index], queries, k, v)


def _capacity(node: Node, inputs: Arrays) -> int:
    """Keys that one page table can hold; must agree with max_seq_len_kv."""
    page = inputs["k"].shape[2]
    pages = inputs["page_table_k"][0].size
    capacity = int(page * pages)
    stated = node.attributes.get("max_seq_len_kv")
    if stated is not None and not capacity - page < stated <= capacity:
        raise refusal(node, f"{pages} pages of {page} keys contradict a max_seq_len_kv of {stated}")
    return capacity


def _pages(node: Node, inputs: Arrays, port: str, sequence: int, keys: int) -> Array:
    """The keys (values) of one sequence, its pages joined: [Hkv, keys, D]."""
    pool = inputs[port]
    used = inputs[f"page_table_{port}"][sequence].reshape(-1)[: -(-keys // pool.shape[2])]
    if used.size and not 0 <= used.min() <= used.max() < len(pool):
        raise refusal(node, f"page_table_{port} names a page outside of the {len(pool)} pages")
    heads, size = pool.shape[1], pool.shape[3]
    joined = np.moveaxis(pool[used], 1, 0).reshape(heads, used.size * pool.shape[2], size)
    return np.asarray(joined[:, :keys])


def _lengths(node: Node, inputs: Arrays, port: str, count: int, longest: int) -> list[int]:
    if port not in inputs:
        return [longest] * count
    lengths = inputs[port].reshape(-1)
    if lengths.size != count:
        raise refusal(node, f"{port} has {lengths.size} entries for {count} sequences")
    if lengths.min() < 0 or lengths.max() > longest:
        raise refusal(node, f"{port} holds a length outside of 0 … {longest}")
    return [int(length) for length in lengths]
