"""Attention as kernels compute it, step by step in NumPy: honest ways, and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import ml_dtypes
import numpy as np

TYPES = {"half": np.float16, "bfloat16": ml_dtypes.bfloat16, "float": np.float32}
LOG2_E = np.float32(1.4426950408889634)


@dataclass(frozen=True)
class Way:
    """One kernel's arithmetic; sums are float32 throughout."""

    block: int = 64
    """Keys at a time, with a running maximum and a rescaled sum."""
    backwards: bool = False
    """From the last block of keys to the first."""
    cut: bool = False
    """Probabilities are cut off to the operands' type, not rounded."""
    scaled_query: bool = False
    """scale·q is rounded to the operands' type."""
    powers_of_two: bool = False
    """exp2 of scores that were scaled by log2 e."""
    splits: int = 1
    """Parts of the keys that are added up at the end."""
    narrow: bool = True
    """Probabilities are in the operands' type; else in float32."""
    scale_factor: float = 1.0
    factor: float = 1.0
    skipped: int = 0
    """Keys at the end that are left out."""


HONEST = {
    "blocks of 64": Way(),
    "one block": Way(block=10**6),
    "blocks of 16, from the end": Way(block=16, backwards=True),
    "probabilities cut off": Way(cut=True),
    "scaled queries": Way(scaled_query=True),
    "powers of two": Way(powers_of_two=True, block=128),
    "four splits": Way(splits=4, scaled_query=True, powers_of_two=True),
    "wide probabilities": Way(narrow=False),
}
WRONG = {
    "softmax scale 3 % off": Way(scale_factor=1.03),
    "results 1 % off": Way(factor=1.01),
    "results 1 % less, cut off": Way(factor=0.99, cut=True),
    "one key of many skipped": Way(skipped=8),
}


def _narrow(values, dtype, way):
    if not way.narrow or dtype == np.float32:
        return values
    if not way.cut:
        return values.astype(dtype).astype(np.float32)
    bits = {np.float16: 13, ml_dtypes.bfloat16: 16}[dtype]
    mask = np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    return (values.view(np.uint32) & mask).view(np.float32)


def _part(q, k, v, seen, scale, way, dtype):
    """Unnormalised output, maximum and sum of one split of the keys."""
    top = np.full((*q.shape[:-1], 1), -np.inf, np.float32)
    total, output = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]), np.float32)
    exp = np.exp2 if way.powers_of_two else np.exp
    starts = list(range(0, k.shape[-2], way.block))
    for start in reversed(starts) if way.backwards else starts:
        piece = slice(start, start + way.block)
        scores = (q @ np.swapaxes(k[..., piece, :], -1, -2)) * scale
        scores = np.where(seen[..., piece], scores, np.float32(-np.inf))
        new = np.maximum(top, scores.max(-1, keepdims=True))
        safe = np.where(np.isfinite(new), new, 0)
        rescale, weights = exp(top - safe), exp(scores - safe)
        total = total * rescale + weights.sum(-1, keepdims=True, dtype=np.float32)
        output = output * rescale + _narrow(weights, dtype, way) @ v[..., piece, :]
        top = new
    return output, top, total


def attention(q, k, v, data_type, way, causal):
    """float32 arrays [batch, heads, rows, columns] that hold numbers of the type → o in it."""
    dtype = TYPES[data_type]
    scale = np.float32(q.shape[-1] ** -0.5 * way.scale_factor)
    if way.scaled_query:
        q, scale = (q * scale).astype(dtype).astype(np.float32), np.float32(1)
    if way.powers_of_two:
        scale = scale * LOG2_E
    queries, keys = q.shape[-2], k.shape[-2]
    seen = np.tri(queries, keys, dtype=bool) if causal else np.ones((queries, keys), bool)
    if way.skipped:
        seen[:, -way.skipped :] = False
    edges = np.linspace(0, keys, way.splits + 1, dtype=int)
    with np.errstate(all="ignore"):
        parts = [
            _part(q, k[..., a:b, :], v[..., a:b, :], seen[:, a:b], scale, way, dtype)
            for a, b in pairwise(edges)
        ]
        top = np.max([part[1] for part in parts], axis=0)
        exp = np.exp2 if way.powers_of_two else np.exp
        weights = [exp(part[1] - top) for part in parts]
        total = sum(w * part[2] for w, part in zip(weights, parts, strict=True))
        output = sum(w * part[0] for w, part in zip(weights, parts, strict=True))
        return (output / total * np.float32(way.factor)).astype(dtype)
