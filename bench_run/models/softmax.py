"""Softmax over the last axis, which hipDNN has no node for: exp(x − max)/Σ exp(x − max)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.graph.check import check
from bench_run.graph.make.build import Builder

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.models.model import Dims


def softmax_graph(dims: Dims, data_type: str) -> Graph:
    """Five nodes: two reductions and three pointwise."""
    builder = Builder(data_type)
    x = builder.tensor("x", dims)
    row = (*dims[:-1], 1)

    def between(name: str, shape: Dims) -> int:
        return builder.tensor(name, shape, None, builder.compute, virtual=True)

    def reduce(mode: str, source: int) -> int:
        out = between(f"reduce_{mode}", row)
        attributes = {"mode": mode, "is_deterministic": False}
        builder.node("ReductionAttributes", f"reduce_{mode}", {"in": source}, {"out": out},
                     attributes)  # fmt: skip
        return out

    def pointwise(operation: str, out: int, *operands: int) -> int:
        inputs = {f"in_{i}": uid for i, uid in enumerate(operands)}
        builder.node("PointwiseAttributes", operation, inputs, {"out_0": out},
                     {"operation": operation})  # fmt: skip
        return out

    shifted = pointwise("sub", between("shifted", dims), x, reduce("max", x))
    powers = pointwise("exp", between("powers", dims), shifted)
    pointwise("div", builder.tensor("y", dims), powers, reduce("add", powers))
    shape = "x".join(map(str, dims))
    return check(builder.graph(f"softmax_{shape}_{data_type}"), "softmax")
