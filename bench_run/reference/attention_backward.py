"""Scaled dot-product attention, backward.

P = exp(s − stats) with the forward's scores s and log-sum-exp stats (not normalised again),
Δ = Σ_d dO·O, dS = P∘(dO·Vᵀ − Δ); dQ = scale·dS·K, dK = scale·dSᵀ·Q and dV = Pᵀ·dO, the latter two
summed over the query heads that share a head of k (v); dbias = dS summed to its own dims. Rows
that saw no key, and rows and keys past a sequence's length, give 0.
Source: hipDNN's SDPA backward node; Dao et al., FlashAttention, 2022.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.attention_scores import Block, Scores, head_of, scores
from bench_run.reference.attention_sequences import Sequence, sequences
from bench_run.reference.common import Array, Arrays, Outputs, broadcasts, refusal, sum_to
from bench_run.reference.threads import do_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node


def backward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Ports q, k, v, o, do, stats and options → dq, dk, dv, dbias."""
    if "page_table_k" in inputs:
        raise refusal(node, "the backward of paged keys is not documented")
    table = scores(node, inputs)
    results = {f"d{port}": np.zeros(inputs[port].shape) for port in "qkv"}
    if "dbias" in outputs:
        results["dbias"] = _bias_gradient(node, table, outputs["dbias"].dims)
    delta = (inputs["do"] * inputs["o"]).sum(axis=3)
    stats = inputs["stats"].reshape(delta.shape)

    def compute(part: tuple[Sequence, range]) -> None:
        for block in table.blocks(*part):
            where, sequence = block.queries, block.sequence
            weights = _probability(table.of(block), stats[where])
            v = sequence.v[head_of(block.head, len(delta[0]), len(sequence.v)), block.keys]
            gradient = inputs["do"][where] @ v.T
            gradient -= delta[where][:, None]
            gradient *= weights
            _add(table, block, gradient, results)
            dv = results["dv"][sequence.batch]
            dv[head_of(block.head, len(delta[0]), len(dv)), block.keys] += (
                weights.T @ inputs["do"][where]
            )

    parts = ((s, heads) for s in sequences(node, inputs) for heads in _apart(s, len(delta[0])))
    shared = "dbias" in results  # by heads and sequences
    do_each(compute, parts, alone=shared)
    return {port: value.reshape(outputs[port].dims) for port, value in results.items()}


def _probability(block: Array, stats: Array) -> Array:
    """exp(s − stats); 0 in rows that saw nothing."""
    block -= np.where(np.isneginf(stats), 0.0, stats)[:, None]
    return np.exp(block, out=block)


def _apart(sequence: Sequence, heads: int) -> Iterator[range]:
    """Query heads that share heads of k or v with no others."""
    count = gcd(len(sequence.k), len(sequence.v))
    return (range(first, first + heads // count) for first in range(0, heads, heads // count))


def _add(table: Scores, block: Block, gradient: Array, results: dict[str, Array]) -> None:
    """What the gradient of a block's scores adds to those of q, k and the bias."""
    sequence = block.sequence
    batch, head, rows = block.queries
    heads, scale = table.q.shape[1], table.scale[batch, head]
    shared = head_of(head, heads, len(sequence.k))
    results["dq"][batch, head, rows] += scale * (gradient @ sequence.k[shared, block.keys])
    results["dk"][batch, shared, block.keys] += scale * (gradient.T @ table.q[batch, head, rows])
    if "dbias" in results:
        dbias = results["dbias"]
        at = (slice(batch, batch + 1), slice(head, head + 1), rows, block.keys)
        span = tuple(slice(0, 1) if n == 1 else s for n, s in zip(dbias.shape, at, strict=True))
        dbias[span] += sum_to(gradient[None, None], dbias[span].shape)


def _bias_gradient(node: Node, table: Scores, dims: tuple[int, ...]) -> Array:
    """Zeros of dbias's dims, leading ones filled in."""
    if table.bias is None:
        raise refusal(node, "dbias is requested, but there is no attn_mask")
    padded = (1,) * (4 - len(dims)) + dims
    if not broadcasts(padded, table.bias.shape):
        raise refusal(node, f"dbias of {dims} does not broadcast to {table.bias.shape}")
    return np.zeros(padded)
