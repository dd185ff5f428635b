"""RMS normalisation, forward and backward.

The normalised axes are no attribute. Where inv_rms is at hand they are exactly those along which
it has length 1 and x more. Else they follow from scale, as hipDNN's references take them: x's
trailing axes that it covers (leading dims of 1 aside); axes 1… where it has x's own shape; the
spatial axes 2… where it is per channel, [1, C, 1, …].
Source: hipDNN's RMS norm nodes and references; Zhang and Sennrich, Root Mean Square Layer
Normalization, 2019.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import Array, Arrays, Outputs, refusal, scalar, sum_to

if TYPE_CHECKING:
    from bench_run.graph.model import Node

Dims = tuple[int, ...]


def forward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """inv_rms = 1/√(mean(x²) + ε), y = x·inv_rms·scale [+ bias]."""
    x, scale = inputs["x"], inputs["scale"]
    saved = outputs["inv_rms"].dims if "inv_rms" in outputs else None
    axes = normalised_axes(node, x.shape, scale.shape, saved)
    square = np.square(x).mean(axis=axes, keepdims=True)
    inv = 1.0 / np.sqrt(square + scalar(node, inputs, "epsilon"))
    y = x * inv
    y *= scale
    if "bias" in inputs:
        y += inputs["bias"]
    results = {"y": y}
    if saved is not None:
        results["inv_rms"] = inv.reshape(saved)
    return results


def backward(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """With g = dy·scale, r = inv_rms and sums over the normalised axes, N elements:
    dx = g·r − x·r³·Σ(g·x)/N; dscale = Σ dy·x·r and dbias = Σ dy to the shape of scale."""
    dy, x, scale = inputs["dy"], inputs["x"], inputs["scale"]
    axes = normalised_axes(node, x.shape, scale.shape, inputs["inv_rms"].shape)
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(x.shape))
    inv = inputs["inv_rms"].reshape(kept)
    normal = x * inv
    gradient = dy * scale
    dx = inv * (gradient - normal * (gradient * normal).mean(axis=axes, keepdims=True))
    results = {"dx": dx, "dscale": sum_to(dy * normal, scale.shape)}
    if "dbias" in outputs:
        results["dbias"] = sum_to(dy, scale.shape).reshape(outputs["dbias"].dims)
    return results


def normalised_axes(node: Node, x: Dims, scale: Dims, inv_rms: Dims | None) -> Dims:
    """See the top of this file."""
    if inv_rms is not None and len(inv_rms) == len(x):
        if any(have not in (1, length) for have, length in zip(inv_rms, x, strict=True)):
            raise refusal(node, f"inv_rms of {inv_rms} does not fit x of {x}")
        return tuple(i for i, (have, n) in enumerate(zip(inv_rms, x, strict=True)) if have != n)
    if scale == x:
        return tuple(range(min(1, len(x) - 1), len(x)))
    padded = (1,) * (len(x) - len(scale)) + scale
    first = next((i for i, length in enumerate(padded) if length != 1), None)
    if first is not None and padded[first:] == x[first:]:
        return tuple(range(first, len(x)))
    if len(scale) == len(x) > 2 and first == 1 and padded == (1, x[1], *(1 for _ in x[2:])):
        return tuple(range(2, len(x)))
    raise refusal(node, f"the normalised axes do not follow from scale {scale} and x {x}")
