"""Matrix products.

C[…,m,n] = Σ_k A[…,m,k]·B[…,k,n]. Transposition is a matter of strides. A batch dim of A or B may
be a divisor of C's: element i of C reads element i // (dim of C / dim), so that each matrix serves
consecutive batches; 1 is an ordinary broadcast.
Source: hipDNN's matmul node and its CPU reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.reference.common import Array, Arrays, Outputs, blas_ready, refusal

if TYPE_CHECKING:
    from bench_run.graph.model import Node


def matmul(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Ports a, b → c."""
    a, b = inputs["a"], inputs["b"]
    dims = outputs["c"].dims
    _check(node, a, b, dims)
    a, b = blas_ready(a, b, a.shape[-1])
    left = _spread(node, a, dims[:-2])
    right = _spread(node, b, dims[:-2])
    return {"c": np.broadcast_to(np.matmul(left, right), dims)}


def _check(node: Node, a: Array, b: Array, dims: tuple[int, ...]) -> None:
    if not a.ndim == b.ndim == len(dims) >= 2:
        raise refusal(node, f"ranks of a, b and c differ: {a.ndim}, {b.ndim}, {len(dims)}")
    if a.shape[-1] != b.shape[-2] or (a.shape[-2], b.shape[-1]) != dims[-2:]:
        raise refusal(node, f"{a.shape} times {b.shape} does not give {dims}")


def _spread(node: Node, array: Array, batch: tuple[int, ...]) -> Array:
    """Batch dims that divide C's repeated to match; equal ones and 1 left to broadcasting."""
    for axis, (have, want) in enumerate(zip(array.shape[:-2], batch, strict=True)):
        if have in (1, want):
            continue
        if want % have:
            raise refusal(node, f"batch dim {have} does not divide {want}")
        array = np.repeat(array, want // have, axis=axis)
    return array
