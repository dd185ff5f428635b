"""What attention forward and backward share: which heads, rows and keys there are, and scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.graph.operations.sdpa import Band, band

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.numpy_engine.op import Op
    from bench_run.engines.numpy_engine.program import Operand, Program

Array: TypeAlias = npt.NDArray[Any]

BLOCK_SCORES = 2**18
"""Scores of one head held at a time: they and what they are made from stay in the cache."""
DROPOUT = ("dropout_mask", "dropout_scale", "dropout_scale_inv")
FACTORS = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")


@dataclass(frozen=True)
class Sequence:
    """One sequence: rows of q in batch `batch` from `first` on, and its keys and values."""

    batch: int
    first: int
    rows: int
    k: Array
    """[Hk, keys, D]."""
    v: Array
    """[Hv, keys, Dv]."""


@dataclass(frozen=True)
class Block:
    """Some rows of one head of one sequence, and the keys that they may see."""

    head: int
    rows: slice
    keys: slice


@dataclass(frozen=True)
class Attention:
    """Arrays in the compute type; `factors` multiply q, for each (batch, head)."""

    q: Array
    bias: Array | None
    scale: Operand
    factors: tuple[Array, ...]
    band: Band

    @classmethod
    def of(cls, op: Op) -> Attention:
        q = op.read("q")
        bias = op.read_or_none("attn_mask")
        if bias is not None:
            bias = np.broadcast_to(bias, (*q.shape[:3], op.tensor("k").dims[2]))
        factors = (op.read_or_none(port) for port in ("descale_q", "descale_k"))
        present = tuple(factor for factor in factors if factor is not None)
        return cls(q, bias, _scale(op), present, band(op.node.attributes))

    def blocks(self, sequence: Sequence) -> Iterator[Block]:
        keys = sequence.k.shape[1]
        step = max(1, BLOCK_SCORES // max(1, keys))
        for head in range(self.q.shape[1]):
            for start in range(0, sequence.rows, step):
                rows = slice(start, min(start + step, sequence.rows))
                yield Block(head, rows, self._keys(rows, sequence.rows, keys))

    def scores(self, p: Program, sequence: Sequence, block: Block) -> Array:
        """scale·(q·kᵀ) + bias, −∞ where out of sight, in a scratch buffer."""
        q = self.q[sequence.batch, block.head, _shifted(block.rows, sequence.first)]
        scaled = p.scratch(q.shape, q.dtype)
        p.each(np.multiply, q, self.scale, out=scaled)
        for factor in self.factors:
            p.each(np.multiply, scaled, of_head(factor, self.q, sequence, block), out=scaled)
        k = sequence.k[shared(block.head, self.q, sequence.k), block.keys]
        scores = p.scratch((q.shape[0], k.shape[0]), q.dtype)
        p.call(np.matmul, scaled, p.source(k, k.shape).T, scores)
        if self.bias is not None:
            bias = self.bias[sequence.batch, block.head, block.rows, block.keys]
            p.each(np.add, scores, bias, out=scores)
        hidden = self._hidden(block, sequence)
        if hidden is not None:
            p.call(np.copyto, scores, -math.inf, where=hidden)
        return scores

    def _keys(self, rows: slice, queries: int, keys: int) -> slice:
        """The keys that any of these rows sees."""
        shift = keys - queries if self.band.bottom_right else 0
        low = 0 if self.band.left is None else rows.start + shift - self.band.left
        high = keys if self.band.right is None else rows.stop + shift + self.band.right
        low, high = (min(max(0, bound), keys) for bound in (low, high))
        return slice(low, max(low, high))

    def _hidden(self, block: Block, sequence: Sequence) -> Array | None:
        shift = sequence.k.shape[1] - sequence.rows if self.band.bottom_right else 0
        i = np.arange(block.rows.start, block.rows.stop)[:, None] + shift
        j = np.arange(block.keys.start, block.keys.stop)
        hidden = np.zeros((i.size, j.size), np.bool_)
        if self.band.right is not None:
            hidden |= j > i + self.band.right
        if self.band.left is not None:
            hidden |= j < i - self.band.left
        return hidden if hidden.any() else None


def refuse_uncertain(op: Op) -> None:
    if op.attribute("alibi_mask"):
        raise op.refusal("the slopes of alibi_mask are not documented")
    if op.attribute("dropout_probability") or any(op.has(port) for port in DROPOUT):
        raise op.refusal("dropout: its random numbers differ from engine to engine")
    if op.has("block_mask"):
        raise op.refusal("the meaning of block_mask is not documented")
    if op.attribute("padding_mask") and not op.has("seq_len_kv"):
        raise op.refusal("padding_mask without seq_len_q and seq_len_kv")
    heads = op.tensor("q").dims[1]
    if heads % op.tensor("k").dims[1] or heads % op.tensor("v").dims[1]:
        raise op.refusal("the heads of k or v do not divide those of q")
    for port in FACTORS:
        if op.has(port) and not _for_heads(op.tensor(port).dims, op.tensor("q").dims):
            raise op.refusal(f"{port} is neither one number nor one for each head")


def _for_heads(dims: tuple[int, ...], q: tuple[int, ...]) -> bool:
    """Whether factors of these dims are one for all, or one for each batch and group of heads."""
    if math.prod(dims) == 1:
        return True
    one_each = len(dims) > 1 and math.prod(dims[2:]) == 1
    return one_each and dims[0] == q[0] and q[1] % dims[1] == 0


def _scale(op: Op) -> Operand:
    if op.has("scale"):
        return op.scalar("scale")
    value = op.attribute("attn_scale_value")
    return 1.0 / math.sqrt(op.tensor("q").dims[3]) if value is None else float(value)


def shared(head: int, q: Array, kv: Array) -> int:
    """The head of k or v that a query head uses: consecutive query heads share one."""
    return head // int(q.shape[1] // kv.shape[0])


def of_head(factor: Array, q: Array, sequence: Sequence, block: Block) -> Array:
    """The number of one (batch, head) in a tensor of one, or of one for each."""
    if factor.size == 1:
        return factor.reshape(())
    given = factor.reshape(factor.shape[0], -1)
    head = block.head // (q.shape[1] // given.shape[1])
    return given[sequence.batch, head : head + 1].reshape(())


def rows_of(array: Array, sequence: Sequence, block: Block) -> Array:
    """The block's rows in [B, H, Sq, …]."""
    view: Array = array[sequence.batch, block.head, _shifted(block.rows, sequence.first)]
    return view


def _shifted(rows: slice, first: int) -> slice:
    return slice(rows.start + first, rows.stop + first)
