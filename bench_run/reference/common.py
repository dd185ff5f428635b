"""Types, refusal, scalars, sums and exact products, shared by the op families."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_run.graph.meaning import refusal
from bench_run.graph.model import Node, Tensor

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
"""Input values by port name, with the tensors' dims: int64, bool, or the float type to compute in,
which the results have too."""
Outputs = Mapping[str, Tensor]
"""The tensors to be produced, by port name: their dims and types are part of the question."""
Operation = Callable[[Node, Arrays, Outputs], dict[str, Array]]
Axes = tuple[int, ...]

SCRATCH_BYTES = 32 * 2**20
"""Memory of one step besides inputs and outputs; fits the last cache."""
EXACT_INTEGERS = 2**53
"""Integers below it are exact in float64, and so are their sums."""


def scalar(node: Node, inputs: Arrays, port: str) -> float:
    """Return the value of a tensor of one element, whatever its rank."""
    array = inputs[port]
    if array.size != 1:
        raise refusal(node, f"{port} must hold one element, not {array.size}")
    return float(array.reshape(-1)[0])


def broadcasts(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Return True if an array of `shape` broadcasts to exactly `dims`, right-aligned."""
    tail = dims[len(dims) - len(shape) :]
    return len(shape) <= len(dims) and all(
        have in (1, want) for have, want in zip(shape, tail, strict=True)
    )


def sum_to(array: Array, dims: tuple[int, ...]) -> Array:
    """Sum the axes along which `dims`, right-aligned, is 1 or missing: undoes a broadcast."""
    padded = (1,) * (array.ndim - len(dims)) + dims
    pairs = enumerate(zip(array.shape, padded, strict=True))
    axes = tuple(i for i, (have, want) in pairs if have != want)
    return (total(array, axes) if axes else array).reshape(dims)


def total(x: Array, axes: Axes) -> Array:
    """Compute Σ x over `axes`, which keep length 1. float32 is added in float64: NumPy adds it in
    pairs only along the fastest axis, and one after another along the others."""
    if x.dtype == np.float32:
        sums = np.asarray(x.sum(axes, np.float64, keepdims=True), np.float32)
        return drifted(sums, x.size // max(1, sums.size))
    return np.asarray(x.sum(axes, keepdims=True))


def mean(x: Array, axes: Axes) -> Array:
    """Compute Σ x / n over `axes`; float64 for integers."""
    sums = total(x, axes)
    return np.asarray(sums / (x.size // max(1, sums.size)))


def floating(x: Array) -> Array:
    """Return the array itself if its type is a float type, otherwise in float64."""
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def blas_ready(a: Array, b: Array, terms: int) -> tuple[Array, Array]:
    """Convert both operands to the wider of their float types; integers to float64 if every sum of
    `terms` products is exact there. Integers whose sums could pass 2^53 become int64: slower
    (without BLAS), and exact modulo 2^64."""
    if a.dtype == b.dtype and a.dtype.kind == "f":
        return a, b
    floats = [x.dtype for x in (a, b) if x.dtype.kind == "f"]
    if floats:
        kind = max(floats, key=lambda dtype: dtype.itemsize)
        return a.astype(kind, copy=False), b.astype(kind, copy=False)
    if terms * _magnitude(a) * _magnitude(b) < EXACT_INTEGERS:
        return a.astype(np.float64), b.astype(np.float64)
    return a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)


_operand_bits, _shift = 0, 0.0


@contextmanager
def inexact(bits: int, shift: float) -> Iterator[None]:
    """Compute as kernels may: operands of products inside of operations are cut off to so many
    significand bits (0: used as they are), and sums of K terms are moved by `shift`·√K, relative.
    For one computation at a time in a process."""
    global _operand_bits, _shift
    before = _operand_bits, _shift
    _operand_bits, _shift = bits, shift
    try:
        yield
    finally:
        _operand_bits, _shift = before


def operand(x: Array) -> Array:
    """Return an operand of a product that was computed inside of an operation; see `inexact`."""
    return cut_off(x, _operand_bits) if _operand_bits else x


def drifted(sums: Array, terms: int) -> Array:
    """Return sums of so many terms; see `inexact`."""
    return sums * sums.dtype.type(1 + _shift * terms**0.5) if _shift else sums


def cut_off(x: Array, bits: int) -> Array:
    """Return the values towards 0 with so many significand bits."""
    word, own = ("u4", 24) if x.dtype == np.float32 else ("u8", 53)
    mask = np.array((1 << 8 * x.dtype.itemsize) - (1 << own - bits), word)
    return np.asarray(np.bitwise_and(np.ascontiguousarray(x).view(word), mask).view(x.dtype))


def _magnitude(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
