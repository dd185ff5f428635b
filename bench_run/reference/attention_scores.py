"""Attention scores, block by block: s = scale·(q·kᵀ) + bias, −∞ where masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.attention_mask import Mask, mask
from bench_run.reference.common import Array, Arrays, broadcasts, refusal, scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node
    from bench_run.reference.attention_sequences import Sequence

BLOCK_ELEMENTS = 2**18
"""Scores held at a time: rows of one head times its keys."""
DROPOUT = ("dropout_mask", "dropout_scale", "dropout_scale_inv")


@dataclass(frozen=True)
class Block:
    """Some query rows of one head of one sequence, and the keys that they may see."""

    sequence: Sequence
    head: int
    rows: slice
    keys: slice

    @property
    def queries(self) -> tuple[int, int, slice]:
        """Where its rows lie in q: batch, head, rows."""
        return self.sequence.batch, self.head, queries_at(self.sequence, self.rows)


@dataclass(frozen=True)
class Scores:
    q: Array
    scale: Array
    """[B, H], what q·kᵀ is multiplied by."""
    bias: Array | None
    """[B, H, Sq, Skv], a broadcast view."""
    mask: Mask

    def blocks(self, sequence: Sequence, heads: range) -> Iterator[Block]:
        keys = sequence.keys
        step = max(1, BLOCK_ELEMENTS // max(1, keys))
        for head in heads:
            for start in range(0, sequence.queries, step):
                rows = slice(start, min(start + step, sequence.queries))
                yield Block(sequence, head, rows, self.mask.keys(rows, sequence.queries, keys))

    def of(self, block: Block) -> Array:
        sequence, head, rows, seen = block.sequence, block.head, block.rows, block.keys
        k = sequence.k[head_of(head, self.q.shape[1], len(sequence.k)), seen]
        scores = self.q[block.queries] @ k.T
        scores *= self.scale[sequence.batch, head]
        if self.bias is not None:
            scores += self.bias[sequence.batch, head, rows, seen]
        hidden = self.mask.hidden(rows, seen, sequence.queries, sequence.keys)
        if hidden is not None:
            scores[hidden] = -np.inf
        return scores


def queries_at(sequence: Sequence, rows: slice) -> slice:
    """Rows of a sequence as rows of q."""
    return slice(sequence.first + rows.start, sequence.first + rows.stop)


def head_of(head: int, heads: int, kv_heads: int) -> int:
    """The key (value) head of a query head: consecutive query heads share one."""
    return head // (heads // kv_heads)


def scores(node: Node, inputs: Arrays) -> Scores:
    """What the node says about its scores; refuses what has no certain meaning."""
    _refuse(node, inputs)
    q, k, v = (inputs[port] for port in "qkv")
    if not q.ndim == k.ndim == v.ndim == 4 or q.shape[3] != k.shape[3]:
        raise refusal(node, f"q {q.shape}, k {k.shape} and v {v.shape} do not fit together")
    if q.shape[1] % k.shape[1] or q.shape[1] % v.shape[1]:
        raise refusal(node, f"{q.shape[1]} query heads do not share k {k.shape} and v {v.shape}")
    scale = np.full(q.shape[:2], _scale(node, inputs))
    for port in ("descale_q", "descale_k"):
        scale = scale * per_head(node, inputs, port)
    return Scores(q, scale, _bias(node, inputs), mask(node))


def per_head(node: Node, inputs: Arrays, port: str) -> Array:
    """[B, H] factors from a tensor of one element or of [B, heads, 1, 1]; 1 where absent."""
    batch, heads = inputs["q"].shape[:2]
    if port not in inputs:
        return np.ones((batch, heads))
    factors = inputs[port]
    if factors.size == 1:
        return np.broadcast_to(factors.reshape(1, 1), (batch, heads))
    one_each = factors.ndim > 1 and factors.shape[0] == batch and factors[0, 0].size == 1
    if not one_each or heads % factors.shape[1]:
        raise refusal(node, f"{port} of {factors.shape} is neither one number nor one per head")
    given = factors.reshape(batch, factors.shape[1])
    return np.repeat(given, heads // given.shape[1], axis=1)


def _scale(node: Node, inputs: Arrays) -> float:
    """The scale tensor, else attn_scale_value (0 is meant literally), else 1/√D."""
    if "scale" in inputs:
        return scalar(node, inputs, "scale")
    value = node.attributes.get("attn_scale_value")
    return float(inputs["q"].shape[3] ** -0.5 if value is None else value)


def _bias(node: Node, inputs: Arrays) -> Array | None:
    if "attn_mask" not in inputs:
        return None
    if "page_table_k" in inputs:
        raise refusal(node, "where attn_mask lies for paged keys is not documented")
    dims = (*inputs["q"].shape[:3], inputs["k"].shape[2])
    bias = inputs["attn_mask"]
    if bias.dtype.kind != "f":
        raise refusal(node, "attn_mask is added to the scores and must be of a float type")
    if not broadcasts(bias.shape, dims):
        raise refusal(node, f"attn_mask of {bias.shape} does not broadcast to {dims}")
    return np.broadcast_to(bias, dims)


def _refuse(node: Node, inputs: Arrays) -> None:
    if node.attributes.get("alibi_mask"):
        raise refusal(node, "the slopes of alibi_mask are not documented")
    if node.attributes.get("dropout_probability") or any(port in inputs for port in DROPOUT):
        raise refusal(node, "dropout: its random numbers differ from engine to engine")
    if "block_mask" in inputs:
        raise refusal(node, "the meaning of block_mask is not documented")
