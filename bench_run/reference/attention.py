"""Scaled dot-product attention, forward.

For query head h with key head h // (H/Hk) and value head h // (H/Hv): s = scale·(q·kᵀ) + bias,
p = softmax of s over the keys that the mask leaves, o = p·v. With a sink of logit t_h the
denominator is Σ exp(s) + exp(t_h), and the row's maximum and log-sum-exp count it too. A row that
sees no key gives o = 0 and log-sum-exp −∞ (with a sink: t_h).
stats = max + ln Σ exp(s − max), max the row's maximum, sum_exp = Σ exp(s − max).

fp8: s is multiplied by descale_q·descale_k (before the bias), o by descale_v. Not seen in hipDNN's
sources and taken from cuDNN: o is multiplied by scale_s·descale_s too (p itself stays unrounded
here) and by scale_o, amax_s is max p, amax_o max |o| before scale_o. Masked keys and rows past a
sequence's length take no part, whatever they hold.
Source: hipDNN's SDPA node and its references; Dao et al., FlashAttention, 2022 for the statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.meaning import refusal
from bench_run.graph.operations.sdpa import band
from bench_run.reference.common import (
    Array,
    Arrays,
    Outputs,
    broadcasts,
    drifted,
    operand,
    scalar,
    sum_to,
)
from bench_run.reference.threads import do_each, each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node


# Where the queries, keys and values of each sequence lie: dense, padded or paged.
#
# Dense: q [B, H, Sq, D], k [B, Hk, Skv, D], v [B, Hv, Skv, Dv]. Padded: seq_len_q and seq_len_kv
# hold one real length a sequence, whatever `padding_mask` says, as in hipDNN's captured graphs.
# Paged: k and v are [pages, Hkv, page size, D], page_table_k and page_table_v [sequences, pages of
# one]; a q with a batch of 1 holds the sequences packed one after another, seq_len_q rows each.
# Source: hipDNN's SDPA nodes and graphs. That lengths are plain and not cumulative, and that rows
# past a length give 0 (statistics −∞), is our definition; other numbers of lengths are refused.


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
    return (_paged if "page_table_k" in inputs else _dense)(node, inputs)


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
    capacity = inputs["k"].shape[2] * inputs["page_table_k"][0].size
    columns = _lengths(node, inputs, "seq_len_kv", tables, capacity)
    packed = len(q) == 1 and tables > 1
    rows = _lengths(node, inputs, "seq_len_q", tables, q.shape[2])
    starts = np.cumsum([0, *rows]).tolist() if packed else [0] * (tables + 1)
    if starts[-1] > q.shape[2]:
        raise refusal(node, f"seq_len_q adds up to {starts[-1]}, past the {q.shape[2]} rows of q")
    for index, (queries, keys) in enumerate(zip(rows, columns, strict=True)):
        k, v = (_pages(node, inputs, port, index, keys) for port in "kv")
        yield Sequence(0 if packed else index, starts[index], queries, k, v)


def _pages(node: Node, inputs: Arrays, port: str, sequence: int, keys: int) -> Array:
    """Return the keys (values) of one sequence, its pages joined: [Hkv, keys, D]."""
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
        most = f"holds a length of {lengths.min()} to {lengths.max()}, outside of 0 … {longest}"
        raise refusal(node, f"{port} {most}")
    return [int(length) for length in lengths]


# Which keys a query sees: masks as bounds on a diagonal.
#
# With i the query's and j the key's position in their sequence, off = 0 (top_left) or keys −
# queries (bottom_right): masked where right bound ≥ 0 and j ≥ i + 1 + off + right, or left bound ≥
# 0 and j < i + off − left. A bound of −1 is none. `causal_mask` is right bound 0 at top_left,
# `causal_mask_bottom_right` the same at bottom_right. Source: hipDNN's SDPA nodes.


@dataclass(frozen=True)
class Mask:
    left: int | None
    right: int | None
    bottom_right: bool

    @classmethod
    def of(cls, node: Node) -> Mask:
        mask = band(node.attributes)
        return cls(mask.left, mask.right, mask.bottom_right)

    def keys(self, rows: slice, queries: int, keys: int) -> slice:
        """Return the range of keys that any of these rows may see."""
        off = keys - queries if self.bottom_right else 0
        low = 0 if self.left is None else rows.start + off - self.left
        high = keys if self.right is None else rows.stop + off + self.right
        low, high = (min(max(0, bound), keys) for bound in (low, high))
        return slice(low, max(low, high))

    def hidden(self, rows: slice, seen: slice, queries: int, keys: int) -> Array | None:
        """Return True for each key of `seen` that a row of `rows` must not see; None if all are
        seen."""
        if self.left is None and self.right is None:
            return None
        off = keys - queries if self.bottom_right else 0
        distance = (
            np.arange(seen.start, seen.stop) - off - np.arange(rows.start, rows.stop)[:, None]
        )
        hidden = np.zeros(distance.shape, np.bool_)
        if self.right is not None:
            hidden |= distance > self.right
        if self.left is not None:
            hidden |= distance < -self.left
        return hidden


BLOCK_ELEMENTS = 2**18
"""Scores held at a time: rows of one head times its keys."""


@dataclass(frozen=True)
class ScoreBlock:
    """Some query rows of one head of one sequence, and the keys that they may see."""

    sequence: Sequence
    head: int
    rows: slice
    keys: slice

    @property
    def queries(self) -> tuple[int, int, slice]:
        """Place of its rows in q: batch, head, rows."""
        return self.sequence.batch, self.head, queries_at(self.sequence, self.rows)


@dataclass(frozen=True)
class Scores:
    q: Array
    """Scaled."""
    scale: float
    bias: Array | None
    """[B, H, Sq, Skv], a broadcast view."""
    mask: Mask

    def blocks(self, sequence: Sequence, heads: range) -> Iterator[ScoreBlock]:
        keys = sequence.keys
        step = max(1, BLOCK_ELEMENTS // max(1, keys))
        for head in heads:
            for start in range(0, sequence.queries, step):
                rows = slice(start, min(start + step, sequence.queries))
                yield ScoreBlock(sequence, head, rows, self.mask.keys(rows, sequence.queries, keys))

    def of(self, block: ScoreBlock) -> Array:
        sequence, head, rows, seen = block.sequence, block.head, block.rows, block.keys
        k = sequence.k[head_of(head, self.q.shape[1], len(sequence.k)), seen]
        scores = self.q[block.queries] @ k.T
        if self.bias is not None:
            scores += self.bias[sequence.batch, head, rows, seen]
        hidden = self.mask.hidden(rows, seen, sequence.queries, sequence.keys)
        if hidden is not None:
            scores[hidden] = -np.inf
        return scores


def queries_at(sequence: Sequence, rows: slice) -> slice:
    """Convert rows of a sequence to rows of q."""
    return slice(sequence.first + rows.start, sequence.first + rows.stop)


def head_of(head: int, heads: int, kv_heads: int) -> int:
    """Return the key (value) head of a query head: consecutive query heads share one."""
    return head // (heads // kv_heads)


def scores(node: Node, inputs: Arrays) -> Scores:
    """Return the scores of a node; refuse shapes that do not fit."""
    q, k, v = (inputs[port] for port in "qkv")
    if not q.ndim == k.ndim == v.ndim == 4 or q.shape[3] != k.shape[3]:
        raise refusal(node, f"q {q.shape}, k {k.shape} and v {v.shape} do not fit together")
    if q.shape[1] % k.shape[1] or q.shape[1] % v.shape[1]:
        raise refusal(node, f"{q.shape[1]} query heads do not share k {k.shape} and v {v.shape}")
    scale = _scale(node, inputs)
    scaled = q * scale
    for port in ("descale_q", "descale_k"):
        if port in inputs:
            scaled *= for_heads(inputs[port], q)
    return Scores(scaled, scale, _bias(node, inputs), Mask.of(node))


def for_heads(factors: Array, q: Array) -> Array | float:
    """Return factors of [B, H, S, D], from one number or from one for each batch and group of
    heads."""
    if factors.size == 1:
        return float(factors.item())
    given = factors.reshape(*factors.shape[:2], 1, 1)
    return np.repeat(given, q.shape[1] // given.shape[1], axis=1)


def _scale(node: Node, inputs: Arrays) -> float:
    """Return the scale tensor, otherwise attn_scale_value (0 is meant literally), otherwise
    1/√D."""
    if "scale" in inputs:
        return scalar(node, inputs, "scale")
    value = node.attributes.get("attn_scale_value")
    return float(inputs["q"].shape[3] ** -0.5 if value is None else value)


def _bias(node: Node, inputs: Arrays) -> Array | None:
    if "attn_mask" not in inputs:
        return None
    dims = (*inputs["q"].shape[:3], inputs["k"].shape[2])
    bias = inputs["attn_mask"]
    if bias.dtype.kind != "f":
        raise refusal(node, "attn_mask is added to the scores and must be of a float type")
    if not broadcasts(bias.shape, dims):
        raise refusal(node, f"attn_mask of {bias.shape} does not broadcast to {dims}")
    return np.broadcast_to(bias, dims)


STATISTICS = ("stats", "max", "sum_exp")


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port o and statistics from ports q, k, v and options."""
    table = scores(node, inputs)
    rows = table.q.shape[:3]
    kind = table.q.dtype
    lowest, tiny = np.finfo(kind).min, np.finfo(kind).tiny
    sinks = _sinks(node, inputs)
    o = np.zeros((*rows, inputs["v"].shape[3]), kind)
    top, total = np.full(rows, -np.inf, kind), np.zeros(rows, kind)

    def compute(block: ScoreBlock) -> float:
        """Fill in the results of the block's queries; return the largest probability."""
        where, sequence = block.queries, block.sequence
        weights = table.of(block)
        maximum = weights.max(axis=1, initial=-np.inf)
        if sinks is not None:
            maximum = np.maximum(maximum, sinks[block.head])
        finite = np.maximum(maximum, lowest)
        weights -= finite[:, None]
        np.exp(weights, out=weights)
        denominator = drifted(weights.sum(axis=1), weights.shape[1])
        if sinks is not None:
            denominator += np.exp(sinks[block.head] - finite)
        v = sequence.v[head_of(block.head, rows[1], len(sequence.v)), block.keys]
        shared = np.maximum(denominator, tiny)  # 0 for a row that sees nothing
        o[where] = operand(weights) @ v / shared[:, None]
        top[where], total[where] = maximum, denominator
        if "amax_s" not in outputs:
            return 0.0
        return float((weights / shared[:, None]).max(initial=0.0))

    heads = range(rows[1])
    blocks = (block for one in sequences(node, inputs) for block in table.blocks(one, heads))
    amax_s = float(np.max(list(each(compute, blocks)), initial=0.0))
    results = {"stats": np.maximum(top, lowest) + np.log(total), "max": top, "sum_exp": total}
    shaped = {p: results[p].reshape(outputs[p].dims) for p in STATISTICS if p in outputs}
    # o with its fp8 factors, and the maxima of fp8 scaling.
    for port in ("descale_v", "scale_s", "descale_s"):
        if port in inputs:
            o *= for_heads(inputs[port], o)
    if "amax_s" in outputs:
        shaped["amax_s"] = np.full(outputs["amax_s"].dims, amax_s)
    if "amax_o" in outputs:
        shaped["amax_o"] = np.full(outputs["amax_o"].dims, np.abs(o).max(initial=0.0))
    shaped["o"] = o * for_heads(inputs["scale_o"], o) if "scale_o" in inputs else o
    return shaped


