"""What kernels share: refusals and sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.errors import UnsupportedGraphError

if TYPE_CHECKING:
    from bench_run.graph.operations import NodeView

Array: TypeAlias = npt.NDArray[Any]
Axes: TypeAlias = tuple[int, ...]


def refusal(node: NodeView, reason: str) -> UnsupportedGraphError:
    return UnsupportedGraphError(f"numpy: {node.node.label}: {reason}")


def total(x: Array, axes: Axes) -> Array:
    """Σ over `axes`, which stay with length 1. Added in float64: NumPy adds float32 in pairs only
    along the fastest axis, and one after another along the rest."""
    result: Array = x.sum(axes, dtype=np.float64, keepdims=True).astype(x.dtype)
    return result


def mean(x: Array, axes: Axes) -> Array:
    sums = total(x, axes)
    return sums * (sums.size / x.size)


def total_to(x: Array, dims: tuple[int, ...]) -> Array:
    """Σ over the axes that `dims`, right-aligned, has with length 1 or not at all: undoes a
    broadcast."""
    padded = (1,) * (x.ndim - len(dims)) + dims
    axes = tuple(axis for axis, length in enumerate(padded) if length != x.shape[axis])
    return (total(x, axes) if axes else x).reshape(dims)
