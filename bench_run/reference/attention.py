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

from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.attention_scores import Block, head_of, per_head, scores
from bench_run.reference.attention_sequences import sequences
from bench_run.reference.common import Array, Arrays, Outputs, refusal, scalar
from bench_run.reference.threads import each

if TYPE_CHECKING:
    from bench_run.graph.model import Node

STATISTICS = ("stats", "max", "sum_exp")


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Ports q, k, v and options → o and statistics."""
    table = scores(node, inputs)
    rows = table.q.shape[:3]
    sinks = _sinks(node, inputs)
    o = np.zeros((*rows, inputs["v"].shape[3]))
    top, total = np.full(rows, -np.inf), np.zeros(rows)

    def compute(block: Block) -> float:
        """Fills in what the block's queries give; returns the largest probability."""
        where, sequence = block.queries, block.sequence
        maximum, weights = _exponentials(table.of(block), sinks[block.head])
        denominator = weights.sum(axis=1) + np.exp(sinks[block.head] - _finite(maximum))
        v = sequence.v[head_of(block.head, rows[1], len(sequence.v)), block.keys]
        shared = np.where(denominator == 0, 1.0, denominator)
        o[where] = weights @ v / shared[:, None]
        top[where], total[where] = maximum, denominator
        if "amax_s" not in outputs:
            return 0.0
        return float((weights / shared[:, None]).max(initial=0.0))

    heads = range(rows[1])
    blocks = (block for one in sequences(node, inputs) for block in table.blocks(one, heads))
    amax_s = float(np.max(list(each(compute, blocks)), initial=0.0))
    results = {"stats": _finite(top) + np.log(total), "max": top, "sum_exp": total}
    shaped = {p: results[p].reshape(outputs[p].dims) for p in STATISTICS if p in outputs}
    return shaped | _scaled(node, inputs, outputs, o, amax_s)


def _sinks(node: Node, inputs: Arrays) -> Array:
    """One logit per head; −∞ where there is no sink."""
    heads = inputs["q"].shape[1]
    if "sink_token" not in inputs:
        return np.full(heads, -np.inf)
    if inputs["sink_token"].size != heads:
        raise refusal(node, f"sink_token must hold one logit for each of {heads} heads")
    return inputs["sink_token"].reshape(heads).astype(np.float64)


def _exponentials(block: Array, sink: float) -> tuple[Array, Array]:
    """Row maxima, and exp(s − max) in the block's memory."""
    maximum = np.maximum(block.max(axis=1, initial=-np.inf), sink)
    block -= _finite(maximum)[:, None]
    return maximum, np.exp(block, out=block)


def _finite(maximum: Array) -> Array:
    """0 in place of −∞, the maximum of nothing."""
    return np.where(np.isneginf(maximum), 0.0, maximum)


def _scaled(
    node: Node, inputs: Arrays, outputs: Outputs, o: Array, amax_s: float
) -> dict[str, Array]:
    """o with its fp8 factors, and the maxima of fp8 scaling."""
    factor = per_head(node, inputs, "descale_v")
    for port in ("scale_s", "descale_s"):
        factor = factor * per_head(node, inputs, port)
    o *= factor[:, :, None, None]
    results = {"o": o}
    for port, value in (("amax_s", amax_s), ("amax_o", np.abs(o).max(initial=0.0))):
        if port in outputs:
            results[port] = np.full(outputs[port].dims, value)
    if "scale_o" in inputs:
        results["o"] = o * scalar(node, inputs, "scale_o")
    return results
