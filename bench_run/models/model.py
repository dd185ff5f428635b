"""A model as it was read, whatever it was read from: calls on named values. No library of either
kind is needed to look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

Array: TypeAlias = npt.NDArray[Any]
Dims: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One operation. ``kind`` is a row of `operations.LOWERINGS`; anything else is an
    operation that no graph expresses, for the ``reason`` in its attributes."""

    kind: str
    name: str
    """What the model calls it."""
    inputs: tuple[str | float | None, ...]
    """Names of values; numbers as they are; None where an optional operand is absent."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    operation: str = ""
    """What the format calls the operation."""
    parts: tuple[Call, ...] = ()
    """The calls that this one was joined from, which take its place where no graph expresses it."""


@dataclass(frozen=True)
class Model:
    name: str
    data_type: str
    calls: tuple[Call, ...]
    dims: Mapping[str, Dims]
    """Of every value."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Array]
    """Values that are known: parameters, statistics, constants."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of values, as graphs spell them, and of others (``int64``, ``bool``) in the format's own
    word; those that are not here have `data_type`."""


def contiguous(dims: Dims) -> Dims:
    """Row-major strides."""
    strides = []
    step = 1
    for length in reversed(dims):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def float64(array: Array) -> Array:
    return np.asarray(array, np.float64)
