"""Convolutions as matrix products over windows of the padded input.

With x as (n, g, c), w as (g, k, c) and windows as (n, g, c, r, o), r a kernel tap and o an output
position: y = w·windows over (c, r), dx gathers w^T·dy over the taps, dw = dy·windows^T over (n, o).
Where the input's channels are next to each other in memory the matrices are kept that way round and
the images of a block are one matrix; else each image is a matrix of its own. Images are taken in
blocks whose windows fit the cache. A matrix that is a view already (1×1, no padding) is not copied.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from bench_run.engines.numpy_engine.windows import (
    Geometry,
    channels_last,
    interior,
    padding_buffer,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench_run.engines.numpy_engine.op import Op
    from bench_run.engines.numpy_engine.program import Program

Array: TypeAlias = npt.NDArray[Any]

BLOCK_BYTES = 8 * 1024**2


def convolution_forward(op: Op) -> None:
    p, x, w = op.program, op.read("x"), op.read("w")
    with op.writing("y") as y:
        geometry = _geometry(op, x, w, y)
        weights = _weights(p, geometry, _flipped(op, w))
        for block, padded in _blocks(p, geometry, x):
            with p.frame(), _pixels_target(p, geometry, y[block]) as result:
                p.call(np.matmul, weights, _columns(p, geometry, padded), result)


def convolution_backward_data(op: Op) -> None:
    p, dy, w = op.program, op.read("dy"), op.read("w")
    with op.writing("dx") as dx:
        geometry = _geometry(op, dx, w, dy)
        weights = _weights(p, geometry, _flipped(op, w)).swapaxes(-1, -2)
        buffer = padding_buffer(p, geometry, dx) if geometry.padded else None
        for block in _spans(geometry, dx):
            with p.frame():
                pixels = _pixels(p, geometry, dy[block])
                _gradient(p, geometry, (weights, pixels), (dx[block], buffer))


def convolution_backward_weights(op: Op) -> None:
    p, x, dy = op.program, op.read("x"), op.read("dy")
    with op.writing("dw") as dw:
        geometry = _geometry(op, x, dw, dy)
        split = _split_weights(geometry, _flipped(op, dw))
        with p.target(split, _matrix_shape(split, 1, 1)) as total:
            first = True
            for block, padded in _blocks(p, geometry, x):
                with p.frame():
                    columns = _columns(p, geometry, padded).swapaxes(-1, -2)
                    pairs = zip(_pixels(p, geometry, dy[block]), columns, strict=True)
                    _accumulate(p, pairs, total, first)
                first = False


def _geometry(op: Op, x: Array, w: Array, y: Array) -> Geometry:
    n, spatial = len(op.attribute("stride")), x.shape[2:]
    pre, post = tuple(op.attribute("pre_padding")), tuple(op.attribute("post_padding"))
    stride, dilation = tuple(op.attribute("stride")), tuple(op.attribute("dilation", (1,) * n))
    if min(*pre, *post) < 0:
        raise op.refusal("negative padding")
    wanted = tuple(
        (spatial[i] + pre[i] + post[i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(n)
    )
    groups = x.shape[1] // w.shape[1]
    if y.shape != (x.shape[0], w.shape[0], *wanted) or w.shape[0] % groups or groups == 0:
        raise op.refusal(f"dims {x.shape}, {w.shape} and {y.shape} do not fit together")
    return Geometry(
        groups=groups,
        stride=stride,
        dilation=dilation,
        pre=pre,
        post=post,
        kernel=w.shape[2:],
        out=wanted,
        last=channels_last(x),
    )


def _flipped(op: Op, w: Array) -> Array:
    """Mathematical convolution is cross-correlation with the taps in reverse order."""
    modes: dict[str, bool] = {"cross_correlation": False, "unset": False, "convolution": True}
    mode = op.attribute("conv_mode", "cross_correlation")
    if mode not in modes:
        raise op.refusal(f"no conv_mode {mode!r}; choose from {', '.join(modes)}")
    return np.flip(w, tuple(range(2, w.ndim))) if modes[mode] else w


def _pointwise(g: Geometry) -> bool:
    return not g.padded and math.prod(g.kernel) == 1 and math.prod(g.stride) == 1


def _spans(g: Geometry, x: Array) -> Iterator[slice]:
    """Blocks of images whose windows together stay below `BLOCK_BYTES`."""
    windows = x.shape[1] * math.prod(g.kernel) * math.prod(g.out) * x.itemsize
    images = x.shape[0] if _pointwise(g) else max(1, BLOCK_BYTES // windows)
    for first in range(0, x.shape[0], images):
        yield slice(first, min(first + images, x.shape[0]))


def _blocks(p: Program, g: Geometry, x: Array) -> Iterator[tuple[slice, Array]]:
    """Blocks of images, padded in one buffer that all blocks share."""
    buffer: Array | None = None
    for block in _spans(g, x):
        images = x[block]
        if not g.padded:
            yield block, images
            continue
        if buffer is None:
            buffer = padding_buffer(p, g, images)
        padded = buffer[: images.shape[0]]
        p.copy(interior(g, padded, images.shape), images)
        yield block, padded


def _columns(p: Program, g: Geometry, padded: Array) -> Array:
    """Stacked matrices (c·taps) × positions: (n, g, C·R, P), or (1, g, R·C, n·P) for `last`."""
    seen, s = windows(g, padded), g.rank
    if not g.last:
        return p.source(seen, _matrix_shape(seen, 2, 1 + s))
    taps, positions = range(3, 3 + s), range(3 + s, 3 + 2 * s)
    rows = seen.transpose(1, 0, *positions, *taps, 2)
    return p.source(rows, _matrix_shape(rows, 1, 1 + s)).swapaxes(-1, -2)[None]


def _split_pixels(g: Geometry, y: Array) -> Array:
    """(n, g, k, positions…), or (g, n, positions…, k) for `last`."""
    split = as_strided(
        y,
        (y.shape[0], g.groups, y.shape[1] // g.groups, *y.shape[2:]),
        (y.strides[0], y.strides[1] * (y.shape[1] // g.groups), *y.strides[1:]),
    )
    return np.moveaxis(split, (1, 2), (0, -1)) if g.last else split


def _pixels(p: Program, g: Geometry, y: Array) -> Array:
    """Stacked matrices channels × positions, batched as `_columns` are."""
    split = _split_pixels(g, y)
    if not g.last:
        return p.source(split, _matrix_shape(split, 2, 1))
    return p.source(split, _matrix_shape(split, 1, 1 + g.rank)).swapaxes(-1, -2)[None]


@contextmanager
def _pixels_target(p: Program, g: Geometry, y: Array) -> Iterator[Array]:
    """The matrices of `_pixels`, to be filled inside the block."""
    split = _split_pixels(g, y)
    batch, rows = (1, 1 + g.rank) if g.last else (2, 1)
    with p.target(split, _matrix_shape(split, batch, rows)) as target:
        yield target.swapaxes(-1, -2)[None] if g.last else target


def _split_weights(g: Geometry, w: Array) -> Array:
    """(g, k, c, taps…), or (g, k, taps…, c) for `last`."""
    per_group = w.shape[0] // g.groups
    split = as_strided(
        w,
        (g.groups, per_group, *w.shape[1:]),
        (w.strides[0] * per_group, *w.strides),
    )
    return np.moveaxis(split, 2, -1) if g.last else split


def _weights(p: Program, g: Geometry, w: Array) -> Array:
    """Stacked matrices (g, K, C·R), the inner order as in `_columns`."""
    split = _split_weights(g, w)
    return p.source(split, _matrix_shape(split, 1, 1))


def _matrix_shape(array: Array, batch: int, rows: int) -> tuple[int, ...]:
    """The first `batch` axes kept, the next `rows` axes merged, the rest merged."""
    shape = array.shape
    return (
        *shape[:batch],
        math.prod(shape[batch : batch + rows]),
        math.prod(shape[batch + rows :]),
    )


def _gradient(
    p: Program, g: Geometry, product: tuple[Array, Array], to: tuple[Array, Array | None]
) -> None:
    """The product's rows added to the places in dx that each tap read; through the buffer where
    there is padding."""
    dx, buffer = to
    if _pointwise(g):
        with _pixels_target(p, g, dx) as result:
            p.call(np.matmul, *product, result)
        return
    taps, result = _taps(p, g, dx)
    p.call(np.matmul, *product, result)
    total = dx if buffer is None else buffer[: dx.shape[0]]
    p.call(total.fill, 0)
    seen = windows(g, total)
    for tap in np.ndindex(g.kernel):
        place = seen[(slice(None), slice(None), slice(None), *tap)]
        p.each(np.add, place, taps[(slice(None), slice(None), slice(None), *tap)], out=place)
    if buffer is not None:
        p.copy(dx, interior(g, total, dx.shape))


def _taps(p: Program, g: Geometry, dx: Array) -> tuple[Array, Array]:
    """One buffer twice: by (n, g, c, taps…, positions…), and as the matrices of a product."""
    channels, s = dx.shape[1] // g.groups, g.rank
    if not g.last:
        taps = p.scratch((dx.shape[0], g.groups, channels, *g.kernel, *g.out), dx.dtype)
        return taps, taps.reshape(_matrix_shape(taps, 2, 1 + s))
    rows = p.scratch((g.groups, dx.shape[0], *g.out, *g.kernel, channels), dx.dtype)
    matrices = rows.reshape(_matrix_shape(rows, 1, 1 + s)).swapaxes(-1, -2)[None]
    order = (1, 0, 2 + 2 * s, *range(2 + s, 2 + 2 * s), *range(2, 2 + s))
    return rows.transpose(order), matrices


def _accumulate(
    p: Program, pairs: Iterable[tuple[Array, Array]], total: Array, first: bool
) -> None:
    """Adds the products to `total`; the very first one is written there."""
    part = None
    for left, right in pairs:
        if first:
            p.call(np.matmul, left, right, total)
            first = False
            continue
        part = p.scratch(total.shape, total.dtype) if part is None else part
        p.call(np.matmul, left, right, part)
        p.call(np.add, total, part, total)
