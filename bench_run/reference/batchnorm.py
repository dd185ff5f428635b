"""Batch normalisation: inference, inference with variance, training, backward.

x and y are [N, C, spatial…], statistics run over N and all spatial positions, per-channel
tensors are [1, C, 1, …]; n is the number of elements of a channel.
Source: hipDNN's four batch norm nodes; Ioffe and Szegedy, Batch Normalization, 2015.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import Array, Arrays, Outputs, refusal, scalar

if TYPE_CHECKING:
    from bench_run.graph.model import Node

RECOMPUTED_EPSILON = 1e-5
"""hipDNN's reference takes it where backward is given no saved statistics."""


def inference(_node: Node, inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    """y = scale·(x − mean)·inv_variance + bias."""
    x, mean, inv, scale, bias = (
        inputs[port] for port in ("x", "mean", "inv_variance", "scale", "bias")
    )
    return {"y": _affine(x, mean, inv, scale, bias)}


def inference_variance(node: Node, inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    """y = scale·(x − mean)/√(variance + ε) + bias."""
    x, mean, variance, scale, bias = (
        inputs[port] for port in ("x", "mean", "variance", "scale", "bias")
    )
    inv = 1.0 / np.sqrt(variance + scalar(node, inputs, "epsilon"))
    return {"y": _affine(x, mean, inv, scale, bias)}


def training(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """y = scale·(x − mean)·inv + bias with the batch's mean and inv = 1/√(var + ε), var biased.

    next_running = (1 − momentum)·prev + momentum·batch, where the batch's variance is
    Bessel-corrected (·n/(n − 1); none for n = 1).
    """
    _refuse_peers(node)
    x = inputs["x"]
    mean, variance = _moments(x)
    inv = 1.0 / np.sqrt(variance + scalar(node, inputs, "epsilon"))
    results = {
        "y": _affine(x, mean, inv, inputs["scale"], inputs["bias"]),
        "mean": mean,
        "inv_variance": inv,
    }
    count = x.size // x.shape[1]
    bessel = count / (count - 1) if count > 1 else 1.0
    batch = {"running_mean": mean, "running_variance": variance * bessel}
    for name, value in batch.items():
        if f"next_{name}" in outputs:
            port = f"prev_{name}"
            if port not in inputs or "momentum" not in inputs:
                raise refusal(node, f"a running statistic needs {port} and momentum")
            momentum = scalar(node, inputs, "momentum")
            results[f"next_{name}"] = (1.0 - momentum) * inputs[port] + momentum * value
    return results


def backward(node: Node, inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    """With x̂ = (x − mean)·inv: dbias = Σ dy, dscale = Σ dy·x̂,
    dx = scale·inv/n·(n·dy − dbias − x̂·dscale).

    Saved mean and inv_variance come both or not at all; without them they are computed from x
    with ε = 1e-5. In float64 the order of these operations does not matter.
    """
    _refuse_peers(node)
    dy, x = inputs["dy"], inputs["x"]
    saved = {"mean", "inv_variance"} & set(inputs)
    if len(saved) == 1:
        raise refusal(node, "mean and inv_variance must be given both, or neither")
    if saved:
        mean, inv = inputs["mean"], inputs["inv_variance"]
    else:
        mean, variance = _moments(x)
        inv = 1.0 / np.sqrt(variance + RECOMPUTED_EPSILON)
    axes = _axes(x)
    normal = (x - mean) * inv
    dbias = dy.sum(axis=axes, keepdims=True)
    dscale = _products(dy, normal)
    count = x.size // x.shape[1]
    normal *= -dscale / count
    normal += dy
    normal -= dbias / count
    normal *= inputs["scale"] * inv
    return {"dx": normal, "dscale": dscale, "dbias": dbias}


def _axes(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _moments(x: Array) -> tuple[Array, Array]:
    """Mean and biased variance, in two passes: nothing cancels."""
    mean = x.mean(axis=_axes(x), keepdims=True)
    centred = x - mean
    return mean, _products(centred, centred) / (x.size // x.shape[1])


def _products(a: Array, b: Array) -> Array:
    """Σ a·b of each channel, [1, C, 1, …]."""
    flat = (*a.shape[:2], -1)
    total = np.einsum("ncp,ncp->c", a.reshape(flat), b.reshape(flat))
    return np.asarray(total).reshape(1, -1, *(1 for _ in a.shape[2:]))


def _affine(x: Array, mean: Array, inv: Array, scale: Array, bias: Array) -> Array:
    y = x - mean
    y *= inv * scale
    y += bias
    return y


def _refuse_peers(node: Node) -> None:
    if node.input_lists.get("peer_stats"):
        raise refusal(node, "peer_stats are statistics of other GPUs, which one process has not")
