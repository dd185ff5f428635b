"""Reductions: an axis is reduced where the output has length 1 and the input more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines.numpy_engine.common import mean, refusal, total
from bench_run.graph.operations.reduction import reduced_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.numpy_engine.common import Array, Axes
    from bench_run.graph.operations import NodeView


def refuse(node: NodeView) -> None:
    mode = node.attribute("mode")
    if mode not in MODES:
        raise refusal(node, f"no reduction mode {mode!r}; known are {', '.join(MODES)}")


def reduction(node: NodeView, **inputs: Array) -> dict[str, Array]:
    """`in` is no name for an argument."""
    axes = reduced_axes(node["in"].dims, node["out"].dims)
    return {"out": MODES[node.attribute("mode")](inputs["in"], axes)}


def product_without_zeros(x: Array, axes: Axes) -> Array:
    return np.multiply.reduce(np.where(x == 0, x.dtype.type(1), x), axes, keepdims=True)


MODES: Mapping[str, Callable[[Array, Axes], Array]] = {
    "add": total,
    "amax": lambda x, axes: np.maximum.reduce(np.abs(x), axes, keepdims=True),
    "avg": mean,
    "max": lambda x, axes: np.maximum.reduce(x, axes, keepdims=True),
    "min": lambda x, axes: np.minimum.reduce(x, axes, keepdims=True),
    "mul": lambda x, axes: np.multiply.reduce(x, axes, keepdims=True),
    "mul_no_zeros": product_without_zeros,
    "norm1": lambda x, axes: total(np.abs(x), axes),
    "norm2": lambda x, axes: np.sqrt(total(np.square(x), axes)),
}
