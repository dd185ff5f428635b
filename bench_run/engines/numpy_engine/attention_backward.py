"""Scaled dot-product attention, backward, by blocks of rows of one head.

P = exp(s − stats), Δ = Σ_d dO·O, dS = P∘(dO·Vᵀ − Δ); dQ = scale·dS·K, dK = scale·dSᵀ·Q and
dV = Pᵀ·dO, summed over the query heads that share a head of k or v; dbias = dS summed to its dims.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.attention_parts import (
    Attention,
    Block,
    refuse_uncertain,
    rows_of,
    shared,
)
from bench_run.engines.numpy_engine.attention_parts import Sequence as Tokens
from bench_run.engines.numpy_engine.attention_sequences import plan_sequences
from bench_run.engines.numpy_engine.sums import total_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.engines.numpy_engine.op import Op
    from bench_run.engines.numpy_engine.program import Program

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Backward:
    attention: Attention
    o: Array
    do: Array
    stats: Array
    gradients: dict[str, Array]

    def make(self, p: Program, sequences: Sequence[Tokens]) -> None:
        for value in self.gradients.values():
            p.call(value.fill, 0.0)
        for sequence in sequences:
            for block in self.attention.blocks(sequence):
                with p.frame():
                    self._block(p, sequence, block)

    def _block(self, p: Program, sequence: Tokens, block: Block) -> None:
        q = rows_of(self.attention.q, sequence, block)
        key_head = shared(block.head, self.attention.q, sequence.k)
        value_head = shared(block.head, self.attention.q, sequence.v)
        k, v = sequence.k[key_head, block.keys], sequence.v[value_head, block.keys]
        do = rows_of(self.do, sequence, block)
        weights = self._weights(p, sequence, block)
        dv = self.gradients["dv"][sequence.batch, value_head, block.keys]
        self._add(p, dv, (weights.T, do), 1.0)
        gradient = self._score_gradient(p, sequence, block, (weights, v))
        scale = self.attention.scale
        self._add(p, rows_of(self.gradients["dq"], sequence, block), (gradient, k), scale)
        dk = self.gradients["dk"][sequence.batch, key_head, block.keys]
        self._add(p, dk, (gradient.T, q), scale)

    def _weights(self, p: Program, sequence: Tokens, block: Block) -> Array:
        """exp(s − stats); statistics of −∞ belong to rows that saw nothing."""
        scores = self.attention.scores(p, sequence, block)
        stats = rows_of(self.stats, sequence, block)
        known = p.scratch(stats.shape, stats.dtype)
        p.each(np.maximum, stats, -1e38, out=known)
        p.each(np.subtract, scores, known, out=scores)
        p.each(np.exp, scores, out=scores)
        return scores

    def _score_gradient(
        self, p: Program, sequence: Tokens, block: Block, operands: tuple[Array, Array]
    ) -> Array:
        """P∘(dO·Vᵀ − Δ), also added to dbias."""
        weights, v = operands
        do, o = rows_of(self.do, sequence, block), rows_of(self.o, sequence, block)
        product, delta = p.scratch(do.shape, do.dtype), p.scratch((len(do), 1), do.dtype)
        p.each(np.multiply, do, o, out=product)
        p.call(np.add.reduce, product, axis=1, keepdims=True, out=delta)
        gradient = p.scratch(weights.shape, weights.dtype)
        p.call(np.matmul, p.source(do, do.shape), p.source(v, v.shape).T, gradient)
        p.each(np.subtract, gradient, delta, out=gradient)
        p.each(np.multiply, gradient, weights, out=gradient)
        if "dbias" in self.gradients:
            self._add_to_bias(p, sequence, block, gradient)
        return gradient

    def _add_to_bias(self, p: Program, sequence: Tokens, block: Block, gradient: Array) -> None:
        dbias = self.gradients["dbias"]
        batch, head = (
            slice(0, 1) if dbias.shape[axis] == 1 else slice(at, at + 1)
            for axis, at in enumerate((sequence.batch, block.head))
        )
        rows = slice(0, 1) if dbias.shape[2] == 1 else block.rows
        keys = slice(0, 1) if dbias.shape[3] == 1 else block.keys
        place = dbias[batch, head, rows, keys]
        part = p.scratch(place.shape, place.dtype)
        total_to(p, gradient[None, None], part)
        p.each(np.add, place, part, out=place)

    def _add(
        self, p: Program, place: Array, factors: tuple[Array, Array], scale: Array | float
    ) -> None:
        """scale·left·right added to `place`."""
        left, right = (p.source(matrix, matrix.shape) for matrix in factors)
        product = p.scratch(place.shape, place.dtype)
        p.call(np.matmul, left, right, product)
        p.each(np.multiply, product, scale, out=product)
        p.each(np.add, place, product, out=place)


def attention_backward(op: Op) -> None:
    refuse_uncertain(op)
    op.refuse_ports(("page_table_k", "page_table_v"))
    q = op.read("q")
    with ExitStack() as stack:
        ports = [port for port in ("dq", "dk", "dv", "dbias") if op.has(port)]
        gradients = {port: stack.enter_context(op.writing(port)) for port in ports}
        if "dbias" in gradients:
            dims = gradients["dbias"].shape
            gradients["dbias"] = gradients["dbias"].reshape((1,) * (4 - len(dims)) + dims)
        backward = Backward(
            attention=Attention.of(op),
            o=op.read("o"),
            do=op.read("do"),
            stats=op.read("stats").reshape(*q.shape[:3], 1),
            gradients=gradients,
        )
        plan_sequences(op, backward.make)
