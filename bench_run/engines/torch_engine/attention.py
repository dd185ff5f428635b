"""Scaled dot-product attention, forward: PyTorch's fused kernels where they know all that is asked,
else the formula in the compute type.

The fused call knows scale, additive bias, masks and grouped heads. Statistics, sinks, sequence
lengths, pages and fp8 factors take the formula. A row that sees no key gives 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch.nn import functional

from bench_run.engines.torch_engine.attention_parts import (
    FACTORS,
    LAUNCHES,
    Scale,
    Visibility,
    per_head,
    refuse_uncertain,
    rows_present,
    shared,
)
from bench_run.engines.torch_engine.attention_sequences import Sequences
from bench_run.engines.torch_engine.op import Call, Op, elementwise
from bench_run.engines.torch_engine.types import NATIVE
from bench_run.graph.operations.sdpa import band

if TYPE_CHECKING:
    from collections.abc import Mapping

T: TypeAlias = torch.Tensor

STATISTICS = ("stats", "max", "sum_exp")
OUTPUTS = ("o", *STATISTICS, "amax_s", "amax_o")
LENGTHS = ("seq_len_q", "seq_len_kv", "page_table_k", "page_table_v")


def attention(op: Op) -> Call:
    refuse_uncertain(op)
    same_heads = op.dims("k")[1] == op.dims("v")[1]
    native = len({op.dtype(port) for port in ("q", "k", "v")}) == 1 and op.dtype("q") in NATIVE
    if native and same_heads and not op.present(*FACTORS, *LENGTHS, *OUTPUTS[1:], "sink_token"):
        return _fused(op)
    return _formula(op)


def _fused(op: Op) -> Call:
    dtype = op.working_type("q", "k", "v", result="o")
    scale, mask = Scale.of(op), band(op.node.attributes)
    queries, keys = op.dims("q")[2], op.dims("k")[2]
    biases = op.present("attn_mask")
    causal = mask.left is None and mask.right == 0 and not biases
    causal = causal and not (mask.bottom_right and queries != keys)
    hidden = None if causal else Visibility(mask, queries, keys).hidden(op.device, None, None)
    blind = None if hidden is None else hidden.all(dim=-1, keepdim=True)
    if blind is not None and not bool(blind.any()):
        blind = None
    grouped = op.dims("q")[1] != op.dims("k")[1]

    def function(q: T, k: T, v: T, *rest: T) -> T:
        q, k, v = (elementwise(value, dtype) for value in (q, k, v))
        if scale.value is None:
            q = q * elementwise(rest[-1], dtype)
        bias = elementwise(rest[0], dtype) if biases else None
        o = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            _mask(bias, hidden),
            is_causal=causal,
            scale=1.0 if scale.value is None else scale.value,
            enable_gqa=grouped,
        )
        return o if blind is None else torch.where(blind, 0.0, o)

    return Call(("q", "k", "v", *biases, *scale.ports), ("o",), function, LAUNCHES)


def _mask(bias: T | None, hidden: T | None) -> T | None:
    """What the fused call takes: a bias, or which keys are seen."""
    if hidden is None:
        return bias
    return ~hidden if bias is None else bias.masked_fill(hidden, -math.inf)


@dataclass(frozen=True)
class Formula:
    """p = softmax(scale·(q·kᵀ) + bias) over the keys in sight, o = p·v, and statistics."""

    where: Sequences
    scale: Scale
    mask: Visibility
    dtype: torch.dtype
    heads: int

    def run(self, given: Mapping[str, T]) -> dict[str, T]:
        rows, columns = self.where.lengths(given)
        scores = self._scores(given, rows, columns)
        top, total, weights = _exponentials(scores, self._sink(given))
        v = self._values(given, columns)
        shares = weights / torch.where(total == 0, 1.0, total)
        found = {"o": shares @ v, "max": top, "sum_exp": total}
        found["stats"] = _finite(top) + total.log()
        if rows is not None:
            found = _real_rows(found, rows_present(self.mask.queries, rows))
        found["o"] = self._factored(found["o"], given, ("descale_v", "scale_s", "descale_s"))
        found["amax_s"], found["amax_o"] = shares.amax(), found["o"].abs().amax()
        found["o"] = self._factored(found["o"], given, ("scale_o",))
        for port, empty in EMPTY.items():
            found[port] = self.where.packed_again(found[port], rows, empty)
        return found

    def _scores(self, given: Mapping[str, T], rows: T | None, columns: T | None) -> T:
        q = self.where.queries_of(elementwise(given["q"], self.dtype), rows)
        k = self.where.keys_of(elementwise(given["k"], self.dtype), given.get("page_table_k"))
        q = self._factored(q, given, ("descale_q", "descale_k"))
        q = q * self.scale.factor(given, self.dtype)
        scores = q @ shared(k, self.heads).transpose(-1, -2)
        if "attn_mask" in given:
            scores = scores + elementwise(given["attn_mask"], self.dtype)
        hidden = self.mask.hidden(q.device, rows, columns)
        return scores if hidden is None else scores.masked_fill(hidden, -math.inf)

    def _values(self, given: Mapping[str, T], columns: T | None) -> T:
        """Keys past a sequence's length hold anything, and nothing times anything may be NaN."""
        v = self.where.keys_of(elementwise(given["v"], self.dtype), given.get("page_table_v"))
        if columns is not None:
            v = torch.where(rows_present(self.mask.keys, columns), v, 0.0)
        return shared(v, self.heads)

    def _sink(self, given: Mapping[str, T]) -> T | None:
        if "sink_token" not in given:
            return None
        return elementwise(given["sink_token"], self.dtype).reshape(1, -1, 1, 1)

    def _factored(self, value: T, given: Mapping[str, T], ports: tuple[str, ...]) -> T:
        for port in ports:
            if port in given:
                value = value * per_head(given[port], self.heads, self.dtype)
        return value


EMPTY = {"o": 0.0, "max": -math.inf, "sum_exp": 0.0, "stats": -math.inf}
"""What rows that belong to no sequence give."""


def _formula(op: Op) -> Call:
    where, scale = Sequences.of(op), Scale.of(op)
    if where.paged and op.has("attn_mask"):
        raise op.refusal("where attn_mask lies for paged keys is not documented")
    mask = Visibility(band(op.node.attributes), where.queries, where.keys)
    formula = Formula(where, scale, mask, op.compute, op.dims("q")[1])
    optional = op.present("attn_mask", "sink_token", *FACTORS)
    ports = ("q", "k", "v", *scale.ports, *where.ports, *optional)
    outputs = op.present(*OUTPUTS)
    shapes = [op.dims(port) for port in outputs]

    def function(*tensors: T) -> tuple[T, ...]:
        found = formula.run(dict(zip(ports, tensors, strict=True)))
        return tuple(found[port].reshape(dims) for port, dims in zip(outputs, shapes, strict=True))

    return Call(ports, outputs, function, 2 * LAUNCHES)


def _exponentials(scores: T, sink: T | None) -> tuple[T, T, T]:
    """Row maxima, row sums, and exp(s − maximum)."""
    top = scores.amax(dim=-1, keepdim=True)
    top = top if sink is None else torch.maximum(top, sink)
    weights = torch.exp(scores - _finite(top))
    total = weights.sum(dim=-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - _finite(top))
    return top, total, weights


def _finite(top: T) -> T:
    """0 in place of −∞, the maximum of nothing."""
    return torch.where(top == -math.inf, 0.0, top)


def _real_rows(found: dict[str, T], present: T) -> dict[str, T]:
    return {port: torch.where(present, value, EMPTY[port]) for port, value in found.items()}
