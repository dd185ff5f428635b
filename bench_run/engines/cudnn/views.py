"""Descriptions of tensors for cuDNN: dims and strides that it computes correctly.

cuDNN writes part of the output, or a wrong one, for element-wise graphs of rank 2 and for some
broadcasts of rank 3, without a word. So such graphs, and those of row norms and sums, are viewed as
matrices: the axes of memory, longest stride first, are cut in two, and a tensor is ``[M, K, 1, 1]``
(all), ``[M, 1, 1, 1]`` (one value per row), ``[1, K, 1, 1]`` (one a column) or a scalar. An input
that has only some axes of the rows (or of the columns) is spread over all of them on the host, when
it is uploaded. Other graphs keep their axes, at least three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.engines.cudnn.rewrite import POINTWISE, REDUCTION, refuse
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.operations.norms import rmsnorm_axes
from bench_run.graph.operations.pointwise import broadcast_dims
from bench_run.graph.operations.reduction import reduced_axes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_run.graph.model import Graph, Node, Tensor

Dims = tuple[int, ...]
NORMS = (
    "LayernormAttributes",
    "LayernormBackwardAttributes",
    "RMSNormAttributes",
    "RMSNormBackwardAttributes",
)
MOST_COLUMNS = 1024
"""Columns of a matrix view that nothing else decides."""


@dataclass(frozen=True)
class Spread:
    """Conversion of an input to its view: broadcast to `dims`, with its axes in `order`."""

    dims: Dims
    order: Dims


@dataclass(frozen=True)
class TensorView:
    dims: Dims
    strides: Dims
    spread: Spread | None = None


def views(graph: Graph) -> Mapping[int, TensorView]:
    """Return a view for each tensor of the graph, by uid. Raises `UnsupportedGraphError`."""
    kinds = {node.type for node in graph.nodes}
    reads_positions = any(node.attributes.get("operation") == "gen_index" for node in graph.nodes)
    if kinds <= {POINTWISE, REDUCTION, *NORMS} and not reads_positions:
        return _Matrix(graph).views()
    return {tensor.uid: view for tensor, view in _natural(graph)}


def _natural(graph: Graph) -> Iterator[tuple[Tensor, TensorView]]:
    kinds = {node.type for node in graph.nodes}
    rank = max(3, *(len(tensor.dims) for tensor in graph.tensors))
    images = any(kind.startswith("Batchnorm") for kind in kinds)
    rank = max(rank, 4) if images or any(kind.startswith("Sdpa") for kind in kinds) else rank
    stats = {
        uid
        for node in graph.nodes
        if node.type.startswith("Sdpa")
        for port, uid in (*node.inputs.items(), *node.outputs.items())
        if port in ("stats", "max", "sum_exp", "seq_len_q", "seq_len_kv")
    }
    tables = {
        uid
        for node in graph.nodes
        for port, uid in node.inputs.items()
        if port.startswith("page_table")
    }
    sinks = {node.inputs["sink_token"] for node in graph.nodes if "sink_token" in node.inputs}
    for tensor in graph.tensors:
        if tensor.uid in sinks:
            yield tensor, TensorView((1, tensor.elements, 1, 1), (tensor.elements, 1, 1, 1))
            continue
        if tensor.uid in tables:
            # [sequences, pages] as cuDNN has it: [sequences, 1, pages, 1].
            (sequences, pages), (row, step) = tensor.dims, tensor.strides
            yield tensor, TensorView((sequences, 1, pages, 1), (row, row, step, 1))
            continue
        behind = tensor.uid in stats or (images and len(tensor.dims) > 1)
        yield tensor, _padded(tensor, rank, behind=behind)


def _padded(tensor: Tensor, rank: int, *, behind: bool) -> TensorView:
    """Add axes of length 1 before the others, or behind them."""
    missing = rank - len(tensor.dims)
    if tensor.elements == 1:
        return TensorView((1,) * rank, (1,) * rank)
    if behind:
        return TensorView(tensor.dims + (1,) * missing, tensor.strides + (1,) * missing)
    whole = max(d * s for d, s in zip(tensor.dims, tensor.strides, strict=True))
    return TensorView((1,) * missing + tensor.dims, (whole,) * missing + tensor.strides)


class _Matrix:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        dims = broadcast_dims(*(tensor.dims for tensor in graph.tensors))
        if dims is None:
            raise UnsupportedGraphError("cudnn: the tensors of this graph have no common shape")
        self._dims = dims
        self._order = self._memory_order()
        self._rows = self._cut()
        self._columns = tuple(axis for axis in self._order if axis not in self._rows)
        whole = tuple(sorted(self._order))
        self._free = all(self._axes(t) in ((), whole) for t in graph.tensors)

    def views(self) -> dict[int, TensorView]:
        return {tensor.uid: self._view(tensor) for tensor in self._graph.tensors}

    def _axes(self, tensor: Tensor) -> Dims:
        """Return axes of the common shape along which the tensor has different values."""
        shift = len(self._dims) - len(tensor.dims)
        return tuple(i + shift for i, d in enumerate(tensor.dims) if d > 1)

    def _own_order(self, tensor: Tensor) -> Dims | None:
        """Return the tensor's axes, longest stride first; None if memory has gaps or overlaps."""
        shift = len(self._dims) - len(tensor.dims)
        axes = sorted(self._axes(tensor), key=lambda axis: -tensor.strides[axis - shift])
        step = 1
        for axis in reversed(axes):
            if tensor.strides[axis - shift] != step:
                return None
            step *= tensor.dims[axis - shift]
        return tuple(axes)

    def _memory_order(self) -> Dims:
        whole = tuple(i for i, d in enumerate(self._dims) if d > 1)
        found: Dims | None = None
        for tensor in self._graph.tensors:
            if tensor.virtual or self._axes(tensor) != whole:
                continue
            order = self._own_order(tensor)
            if order is None:
                raise UnsupportedGraphError(
                    f"cudnn: tensor {tensor.uid} {tensor.name!r} has gaps between its elements, "
                    "which element-wise kernels of cuDNN do not support"
                )
            if found is not None and order != found:
                raise UnsupportedGraphError(
                    f"cudnn: tensor {tensor.uid} {tensor.name!r} lies in another order than the "
                    "others, which element-wise kernels of cuDNN do not support"
                )
            found = order
        return whole if found is None else found

    def _cut(self) -> Dims:
        """Return the axes that are rows: by a norm or a sum, otherwise those that fit all operands
        best."""
        for node in self._graph.nodes:
            columns = self._node_columns(node)
            if columns is not None:
                return self._cut_at(node, columns)
        cuts = [self._order[:k] for k in range(len(self._order) + 1)]
        costs = {cut: cost for cut in cuts if (cost := self._cost(cut)) is not None}
        if not costs:
            shapes = "; ".join(str(list(t.dims)) for t in self._graph.tensors if not t.virtual)
            raise UnsupportedGraphError(
                f"cudnn: no matrix view fits the broadcasts of these operands ({shapes})"
            )
        return min(costs, key=lambda cut: (costs[cut], -len(cut)))

    def _node_columns(self, node: Node) -> frozenset[int] | None:
        by_uid = self._graph.by_uid
        if node.type == REDUCTION:
            source, result = by_uid[node.inputs["in"]], by_uid[node.outputs["out"]]
            axes = reduced_axes(source.dims, result.dims)
        elif node.type.startswith("Layernorm"):
            rank = len(self._dims)
            axes = tuple(range(rank - node.attributes["normalized_dim_count"], rank))
        elif node.type.startswith("RMSNorm"):
            ports = {**node.inputs, **node.outputs}
            inverse = by_uid[ports["inv_rms"]].dims if "inv_rms" in ports else None
            x = by_uid[node.inputs["x"]].dims
            axes = rmsnorm_axes(x, by_uid[node.inputs["scale"]].dims, inverse)
        else:
            return None
        return frozenset(axis for axis in axes if self._dims[axis] > 1)

    def _cut_at(self, node: Node, columns: frozenset[int]) -> Dims:
        count = len(self._order) - len(columns)
        if frozenset(self._order[count:]) == columns:
            return self._order[:count]
        if node.type == REDUCTION and frozenset(self._order[: len(columns)]) == columns:
            return self._order[: len(columns)]  # sums over the rows
        what = "reduces" if node.type == REDUCTION else "normalises"
        raise refuse(
            node, f"{what} axes that are not adjacent in memory; cuDNN supports rows or columns"
        )

    def _cost(self, rows: Dims) -> int | None:
        """Return the number of elements that spreading adds; None if a tensor does not fit."""
        total = 0
        for tensor in self._graph.tensors:
            part = self._part(tensor, rows)
            if part is None:
                return None
            total += math.prod(self._dims[axis] for axis in part) - tensor.elements
        return total

    def _part(self, tensor: Tensor, rows: Dims) -> Dims | None:
        """Return all axes of the part of the matrix that the tensor belongs to."""
        axes = frozenset(self._axes(tensor))
        columns = tuple(axis for axis in self._order if axis not in rows)
        for part in ((), columns, rows, self._order):
            if axes == frozenset(part):
                wrong = tensor.virtual and part == rows != self._order
                return None if wrong else part  # one value per row, spread later, comes out wrong
        if tensor.uid in self._graph.produced:
            return None  # only inputs can be spread
        parts = (part for part in (rows, columns) if part != self._order)
        return next((part for part in parts if axes <= frozenset(part)), None)

    def _view(self, tensor: Tensor) -> TensorView:
        part = self._part(tensor, self._rows)
        if part is None:
            raise UnsupportedGraphError(
                f"cudnn: tensor {tensor.uid} {tensor.name!r} {list(tensor.dims)} is neither whole, "
                "nor one value per row, nor one per column of the matrix that cuDNN is given"
            )
        rows = math.prod(self._dims[axis] for axis in self._rows)
        columns = math.prod(self._dims[axis] for axis in self._columns)
        if self._free and all(node.type == POINTWISE for node in self._graph.nodes):
            total = rows * columns
            columns = math.gcd(total, MOST_COLUMNS)
            rows = total // columns
        if not part:
            return TensorView((1, 1, 1, 1), (1, 1, 1, 1))
        spread = self._spread(tensor, part)
        if part == self._order:
            return TensorView((rows, columns, 1, 1), (columns, 1, columns, columns), spread)
        if part == self._rows:
            return TensorView((rows, 1, 1, 1), (1, 1, 1, 1), spread)
        return TensorView((1, columns, 1, 1), (columns, 1, columns, columns), spread)

    def _spread(self, tensor: Tensor, part: Dims) -> Spread | None:
        if tensor.virtual or tensor.uid in self._graph.produced:
            order = None if tensor.virtual else self._own_order(tensor)
            if order not in (None, tuple(a for a in part if a in self._axes(tensor))):
                raise UnsupportedGraphError(
                    f"cudnn: tensor {tensor.uid} {tensor.name!r} lies in another order than the "
                    "others"
                )
            return None
        if self._own_order(tensor) == part:
            return None
        dims = tuple(d if i in part else 1 for i, d in enumerate(self._dims))
        return Spread(dims, (*(i for i in range(len(dims)) if i not in part), *part))
