"""Batch normalisation over all axes but the channels (axis 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines.numpy_engine.common import mean as average
from bench_run.engines.numpy_engine.common import refusal, total

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.common import Array, Axes
    from bench_run.graph.operations import NodeView

BACKWARD_EPSILON = 1e-5
"""For the backward pass without saved statistics, as hipDNN's own reference has it."""


def refuse(node: NodeView) -> None:
    if node.node.input_lists.get("peer_stats"):
        raise refusal(node, "statistics of other devices (peer_stats)")


def inference(
    node: NodeView,  # noqa: ARG001 - every kernel takes it
    x: Array,
    mean: Array,
    inv_variance: Array,
    scale: Array,
    bias: Array,
) -> dict[str, Array]:
    """y = scale·(x − mean)·inv_variance + bias. Subtracts before it multiplies: means far from
    zero cost no digits."""
    return {"y": (x - mean) * (scale * inv_variance) + bias}


def inference_variance(
    node: NodeView,
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array,
    bias: Array,
    epsilon: Array,
) -> dict[str, Array]:
    """y = scale·(x − mean)/√(variance + ε) + bias."""
    return inference(node, x, mean, 1.0 / np.sqrt(variance + epsilon.item()), scale, bias)


def training(
    node: NodeView,  # noqa: ARG001
    x: Array,
    scale: Array,
    bias: Array,
    epsilon: Array,
    prev_running_mean: Array | None = None,
    prev_running_variance: Array | None = None,
    momentum: Array | None = None,
) -> dict[str, Array]:
    """Statistics of the batch (biased variance), then as inference; running ones updated by
    next = prev + momentum·(batch − prev), the variance of the batch unbiased."""
    mean = average(x, _axes(x))
    centred = x - mean
    variance = average(np.square(centred), _axes(x))
    inverse = 1.0 / np.sqrt(variance + epsilon.item())
    outputs = {"y": centred * (scale * inverse) + bias, "mean": mean, "inv_variance": inverse}
    if prev_running_mean is not None and prev_running_variance is not None and momentum is not None:
        share, count = momentum.item(), x.size // x.shape[1]
        unbiased = variance * (count / max(1, count - 1))
        change = unbiased - prev_running_variance
        outputs["next_running_mean"] = prev_running_mean + share * (mean - prev_running_mean)
        outputs["next_running_variance"] = prev_running_variance + share * change
    return outputs


def backward(
    node: NodeView,  # noqa: ARG001
    dy: Array,
    x: Array,
    scale: Array,
    mean: Array | None = None,
    inv_variance: Array | None = None,
) -> dict[str, Array]:
    """dbias = Σdy, dscale = Σdy·x̂, dx = scale·inv/n·(n·dy − dbias − x̂·dscale)."""
    axes, count = _axes(x), x.size // x.shape[1]
    centred = x - (average(x, axes) if mean is None else mean)
    if inv_variance is None:
        inv_variance = 1.0 / np.sqrt(average(np.square(centred), axes) + BACKWARD_EPSILON)
    normal = centred * inv_variance
    dbias, dscale = total(dy, axes), total(dy * normal, axes)
    dx = (dy - normal * (dscale / count) - dbias / count) * (scale * inv_variance)
    return {"dx": dx, "dscale": dscale, "dbias": dbias}


def _axes(x: Array) -> Axes:
    return tuple(axis for axis in range(x.ndim) if axis != 1)
