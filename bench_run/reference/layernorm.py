"""Layer normalisation, forward and backward.

A row is the last `normalized_dim_count` axes of x, N its length. scale and bias hold one row,
with or without leading dims of 1; mean and inv_variance one number per row.
Source: hipDNN's layer norm nodes; Ba, Kiros and Hinton, Layer Normalization, 2016.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import Array, Arrays, Outputs, refusal, scalar
from bench_run.reference.threads import Part, cut, do_each

if TYPE_CHECKING:
    from bench_run.graph.model import Node


PART_ELEMENTS = 2**17
"""Of the rows that are normalised at a time."""


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """y = (x − mean)·inv·scale + bias with inv = 1/√(var + ε), the variance biased."""
    x = _rows(node, inputs["x"], inputs["x"].shape)
    scale, bias = _row(node, inputs, "scale", x), _row(node, inputs, "bias", x)
    epsilon = scalar(node, inputs, "epsilon")
    results = {"y": np.empty(x.shape)}
    results |= {port: np.empty((len(x), 1)) for port in ("mean", "inv_variance")}

    def normalise(part: Part) -> None:
        mean, inv = _statistics(x[part], epsilon)
        y = x[part] - mean
        y *= inv
        y *= scale
        results["y"][part] = y + bias
        results["mean"][part], results["inv_variance"][part] = mean, inv

    do_each(normalise, cut((len(x),), max(1, PART_ELEMENTS // max(1, x.shape[1]))))
    return {port: results[port].reshape(t.dims) for port, t in outputs.items() if port in results}


def backward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """With g = dy·scale, r = inv_variance and sums over the row:
    a = r³·(Σ g·x − mean·Σ g)/N, b = r·(Σ g)/N − a·mean, dx = r·g − a·x − b;
    over all rows: dscale = Σ dy·(x − mean)·r, dbias = Σ dy.

    dx is computed as r·(g − (Σ g)/N − x̂·(Σ g·x̂)/N), the same without its cancellation. Without
    saved mean and inv_variance they are computed from x and epsilon.
    """
    x = _rows(node, inputs["x"], inputs["x"].shape)
    dy = _rows(node, inputs["dy"], inputs["x"].shape)
    mean, inv = _saved(node, inputs, x)
    normal = (x - mean) * inv
    gradient = dy * _row(node, inputs, "scale", x)
    along = (gradient * normal).mean(axis=1, keepdims=True)
    dx = inv * (gradient - gradient.mean(axis=1, keepdims=True) - normal * along)
    results = {"dx": dx, "dscale": (dy * normal).sum(axis=0), "dbias": dy.sum(axis=0)}
    return {port: results[port].reshape(t.dims) for port, t in outputs.items() if port in results}


def _rows(node: Node, array: Array, dims: tuple[int, ...]) -> Array:
    """(rows, N)."""
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


def _statistics(x: Array, epsilon: float) -> tuple[Array, Array]:
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    variance = np.einsum("rn,rn->r", centred, centred)[:, None] / x.shape[1]
    return mean, 1.0 / np.sqrt(variance + epsilon)


def _saved(node: Node, inputs: Arrays, x: Array) -> tuple[Array, Array]:
    given = {"mean", "inv_variance"} & set(inputs)
    if len(given) == 2:
        if {inputs[port].size for port in given} != {len(x)}:
            raise refusal(node, f"mean and inv_variance must hold one number for {len(x)} rows")
        return inputs["mean"].reshape(-1, 1), inputs["inv_variance"].reshape(-1, 1)
    if given or "epsilon" not in inputs:
        raise refusal(node, "needs mean and inv_variance, or epsilon to compute both")
    return _statistics(x, scalar(node, inputs, "epsilon"))
