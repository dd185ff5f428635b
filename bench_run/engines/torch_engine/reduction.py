"""Reductions: an axis is reduced where the output has length 1 and the input more."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise
from bench_run.graph.operations.reduction import reduced_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T: TypeAlias = torch.Tensor
Axes = tuple[int, ...]


def _product(x: T, axes: Axes) -> T:
    """Multiply along each axis, as `torch.prod` takes one at a time."""
    for axis in axes:
        x = x.prod(axis, keepdim=True)
    return x


MODES: Mapping[str, Callable[[T, Axes], T]] = {
    "add": lambda x, axes: x.sum(axes, keepdim=True),
    "amax": lambda x, axes: x.abs().amax(axes, keepdim=True),
    "avg": lambda x, axes: x.mean(axes, keepdim=True),
    "max": lambda x, axes: x.amax(axes, keepdim=True),
    "min": lambda x, axes: x.amin(axes, keepdim=True),
    "mul": _product,
    "mul_no_zeros": lambda x, axes: _product(torch.where(x == 0, 1.0, x), axes),
    "norm1": lambda x, axes: torch.linalg.vector_norm(x, 1, axes, keepdim=True),
    "norm2": lambda x, axes: torch.linalg.vector_norm(x, 2, axes, keepdim=True),
}


def reduction(op: TorchOp) -> BoundKernel:
    """Bind a reduction. Narrow types are widened first if the result is wider: the kernel rounds to
    its input's type, and that of a product rounds every step."""
    mode = op.attribute("mode")
    axes = reduced_axes(op.dims("in"), op.dims("out"))
    product = mode.startswith("mul")
    dtype = op.compute if product else op.working_type("in", result="out")
    reduce = MODES[mode]
    return BoundKernel(("in",), ("out",), lambda x: reduce(elementwise(x, dtype), axes))