def _sinks(node: Node, inputs: Arrays) -> Array | None:
    """Return one logit per head."""
    heads = inputs["q"].shape[1]
    if "sink_token" not in inputs:
        return None
    if inputs["sink_token"].size != heads:
        raise refusal(node, f"sink_token must hold one logit for each of {heads} heads")
    return inputs["sink_token"].reshape(heads)


# Scaled dot-product attention, backward.
#
# P = exp(s − stats) with the forward's scores s and log-sum-exp stats (not normalised again),
# Δ = Σ_d dO·O, dS = P∘(dO·Vᵀ − Δ); dQ = scale·dS·K, dK = scale·dSᵀ·Q and dV = Pᵀ·dO, the latter two
# summed over the query heads that share a head of k (v); dbias = dS summed to its own dims. Rows
# that saw no key, and rows and keys past a sequence's length, give 0.
# Source: hipDNN's SDPA backward node; Dao et al., FlashAttention, 2022.


def backward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute ports dq, dk, dv and dbias from ports q, k, v, o, do, stats and options."""
    table = scores(node, inputs)
    kind = table.q.dtype
    results = {f"d{port}": np.zeros(inputs[port].shape, kind) for port in "qkv"}
    if "dbias" in outputs:
        dims = outputs["dbias"].dims
        assert table.bias is not None
        padded = (1,) * (4 - len(dims)) + dims
        if not broadcasts(padded, table.bias.shape):
            raise refusal(node, f"dbias of {dims} does not broadcast to {table.bias.shape}")
        results["dbias"] = np.zeros(padded, kind)
    delta = (inputs["do"] * inputs["o"]).sum(axis=3)
    lowest = np.finfo(kind).min  # in place of −∞, the log-sum-exp of a row that sees nothing
    stats = np.maximum(inputs["stats"].reshape(delta.shape), lowest)

    def compute(part: tuple[Sequence, range]) -> None:
        for block in table.blocks(*part):
            where, sequence = block.queries, block.sequence
            weights = table.of(block)
            weights -= stats[where][:, None]
            np.exp(weights, out=weights)
            v = sequence.v[head_of(block.head, len(delta[0]), len(sequence.v)), block.keys]
            gradient = inputs["do"][where] @ v.T
            gradient -= delta[where][:, None]
            gradient *= weights
            _add(table, block, operand(gradient), results)
            dv = results["dv"][sequence.batch]
            dv[head_of(block.head, len(delta[0]), len(dv)), block.keys] += (
                operand(weights).T @ inputs["do"][where]
            )

    parts = ((s, heads) for s in sequences(node, inputs) for heads in _apart(s, len(delta[0])))
    shared = "dbias" in results  # by heads and sequences
    do_each(compute, parts, alone=shared)
    results["dq"] *= table.scale
    return {port: value.reshape(outputs[port].dims) for port, value in results.items()}


def _apart(sequence: Sequence, heads: int) -> Iterator[range]:
    """Query heads that share heads of k or v with no others."""
    count = gcd(len(sequence.k), len(sequence.v))
    return (range(first, first + heads // count) for first in range(0, heads, heads // count))


def _add(table: Scores, block: ScoreBlock, gradient: Array, results: dict[str, Array]) -> None:
    """Add the gradient of a block's scores to those of q, k and the bias."""
    sequence = block.sequence
    batch, head, rows = block.queries
    shared = head_of(head, table.q.shape[1], len(sequence.k))
    results["dq"][batch, head, rows] += gradient @ sequence.k[shared, block.keys]
    results["dk"][batch, shared, block.keys] += gradient.T @ table.q[batch, head, rows]
    if "dbias" in results:
        dbias = results["dbias"]
        at = (slice(batch, batch + 1), slice(head, head + 1), rows, block.keys)
        span = tuple(slice(0, 1) if n == 1 else s for n, s in zip(dbias.shape, at, strict=True))
        dbias[span] += sum_to(gradient[None, None], dbias[span].shape)
