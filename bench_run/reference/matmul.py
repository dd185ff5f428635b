"""Matrix products.

C[…,m,n] = Σ_k A[…,m,k]·B[…,k,n]. Transposition is a matter of strides. A batch dim of A or B may
be a divisor of C's: element i of C reads element i // (dim of C / dim), so that each matrix serves
consecutive batches; 1 is an ordinary broadcast.
Source: hipDNN's matmul node and its CPU reference.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.meaning import refusal
from bench_run.reference.common import Array, Arrays, Outputs, blas_ready
from bench_run.reference.threads import Part, cut, do_each, in_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Node

PART_PRODUCTS = 2**28
"""Multiplications of a part that holds several matrices: some milliseconds."""
TILE = (1024, 1024)
"""Rows and columns of a part of a larger matrix."""


def matmul(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute port c from ports a and b."""
    a, b = inputs["a"], inputs["b"]
    dims = outputs["c"].dims
    if not a.ndim == b.ndim == len(dims) >= 2:
        raise refusal(node, f"ranks of a, b and c differ: {a.ndim}, {b.ndim}, {len(dims)}")
    if a.shape[-1] != b.shape[-2] or (a.shape[-2], b.shape[-1]) != dims[-2:]:
        raise refusal(node, f"{a.shape} times {b.shape} does not give {dims}")
    left, right = blas_ready(a, b, a.shape[-1])
    if not a.shape[:-2] == b.shape[:-2] == dims[:-2]:
        left, right = _spread(node, left, dims[:-2]), _spread(node, right, dims[:-2])
    c = product(left, right)
    return {"c": c if c.shape == dims else np.broadcast_to(c, dims)}


def product(left: Array, right: Array) -> Array:
    """Compute `numpy.matmul` of two arrays of two or more dims."""
    if not in_parts():
        return np.asarray(np.matmul(left, right))
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rows, columns = left.shape[-2], right.shape[-1]
    found = np.empty((*batch, rows, columns), np.result_type(left, right))
    left, right = (np.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (left, right))

    def multiply(part: Part) -> None:
        *before, here, across = part
        np.matmul(left[(*before, here)], right[(*before, slice(None), across)], out=found[part])

    do_each(multiply, _parts(found.shape, left.shape[-1]))
    return found


def _parts(dims: tuple[int, ...], terms: int) -> Iterator[Part]:
    """Yield the indices of each part: several small matrices, or a tile of one, as BLAS rearranges
    both operands for each."""
    tile = (slice(None), slice(None))
    matrix = dims[-2] * dims[-1] * terms
    most = max(1, PART_PRODUCTS // max(1, matrix))
    for index in cut(dims[:-2], most):
        if matrix <= PART_PRODUCTS:
            yield (*index, *tile)
            continue
        for first, start in itertools.product(
            range(0, dims[-2], TILE[0]), range(0, dims[-1], TILE[1])
        ):
            yield (*index, slice(first, first + TILE[0]), slice(start, start + TILE[1]))


def _spread(node: Node, array: Array, batch: tuple[int, ...]) -> Array:
    """Repeat batch dims that divide C's to match; equal ones and 1 are left to broadcasting."""
    for axis, (have, want) in enumerate(zip(array.shape[:-2], batch, strict=True)):
        if have in (1, want):
            continue
        if want % have:
            raise refusal(node, f"batch dim {have} does not divide {want}")
        array = np.repeat(array, want // have, axis=axis)
    return array
