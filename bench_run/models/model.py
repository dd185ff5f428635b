"""A model as it was read, whatever it was read from: calls on named values. No library of either
kind is needed to look at it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.errors import UsageError
from bench_run.graph.dtypes import ALIASES

if TYPE_CHECKING:
    from collections.abc import Mapping


Array: TypeAlias = npt.NDArray[Any]
Dims: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class ModelCall:
    """One operation. ``kind`` is a row of `own.LOWERINGS`; anything else is an
    operation that no graph expresses, for the ``reason`` in its attributes."""

    kind: str
    name: str
    """Name in the model."""
    inputs: tuple[str | float | None, ...]
    """Names of values; numbers as they are; None if an optional operand is absent."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    operation: str = ""
    """Operation in the words of the format."""
    parts: tuple[ModelCall, ...] = ()
    """The calls that this one was joined from, which take its place where no graph expresses it."""


@dataclass(frozen=True)
class Model:
    name: str
    data_type: str
    calls: tuple[ModelCall, ...]
    dims: dict[str, Dims]
    """Dims of every value."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Array]
    """Values that are known: parameters, statistics, constants."""
    types: dict[str, str] = field(default_factory=dict)
    """Types of values as graphs spell them; others (``int64``, ``bool``) in the format's own word.
    The rest have `data_type`."""


def contiguous(dims: Dims) -> Dims:
    """Return row-major strides."""
    strides = []
    step = 1
    for length in reversed(dims):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def float64(array: Array) -> Array:
    return np.asarray(array, np.float64)


FLOATS = ("float", "half", "bfloat16", "double")
TYPES = (*FLOATS, "int64", "int32", "bool")
_INPUT = re.compile(r"(\d{1,9}(?:x\d{1,9})*)(?::(\w+))?")


def parse_input(text: str) -> tuple[Dims, str]:
    """Return dims and type; float where none is named."""
    found = _INPUT.fullmatch(text)
    if found is None:
        raise UsageError(f"--input {text!r}: expected dims and a type, as in 32x3x224x224:half")
    dims = tuple(int(length) for length in found[1].split("x"))
    kind = ALIASES.get(found[2] or "float", found[2] or "float")
    if kind not in TYPES:
        raise UsageError(f"--input {text!r}: no type {kind!r}; choose from {', '.join(TYPES)}")
    if 0 in dims:
        raise UsageError(f"--input {text!r}: a length is 0")
    return dims, kind


# Where values lie in memory, and what reshapes, transpositions and slices make of that.
#
# An axis of a value may be several axes of memory, one within the other: then no stride describes
# it, but a later reshape may take it apart again, so nothing is copied before it is read.

Axis: TypeAlias = tuple[tuple[int, int], ...]
"""Length and stride of axes of memory, the outermost first."""


@dataclass(frozen=True)
class LinkedView:
    """Part of the memory of an input, of a layer's result, or of a known array."""

    tensor: str
    """The input's name, or the tensor's in its layer."""
    layer: str | None
    axes: tuple[Axis, ...]
    offset: int = 0
    array: Array | None = None
    """Known value, which does not need memory."""

    @property
    def dims(self) -> Dims:
        return tuple(math.prod(length for length, _ in axis) for axis in self.axes)

    @property
    def strides(self) -> Dims | None:
        """Return the strides; None if an axis lacks one."""
        merged = [_merged(axis) for axis in self.axes]
        if any(len(axis) > 1 for axis in merged):
            return None
        return tuple(axis[0][1] if axis else 1 for axis in merged)

    @property
    def is_weight(self) -> bool:
        return self.array is not None

    @property
    def is_spread(self) -> bool:
        """True if elements are read repeatedly along an axis."""
        return any(d > 1 and s == 0 for axis in self.axes for d, s in axis)

    @property
    def once(self) -> LinkedView:
        """The view without repetitions; axes that only repeat have length 1."""
        axes = tuple(tuple(part for part in axis if part[1]) or ((1, 1),) for axis in self.axes)
        return replace(self, axes=axes) if self.is_spread else self


def placed(
    tensor: str, layer: str | None, dims: Dims, strides: Dims, offset: int = 0
) -> LinkedView:
    axes = tuple(((d, s),) for d, s in zip(dims, strides, strict=True))
    return LinkedView(tensor, layer, axes, offset)


def known(name: str, array: Array) -> LinkedView:
    return replace(placed(name, None, array.shape, contiguous(array.shape)), array=array)


def permuted(view: LinkedView, order: Dims) -> LinkedView:
    array = None if view.array is None else view.array.transpose(order)
    return replace(view, axes=tuple(view.axes[axis] for axis in order), array=array)


def spread(view: LinkedView, dims: Dims) -> LinkedView:
    """Return the view repeated along axes of length 1, and along new ones before the first."""
    if view.array is not None:
        return known(view.tensor, np.broadcast_to(view.array, dims))
    new = len(dims) - len(view.axes)
    old = ((((1, 0),),) * new) + view.axes
    axes = tuple(
        axis if length == math.prod(d for d, _ in axis) else ((length, 0),)
        for axis, length in zip(old, dims, strict=True)
    )
    return replace(view, axes=axes)


def sliced(
    view: LinkedView, axis: int, start: int, length: int, step: int = 1
) -> LinkedView | None:
    """Return the slice; None if the axis is several of memory and more than one element is
    taken."""
    if view.array is not None:
        place = (slice(None),) * axis + (slice(start, start + length * step, step),)
        return known(view.tensor, view.array[place])
    inner = _merged(view.axes[axis])
    offset = 0
    part: Axis = ((1, 1),)
    if len(inner) <= 1:
        stride = inner[0][1] if inner else 1
        part, offset = ((length, stride * step),), start * stride
    elif length != 1:
        return None
    else:
        for size, stride in reversed(inner):
            offset += (start % size) * stride
            start //= size
    axes = (*view.axes[:axis], part, *view.axes[axis + 1 :])
    return replace(view, axes=axes, offset=view.offset + offset)


def reshaped(view: LinkedView, dims: Dims) -> LinkedView | None:
    """Return the reshaped view; None if the new axes cut across the old ones."""
    if view.array is not None:
        return known(view.tensor, view.array.reshape(dims))
    left = list(_merged(tuple(part for axis in view.axes for part in axis)))
    axes: list[Axis] = []
    for length in dims:
        axis = _taken(left, length)
        if axis is None:
            return None
        axes.append(axis)
    return replace(view, axes=tuple(axes)) if not left else None


def _taken(left: list[tuple[int, int]], length: int) -> Axis | None:
    """Return the next axes of memory that make up this length, the last of them cut if it is
    longer."""
    taken: list[tuple[int, int]] = []
    while length > 1:
        if not left:
            return None
        size, stride = left.pop(0)
        if length % size == 0:
            taken.append((size, stride))
            length //= size
        elif size % length == 0:
            taken.append((length, stride * (size // length)))
            left.insert(0, (size // length, stride))
            length = 1
        else:
            return None
    return tuple(taken)


def _merged(axis: Axis) -> Axis:
    """Merge neighbours that are nested without gaps."""
    merged: list[tuple[int, int]] = []
    for length, stride in axis:
        if length == 1:
            continue
        if merged and merged[-1][1] == length * stride:
            merged[-1] = (merged[-1][0] * length, stride)
        else:
            merged.append((length, stride))
    return tuple(merged)
