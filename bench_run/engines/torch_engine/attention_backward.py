"""Scaled dot-product attention, backward, from the forward's own statistics.

P = exp(s − stats), Δ = Σ_d dO·O, dS = P∘(dO·Vᵀ − Δ); dQ = scale·dS·K, dK = scale·dSᵀ·Q and
dV = Pᵀ·dO, summed over the query heads that share a head of k or v; dbias = dS summed to its dims.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import torch

from bench_run.engines.torch_engine.attention_parts import (
    LAUNCHES,
    Scale,
    Visibility,
    refuse_uncertain,
    rows_present,
    shared,
)
from bench_run.engines.torch_engine.attention_sequences import Sequences
from bench_run.engines.torch_engine.op import Call, Op, elementwise
from bench_run.graph.operations.sdpa import band

T: TypeAlias = torch.Tensor


def attention_backward(op: Op) -> Call:
    refuse_uncertain(op)
    op.refuse_ports("page_table_k", "page_table_v")
    where, scale, dtype = Sequences.of(op), Scale.of(op), op.compute
    mask = Visibility(band(op.node.attributes), where.queries, where.keys)
    ports = ("q", "k", "v", "o", "do", "stats", *op.present("attn_mask"), *scale.ports)
    ports = (*ports, *where.ports)
    outputs = op.present("dq", "dk", "dv", "dbias")
    shapes = {port: op.dims(port) for port in outputs}
    heads = {port: op.dims(port)[1] for port in ("q", "k", "v")}

    def function(*tensors: T) -> tuple[T, ...]:
        given = dict(zip(ports, tensors, strict=True))
        rows, columns = where.lengths(given)
        q, k, v, o, do = (elementwise(given[port], dtype) for port in ("q", "k", "v", "o", "do"))
        k, v = shared(k, heads["q"]), shared(v, heads["q"])
        if columns is not None:
            k, v = (torch.where(rows_present(where.keys, columns), x, 0.0) for x in (k, v))
        factor = scale.factor(given, dtype)
        p = _probabilities(given, (q * factor) @ k.transpose(-1, -2), mask, (rows, columns))
        gradient = p * (do @ v.transpose(-1, -2) - (do * o).sum(dim=-1, keepdim=True))
        found = {
            "dq": factor * (gradient @ k),
            "dk": _summed(factor * (gradient.transpose(-1, -2) @ q), heads["k"]),
            "dv": _summed(p.transpose(-1, -2) @ do, heads["v"]),
        }
        if "dbias" in outputs:
            found["dbias"] = gradient.sum_to_size(shapes["dbias"])
        return tuple(found[port].reshape(shapes[port]) for port in outputs)

    return Call(ports, outputs, function, 2 * LAUNCHES)


def _probabilities(
    given: dict[str, T], scores: T, mask: Visibility, lengths: tuple[T | None, T | None]
) -> T:
    """exp(s − stats), 0 where out of sight and in rows past a sequence's length."""
    if "attn_mask" in given:
        scores = scores + elementwise(given["attn_mask"], scores.dtype)
    hidden = mask.hidden(scores.device, *lengths)
    scores = scores if hidden is None else scores.masked_fill(hidden, -math.inf)
    stats = elementwise(given["stats"], scores.dtype).reshape(*scores.shape[:3], 1)
    weights = torch.exp(scores - torch.where(stats == -math.inf, 0.0, stats))
    rows = lengths[0]
    return weights if rows is None else torch.where(rows_present(mask.queries, rows), weights, 0.0)


def _summed(value: T, heads: int) -> T:
    """Over the query heads that share a head."""
    if value.shape[1] == heads:
        return value
    batch, _, rows, size = value.shape
    return value.reshape(batch, heads, -1, rows, size).sum(dim=2)
