"""Layer normalisation, forward and backward.

A row is the last `normalized_dim_count` axes of x, N its length. scale and bias hold one row,
with or without leading dims of 1; mean and inv_variance one number per row.
Source: hipDNN's layer norm nodes; Ba, Kiros and Hinton, Layer Normalization, 2016.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.meaning import refusal
from bench_run.graph.operations.norms import rmsnorm_axes
from bench_run.reference.common import Array, Arrays, Outputs, mean, scalar, sum_to
from bench_run.reference.threads import Part, cut, do_each

if TYPE_CHECKING:
    from bench_run.graph.model import Node


PART_ELEMENTS = 2**17
"""Elements of the rows that are normalised at a time."""


def layernorm_forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute y = (x − mean)·inv·scale + bias with inv = 1/√(var + ε), the variance biased."""
    x = _rows(node, inputs["x"], inputs["x"].shape)
    scale, bias = _row(node, inputs, "scale", x), _row(node, inputs, "bias", x)
    epsilon = scalar(node, inputs, "epsilon")
    results = {"y": np.empty(x.shape, x.dtype)}
    results |= {port: np.empty((len(x), 1), x.dtype) for port in ("mean", "inv_variance")}

    def normalise(part: Part) -> None:
        centred, average, inv = _statistics(x[part], epsilon)
        centred *= inv
        centred *= scale
        np.add(centred, bias, out=results["y"][part])
        results["mean"][part], results["inv_variance"][part] = average, inv

    do_each(normalise, cut((len(x),), max(1, PART_ELEMENTS // max(1, x.shape[1]))))
    return {port: results[port].reshape(t.dims) for port, t in outputs.items() if port in results}


def layernorm_backward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Return dx, dscale and dbias. With g = dy·scale, r = inv_variance and sums over the row: a =
    r³·(Σ g·x − mean·Σ g)/N, b = r·(Σ g)/N − a·mean, dx = r·g − a·x − b; over all rows: dscale = Σ
    dy·(x − mean)·r, dbias = Σ dy.

    dx is computed as r·(g − (Σ g)/N − x̂·(Σ g·x̂)/N), the same without its cancellation. Without
    saved mean and inv_variance they are computed from x and epsilon.
    """
    x = _rows(node, inputs["x"], inputs["x"].shape)
    dims = x.shape[1:]
    dy = _rows(node, inputs["dy"], inputs["x"].shape)
    centred, inv = _saved(node, inputs, x)
    normal = centred
    normal *= inv
    gradient = dy * _row(node, inputs, "scale", x)
    along = mean(gradient * normal, (1,))
    dx = inv * (gradient - mean(gradient, (1,)) - normal * along)
    results = {"dx": dx, "dscale": sum_to(dy * normal, dims), "dbias": sum_to(dy, dims)}
    return {port: results[port].reshape(t.dims) for port, t in outputs.items() if port in results}


def _rows(node: Node, array: Array, dims: tuple[int, ...]) -> Array:
    """Return the array as (rows, N)."""
    count = node.attributes.get("normalized_dim_count")
    if count is None or not 1 <= count <= len(dims):
        raise refusal(node, f"normalized_dim_count {count!r} does not fit x of {dims}")
    if array.shape != dims:
        raise refusal(node, f"dy of {array.shape} does not fit x of {dims}")
    return array.reshape(-1, prod(dims[len(dims) - count :]))


def _row(node: Node, inputs: Arrays, port: str, x: Array) -> Array:
    if inputs[port].size != x.shape[1]:
        raise refusal(node, f"{port} has {inputs[port].size} elements, a row {x.shape[1]}")
    return inputs[port].reshape(-1)


def _statistics(x: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """Return x − mean, the mean and 1/√(var + ε) of each row."""
    average = mean(x, (1,))
    centred = x - average
    return centred, average, 1.0 / np.sqrt(mean(np.square(centred), (1,)) + epsilon)


def _saved(node: Node, inputs: Arrays, x: Array) -> tuple[Array, Array]:
    """Return x − mean and 1/√(var + ε) of each row."""
    if "mean" in inputs:
        if {inputs[port].size for port in ("mean", "inv_variance")} != {len(x)}:
            raise refusal(node, f"mean and inv_variance must hold one number for {len(x)} rows")
        return x - inputs["mean"].reshape(-1, 1), inputs["inv_variance"].reshape(-1, 1)
    centred, _, inv = _statistics(x, scalar(node, inputs, "epsilon"))
    return centred, inv


# RMS normalisation, forward and backward.
#
# The normalised axes are not an attribute: `rmsnorm_axes`.
# Source: hipDNN's RMS norm nodes and references; Zhang and Sennrich, Root Mean Square Layer
# Normalization, 2019.


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute inv_rms = 1/√(mean(x²) + ε), y = x·inv_rms·scale [+ bias]."""
    x, scale = inputs["x"], inputs["scale"]
    saved = outputs["inv_rms"].dims if "inv_rms" in outputs else None
    axes = rmsnorm_axes(x.shape, scale.shape, saved)
    inv = 1.0 / np.sqrt(mean(np.square(x), axes) + scalar(node, inputs, "epsilon"))
    y = x * inv
    y *= scale
    if "bias" in inputs:
        y += inputs["bias"]
    results = {"y": y}
    if saved is not None:
        results["inv_rms"] = inv.reshape(saved)
    return results


def backward(_node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Return dx, dscale and, if it is an output, dbias. With g = dy·scale, r = inv_rms and sums
    over the normalised axes, N elements: dx = g·r − x·r³·Σ(g·x)/N; dscale = Σ dy·x·r and dbias = Σ
    dy to the shape of scale."""
    dy, x, scale = inputs["dy"], inputs["x"], inputs["scale"]
    axes = rmsnorm_axes(x.shape, scale.shape, inputs["inv_rms"].shape)
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(x.shape))
    inv = inputs["inv_rms"].reshape(kept)
    normal = x * inv
    gradient = dy * scale
    dx = inv * (gradient - normal * mean(gradient * normal, axes))
    results = {"dx": dx, "dscale": sum_to(dy * normal, scale.shape)}
    if "dbias" in outputs:
        results["dbias"] = sum_to(dy, scale.shape).reshape(outputs["dbias"].dims)
    return results
