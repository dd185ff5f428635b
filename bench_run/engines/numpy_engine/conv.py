"""Convolutions as matrix products over windows of the padded input, one image at a time.

With x as (n, g, c), w as (g, k, c) and windows as (n, g, c, r, o), r a kernel tap and o an output
position: y = w·windows over (c, r), dx gathers wᵀ·dy over the taps, dw = dy·windowsᵀ over (n, o).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView


def convolution_forward(node: NodeView, x: Array, w: Array) -> dict[str, Array]:
    weights = _matrices(_flipped(node, w), x.shape[1] // w.shape[1])
    y = np.empty(node["y"].dims, x.dtype)
    for image, out in zip(windows(node, padded(node, x), w.shape[2:]), y, strict=True):
        columns = image.reshape(len(weights), weights.shape[2], -1)
        np.matmul(weights, columns, out=out.reshape(*weights.shape[:2], -1))
    return {"y": y}


def convolution_backward_data(node: NodeView, dy: Array, w: Array) -> dict[str, Array]:
    dims = node["dx"].dims
    weights = _matrices(_flipped(node, w), dims[1] // w.shape[1])
    buffer = padded(node, np.zeros(dims, dy.dtype))
    for gradient, place in zip(dy, windows(node, buffer, w.shape[2:]), strict=True):
        product = weights.swapaxes(1, 2) @ gradient.reshape(*weights.shape[:2], -1)
        columns = product.reshape(place.shape)
        for tap in np.ndindex(w.shape[2:]):
            place[(slice(None), *tap)] += columns[(slice(None), *tap)]
    return {"dx": interior(node, buffer, dims)}


def convolution_backward_weights(node: NodeView, x: Array, dy: Array) -> dict[str, Array]:
    dims = node["dw"].dims
    dw = np.zeros(dims, x.dtype)
    weights = _matrices(dw, x.shape[1] // dims[1])
    for image, gradient in zip(windows(node, padded(node, x), dims[2:]), dy, strict=True):
        columns = image.reshape(len(weights), weights.shape[2], -1)
        weights += gradient.reshape(*weights.shape[:2], -1) @ columns.swapaxes(1, 2)
    return {"dw": _flipped(node, dw)}


def _flipped(node: NodeView, w: Array) -> Array:
    """Mathematical convolution is cross-correlation with the taps in reverse order."""
    flips = node.attribute("conv_mode") == "convolution"
    return np.flip(w, tuple(range(2, w.ndim))) if flips else w


def _matrices(w: Array, groups: int) -> Array:
    """(groups, filters of one, channels·taps)."""
    return w.reshape(groups, len(w) // groups, -1)


def padded(node: NodeView, images: Array, value: float = 0.0) -> Array:
    """The images themselves where there is no padding."""
    pads = list(zip(node.attribute("pre_padding"), node.attribute("post_padding"), strict=True))
    if not any(map(any, pads)):
        return images
    return np.pad(images, ((0, 0), (0, 0), *pads), constant_values=value)


def interior(node: NodeView, images: Array, dims: tuple[int, ...]) -> Array:
    """Padded images without their padding."""
    pads = zip(node.attribute("pre_padding"), dims[2:], strict=True)
    return images[
        (slice(None), slice(None), *(slice(before, before + length) for before, length in pads))
    ]


def windows(node: NodeView, images: Array, kernel: tuple[int, ...]) -> Array:
    """A view of padded images as (n, c, taps…, positions…)."""
    stride, rank = node.attribute("stride"), len(kernel)
    dilation = node.attribute("dilation") or (1,) * rank
    spans = [d * (length - 1) + 1 for d, length in zip(dilation, kernel, strict=True)]
    spatial = tuple(range(2, 2 + rank))
    seen = sliding_window_view(images, spans, spatial, writeable=True)
    steps = (slice(None, None, step) for step in (*stride, *dilation))
    seen = seen[(slice(None), slice(None), *steps)]
    return np.moveaxis(seen, spatial, tuple(range(2 + rank, 2 + 2 * rank)))
