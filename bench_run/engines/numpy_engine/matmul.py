"""Matrix products, batches in consecutive groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]


def matmul(op: Op) -> None:
    """C = A·B; a batch dim of A or B divides C's, each of its matrices serving as many in a row."""
    p, a, b = op.program, op.read("a"), op.read("b")
    with op.writing("c") as c:
        _check(op, a, b, c)
        left, right = p.source(a, a.shape), p.source(b, b.shape)
        with p.target(c, c.shape) as result:
            if _broadcasts(left, result) and _broadcasts(right, result):
                p.call(np.matmul, *_merged(left, right, result))
                return
            for index in np.ndindex(result.shape[:-2]):
                matrices = (_serving(m, index, result) for m in (left, right))
                p.call(np.matmul, *matrices, result[index])


def _check(op: Op, a: Array, b: Array, c: Array) -> None:
    fits = a.ndim == b.ndim == c.ndim >= 2 and a.shape[-1] == b.shape[-2]
    fits = fits and c.shape[-2:] == (a.shape[-2], b.shape[-1])
    for operand in (a, b):
        batches = zip(operand.shape[:-2], c.shape[:-2], strict=False)
        fits = fits and all(whole % part == 0 for part, whole in batches)
    if not fits:
        raise op.refusal(f"dims {a.shape}, {b.shape} and {c.shape} do not fit together")


def _broadcasts(operand: Array, result: Array) -> bool:
    batches = zip(operand.shape[:-2], result.shape[:-2], strict=True)
    return all(part in (1, whole) for part, whole in batches)


def _merged(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """One tall product where all of a batch share one B and the rows of A and C lie in a row."""
    if c.ndim == 2 or b.size != b.shape[-1] * b.shape[-2] or a.shape[:-2] != c.shape[:-2]:
        return a, b, c
    if not (a.flags.c_contiguous and c.flags.c_contiguous):
        return a, b, c
    matrix = b.reshape(b.shape[-2:]) if b.flags.c_contiguous else b[(0,) * (b.ndim - 2)]
    return a.reshape(-1, a.shape[-1]), matrix, c.reshape(-1, c.shape[-1])


def _serving(operand: Array, index: tuple[int, ...], result: Array) -> Array:
    batches = zip(index, operand.shape[:-2], result.shape[:-2], strict=True)
    matrix: Array = operand[tuple(i // (whole // part) for i, part, whole in batches)]
    return matrix
