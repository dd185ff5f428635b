"""Block-scaled (MX) quantisation and back."""

from __future__ import annotations

from typing import TypeAlias

import torch

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise
from bench_run.graph.dtypes import DTYPES

T: TypeAlias = torch.Tensor


def dequantize(op: TorchOp) -> BoundKernel:
    """Compute y = x·scale[index // block]; `block_size` belongs to the trailing axes."""
    sizes = tuple(op.attribute("block_size", ()))
    dims = op.dims("x")
    if not 1 <= len(sizes) <= len(dims):
        raise op.refusal(f"block_size {sizes} does not fit x of {dims}")
    blocks = (*(1 for _ in range(len(dims) - len(sizes))), *sizes)
    negative = bool(op.attribute("is_negative_scale", False))

    def function(x: T, scale: T) -> T:
        factor = elementwise(scale, op.compute)
        factor = torch.exp2(-factor) if negative else factor
        return elementwise(x, op.compute) * _expanded(factor, blocks, dims)

    return BoundKernel(("x", "scale"), ("y",), function)


def quantize(op: TorchOp) -> BoundKernel:
    """Compute scale = max |x| over the block / largest of y's type, rounded up to a power of two
    where its type is one; y = x / scale, and 0 if the scale is."""
    dims, size = op.dims("x"), int(op.attribute("block_size", 0))
    axis = int(op.attribute("axis", len(dims) - 1))
    scale_type = op.tensor("scale").data_type
    if size < 1 or dims[axis] % size:
        raise op.refusal(f"blocks of {size} do not divide the {dims[axis]} of axis {axis}")
    if scale_type not in ("fp8_e8m0", "float"):
        raise op.refusal(f"scales of type {scale_type}")
    largest = DTYPES[op.tensor("y").data_type].largest
    split = (*dims[:axis], dims[axis] // size, size, *dims[axis + 1 :])
    blocks = tuple(size if i == axis else 1 for i in range(len(dims)))

    def function(x: T) -> tuple[T, T]:
        x = elementwise(x, op.compute)
        maxima = x.abs().reshape(split).amax(axis + 1)
        scale = maxima / largest
        if scale_type == "fp8_e8m0":
            # The next power of two, exactly: by mantissa and exponent.
            mantissa, exponent = torch.frexp(scale)
            exponent = torch.where(mantissa == 0.5, exponent - 1, exponent)
            powers = torch.ldexp(torch.ones_like(scale), exponent)
            powers = torch.where(scale > 0, powers, 0.0)
            scale = powers.clamp_min(DTYPES[scale_type].smallest)
        divisor = _expanded(scale, blocks, dims)
        return torch.where(divisor == 0, 0.0, x / divisor), scale

    return BoundKernel(("x",), ("y", "scale"), function, 16)


def _expanded(scale: T, blocks: tuple[int, ...], dims: tuple[int, ...]) -> T:
    """Return each scale repeated over its block, cut to x's dims."""
    for axis, size in enumerate(blocks):
        if size > 1:
            scale = scale.repeat_interleave(size, dim=axis).narrow(axis, 0, dims[axis])
    return scale
