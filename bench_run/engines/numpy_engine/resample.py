"""Pooling, window tap by window tap.

Padding never wins a maximum and is never counted by ``avgpool_exclude_padding``. The index of a
maximum is its place in x's flattened spatial axes, the first of equals, −1 for padding alone.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines.numpy_engine.common import refusal
from bench_run.engines.numpy_engine.conv import interior, padded, windows

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView

MODES = ("maxpool", "avgpool_exclude_padding", "avgpool_include_padding")


def refuse(node: NodeView) -> None:
    mode, backward = node.attribute("resample_mode"), "dy" in node.tensors
    if mode not in MODES:
        raise refusal(node, f"no resample mode {mode!r}; known are {', '.join(MODES)}")
    if node.attribute("padding_mode") == "edge_val_pad":
        raise refusal(node, "padding_mode 'edge_val_pad' is not computed")
    if mode == "maxpool" and backward and "index" not in node.tensors:
        raise refusal(node, "max pooling backward without the forward's index")


def resample(node: NodeView, x: Array) -> dict[str, Array]:
    if node.attribute("resample_mode") != "maxpool":
        return {"y": reduce(np.add, _taps(node, padded(node, x))) * _shares(node, x)}
    taps = _taps(node, padded(node, x, -math.inf))
    if "index" not in node.tensors:
        return {"y": reduce(np.maximum, taps)}
    spatial = (1, 1, *x.shape[2:])
    places = padded(node, np.arange(math.prod(spatial)).reshape(spatial), -1)
    y = np.full(node["y"].dims, -math.inf, x.dtype)
    index = np.full(y.shape, -1)
    for tap, place in zip(taps, _taps(node, places), strict=True):
        wins = tap > y
        y, index = np.maximum(y, tap), np.where(wins, place, index)
    return {"y": y, "index": index}


def resample_backward(node: NodeView, dy: Array, index: Array | None = None) -> dict[str, Array]:
    """The adjoint: averages spread dy, maxima add it where the index points."""
    dims = node["dx"].dims
    if node.attribute("resample_mode") == "maxpool":
        assert index is not None
        size, planes = math.prod(dims[2:]), dims[0] * dims[1]
        first = np.arange(planes).reshape(*dims[:2], *(1,) * len(dims[2:])) * size
        cells = np.where(index < 0, planes * size, first + index)  # the last one: padding
        sums = np.bincount(cells.ravel(), dy.ravel(), planes * size + 1)
        return {"dx": sums[:-1].reshape(dims)}
    dx = np.zeros(dims, dy.dtype)
    shares, buffer = dy * _shares(node, dx), padded(node, dx)
    for tap in _taps(node, buffer):
        tap += shares
    return {"dx": interior(node, buffer, dims)}


def _taps(node: NodeView, images: Array) -> list[Array]:
    """For each element of the window what all windows see there, by (n, c, positions…)."""
    window = node.attribute("window")
    seen = windows(node, images, window)
    return [seen[(slice(None), slice(None), *tap)] for tap in np.ndindex(*window)]


def _shares(node: NodeView, x: Array) -> Array | float:
    """1 over the number of elements that each window counts, by positions."""
    if node.attribute("resample_mode") == "avgpool_include_padding":
        return float(1.0 / math.prod(node.attribute("window")))
    ones = padded(node, np.ones((1, 1, *x.shape[2:]), x.dtype))
    return 1.0 / np.maximum(reduce(np.add, _taps(node, ones)), 1.0)
