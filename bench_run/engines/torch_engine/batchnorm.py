"""Batch normalisation by ATen's kernels; statistics and parameters in float32 or wider."""

from __future__ import annotations

from typing import TypeAlias

import torch

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise

T: TypeAlias = torch.Tensor
aten = torch.ops.aten

BACKWARD_EPSILON = 1e-5
"""Epsilon of the backward pass without saved statistics, as in hipDNN's own reference."""


def _flat(value: T, dtype: torch.dtype) -> T:
    """Return a per-channel tensor as (C,)."""
    return elementwise(value.reshape(-1), dtype)


def _types(op: TorchOp, *data: str, result: str = "y") -> tuple[torch.dtype, torch.dtype]:
    """Return types of the data and of the parameters: float32 parameters with half data is a kernel
    of its own."""
    dtype = op.working_type(*data, result=result)
    return dtype, torch.float64 if dtype == torch.float64 else torch.float32


def inference(op: TorchOp) -> BoundKernel:
    """Bind inference of a batch norm. The kernel takes a variance: inv_variance⁻², with ε = 0."""
    dtype, wide = _types(op, "x")

    def function(x: T, mean: T, inverse: T, scale: T, bias: T) -> T:
        variance = _flat(inverse, wide).pow(-2)
        parameters = (_flat(scale, wide), _flat(bias, wide), _flat(mean, wide), variance)
        y: T = aten.native_batch_norm(elementwise(x, dtype), *parameters, False, 0.0, 0.0)[0]
        return y

    return BoundKernel(("x", "mean", "inv_variance", "scale", "bias"), ("y",), function)


def inference_variance(op: TorchOp) -> BoundKernel:
    dtype, wide = _types(op, "x")
    epsilon = op.constant("epsilon")
    fixed = 0.0 if epsilon is None else epsilon

    def function(x: T, mean: T, variance: T, scale: T, bias: T, runtime: T) -> T:
        spread = _flat(variance, wide)
        if epsilon is None:
            spread = spread + _flat(runtime, wide)
        parameters = (_flat(scale, wide), _flat(bias, wide), _flat(mean, wide), spread)
        y: T = aten.native_batch_norm(elementwise(x, dtype), *parameters, False, 0.0, fixed)[0]
        return y

    ports = ("x", "mean", "variance", "scale", "bias", "epsilon")
    return BoundKernel(ports, ("y",), function)


def training(op: TorchOp) -> BoundKernel:
    dtype, wide = _types(op, "x")
    epsilon = op.constant("epsilon")
    running = op.has("next_running_mean") or op.has("next_running_variance")
    momentum = op.constant("momentum") if running else 0.0
    if epsilon is None or momentum is None:
        raise op.refusal("epsilon or momentum is given at run time")
    dims, channel = op.dims("x"), op.dims("scale")
    outputs = op.present("y", "mean", "inv_variance", "next_running_mean", "next_running_variance")
    inputs = ("x", "scale", "bias", *op.present("prev_running_mean", "prev_running_variance"))
    if running and len(inputs) != len(("x", "scale", "bias", "mean", "variance")):
        raise op.refusal("a running statistic without the one before it")

    def function(x: T, scale: T, bias: T, *previous: T) -> tuple[T, ...]:
        # Updated in place by the kernel, hence copies; it takes both or none.
        states = [_flat(value, wide).clone() for value in previous] if running else [None, None]
        y, mean, inverse = aten.native_batch_norm(
            elementwise(x, dtype),
            _flat(scale, wide),
            _flat(bias, wide),
            *states,
            True,
            momentum,
            epsilon,
        )
        found = {"mean": mean, "inv_variance": inverse}
        if running:
            found |= {"next_running_mean": states[0], "next_running_variance": states[1]}
        found = {port: value.reshape(channel) for port, value in found.items()}
        found["y"] = y.reshape(dims)
        return tuple(found[port] for port in outputs)

    return BoundKernel(inputs, outputs, function)


def backward(op: TorchOp) -> BoundKernel:
    dtype, wide = _types(op, "dy", "x", result="dx")
    channel = op.dims("scale")
    saved = op.present("mean", "inv_variance")
    axes = [axis for axis in range(len(op.dims("x"))) if axis != 1]

    def function(dy: T, x: T, scale: T, *statistics: T) -> tuple[T, T, T]:
        if statistics:
            mean, inverse = (_flat(value, wide) for value in statistics)
        else:
            variance, mean = torch.var_mean(elementwise(x, wide), axes, correction=0)
            inverse = torch.rsqrt(variance + BACKWARD_EPSILON)
        dx, dscale, dbias = aten.native_batch_norm_backward(
            elementwise(dy, dtype),
            elementwise(x, dtype),
            _flat(scale, wide),
            None,
            None,
            mean,
            inverse,
            True,
            BACKWARD_EPSILON,
            (True, True, True),
        )
        return dx, dscale.reshape(channel), dbias.reshape(channel)

    return BoundKernel(("dy", "x", "scale", *saved), ("dx", "dscale", "dbias"), function)
