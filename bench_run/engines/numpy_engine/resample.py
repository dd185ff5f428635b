"""Pooling, window tap by window tap: as many calls as a window has elements.

Padding never wins a maximum and is never counted by ``avgpool_exclude_padding``. The index of a
maximum is its place in x's flattened spatial axes, the first of equals, −1 for padding alone.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.windows import (
    Geometry,
    channels_last,
    interior,
    padding_buffer,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]

MODES = ("maxpool", "avgpool_exclude_padding", "avgpool_include_padding")


def resample(op: Op) -> None:
    x = op.read("x")
    with ExitStack() as stack:
        y = stack.enter_context(op.writing("y"))
        mode, g = _mode(op), _geometry(op, x, y)
        if mode != "maxpool":
            _average(op, g, x, y)
        elif op.has("index"):
            uid = op.tensor("index").uid
            index = stack.enter_context(op.program.writing(uid, np.int64))
            _indexed_maximum(op, g, (x, y, index))
        else:
            _accumulate(op, g, np.maximum, (_padded(op, g, x, -math.inf), y))


def resample_backward(op: Op) -> None:
    """The adjoint: averages spread dy, maxima add it where the index points."""
    dy = op.read("dy")
    with op.writing("dx") as dx:
        g = _geometry(op, dx, dy)
        if _mode(op) == "maxpool":
            _scatter(op, dy, dx)
            return
        p, shares = op.program, op.program.scratch_like(dy)
        p.each(np.multiply, dy, _shares(op, g, dx), out=shares)
        total = padding_buffer(p, g, dx) if g.padded else dx
        p.call(total.fill, 0.0)
        for tap in _taps(g, total):
            p.each(np.add, tap, shares, out=tap)
        if g.padded:
            p.copy(dx, interior(g, total, dx.shape))


def _mode(op: Op) -> str:
    mode = str(op.attribute("resample_mode"))
    if mode not in MODES:
        raise op.refusal(f"no resample mode {mode!r}; known are {', '.join(MODES)}")
    if op.attribute("padding_mode") == "edge_val_pad":
        raise op.refusal("padding_mode 'edge_val_pad' is not computed")
    return mode


def _geometry(op: Op, x: Array, y: Array) -> Geometry:
    names = ("window", "stride", "pre_padding", "post_padding")
    window, stride, pre, post = (tuple(op.attribute(name)) for name in names)
    lengths = zip(x.shape[2:], window, stride, pre, post, strict=True)
    out = tuple((n + a + b - w) // s + 1 for n, w, s, a, b in lengths)
    if y.shape != (*x.shape[:2], *out) or min(*pre, *post) < 0:
        raise op.refusal(f"dims {x.shape} and {y.shape} do not fit together")
    ones = (1,) * len(window)
    return Geometry(1, stride, ones, pre, post, window, out, channels_last(x))


def _padded(op: Op, g: Geometry, x: Array, fill: float) -> Array:
    if not g.padded:
        return x
    buffer = padding_buffer(op.program, g, x, fill)
    op.program.copy(interior(g, buffer, x.shape), x)
    return buffer


def _taps(g: Geometry, padded: Array) -> Iterator[Array]:
    """For each element of the window what all windows see there, by (n, c, positions…)."""
    seen = windows(g, padded)[:, 0]
    for tap in np.ndindex(g.kernel):
        yield seen[(slice(None), slice(None), *tap)]


def _accumulate(op: Op, g: Geometry, ufunc: np.ufunc, arrays: tuple[Array, Array]) -> None:
    padded, y = arrays
    first, *others = _taps(g, padded)
    op.program.copy(y, first)
    for tap in others:
        op.program.each(ufunc, y, tap, out=y)


def _average(op: Op, g: Geometry, x: Array, y: Array) -> None:
    _accumulate(op, g, np.add, (_padded(op, g, x, 0.0), y))
    op.program.each(np.multiply, y, _shares(op, g, x), out=y)


def _shares(op: Op, g: Geometry, x: Array) -> Array:
    """1 over the number of elements that each window counts, by positions."""
    if _mode(op) == "avgpool_include_padding":
        return np.full(g.out, 1.0 / math.prod(g.kernel), x.dtype)
    lengths = tuple(n + a + b for n, a, b in zip(x.shape[2:], g.pre, g.post, strict=True))
    ones = np.zeros((1, 1, *lengths))
    interior(g, ones, (1, 1, *x.shape[2:])).fill(1.0)
    counts = np.sum([tap[0, 0] for tap in _taps(g, ones)], axis=0)
    shares: Array = 1.0 / np.maximum(counts, 1.0)
    return shares.astype(x.dtype)


def _indexed_maximum(op: Op, g: Geometry, arrays: tuple[Array, Array, Array]) -> None:
    (x, y, index), p = arrays, op.program
    spatial = x.shape[2:]
    lengths = tuple(n + a + b for n, a, b in zip(spatial, g.pre, g.post, strict=True))
    places = np.full((1, 1, *lengths), -1, np.int64)
    inside = np.arange(math.prod(spatial)).reshape(1, 1, *spatial)
    interior(g, places, inside.shape)[...] = inside
    wins = p.scratch_like(y, np.bool_)
    p.call(y.fill, -math.inf)
    p.call(index.fill, -1)
    for tap, place in zip(_taps(g, _padded(op, g, x, -math.inf)), _taps(g, places), strict=True):
        p.each(np.greater, tap, y, out=wins)
        p.each(np.maximum, y, tap, out=y)
        p.each(_put_where, place, wins, out=index)


def _put_where(values: Array, where: Array, out: Array) -> None:
    np.copyto(out, values, where=where)


def _scatter(op: Op, dy: Array, dx: Array) -> None:
    if not op.has("index"):
        raise op.refusal("max pooling backward without the forward's index")
    index = op.program.read(op.tensor("index").uid, np.dtype(np.int64))
    size, planes = math.prod(dx.shape[2:]), dx.shape[0] * dx.shape[1]
    first = np.arange(planes).reshape(*dx.shape[:2], *(1 for _ in dx.shape[2:])) * size

    def scatter() -> None:
        cells = np.where(index < 0, planes * size, first + index).reshape(-1)
        total = np.bincount(cells, dy.reshape(-1), planes * size + 1)
        dx[...] = total[:-1].reshape(dx.shape)

    op.program.call(scatter)
