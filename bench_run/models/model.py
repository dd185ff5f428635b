"""A model as it was read, whatever it was read from: calls on named values. No library of either
kind is needed to look at it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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
    parts: tuple[ModelCall, ...] = ()
    """The calls that this one was joined from, which take its place where no graph expresses it."""


@dataclass(frozen=True)
class Model:
    name: str
    data_type: str
    calls: tuple[ModelCall, ...]
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


# Inputs of a model as people write them: ``32x3x224x224:half``.

FLOATS = ("float", "half", "bfloat16", "double")
TYPES = (*FLOATS, "int64", "int32", "bool")
_INPUT = re.compile(r"(\d{1,9}(?:x\d{1,9})*)(?::(\w+))?")


def parse_input(text: str) -> tuple[Dims, str]:
    """Dims and type; float where none is named."""
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
