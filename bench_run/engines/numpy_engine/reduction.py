"""Reductions: an axis is reduced where the output has length 1 and the input more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.sums import total

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]
Axes: TypeAlias = tuple[int, ...]
Reduce: TypeAlias = Callable[["Op", Array, Axes, Array], None]


def reduction(op: Op) -> None:
    mode, x = op.attribute("mode"), op.read("in")
    if mode not in MODES:
        raise op.refusal(f"no reduction mode {mode!r}; known are {', '.join(MODES)}")
    with op.writing("out") as out:
        if x.ndim != out.ndim:
            raise op.refusal(f"{x.shape} does not reduce to {out.shape}")
        axes = tuple(i for i, n in enumerate(x.shape) if out.shape[i] != n)
        if not axes or any(out.shape[axis] != 1 for axis in axes):
            raise op.refusal(f"{x.shape} does not reduce to {out.shape}")
        MODES[mode](op, x, axes, out)


def _by(ufunc: np.ufunc, before: np.ufunc | None = None) -> Reduce:
    """A reduction by a ufunc, of the values that another one gives."""

    def reduce(op: Op, x: Array, axes: Axes, out: Array) -> None:
        p = op.program
        values = x
        if before is not None:
            values = p.scratch_like(x)
            p.each(before, x, out=values)
        if ufunc is np.add:
            total(p, values, axes, out)
        else:
            p.call(ufunc.reduce, values, axis=axes, out=out, keepdims=True)

    return reduce


def _average(op: Op, x: Array, axes: Axes, out: Array) -> None:
    total(op.program, x, axes, out)
    op.program.each(np.multiply, out, out.size / x.size, out=out)


def _euclidean(op: Op, x: Array, axes: Axes, out: Array) -> None:
    _by(np.add, np.square)(op, x, axes, out)
    op.program.each(np.sqrt, out, out=out)


def _product_without_zeros(op: Op, x: Array, axes: Axes, out: Array) -> None:
    p = op.program
    values, zero = p.scratch_like(x), p.scratch_like(x)
    p.each(np.equal, x, 0.0, out=zero)
    p.each(np.add, x, zero, out=values)  # a zero becomes 1, the rest stays
    _by(np.multiply)(op, values, axes, out)


MODES: Mapping[str, Reduce] = {
    "add": _by(np.add),
    "amax": _by(np.maximum, np.absolute),
    "avg": _average,
    "max": _by(np.maximum),
    "min": _by(np.minimum),
    "mul": _by(np.multiply),
    "mul_no_zeros": _product_without_zeros,
    "norm1": _by(np.add, np.absolute),
    "norm2": _euclidean,
}
