"""Layer norm and RMS norm."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch.nn import functional

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise
from bench_run.graph.operations.norms import rmsnorm_axes

T: TypeAlias = torch.Tensor
aten = torch.ops.aten


def layernorm(op: TorchOp) -> BoundKernel:
    """Bind ATen's layer norm, in a type wide enough for the statistics. Refuses an epsilon given at
    run time, and inv_variance without mean."""
    count = int(op.attribute("normalized_dim_count"))
    shape = op.dims("x")[-count:]
    epsilon = op.constant("epsilon")
    outputs = op.present("y", "mean", "inv_variance")
    if epsilon is None:
        raise op.refusal("epsilon is given at run time")
    dtype = op.working_type("x", "scale", "bias", result="y")
    if len(outputs) > 1:
        dtype = _with_statistics(op, dtype)

    def function(x: T, scale: T, bias: T) -> tuple[T, ...]:
        found = aten.native_layer_norm(
            elementwise(x, dtype),
            shape,
            elementwise(scale, dtype).reshape(shape),
            elementwise(bias, dtype).reshape(shape),
            epsilon,
        )
        return tuple(found[: len(outputs)])

    if outputs not in (("y",), ("y", "mean"), ("y", "mean", "inv_variance")):
        raise op.refusal("inv_variance without mean")
    return BoundKernel(("x", "scale", "bias"), outputs, function)


def layernorm_backward(op: TorchOp) -> BoundKernel:
    count = int(op.attribute("normalized_dim_count"))
    shape, parameter = op.dims("x")[-count:], op.dims("scale")
    dtype = _with_statistics(op, op.working_type("dy", "x", "scale", result="dx"))
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    saved = op.present("mean", "inv_variance")
    epsilon = op.constant("epsilon") if op.has("epsilon") else None
    if not saved and epsilon is None:
        raise op.refusal("epsilon is given at run time")
    axes, added = tuple(range(-count, 0)), 0.0 if epsilon is None else epsilon

    def function(dy: T, x: T, scale: T, *statistics: T) -> tuple[T, T, T]:
        if statistics:
            mean, inverse = (elementwise(value, wide).contiguous() for value in statistics)
        else:
            variance, mean = torch.var_mean(elementwise(x, wide), axes, correction=0, keepdim=True)
            inverse = torch.rsqrt(variance + added)
        weight = elementwise(scale, dtype).reshape(shape)
        dx, dscale, dbias = aten.native_layer_norm_backward(
            elementwise(dy, dtype),
            elementwise(x, dtype),
            shape,
            mean,
            inverse,
            weight,
            weight,
            (True, True, True),
        )
        return dx, dscale.reshape(parameter), dbias.reshape(parameter)

    return BoundKernel(("dy", "x", "scale", *saved), ("dx", "dscale", "dbias"), function)


def _with_statistics(op: TorchOp, dtype: torch.dtype) -> torch.dtype:
    """Return the type to compute in. On the CPU the kernel keeps mean and inv_variance in x's type,
    which may be too narrow."""
    return op.compute if op.device.type == "cpu" else dtype


def _axes(op: TorchOp) -> tuple[int, ...]:
    saved = op.dims("inv_rms") if op.has("inv_rms") else None
    return rmsnorm_axes(op.dims("x"), op.dims("scale"), saved)


def rmsnorm(op: TorchOp) -> BoundKernel:
    axes, rank = _axes(op), len(op.dims("x"))
    epsilon = op.constant("epsilon")
    shape = op.dims("x")[axes[0] :] if axes else ()
    trailing = axes == tuple(range(rank - len(axes), rank))
    plain = not op.has("inv_rms") and not op.has("bias") and epsilon is not None and axes
    same = op.dtype("x") == op.dtype("scale") and math.prod(op.dims("scale")) == math.prod(shape)
    if plain and trailing and same:
        dtype = op.working_type("x", "scale", result="y")
        return BoundKernel(
            ("x", "scale"),
            ("y",),
            lambda x, scale: functional.rms_norm(
                elementwise(x, dtype), shape, elementwise(scale, dtype).reshape(shape), epsilon
            ),
        )
    dtype, outputs = op.compute, op.present("y", "inv_rms")

    def function(x: T, scale: T, epsilon: T, *bias: T) -> tuple[T, ...]:
        x = elementwise(x, dtype)
        mean = x.square().mean(axes, keepdim=True) if axes else x.square()
        inverse = torch.rsqrt(mean + elementwise(epsilon, dtype).reshape(()))
        y = x * inverse * elementwise(scale, dtype)
        for value in bias:
            y = y + elementwise(value, dtype)
        return (y, inverse)[: len(outputs)]

    return BoundKernel(("x", "scale", "epsilon", *op.present("bias")), outputs, function, 12)


def rmsnorm_backward(op: TorchOp) -> BoundKernel:
    """Return the kernel of dx = dy·s·r − x·r³·Σ(dy·s·x)/N; dscale = Σ dy·x·r; dbias = Σ dy."""
    dtype, outputs = op.compute, op.present("dx", "dscale", "dbias")
    axes = _axes(op)
    count = math.prod(op.dims("x")[axis] for axis in axes)
    parameter = op.dims("scale")

    def function(dy: T, x: T, scale: T, inverse: T) -> tuple[T, ...]:
        dy, x, scale, inverse = (elementwise(value, dtype) for value in (dy, x, scale, inverse))
        normal, inner = x * inverse, dy * scale
        product = inner * normal
        mean = product.sum(axes, keepdim=True) / count if axes else product
        dx = inverse * (inner - normal * mean)
        sums = (dx, (dy * normal).sum_to_size(parameter), dy.sum_to_size(parameter))
        return sums[: len(outputs)]

    return BoundKernel(("dy", "x", "scale", "inv_rms"), outputs, function, 16)
