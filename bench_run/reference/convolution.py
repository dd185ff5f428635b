"""Convolutions: forward, data gradient, weight gradient; one to three spatial axes, groups.

With x [N, C, I…], w [K, C/G, R…], y [N, K, O…], g the group of k, i = o·stride + r·dilation − pre
(x counts as 0 if i lies outside), written for one spatial axis:

    y[n,k,o]    = Σ_c Σ_r   x[n, g·C/G + c, i]·w[k,c,r]
    dx[n,c,i]   = Σ_k Σ_o,r dy[n,k,o]·w[k,c,r]           over the k of c's group
    dw[k,c,r]   = Σ_n Σ_o   x[n, g·C/G + c, i]·dy[n,k,o]

That is cross-correlation; mode `convolution` reads w with its spatial axes flipped. G is not an
attribute but C / w.dims[1]. Source: hipDNN's convolution nodes and their CPU references.

All three are one matrix product per group over *columns*, the matrix of shifted windows of x with a
row for each (c, r) and a column for each (n, o), built tile by tile so that it stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import SCRATCH_BYTES, Array, Arrays, Outputs, blas_ready
from bench_run.reference.matmul import product
from bench_run.reference.threads import do_each, each
from bench_run.reference.windows import (
    WindowGeometry,
    convolution_windows,
    pad,
    padded_zeros,
    unpad,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node


@dataclass(frozen=True)
class Tile:
    """Some samples of the batch, and some indices of the first spatial axis of y."""

    image: Array
    """The samples of x, padded."""
    samples: slice
    rows: slice


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port y from ports x and w."""
    dims = outputs["y"].dims
    windows, groups = convolution_windows(node, inputs["x"].shape, inputs["w"].shape, dims)
    x, w = blas_ready(inputs["x"], inputs["w"], inputs["w"][0].size)
    weights = _grouped_weights(windows.oriented(w), groups)
    if windows.pointwise:
        flat = x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)
        return {"y": product(weights, flat).reshape(dims)}
    y = np.empty(dims, x.dtype)

    def multiply(tile: Tile) -> None:
        here = y[tile.samples, :, tile.rows]
        columns = windows.columns(tile.image, groups, tile.rows)
        products = np.matmul(weights, columns)  # (groups, K/G, n·o)
        here.swapaxes(0, 1)[...] = products.reshape(here.swapaxes(0, 1).shape)

    do_each(multiply, _tiles(x, windows, dims[1]))
    return {"y": y}


def data_gradient(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port dx from ports dy and w: the adjoint of the forward convolution in x."""
    dims = outputs["dx"].dims
    dy, w = inputs["dy"], inputs["w"]
    windows, groups = convolution_windows(node, dims, w.shape, dy.shape)
    dy, w = blas_ready(dy, w, w.size // w.shape[1])
    transposed = _grouped_weights(windows.oriented(w), groups).swapaxes(1, 2)
    dx = np.empty(dims, dy.dtype)

    def multiply(part: tuple[slice, list[slice]]) -> None:
        samples, tiles = part
        image = padded_zeros((len(dy[samples]), *dims[1:]), windows, dy.dtype)
        for rows in tiles:
            columns = np.matmul(transposed, _grouped(dy[samples, :, rows], groups))
            windows.add_columns(image, columns, rows)
        dx[samples] = unpad(image, windows, dims)

    do_each(multiply, _cut(len(dy), windows, dims[1], dy.shape[1]))
    return {"dx": dx}


def weight_gradient(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port dw from ports x and dy."""
    dims = outputs["dw"].dims
    x, dy = inputs["x"], inputs["dy"]
    windows, groups = convolution_windows(node, x.shape, dims, dy.shape)
    x, dy = blas_ready(x, dy, dy.size // dy.shape[1])

    def multiply(tile: Tile) -> Array:
        columns = windows.columns(tile.image, groups, tile.rows)
        rows = _grouped(dy[tile.samples, :, tile.rows], groups)
        return np.asarray(np.matmul(rows, columns.swapaxes(1, 2)))

    products = each(multiply, _tiles(x, windows, dims[0]))
    total = next(products, np.zeros((groups, dims[0] // groups, dims[1] * windows.taps)))
    for found in products:
        total += found
    return {"dw": windows.oriented(total.reshape(dims))}


def _tiles(x: Array, windows: WindowGeometry, filters: int) -> Iterator[Tile]:
    for samples, tiles in _cut(len(x), windows, x.shape[1], filters):
        image = pad(x[samples], windows)
        for rows in tiles:
            yield Tile(image, samples, rows)


def _cut(
    batch: int, windows: WindowGeometry, channels: int, filters: int
) -> Iterator[tuple[slice, list[slice]]]:
    """Yield whole samples as long as columns and product fit into the scratch, otherwise rows of
    one."""
    rows = windows.out[0]
    row_bytes = 8 * (channels * windows.taps + filters) * prod(windows.out[1:])
    fitting = max(1, SCRATCH_BYTES // row_bytes)
    step = max(1, fitting // rows)
    height = min(fitting, rows)
    tiles = [slice(row, min(row + height, rows)) for row in range(0, rows, height)]
    for first in range(0, batch, step):
        yield slice(first, min(first + step, batch)), tiles


def _grouped_weights(w: Array, groups: int) -> Array:
    """Convert [K, C/G, R…] to (groups, K/G, C/G·taps)."""
    return w.reshape(groups, w.shape[0] // groups, -1)


def _grouped(y: Array, groups: int) -> Array:
    """Convert [n, K, o…] to (groups, K/G, n·o)."""
    swapped = y.swapaxes(0, 1)
    return swapped.reshape(groups, y.shape[1] // groups, -1)
