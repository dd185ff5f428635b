"""A graph as one product of cuBLASLt: matrices in its column-major words, and what follows.

cuBLASLt's matrices are column-major, its bias has one value a row. A result whose last axis is
contiguous is therefore computed transposed: Cᵀ = Bᵀ·Aᵀ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.errors import UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.graph.model import Graph, Node, Tensor

MATMUL, POINTWISE = "MatmulAttributes", "PointwiseAttributes"
ACTIVATIONS = {"relu_fwd": "RELU", "gelu_approx_tanh_fwd": "GELU"}
PLAIN = (None, 0, 0.0)
"""Clips and slopes of a relu that is nothing but one."""


@dataclass(frozen=True)
class Matrix:
    """Stored matrix: column-major, `columns` columns at a distance of `leading` elements."""

    uid: int
    data_type: str
    rows: int
    columns: int
    leading: int
    transposed: bool
    batch_stride: int


@dataclass(frozen=True)
class Product:
    a: Matrix
    b: Matrix
    d: Matrix
    batch: int
    compute: str
    """Data type of the sums."""
    epilogue: str
    """Member of cuBLASLt's `Epilogue`."""
    bias: int | None
    """Uid of a vector with a value for each row of `d`."""


def refuse(node: Node, why: str) -> UnsupportedGraphError:
    return UnsupportedGraphError(f"cublaslt: {node.label}: {why}")


def product_of(graph: Graph) -> Product:
    """Describe a graph as a product. Raises `UnsupportedGraphError` for any other graph."""
    first, *rest = graph.nodes
    if first.type != MATMUL:
        raise refuse(first, "only products, and what follows one in its kernel, are supported")
    if len(graph.outputs) != 1:
        raise refuse(first, "a kernel has one result")
    by_uid = graph.by_uid
    a, b = (by_uid[first.inputs[port]] for port in "ab")
    result = by_uid[first.outputs["c"]]
    out = graph.outputs[0]
    activation, bias = _behind(graph, first, rest)
    if out.dims != result.dims:
        raise refuse(first, f"the result has dims {list(out.dims)}, not {list(result.dims)}")
    swapped = out.strides[-1] == 1 or out.dims[-1] == 1
    left, right = (_turned(b), _turned(a)) if swapped else (_as_is(a), _as_is(b))
    stored = _stored(first, *(_turned(out) if swapped else _as_is(out)), out)
    if stored.transposed:
        raise refuse(first, f"neither of the last axes of {out.name or out.uid} is contiguous")
    axis = -1 if swapped else -2
    if bias is not None:
        _check_bias(first, bias, out, axis)
    name = "_".join(part for part in (activation, "BIAS" if bias else "") if part) or "DEFAULT"
    return Product(
        a=_stored(first, *left, out),
        b=_stored(first, *right, out),
        d=stored,
        batch=math.prod(out.dims[:-2]),
        compute=first.compute_data_type,
        epilogue=name,
        bias=None if bias is None else bias.uid,
    )


def _behind(graph: Graph, first: Node, rest: Sequence[Node]) -> tuple[str, Tensor | None]:
    """Return the activation and bias of the nodes behind the product."""
    activation, bias, last = "", None, first.outputs["c"]
    for node in rest:
        mode = node.attributes.get("operation")
        others = [uid for uid in node.inputs.values() if uid != last]
        follows = node.type == POINTWISE and last in node.inputs.values()
        if not follows or not graph.by_uid[last].virtual or activation:
            raise refuse(node, "it is not what cuBLASLt computes behind a product")
        if mode == "add" and bias is None and len(others) == 1:
            bias = graph.by_uid[others[0]]
        elif mode in ACTIVATIONS and not others:
            clips = ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope")
            if any(node.attributes.get(name) not in PLAIN for name in clips):
                raise refuse(node, "a relu with bounds or a slope")
            activation = ACTIVATIONS[mode]
        else:
            known = ", ".join(("add of a vector", *ACTIVATIONS))
            raise refuse(node, f"{mode} is none of what it computes behind a product: {known}")
        last = node.outputs["out_0"]
    return activation, bias


def _check_bias(node: Node, bias: Tensor, out: Tensor, axis: int) -> None:
    dims = (1,) * (len(out.dims) - len(bias.dims)) + bias.dims
    length = out.dims[axis]
    if bias.elements != length or dims[axis] != length:
        place = "a column" if axis == -1 else "a row"
        raise refuse(node, f"bias {list(bias.dims)}: cuBLASLt adds one value {place} of the result")
    if bias.data_type != out.data_type:
        raise refuse(node, f"a bias of {bias.data_type} for a result of {out.data_type}")
    if length > 1 and bias.strides[axis] != 1:
        raise refuse(node, "a bias with gaps between its values")


_Side = tuple["Tensor", int, int, int, int]
"""A matrix: its tensor, rows, columns, distances of rows and of columns."""


def _as_is(tensor: Tensor) -> _Side:
    (rows, columns), (row, column) = tensor.dims[-2:], tensor.strides[-2:]
    return tensor, rows, columns, row, column


def _turned(tensor: Tensor) -> _Side:
    (rows, columns), (row, column) = tensor.dims[-2:], tensor.strides[-2:]
    return tensor, columns, rows, column, row


def _stored(
    node: Node, tensor: Tensor, rows: int, columns: int, row: int, column: int, out: Tensor
) -> Matrix:
    batch = _batch_stride(node, tensor, out)
    for high, wide, step, leading, turned in (
        (rows, columns, row, column, False),
        (columns, rows, column, row, True),
    ):
        distance = leading if wide > 1 else high
        if (step == 1 or high == 1) and distance >= high:
            return Matrix(tensor.uid, tensor.data_type, high, wide, distance, turned, batch)
    raise refuse(node, f"{tensor.name or tensor.uid} has gaps within its rows and its columns")


def _batch_stride(node: Node, tensor: Tensor, out: Tensor) -> int:
    """Return the number of elements from one matrix of the batch to the next; 0: they share it."""
    dims = (1,) * (len(out.dims) - len(tensor.dims)) + tensor.dims
    dims, strides = dims[:-2], ((0,) * len(out.dims) + tensor.strides)[-len(out.dims) : -2]
    if math.prod(dims) == 1:
        return 0
    if dims != out.dims[:-2]:
        raise refuse(node, f"a batch of {list(dims)} for one of {list(out.dims[:-2])}")
    used = [(d, s) for d, s in zip(dims, strides, strict=True) if d > 1]
    step, count = used[-1][1], 1
    for length, stride in reversed(used):
        if stride != step * count:
            raise refuse(node, f"the batch of {tensor.name or tensor.uid} is not evenly spaced")
        count *= length
    return step
