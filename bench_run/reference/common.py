"""What the op families share: types, refusal, scalars, sums over broadcast axes, exact products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.model import Node, Tensor

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
"""Input values by port name, widened: float64, int64 or bool, of the tensor's dims."""
Outputs = Mapping[str, Tensor]
"""The tensors to be produced, by port name: their dims and types are part of the question."""
Operation = Callable[[Node, Arrays, Outputs], dict[str, Array]]

SCRATCH_BYTES = 32 * 2**20
"""What an operation may hold beside its inputs and outputs in one step; fits the last cache."""
EXACT_INTEGERS = 2**53
"""Integers below it are exact in float64, and so are their sums."""


def refusal(node: Node, reason: str) -> UnsupportedGraphError:
    return UnsupportedGraphError(f"{node.label}: {reason}")


def scalar(node: Node, inputs: Arrays, port: str) -> float:
    """The value of a tensor of one element, whatever its rank."""
    array = inputs[port]
    if array.size != 1:
        raise refusal(node, f"{port} must hold one element, not {array.size}")
    return float(array.reshape(-1)[0])


def broadcasts(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether an array of `shape` broadcasts to exactly `dims`, right-aligned."""
    tail = dims[len(dims) - len(shape) :]
    return len(shape) <= len(dims) and all(
        have in (1, want) for have, want in zip(shape, tail, strict=True)
    )


def sum_to(array: Array, dims: tuple[int, ...]) -> Array:
    """Sums the axes along which `dims`, right-aligned, is 1 or missing: undoes a broadcast."""
    padded = (1,) * (array.ndim - len(dims)) + dims
    pairs = enumerate(zip(array.shape, padded, strict=True))
    axes = tuple(i for i, (have, want) in pairs if have != want)
    return np.asarray(array.sum(axis=axes, keepdims=True)).reshape(dims)


def blas_ready(a: Array, b: Array, terms: int) -> tuple[Array, Array]:
    """Both operands in float64, where that keeps every sum of `terms` products exact.

    Integers whose sums could pass 2^53 stay int64: slower (no BLAS), and exact modulo 2^64.
    """
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
    if terms * _magnitude(a) * _magnitude(b) < EXACT_INTEGERS:
        return a.astype(np.float64), b.astype(np.float64)
    return a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)


def _magnitude(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
