"""Batch normalisation: inference, inference with variance, training, backward.

x and y are [N, C, spatial…], statistics run over N and all spatial positions, per-channel
tensors are [1, C, 1, …]; n is the number of elements of a channel.
Source: hipDNN's four batch norm nodes; Ioffe and Szegedy, Batch Normalization, 2015.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import Array, Arrays, Outputs, mean, scalar, total

if TYPE_CHECKING:
    from bench_run.graph.model import Node

RECOMPUTED_EPSILON = 1e-5
"""hipDNN's reference takes it where backward is given no saved statistics."""


def inference(_node: Node, inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    """Compute y = scale·(x − mean)·inv_variance + bias."""
    return {"y": _affine(inputs["x"] - inputs["mean"], inputs["inv_variance"], inputs)}


def inference_variance(node: Node, inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    """Compute y = scale·(x − mean)/√(variance + ε) + bias."""
    inv = 1.0 / np.sqrt(inputs["variance"] + scalar(node, inputs, "epsilon"))
    return {"y": _affine(inputs["x"] - inputs["mean"], inv, inputs)}


def training(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute y = scale·(x − mean)·inv + bias with the batch's mean and inv = 1/√(var + ε), var
    biased.

    next_running = (1 − momentum)·prev + momentum·batch, where the batch's variance is
    Bessel-corrected (·n/(n − 1); none for n = 1).
    """
    x = inputs["x"]
    centred, average, variance = _moments(x)
    inv = 1.0 / np.sqrt(variance + scalar(node, inputs, "epsilon"))
    results = {
        "y": _affine(centred, inv, inputs),
        "mean": average,
        "inv_variance": inv,
    }
    count = x.size // x.shape[1]
    bessel = count / (count - 1) if count > 1 else 1.0
    batch = {"running_mean": average, "running_variance": variance * bessel}
    for name, value in batch.items():
        if f"next_{name}" in outputs:
            momentum, previous = scalar(node, inputs, "momentum"), inputs[f"prev_{name}"]
            results[f"next_{name}"] = (1.0 - momentum) * previous + momentum * value
    return results


def backward(_node: Node, inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    """Return dbias, dscale and dx. With x̂ = (x − mean)·inv: dbias = Σ dy, dscale = Σ dy·x̂, dx =
    scale·inv/n·(n·dy − dbias − x̂·dscale).

    Saved mean and inv_variance come both or not at all; without them they are computed from x with
    ε = 1e-5. In float64 the order of these operations does not matter.
    """
    dy, x = inputs["dy"], inputs["x"]
    if "mean" in inputs:
        normal = x - inputs["mean"]
        inv = inputs["inv_variance"]
    else:
        normal, _, variance = _moments(x)
        inv = 1.0 / np.sqrt(variance + RECOMPUTED_EPSILON)
    normal *= inv
    dbias, dscale = total(dy, _axes(x)), total(dy * normal, _axes(x))
    count = x.size // x.shape[1]
    normal *= -dscale / count
    normal += dy
    normal -= dbias / count
    normal *= inputs["scale"] * inv
    return {"dx": normal, "dscale": dscale, "dbias": dbias}


def _axes(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _moments(x: Array) -> tuple[Array, Array, Array]:
    """Return x − mean, the mean and the biased variance, in two passes: nothing cancels."""
    average = mean(x, _axes(x))
    centred = x - average
    return centred, average, mean(np.square(centred), _axes(x))


def _affine(centred: Array, inv: Array, inputs: Arrays) -> Array:
    """Compute centred·inv·scale + bias, in place."""
    centred *= inv * inputs["scale"]
    centred += inputs["bias"]
    return centred
