"""Batch normalisation over all axes but the channels (axis 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.sums import total

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]


def inference(op: Op) -> None:
    """y = scale·(x − mean)·inv_variance + bias."""
    gain = op.program.scratch_like(op.read("scale"))
    op.program.each(np.multiply, op.read("scale"), op.read("inv_variance"), out=gain)
    _normalise(op, op.read("mean"), gain)


def inference_variance(op: Op) -> None:
    """y = scale·(x − mean)/√(variance + ε) + bias."""
    p = op.program
    gain = p.scratch_like(op.read("scale"))
    _inverse_deviation(op, op.read("variance"), gain)
    p.each(np.multiply, op.read("scale"), gain, out=gain)
    _normalise(op, op.read("mean"), gain)


def training(op: Op) -> None:
    """Statistics of the batch (biased variance), then as inference; running ones updated."""
    if op.node.input_lists.get("peer_stats"):
        raise op.refusal("statistics of other devices (peer_stats)")
    p, x = op.program, op.read("x")
    mean, variance, inverse = (p.scratch_like(op.read("scale")) for _ in range(3))
    centred = p.scratch_like(x)
    count = x.size // x.shape[1]
    _mean(op, x, mean)
    p.each(np.subtract, x, mean, out=centred)
    squares = p.scratch_like(x)
    p.each(np.multiply, centred, centred, out=squares)
    _mean(op, squares, variance)
    _inverse_deviation(op, variance, inverse)
    gain = p.scratch_like(mean)
    p.each(np.multiply, op.read("scale"), inverse, out=gain)
    with op.writing("y") as y:
        p.each(np.multiply, centred, gain, out=y)
        p.each(np.add, y, op.read("bias"), out=y)
    for port, value in (("mean", mean), ("inv_variance", inverse)):
        if op.has(port):
            with op.writing(port) as out:
                p.copy(out, value)
    unbiased = count / (count - 1) if count > 1 else 1.0
    _running(op, "mean", mean, 1.0)
    _running(op, "variance", variance, unbiased)


def backward(op: Op) -> None:
    """dbias = Σdy, dscale = Σdy·x̂, dx = scale·inv/n·(n·dy − dbias − x̂·dscale)."""
    if op.node.input_lists.get("peer_stats"):
        raise op.refusal("statistics of other devices (peer_stats)")
    p, dy, x = op.program, op.read("dy"), op.read("x")
    axes, count = _axes(x), x.size // x.shape[1]
    normal, inverse = _normalised(op, x)
    share = p.scratch_like(inverse)
    with op.writing("dbias") as dbias, op.writing("dscale") as dscale, op.writing("dx") as dx:
        p.each(np.multiply, dy, normal, out=dx)
        total(p, dx, axes, dscale)
        total(p, dy, axes, dbias)
        p.each(np.multiply, dscale, 1.0 / count, out=share)
        p.each(np.multiply, normal, share, out=normal)
        p.each(np.subtract, dy, normal, out=dx)
        p.each(np.multiply, dbias, 1.0 / count, out=share)
        p.each(np.subtract, dx, share, out=dx)
        p.each(np.multiply, op.read("scale"), inverse, out=share)
        p.each(np.multiply, dx, share, out=dx)


BACKWARD_EPSILON = 1e-5
"""For the backward pass without saved statistics, as hipDNN's own reference has it."""


def _normalised(op: Op, x: Array) -> tuple[Array, Array]:
    """x̂ in a buffer of its own, and 1/√(variance + ε), given or recomputed."""
    p, normal = op.program, op.program.scratch_like(x)
    if op.has("mean") and op.has("inv_variance"):
        inverse = op.read("inv_variance")
        p.each(np.subtract, x, op.read("mean"), out=normal)
    else:
        mean, inverse = (p.scratch_like(op.read("scale")) for _ in range(2))
        _mean(op, x, mean)
        p.each(np.subtract, x, mean, out=normal)
        squares = p.scratch_like(x)
        p.each(np.multiply, normal, normal, out=squares)
        _mean(op, squares, inverse)
        _inverse_root(op, BACKWARD_EPSILON, inverse)
    p.each(np.multiply, normal, inverse, out=normal)
    return normal, inverse


def _axes(x: Array) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.ndim) if axis != 1)


def _mean(op: Op, x: Array, out: Array) -> None:
    total(op.program, x, _axes(x), out)
    op.program.each(np.multiply, out, x.shape[1] / x.size, out=out)


def _inverse_deviation(op: Op, variance: Array, out: Array) -> None:
    op.program.copy(out, variance)
    _inverse_root(op, op.scalar("epsilon"), out)


def _inverse_root(op: Op, epsilon: Array | float, out: Array) -> None:
    op.program.each(np.add, out, epsilon, out=out)
    op.program.each(np.sqrt, out, out=out)
    op.program.each(np.reciprocal, out, out=out)


def _normalise(op: Op, mean: Array, gain: Array) -> None:
    """Subtracts before it multiplies: means far from zero cost no digits."""
    p = op.program
    with op.writing("y") as y:
        p.each(np.subtract, op.read("x"), mean, out=y)
        p.each(np.multiply, y, gain, out=y)
        p.each(np.add, y, op.read("bias"), out=y)


def _running(op: Op, name: str, batch: Array, factor: float) -> None:
    """next = (1 − momentum)·prev + momentum·factor·batch."""
    if not op.has(f"next_running_{name}"):
        return
    p, momentum = op.program, op.scalar("momentum")
    with op.writing(f"next_running_{name}") as out:
        previous, change = op.read(f"prev_running_{name}"), p.scratch_like(out)
        p.each(np.multiply, batch, factor, out=change)
        p.each(np.subtract, change, previous, out=change)
        p.each(np.multiply, change, momentum, out=change)
        p.each(np.add, previous, change, out=out)
