"""Resampling: max pooling with its index, average pooling, and both backward.

Forward: the maximum over the elements of the window that lie in range, whatever `padding_mode`
says; the index is the winner's position in x's flattened spatial axes, the first of equals. A
window wholly in the padding gives −∞ and index −1. Averages divide by the number of elements in
range, at least 1 (exclude_padding), or by the window's size (include_padding). A NaN in the
window wins every comparison.
Source: hipDNN's resample forward node and its references. The first of equals is our definition.

Backward: hipDNN's newest revisions have the node; the layout of its JSON and its reference were
not seen. Our definition is the adjoint of forward: ports dy, and index or x, → dx. Max pooling
adds each dy to the element that the index names, or that forward finds in x.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.meaning import refusal
from bench_run.reference.common import Array, Arrays, Outputs, floating
from bench_run.reference.windows import WindowGeometry, pad, padded_zeros, resample_windows, unpad

if TYPE_CHECKING:
    from bench_run.graph.model import Node

MODES = ("maxpool", "avgpool_exclude_padding", "avgpool_include_padding")
NOWHERE = -1
"""The index of a window that sees padding only."""


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port y and, for max pooling, index from port x."""
    mode = node.attributes["resample_mode"]
    x = floating(inputs["x"])
    windows = resample_windows(node, x.shape, outputs["y"].dims)
    if mode != "maxpool":
        return {"y": _total(x, windows) / _divisor(x, windows, mode)}
    if "index" not in outputs:
        image = pad(x, windows, -np.inf)
        return {"y": reduce(np.maximum, (image[at] for at in windows.tap_slices(_rows(windows))))}
    value, index = _maximum(x, windows)
    return {"y": value, "index": index}


def backward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port dx from ports dy, and x or index for max pooling."""
    mode = node.attributes["resample_mode"]
    dims, dy = outputs["dx"].dims, floating(inputs["dy"])
    windows = resample_windows(node, dims, dy.shape)
    if mode != "maxpool":
        ones = np.ones((1, 1, *dims[2:]), dy.dtype)
        return {"dx": _spread(dy / _divisor(ones, windows, mode), windows, dims)}
    if "index" in inputs:
        return {"dx": _scatter(node, dy, inputs["index"], dims)}
    _, index = _maximum(inputs["x"], windows)
    return {"dx": _scatter(node, dy, index, dims)}


def _rows(windows: WindowGeometry) -> slice:
    return slice(0, windows.out[0])


def _total(x: Array, windows: WindowGeometry) -> Array:
    """Sum over each window, padding as 0."""
    image = pad(x, windows)
    total = np.zeros((*x.shape[:2], *windows.out), x.dtype)
    for where in windows.tap_slices(_rows(windows)):
        total += image[where]
    return total


def _spread(dy: Array, windows: WindowGeometry, dims: tuple[int, ...]) -> Array:
    """Apply the adjoint of `_total` to dy."""
    image = padded_zeros(dims, windows, dy.dtype)
    for where in windows.tap_slices(_rows(windows)):
        image[where] += dy
    return unpad(image, windows, dims)


def _divisor(x: Array, windows: WindowGeometry, mode: str) -> Array | float:
    """Return the number of elements that each window's sum is divided by."""
    if mode == "avgpool_include_padding":
        return float(windows.taps)
    return np.maximum(_total(np.ones((1, 1, *x.shape[2:]), x.dtype), windows), 1.0)


def _maximum(x: Array, windows: WindowGeometry) -> tuple[Array, Array]:
    """Return the maximum and spatial index of each window."""
    spatial = x.shape[2:]
    image = pad(x, windows, -np.inf)
    position = np.arange(prod(spatial), dtype=np.int64).reshape(1, 1, *spatial)
    positions = pad(position, windows, NOWHERE)
    value = np.full((*x.shape[:2], *windows.out), -np.inf, x.dtype)
    taps = tuple(windows.tap_slices(_rows(windows)))
    # The first element in range, which is the winner if all are −∞.
    first = np.full((1, 1, *windows.out), NOWHERE)
    for at in taps:
        np.copyto(first, positions[at], where=first == NOWHERE)
    index = np.broadcast_to(first, value.shape)
    has_nan = bool(np.isnan(x).any())
    for at in taps:
        candidate = image[at]
        wins = candidate > value
        if has_nan:
            wins |= np.isnan(candidate) & ~np.isnan(value)
        value, index = np.maximum(value, candidate), np.where(wins, positions[at], index)
    return value, index


def _scatter(node: Node, dy: Array, index: Array, dims: tuple[int, ...]) -> Array:
    """Return an array of these dims with dy added to the elements that `index` names; −1 names
    none."""
    size = prod(dims[2:])
    if index.shape != dy.shape or index.min(initial=NOWHERE) < NOWHERE or index.max() >= size:
        raise refusal(node, f"index must have dy's dims and lie within the {size} cells of dx")
    planes = np.arange(prod(dims[:2])).reshape(*dims[:2], *(1 for _ in dims[2:]))
    cells = (planes * size + index)[index != NOWHERE]
    total = np.bincount(cells, dy[index != NOWHERE], size * prod(dims[:2]))
    return total.reshape(dims)
