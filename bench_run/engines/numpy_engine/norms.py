"""Layer norm and RMS norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines.numpy_engine.common import mean as average
from bench_run.engines.numpy_engine.common import refusal, total_to
from bench_run.graph.operations.norms import rmsnorm_axes

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.common import Array, Axes
    from bench_run.graph.operations import NodeView


def refuse(node: NodeView) -> None:
    """Of `layernorm_backward`."""
    saved = [port in node.tensors for port in ("mean", "inv_variance")]
    if not all(saved) and (any(saved) or "epsilon" not in node.tensors):
        raise refusal(node, "it needs mean and inv_variance, or epsilon to compute both")


def layernorm(
    node: NodeView, x: Array, scale: Array, bias: Array, epsilon: Array
) -> dict[str, Array]:
    """y = (x − mean)·inv·scale + bias over the trailing axes, inv = 1/√(variance + ε)."""
    axes = _trailing(node)
    mean = average(x, axes)
    centred = x - mean
    inverse = 1.0 / np.sqrt(average(np.square(centred), axes) + epsilon.item())
    return {"y": centred * inverse * scale + bias, "mean": mean, "inv_variance": inverse}


def layernorm_backward(
    node: NodeView,
    dy: Array,
    x: Array,
    scale: Array,
    mean: Array | None = None,
    inv_variance: Array | None = None,
    epsilon: Array | None = None,
) -> dict[str, Array]:
    """dx = inv·(g − mean(g) − x̂·mean(g·x̂)) with g = dy·scale; dscale = Σ dy·x̂, dbias = Σ dy."""
    axes = _trailing(node)
    centred = x - (average(x, axes) if mean is None else mean)
    if inv_variance is None:
        assert epsilon is not None
        inv_variance = 1.0 / np.sqrt(average(np.square(centred), axes) + epsilon.item())
    normal, g = centred * inv_variance, dy * scale
    dx = inv_variance * (g - average(g, axes) - normal * average(g * normal, axes))
    return _gradients(node, dx, dy, normal)


def rmsnorm(
    node: NodeView, x: Array, scale: Array, epsilon: Array, bias: Array | None = None
) -> dict[str, Array]:
    """inv_rms = 1/√(mean(x²) + ε), y = x·inv_rms·scale [+ bias]."""
    inv_rms = 1.0 / np.sqrt(average(np.square(x), _rms_axes(node)) + epsilon.item())
    y = x * inv_rms * scale
    return {"y": y if bias is None else y + bias, "inv_rms": inv_rms}


def rmsnorm_backward(
    node: NodeView, dy: Array, x: Array, scale: Array, inv_rms: Array
) -> dict[str, Array]:
    """dx = r·(g − x̂·mean(g·x̂)) with g = dy·scale, r = inv_rms, x̂ = x·r."""
    normal, g = x * inv_rms, dy * scale
    dx = inv_rms * (g - normal * average(g * normal, _rms_axes(node)))
    return _gradients(node, dx, dy, normal)


def _trailing(node: NodeView) -> Axes:
    rank, count = len(node["x"].dims), node.attribute("normalized_dim_count")
    return tuple(range(rank - count, rank))


def _rms_axes(node: NodeView) -> Axes:
    saved = node.get("inv_rms")
    return rmsnorm_axes(node["x"].dims, node["scale"].dims, None if saved is None else saved.dims)


def _gradients(node: NodeView, dx: Array, dy: Array, normal: Array) -> dict[str, Array]:
    """All of a backward pass: those of scale and bias are sums over the other axes."""
    gradients = {"dx": dx, "dscale": total_to(dy * normal, node["dscale"].dims)}
    if "dbias" in node.tensors:
        gradients["dbias"] = total_to(dy, node["dbias"].dims)
    return gradients
