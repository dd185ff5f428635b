"""Between storages (one-dimensional, gaps included) and logical arrays of a tensor's dims.

A storage is what an engine sees in memory: `Tensor.span` elements of the tensor's own type. A
logical view of it has the tensor's dims and shares its memory. `graph/layouts.py` knows the names
of layouts; here strides are only numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES, array_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.model import Graph, Tensor


Array = npt.NDArray[Any]

COMPARED_BYTES = 1 << 20
"""Bytes compared at a time, which stay in the processor's caches."""


def describe(tensor: Tensor) -> str:
    """Return a tensor's name in messages: ``y (uid 7)``, or ``tensor 7`` if it has no name."""
    return f"{tensor.name} (uid {tensor.uid})" if tensor.name else f"tensor {tensor.uid}"


def storage_type(tensor: Tensor) -> np.dtype[Any]:
    """Return the type of a storage's elements. Raises `UnsupportedGraphError` for types whose
    packing in memory is not documented."""
    if DTYPES[tensor.data_type].array_type is None:
        raise UnsupportedGraphError(
            f"{describe(tensor)}: the packing of {tensor.data_type} in memory is not documented"
        )
    return array_type(tensor.data_type)


def storage_size(tensor: Tensor) -> int:
    """Return the number of elements of a storage: the tensor's span, and 0 if the tensor does not
    have elements."""
    return tensor.span if tensor.elements else 0


def misfit(storage: Array, tensor: Tensor) -> str | None:
    """Return what is wrong with a storage of this tensor, in words; None if it fits."""
    wanted, size = storage_type(tensor), storage_size(tensor)
    if storage.ndim != 1 or storage.dtype != wanted or storage.size != size:
        have = f"{'x'.join(map(str, storage.shape))} elements of {storage.dtype}"
        return f"{describe(tensor)}: expected {size} elements of {wanted}, got {have}"
    return None


def plain_array(found: object) -> Array:
    """Return an engine's value as an array. Raises `EngineError` for anything but NumPy's own: a
    subclass may compute its values when they are read."""
    if type(found) is not np.ndarray:
        kind = f"{type(found).__module__}.{type(found).__qualname__}"
        raise EngineError(f"the engine gave a {kind} for an output: give a numpy.ndarray itself")
    return found


def check_fit(graph: Graph, outputs: Storages) -> None:
    """Raise `EngineError` if an output is missing or does not fit its tensor."""
    for tensor in graph.outputs:
        if tensor.uid not in outputs:
            raise EngineError(f"the engine gave no output for {describe(tensor)}")
        problem = misfit(plain_array(outputs[tensor.uid]), tensor)
        if problem is not None:
            raise EngineError(f"the engine's output does not fit: {problem}")


def logical_view(storage: Array, tensor: Tensor) -> Array:
    """Return the storage with the tensor's dims and strides: shared memory, writeable if the
    storage is.

    Raises `ValueError` if type or size do not fit: no view reaches outside of its storage.
    """
    problem = misfit(storage, tensor)
    if problem is not None:
        raise ValueError(problem)
    if storage.size == 0:
        return storage.reshape(tensor.dims)
    strides = tuple(stride * storage.itemsize for stride in tensor.strides)
    return np.ndarray(tensor.dims, storage.dtype, storage.view(np.uint8), strides=strides)


def empty_storage(tensor: Tensor) -> Storage:
    """Return a storage with arbitrary contents."""
    return np.empty(storage_size(tensor), storage_type(tensor))


def to_storage(array: npt.ArrayLike, tensor: Tensor) -> Storage:
    """Return a new storage of a logical array, with zeros in gaps of the strides.

    Rounds to nearest, ties to even. 8-bit floats saturate at their largest value, as the converting
    instructions of accelerators do; NaN stays NaN.
    """
    values = np.asarray(array)
    if values.shape != tensor.dims:
        raise ValueError(f"{describe(tensor)}: expected dims {tensor.dims}, got {values.shape}")
    storage = np.zeros(storage_size(tensor), storage_type(tensor))
    row, narrow = DTYPES[tensor.data_type], array_type(tensor.data_type)
    if values.dtype != narrow and row.kind == "float" and row.bits == 8:
        values = np.clip(values.astype(np.float32), -row.largest, row.largest)
    with np.errstate(over="ignore"):  # an infinity is what a value too large rounds to
        logical_view(storage, tensor)[...] = values.astype(narrow, copy=False)
    return storage


def memory_order(strides: Sequence[int]) -> tuple[int, ...]:
    """Return the axes from the largest stride to the smallest."""
    return tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))


def same_bytes(one: Array, other: Array) -> bool:
    """Return True if two arrays contain the same bytes, NaN included."""
    if one.nbytes != other.nbytes:
        return False
    first, second = _raw(one), _raw(other)
    pieces = (slice(i, i + COMPARED_BYTES) for i in range(0, first.size, COMPARED_BYTES))
    return all(np.array_equal(first[piece], second[piece]) for piece in pieces)


def _raw(array: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


# Tensors on the host travel as *storages*: one-dimensional arrays of the tensor's own type and of
# `Tensor.span` elements, gaps of the strides included.

Storage: TypeAlias = "npt.NDArray[Any]"
Storages: TypeAlias = Mapping[int, "Storage"]
"""Storages by tensor uid."""


# Content of outputs before a run that is checked: bytes that are not a result.
#
# NaN where the type has it (all bits set, or the one NaN of the fnuz types), else 0xA5, a pattern
# rarely met. All bytes of an element are equal, so memory may be filled byte by byte.

NAN, FNUZ_NAN, RARE = 0xFF, 0x80, 0xA5


def poison_byte(data_type: str) -> int:
    """Return the byte that all of a poisoned output consists of."""
    if data_type.endswith("fnuz"):
        return FNUZ_NAN
    return NAN if DTYPES[data_type].kind in ("float", "scale") else RARE


def fill_with_poison(storage: Storage, data_type: str) -> None:
    """Fill a storage in the host's memory."""
    storage.view(np.uint8).fill(poison_byte(data_type))
