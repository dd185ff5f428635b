"""Views of arrays: strides instead of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.model import Tensor

Array: TypeAlias = npt.NDArray[Any]


def strided(storage: Array, tensor: Tensor) -> Array:
    """The elements of a tensor in its storage, axes in logical order."""
    strides = tuple(s * storage.itemsize for s in tensor.strides)
    return restrided(storage, tensor.dims, strides)


def restrided(array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Another view of the same memory, strides in bytes. By way of bytes where elements are one:
    NumPy does not find the 8-bit floats again by their code."""
    if array.itemsize > 1:
        return as_strided(array, shape, strides)
    return as_strided(array.view(np.uint8), shape, strides).view(array.dtype)


def memory_order(array: Array) -> list[int]:
    """Axes from the one that is slowest in memory to the fastest."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def dense_like(array: Array, dtype: npt.DTypeLike) -> Array:
    """A zeroed array of the same shape without gaps, its axes in the same order in memory."""
    order = memory_order(array)
    back = np.argsort(order)
    return np.zeros([array.shape[axis] for axis in order], dtype).transpose(back)


def flat_view(array: Array, shape: Sequence[int]) -> Array | None:
    """`array` in another shape if that is possible without a copy."""
    view = array.reshape(tuple(shape))
    return view if np.may_share_memory(view, array) else None


def is_matrix(array: Array) -> bool:
    """Whether the last two axes are a matrix as BLAS takes it: rows or columns without gaps."""
    if array.ndim < 2:
        return True
    rows, columns = array.shape[-2:]
    across, along = array.strides[-2:]
    size = array.itemsize
    by_rows = (along == size or columns == 1) and (across >= columns * size or rows == 1)
    by_columns = (across == size or rows == 1) and (along >= rows * size or columns == 1)
    return bool(by_rows or by_columns)


def coalesce(first: Array, *others: Array) -> list[Array]:
    """The same elements with as few axes as possible: others broadcast to the shape of `first`,
    axes in its memory order, neighbours merged where every array allows it."""
    arrays = [first, *(np.broadcast_to(a, first.shape) for a in others)]
    order = memory_order(first)
    axes = [(first.shape[i], [a.strides[i] for a in arrays]) for i in order if first.shape[i] != 1]
    merged: list[tuple[int, list[int]]] = []
    for length, strides in axes:
        if merged and all(
            outer == inner * length for outer, inner in zip(merged[-1][1], strides, strict=True)
        ):
            merged[-1] = (merged[-1][0] * length, strides)
        else:
            merged.append((length, strides))
    shape = [length for length, _ in merged]
    return [
        restrided(a, shape, [strides[i] for _, strides in merged]) for i, a in enumerate(arrays)
    ]
