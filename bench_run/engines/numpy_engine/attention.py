"""Scaled dot-product attention, forward, by blocks of rows of one head.

p = softmax(s) over the keys in sight, o = p·v; a row that sees no key gives 0. Keys that no row of
a block sees are left out of its products. See `attention_parts` for s.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.attention_parts import (
    Attention,
    Block,
    of_head,
    refuse_uncertain,
    rows_of,
    shared,
)
from bench_run.engines.numpy_engine.attention_parts import Sequence as Tokens
from bench_run.engines.numpy_engine.attention_sequences import plan_sequences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.engines.numpy_engine.op import Op
    from bench_run.engines.numpy_engine.program import Program

Array: TypeAlias = npt.NDArray[Any]

EMPTY = {"stats": -math.inf, "max": -math.inf, "sum_exp": 0.0, "amax_s": 0.0, "amax_o": 0.0}
"""What a row that belongs to no sequence gives, and where the maxima over all rows begin."""
LOWEST = -1e38
"""Stands for the maximum of nothing: e^(−∞ − LOWEST) is 0, where −∞ − −∞ would be NaN."""
AFTER = ("descale_v", "scale_s", "descale_s")


@dataclass(frozen=True)
class Forward:
    """The arrays of one node."""

    attention: Attention
    o: Array
    results: dict[str, Array]
    """Statistics as [B, H, Sq, 1], maxima over all as one number."""
    sink: Array | None
    after: tuple[Array, ...]
    """Factors of o for each (batch, head)."""
    last: tuple[Array, ...]
    """Factors of o that amax_o does not count."""

    def make(self, p: Program, sequences: Sequence[Tokens]) -> None:
        p.call(self.o.fill, 0.0)
        for port, value in self.results.items():
            p.call(value.fill, EMPTY[port])
        for sequence in sequences:
            for block in self.attention.blocks(sequence):
                with p.frame():
                    self._block(p, sequence, block)

    def _block(self, p: Program, sequence: Tokens, block: Block) -> None:
        scores = self.attention.scores(p, sequence, block)
        top, total = self._softmax(p, sequence, block, scores)
        v = sequence.v[shared(block.head, self.attention.q, sequence.v), block.keys]
        o = rows_of(self.o, sequence, block)
        with p.target(o, o.shape) as result:
            p.call(np.matmul, scores, p.source(v, v.shape), result)
        self._divide(p, o, total)
        self._factored(p, o, self.after, sequence, block)
        if "amax_s" in self.results:
            self._divide(p, scores, total)
            self._raise_to(p, "amax_s", scores)
        if "amax_o" in self.results:
            self._raise_to(p, "amax_o", o)
        self._factored(p, o, self.last, sequence, block)
        del top

    def _softmax(
        self, p: Program, sequence: Tokens, block: Block, scores: Array
    ) -> tuple[Array, Array]:
        """exp(s − maximum) in place of s; maxima and sums by row."""
        top, total = (p.scratch((len(scores), 1), scores.dtype) for _ in range(2))
        p.call(np.maximum.reduce, scores, axis=1, keepdims=True, out=top, initial=-math.inf)
        sink = None if self.sink is None else self.sink[block.head : block.head + 1].reshape(())
        if sink is not None:
            p.each(np.maximum, top, sink, out=top)
        self._keep(p, "max", top, sequence, block)
        p.each(np.maximum, top, LOWEST, out=top)
        p.each(np.subtract, scores, top, out=scores)
        p.each(np.exp, scores, out=scores)
        p.call(np.add.reduce, scores, axis=1, keepdims=True, out=total)
        if sink is not None:
            share = p.scratch(total.shape, total.dtype)
            p.each(np.subtract, sink, top, out=share)
            p.each(np.exp, share, out=share)
            p.each(np.add, total, share, out=total)
        self._keep(p, "sum_exp", total, sequence, block)
        if "stats" in self.results:
            logarithm = p.scratch(total.shape, total.dtype)
            p.each(np.log, total, out=logarithm)
            p.each(np.add, logarithm, top, out=logarithm)
            self._keep(p, "stats", logarithm, sequence, block)
        return top, total

    def _keep(self, p: Program, port: str, value: Array, sequence: Tokens, block: Block) -> None:
        if port in self.results:
            p.copy(rows_of(self.results[port], sequence, block), value)

    def _divide(self, p: Program, value: Array, total: Array) -> None:
        """A sum of 0 is that of a row which sees nothing, and stays 0."""
        divisor = p.scratch(total.shape, total.dtype)
        p.each(np.maximum, total, np.finfo(total.dtype).tiny, out=divisor)
        p.each(np.divide, value, divisor, out=value)

    def _factored(
        self, p: Program, o: Array, factors: tuple[Array, ...], sequence: Tokens, block: Block
    ) -> None:
        for factor in factors:
            p.each(np.multiply, o, of_head(factor, self.attention.q, sequence, block), out=o)

    def _raise_to(self, p: Program, port: str, values: Array) -> None:
        """The largest magnitude so far."""
        magnitude = p.scratch(values.shape, values.dtype)
        largest = p.scratch((), values.dtype)
        p.each(np.absolute, values, out=magnitude)
        p.call(np.maximum.reduce, magnitude, axis=None, out=largest, initial=0.0)
        result = self.results[port]
        p.each(np.maximum, result, largest, out=result)


def attention(op: Op) -> None:
    refuse_uncertain(op)
    q = op.read("q")
    with ExitStack() as stack:
        o = stack.enter_context(op.writing("o"))
        ports = [port for port in EMPTY if op.has(port)]
        results = {port: stack.enter_context(op.writing(port)) for port in ports}
        for port in ("stats", "max", "sum_exp"):
            if port in results:
                results[port] = results[port].reshape(*q.shape[:3], 1)
        sink = op.read_or_none("sink_token")
        after = (op.read_or_none(port) for port in AFTER)
        last = op.read_or_none("scale_o")
        forward = Forward(
            attention=Attention.of(op),
            o=o,
            results=results,
            sink=None if sink is None else sink.reshape(-1),
            after=tuple(factor for factor in after if factor is not None),
            last=() if last is None else (last,),
        )
        plan_sequences(op, forward.make)
