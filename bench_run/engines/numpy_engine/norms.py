"""Layer norm and RMS norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.sums import total, total_to
from bench_run.graph.operations.norms import rmsnorm_axes

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]
Axes: TypeAlias = tuple[int, ...]


def layernorm(op: Op) -> None:
    """y = (x − mean)·inv·scale + bias over the trailing axes, inv = 1/√(variance + ε)."""
    p, x, axes = op.program, op.read("x"), _trailing(op)
    mean, inverse = (p.scratch(_kept(x, axes), x.dtype) for _ in range(2))
    with op.writing("y") as y:
        _statistics(op, x, axes, (mean, inverse, y))
        p.each(np.multiply, y, inverse, out=y)
        p.each(np.multiply, y, op.read("scale"), out=y)
        p.each(np.add, y, op.read("bias"), out=y)
    for port, value in (("mean", mean), ("inv_variance", inverse)):
        if op.has(port):
            with op.writing(port) as out:
                p.copy(out, value.reshape(out.shape))


def layernorm_backward(op: Op) -> None:
    """dx = inv·(g − mean(g) − x̂·mean(g·x̂)) with g = dy·scale; dscale = Σ dy·x̂, dbias = Σ dy."""
    p, dy, x, axes = op.program, op.read("dy"), op.read("x"), _trailing(op)
    shape = _kept(x, axes)
    normal, inner, product = (p.scratch_like(x) for _ in range(3))
    row = p.scratch(shape, x.dtype)
    inverse = _normalised(op, x, axes, normal)
    p.each(np.multiply, dy, op.read("scale"), out=inner)
    with op.writing("dx") as dx:
        p.each(np.multiply, inner, normal, out=product)
        _mean(op, product, axes, row)
        p.each(np.multiply, normal, row, out=dx)
        _mean(op, inner, axes, row)
        p.each(np.subtract, inner, dx, out=dx)
        p.each(np.subtract, dx, row, out=dx)
        p.each(np.multiply, dx, inverse, out=dx)
    _parameter_gradients(op, dy, normal, product)


def rmsnorm(op: Op) -> None:
    """inv_rms = 1/√(mean(x²) + ε), y = x·inv_rms·scale [+ bias]."""
    p, x, axes = op.program, op.read("x"), _rms_axes(op)
    inverse = p.scratch(_kept(x, axes), x.dtype)
    with op.writing("y") as y:
        p.each(np.multiply, x, x, out=y)
        _mean(op, y, axes, inverse)
        _inverse_root(op, inverse, op.scalar("epsilon"))
        p.each(np.multiply, x, inverse, out=y)
        p.each(np.multiply, y, op.read("scale"), out=y)
        if op.has("bias"):
            p.each(np.add, y, op.read("bias"), out=y)
    if op.has("inv_rms"):
        with op.writing("inv_rms") as out:
            p.copy(out, inverse.reshape(out.shape))


def rmsnorm_backward(op: Op) -> None:
    """dx = r·(g − x̂·mean(g·x̂)) with g = dy·scale, r = inv_rms, x̂ = x·r."""
    p, dy, x, axes = op.program, op.read("dy"), op.read("x"), _rms_axes(op)
    normal, inner, product = (p.scratch_like(x) for _ in range(3))
    inverse = op.read("inv_rms").reshape(_kept(x, axes))
    row = p.scratch(inverse.shape, x.dtype)
    p.each(np.multiply, x, inverse, out=normal)
    p.each(np.multiply, dy, op.read("scale"), out=inner)
    with op.writing("dx") as dx:
        p.each(np.multiply, inner, normal, out=product)
        _mean(op, product, axes, row)
        p.each(np.multiply, normal, row, out=dx)
        p.each(np.subtract, inner, dx, out=dx)
        p.each(np.multiply, dx, inverse, out=dx)
    _parameter_gradients(op, dy, normal, product)


def _trailing(op: Op) -> Axes:
    rank, count = len(op.tensor("x").dims), op.attribute("normalized_dim_count")
    if count is None or not 1 <= count <= rank:
        raise op.refusal(f"normalized_dim_count {count!r} for x of rank {rank}")
    return tuple(range(rank - count, rank))


def _rms_axes(op: Op) -> Axes:
    saved = op.tensor("inv_rms").dims if op.has("inv_rms") else None
    return rmsnorm_axes(op.tensor("x").dims, op.tensor("scale").dims, saved)


def _kept(x: Array, axes: Axes) -> tuple[int, ...]:
    return tuple(1 if axis in axes else length for axis, length in enumerate(x.shape))


def _mean(op: Op, x: Array, axes: Axes, out: Array) -> None:
    total(op.program, x, axes, out)
    count = math.prod(x.shape[axis] for axis in axes)
    op.program.each(np.multiply, out, 1.0 / count, out=out)


def _inverse_root(op: Op, value: Array, epsilon: Array | float) -> None:
    p = op.program
    p.each(np.add, value, epsilon, out=value)
    p.each(np.sqrt, value, out=value)
    p.each(np.reciprocal, value, out=value)


def _statistics(op: Op, x: Array, axes: Axes, into: tuple[Array, Array, Array]) -> None:
    """Fills mean, 1/√(variance + ε) and x − mean."""
    p, (mean, inverse, centred) = op.program, into
    squares = p.scratch_like(x)
    _mean(op, x, axes, mean)
    p.each(np.subtract, x, mean, out=centred)
    p.each(np.multiply, centred, centred, out=squares)
    _mean(op, squares, axes, inverse)
    _inverse_root(op, inverse, op.scalar("epsilon"))


def _normalised(op: Op, x: Array, axes: Axes, normal: Array) -> Array:
    """Fills x̂; gives 1/√(variance + ε), saved or recomputed."""
    p, shape = op.program, _kept(x, axes)
    if op.has("mean") and op.has("inv_variance"):
        inverse = op.read("inv_variance").reshape(shape)
        p.each(np.subtract, x, op.read("mean").reshape(shape), out=normal)
    elif op.has("epsilon") and not op.has("mean") and not op.has("inv_variance"):
        mean, inverse = (p.scratch(shape, x.dtype) for _ in range(2))
        _statistics(op, x, axes, (mean, inverse, normal))
    else:
        raise op.refusal("it needs mean and inv_variance, or epsilon to compute both")
    p.each(np.multiply, normal, inverse, out=normal)
    return inverse


def _parameter_gradients(op: Op, dy: Array, normal: Array, product: Array) -> None:
    if op.has("dscale"):
        with op.writing("dscale") as dscale:
            op.program.each(np.multiply, dy, normal, out=product)
            total_to(op.program, product, dscale)
    if op.has("dbias"):
        with op.writing("dbias") as dbias:
            total_to(op.program, dy, dbias)
