"""Sums over axes that stay accurate in float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.views import coalesce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.engines.numpy_engine.program import Program

Array: TypeAlias = npt.NDArray[Any]


def total(p: Program, x: Array, axes: Sequence[int], out: Array) -> None:
    """Σ of `x` over `axes` into `out`, which keeps them with length 1.

    NumPy adds in pairs only along the fastest axis. Where that one is kept (channels last) long
    columns would be added one by one, so they are added in two steps of about √n each.
    """
    if not axes:
        p.copy(out, x)
        return
    rows, columns = _as_columns(x, axes)
    if rows is None:
        p.call(np.add.reduce, x, axis=tuple(axes), out=out, keepdims=True)
        return
    inner = math.isqrt(rows.shape[0])
    outer, rest = divmod(rows.shape[0], inner)
    step = p.scratch((outer + (rest > 0), columns), x.dtype)
    stacked = rows[: outer * inner].reshape(outer, inner, columns)
    p.call(np.add.reduce, stacked, axis=1, out=step[:outer])
    if rest:
        p.call(np.add.reduce, rows[outer * inner :], axis=0, out=step[outer])
    flat = p.scratch((columns,), x.dtype)
    p.call(np.add.reduce, step, axis=0, out=flat)
    p.copy(out, flat.reshape(out.shape))


def total_to(p: Program, x: Array, out: Array) -> None:
    """Σ over the axes that `out`, right-aligned, has with length 1 or not at all: undoes a
    broadcast."""
    shape = (1,) * (x.ndim - out.ndim) + out.shape
    axes = [i for i, length in enumerate(shape) if length == 1 and x.shape[i] != 1]
    total(p, x, axes, out.reshape(shape))


def _as_columns(x: Array, axes: Sequence[int]) -> tuple[Array | None, int]:
    """`x` as a matrix whose rows are to be added, where memory allows it: the kept axis fastest,
    all others reduced and without gaps."""
    kept = [axis for axis in range(x.ndim) if axis not in axes and x.shape[axis] > 1]
    if len(kept) != 1 or x.strides[kept[0]] != x.itemsize:
        return None, 0
    columns = x.shape[kept[0]]
    (flat,) = coalesce(x)
    if flat.ndim != 1 or flat.size < 2 * columns:
        return None, 0
    return flat.reshape(-1, columns), columns
