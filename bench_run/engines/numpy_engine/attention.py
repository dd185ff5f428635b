"""Scaled dot-product attention, forward and backward, by blocks of rows of one head.

s = scale·(q·kᵀ) + bias, p = softmax(s) over the keys in sight, o = p·v; a row that sees no key
gives 0. Keys that no row of a block sees are left out of its products. Consecutive query heads
share a head of k or v.

Sequences. Padded: seq_len_q and seq_len_kv hold one real length each; rows and keys past them are
unused. Paged: k and v are pages [pages, Hk, page size, D], named by page_table_k and page_table_v
[sequences, pages of one]; a q with a batch of 1 then holds the sequences one after another,
seq_len_q rows each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bench_run.engines.numpy_engine.common import refusal, total_to
from bench_run.engines.numpy_engine.workspace import BLOCK_SCORES
from bench_run.errors import EngineError
from bench_run.graph.operations.sdpa import band

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView

Place: TypeAlias = tuple[int, int, slice]
"""Batch, head and rows in an array of [B, H, S, …]."""

LOWEST = -1e38
"""Stands for the maximum of nothing: e^(−∞ − LOWEST) is 0, where −∞ − −∞ would be NaN."""
FACTORS = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
DROPOUT = {"dropout_mask", "dropout_scale", "dropout_scale_inv", "rng_dump"}


def refuse(node: NodeView) -> None:
    if node.attribute("alibi_mask"):
        raise refusal(node, "the slopes of alibi_mask are not documented")
    if node.attribute("dropout_probability") or DROPOUT & node.tensors.keys():
        raise refusal(node, "dropout: its random numbers differ from engine to engine")
    if "block_mask" in node.tensors:
        raise refusal(node, "the meaning of block_mask is not documented")
    if node.attribute("padding_mask") and "seq_len_kv" not in node.tensors:
        raise refusal(node, "padding_mask without seq_len_q and seq_len_kv")
    q, count = node["q"].dims, node["k"].dims[0]
    for port in FACTORS:
        dims = node[port].dims if port in node.tensors else (1,)
        for_heads = len(dims) > 1 and math.prod(dims[2:]) == 1 and dims[0] == q[0]
        if math.prod(dims) != 1 and not (for_heads and q[1] % dims[1] == 0):
            raise refusal(node, f"{port} is neither one number nor one for each head")
    if "page_table_k" in node.tensors:
        count = node["page_table_k"].dims[0]
        _refuse_pages(node, count)
    for port in ("seq_len_q", "seq_len_kv"):
        lengths = node.get(port)
        if lengths is not None and lengths.elements != count:
            raise refusal(node, f"{lengths.elements} sequence lengths for {count} sequences")


def _refuse_pages(node: NodeView, count: int) -> None:
    if "seq_len_kv" not in node.tensors:
        raise refusal(node, "pages need page_table_k, page_table_v and seq_len_kv")
    room = node["page_table_k"].elements // count * node["k"].dims[2]
    stated = node.attribute("max_seq_len_kv")
    if stated is not None and not room - node["k"].dims[2] < stated <= room:
        raise refusal(node, f"pages of {room} keys contradict a max_seq_len_kv of {stated}")
    if node["q"].dims[0] == 1 < count and "seq_len_q" not in node.tensors:
        raise refusal(node, "packed queries need seq_len_q")


def attention(
    node: NodeView,
    q: Array,
    k: Array,
    v: Array,
    sink_token: Array | None = None,
    **inputs: Array,
) -> dict[str, Array]:
    """A sink is one more logit of each head that takes part in the softmax and has no value.
    Rows of no sequence give 0, statistics of nothing. amax_o does not count scale_o."""
    if "page_table_k" in inputs:
        k, v = _joined(k, inputs["page_table_k"]), _joined(v, inputs["page_table_v"])
    o = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    top, logarithm = (np.full((*q.shape[:3], 1), -math.inf, q.dtype) for _ in range(2))
    sums, largest = np.zeros(top.shape, q.dtype), 0.0
    for block in _blocks(node, _scaled(node, q, inputs), k, v, inputs):
        highest = block.scores.max(1, keepdims=True, initial=-math.inf)
        sink = None if sink_token is None else sink_token.reshape(-1)[block.rows[1]]
        if sink is not None:
            highest = np.maximum(highest, sink)
        top[block.rows] = highest
        highest = np.maximum(highest, LOWEST)
        p = np.exp(block.scores - highest)
        total = p.sum(1, keepdims=True)
        if sink is not None:
            total += np.exp(sink - highest)
        sums[block.rows], logarithm[block.rows] = total, np.log(total) + highest
        divisor = np.maximum(total, np.finfo(total.dtype).tiny)  # 0: a row that sees nothing
        o[block.rows] = p @ v[block.values] / divisor
        if "amax_s" in node.tensors:
            largest = max(largest, (p / divisor).max(initial=0.0))
    for port in ("descale_v", "scale_s", "descale_s"):
        if port in inputs:
            o *= _for_heads(inputs[port], q)
    outputs = {"stats": logarithm, "max": top, "sum_exp": sums, "amax_s": np.asarray(largest)}
    if "amax_o" in node.tensors:
        outputs["amax_o"] = np.abs(o).max(initial=0.0)
    return outputs | {"o": o * _for_heads(inputs["scale_o"], q) if "scale_o" in inputs else o}


def attention_backward(
    node: NodeView, q: Array, k: Array, v: Array, o: Array, do: Array, stats: Array, **inputs: Array
) -> dict[str, Array]:
    """P = exp(s − stats), Δ = Σ_d dO·O, dS = P∘(dO·Vᵀ − Δ); dQ = scale·dS·K, dK = scale·dSᵀ·Q and
    dV = Pᵀ·dO, summed over the query heads that share a head of k or v; dbias = dS summed to its
    dims."""
    scale = _scale(node, inputs)
    delta = (do * o).sum(-1, keepdims=True)
    known = np.maximum(stats.reshape(delta.shape), LOWEST)  # −∞ where a row saw nothing
    dq, dk, dv = (np.zeros(x.shape, x.dtype) for x in (q, k, v))
    dims = node["dbias"].dims if "dbias" in node.tensors else ()
    dbias = np.zeros((*(1,) * (4 - len(dims)), *dims), q.dtype)
    for block in _blocks(node, _scaled(node, q, inputs), k, v, inputs):
        p = np.exp(block.scores - known[block.rows])
        dv[block.values] += p.T @ do[block.rows]
        ds = p * (do[block.rows] @ v[block.values].T - delta[block.rows])
        dq[block.rows] = (ds @ k[block.keys]) * scale
        dk[block.keys] += (ds.T @ q[block.rows]) * scale
        if dims:
            batch, head, rows = block.rows
            wanted = (slice(batch, batch + 1), slice(head, head + 1), rows, block.keys[2])
            pairs = zip(dbias.shape, wanted, strict=True)
            part = dbias[tuple(slice(0, 1) if length == 1 else at for length, at in pairs)]
            part += total_to(ds[None, None], part.shape)
    return {"dq": dq, "dk": dk, "dv": dv, "dbias": dbias}


def _scale(node: NodeView, inputs: dict[str, Array]) -> float:
    if "scale" in inputs:
        return float(inputs["scale"].item())
    value = node.attribute("attn_scale_value")
    return 1.0 / math.sqrt(node["q"].dims[3]) if value is None else float(value)


def _scaled(node: NodeView, q: Array, inputs: dict[str, Array]) -> Array:
    scaled = q * _scale(node, inputs)
    for port in ("descale_q", "descale_k"):
        if port in inputs:
            scaled *= _for_heads(inputs[port], q)
    return scaled


def _for_heads(factor: Array, q: Array) -> Array | float:
    """One number, or one for each batch and group of consecutive heads, against [B, H, S, D]."""
    if factor.size == 1:
        return float(factor.item())
    given = factor.reshape(*factor.shape[:2], 1, 1)
    return np.repeat(given, q.shape[1] // given.shape[1], axis=1)


def _joined(pool: Array, table: Array) -> Array:
    """The pages of each sequence one after another: [sequences, heads, keys, size]."""
    table = table.reshape(len(table), -1)
    pages = np.take(pool, table, axis=0, mode="clip").swapaxes(1, 2)
    return pages.reshape(len(table), pool.shape[1], -1, pool.shape[3])


@dataclass(frozen=True)
class Block:
    """Some rows of one head of one sequence, and the keys that any of them may see."""

    rows: Place
    """Of q, o and the statistics."""
    keys: Place
    """Of k."""
    values: Place
    """Of v: the same keys."""
    scores: Array
    """[rows, keys]: scale·(q·kᵀ) + bias, −∞ where out of sight."""


def _blocks(
    node: NodeView, q: Array, k: Array, v: Array, inputs: dict[str, Array]
) -> Iterator[Block]:
    """`q` is scaled already."""
    bias, mask, heads = inputs.get("attn_mask"), band(node.node.attributes), q.shape[1]
    left, right = (math.inf if bound is None else bound for bound in (mask.left, mask.right))
    if bias is not None:
        bias = np.broadcast_to(bias, (*q.shape[:3], k.shape[2]))
    packed, first = len(q) < len(k), 0
    lengths = _lengths(inputs.get("seq_len_q"), q.shape[2], len(k))
    lengths_kv = _lengths(inputs.get("seq_len_kv"), k.shape[2], len(k))
    if packed and sum(lengths) > q.shape[2]:
        raise EngineError(
            f"numpy: seq_len_q adds up to {sum(lengths)}, past {q.shape[2]} rows of q"
        )
    for sequence, (queries, keys) in enumerate(zip(lengths, lengths_kv, strict=True)):
        batch = 0 if packed else sequence
        step = max(1, BLOCK_SCORES // max(1, keys))
        for start in range(0, queries, step):
            i = np.arange(start, min(start + step, queries))
            rows = slice(first + start, first + start + i.size)
            diagonal = i + (keys - queries) if mask.bottom_right else i
            low = int(min(max(0, diagonal[0] - left), keys))
            high = int(min(max(low, diagonal[-1] + 1 + right), keys))
            distance = np.arange(low, high) - diagonal[:, None]
            hidden, seen = (distance > right) | (distance < -left), slice(low, high)
            for head in range(heads):
                key = (sequence, head // (heads // k.shape[1]), seen)
                scores = q[batch, head, rows] @ k[key].T
                if bias is not None:
                    scores += bias[batch, head, i[0] : i[-1] + 1, seen]
                scores[hidden] = -math.inf
                value = (sequence, head // (heads // v.shape[1]), seen)
                yield Block((batch, head, rows), key, value, scores)
        first += queries if packed else 0


def _lengths(given: Array | None, most: int, count: int) -> list[int]:
    lengths: list[int] = [most] * count if given is None else given.reshape(-1).tolist()
    if min(lengths) < 0 or max(lengths) > most:
        raise EngineError(f"numpy: a sequence length of {lengths} lies outside of 0 … {most}")
    return lengths
