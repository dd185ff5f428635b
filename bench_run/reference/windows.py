"""Sliding windows over spatial axes: what convolution and resampling have in common.

Output length of an axis: ⌊(I + pre + post − dilation·(R − 1) − 1) / stride⌋ + 1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided

from bench_run.graph.meaning import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node
    from bench_run.reference.common import Array

Dims = tuple[int, ...]


@dataclass(frozen=True)
class WindowGeometry:
    """Window geometry; every field has one entry a spatial axis."""

    size: Dims
    stride: Dims
    dilation: Dims
    pre: Dims
    post: Dims
    out: Dims
    flipped: bool = False
    """True if weights are read back to front (true convolution)."""

    @property
    def taps(self) -> int:
        return prod(self.size)

    @property
    def pointwise(self) -> bool:
        """Each window is one element of the image, in the image's order."""
        ones = {*self.size, *self.stride}
        return ones == {1} and not any((*self.pre, *self.post))

    def oriented(self, w: Array) -> Array:
        """Return weights, spatial axes last, as cross-correlation reads them."""
        return np.flip(w, tuple(range(2, w.ndim))) if self.flipped else w

    def tap_slices(self, rows: slice) -> Iterator[tuple[slice, ...]]:
        """Yield, for each tap in C order, the index of a padded image that gives its elements for
        `rows`."""
        every = slice(None)
        lows = (rows.start, *(0 for _ in self.out[1:]))
        counts = (rows.stop - rows.start, *self.out[1:])
        for tap in itertools.product(*map(range, self.size)):
            yield (
                every,
                every,
                *(
                    slice(
                        low * stride + at * dilation,
                        (low + count - 1) * stride + at * dilation + 1,
                        stride,
                    )
                    for low, count, at, stride, dilation in zip(
                        lows, counts, tap, self.stride, self.dilation, strict=True
                    )
                ),
            )

    def columns(self, image: Array, groups: int, rows: slice) -> Array:
        """Convert padded [n, C, i…] to (groups, C/G·taps, n·o): a column for each window of
        `rows`."""
        batch, channels = image.shape[:2]
        axes = image.strides[2:]
        out = (rows.stop - rows.start, *self.out[1:])
        view = as_strided(
            image[:, :, rows.start * self.stride[0] :],
            (channels, *self.size, batch, *out),
            (
                image.strides[1],
                *(s * d for s, d in zip(axes, self.dilation, strict=True)),
                image.strides[0],
                *(s * d for s, d in zip(axes, self.stride, strict=True)),
            ),
            writeable=False,
        )
        return np.ascontiguousarray(view).reshape(groups, channels // groups * self.taps, -1)

    def add_columns(self, image: Array, columns: Array, rows: slice) -> None:
        """Add every column onto its window of the padded image: the adjoint of `columns`."""
        batch, channels = image.shape[:2]
        out = (rows.stop - rows.start, *self.out[1:])
        shaped = columns.reshape(channels, self.taps, batch, *out)
        for tap, where in enumerate(self.tap_slices(rows)):
            image[where] += shaped[:, tap].swapaxes(0, 1)


def pad(image: Array, windows: WindowGeometry, value: float = 0.0) -> Array:
    """Return [n, C, i…] with its padding; the image itself if there is none."""
    if not any((*windows.pre, *windows.post)):
        return image
    padded = np.full(_padded_dims(image.shape, windows), value, image.dtype)
    unpad(padded, windows, image.shape)[...] = image
    return padded


def padded_zeros(dims: Dims, windows: WindowGeometry, dtype: np.dtype[np.generic]) -> Array:
    return np.zeros(_padded_dims(dims, windows), dtype)


def unpad(padded: Array, windows: WindowGeometry, dims: Dims) -> Array:
    """Return the view of the image inside its padding."""
    inside = tuple(
        slice(pre, pre + length) for pre, length in zip(windows.pre, dims[2:], strict=True)
    )
    return padded[(slice(None), slice(None), *inside)]


def _padded_dims(dims: Dims, windows: WindowGeometry) -> Dims:
    spatial = (
        pre + length + post
        for pre, length, post in zip(windows.pre, dims[2:], windows.post, strict=True)
    )
    return (*dims[:2], *spatial)


def convolution_windows(node: Node, x: Dims, w: Dims, y: Dims) -> tuple[WindowGeometry, int]:
    """Return the windows and the number of groups of a convolution, checked against all three
    shapes."""
    spatial = len(x) - 2
    if not len(x) == len(w) == len(y) or not 1 <= spatial <= 3:
        raise refusal(node, f"ranks of x, w and y must agree and be 3 to 5: {x}, {w}, {y}")
    if w[1] == 0 or x[1] % w[1] or w[0] % (x[1] // w[1]):
        raise refusal(node, f"{x[1]} channels do not fall into groups for weights {w}")
    mode = node.attributes.get("conv_mode")
    if mode not in ("cross_correlation", "convolution"):
        raise refusal(node, f"conv_mode {mode!r} is neither cross_correlation nor convolution")
    windows = _checked(node, x, w[2:], attribute(node, "dilation", spatial), mode == "convolution")
    if (x[0], w[0], *windows.out) != tuple(y):
        raise refusal(node, f"x {x} and w {w} give y {(x[0], w[0], *windows.out)}, not {y}")
    return windows, x[1] // w[1]


def resample_windows(node: Node, x: Dims, y: Dims) -> WindowGeometry:
    """Return the windows of a resample node, checked against both shapes."""
    spatial = len(x) - 2
    if len(x) != len(y) or not 1 <= spatial <= 3:
        raise refusal(node, f"ranks of x and y must agree and be 3 to 5: {x}, {y}")
    windows = _checked(node, x, attribute(node, "window", spatial), (1,) * spatial, flipped=False)
    if (*x[:2], *windows.out) != tuple(y):
        raise refusal(node, f"x {x} gives y {(*x[:2], *windows.out)}, not {y}")
    return windows


def attribute(node: Node, key: str, length: int) -> Dims:
    """Return a list parameter of the node, which must have one entry a spatial axis."""
    value = node.attributes.get(key)
    if value is None or len(value) != length:
        raise refusal(node, f"{key} must have {length} entries, not {value!r}")
    return tuple(value)


def _checked(node: Node, x: Dims, size: Dims, dilation: Dims, flipped: bool) -> WindowGeometry:
    pre, post, stride = (
        attribute(node, key, len(size)) for key in ("pre_padding", "post_padding", "stride")
    )
    if min(*pre, *post, 0) < 0 or min(*stride, *dilation, *size) < 1:
        raise refusal(node, "padding must be ≥ 0, stride, dilation and window ≥ 1")
    out = tuple(
        (i + low + high - d * (r - 1) - 1) // s + 1
        for i, low, high, d, r, s in zip(x[2:], pre, post, dilation, size, stride, strict=True)
    )
    return WindowGeometry(size, stride, dilation, pre, post, out, flipped)
