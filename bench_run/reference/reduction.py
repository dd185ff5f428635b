"""Reductions: an axis is reduced where the output has length 1 and the input more.

NaN propagates, through min and max too; integers add and multiply exactly, modulo 2^64.
Source: hipDNN's reduction node and its CPU reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.meaning import refusal
from bench_run.graph.operations.reduction import reduced_axes
from bench_run.reference.common import Array, Arrays, Axes, Outputs, floating, mean, total

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.graph.model import Node

MODES: Mapping[str, Callable[[Array, Axes], Array]] = {
    "add": total,  # Σ x
    "mul": lambda x, axes: x.prod(axis=axes, keepdims=True),  # Π x
    "min": lambda x, axes: x.min(axis=axes, keepdims=True),
    "max": lambda x, axes: x.max(axis=axes, keepdims=True),
    "amax": lambda x, axes: np.abs(x).max(axis=axes, keepdims=True),  # max |x|
    "avg": mean,  # Σ x / n
    "norm1": lambda x, axes: total(np.abs(x), axes),  # Σ |x|
    # √Σ x², for integers in float64: their squares may not fit.
    "norm2": lambda x, axes: np.sqrt(total(np.square(floating(x)), axes)),
    "mul_no_zeros": lambda x, axes: np.where(x == 0, 1, x).prod(axis=axes, keepdims=True),
}


def reduction(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port out from port in."""
    x, dims = inputs["in"], outputs["out"].dims
    mode = str(node.attributes.get("mode"))
    axes = reduced_axes(x.shape, dims)
    if x.size == 0 and mode in ("min", "max", "amax"):
        raise refusal(node, f"{mode} of no elements has no value")
    return {"out": MODES[mode](x.astype(np.int64) if x.dtype.kind == "b" else x, axes)}
