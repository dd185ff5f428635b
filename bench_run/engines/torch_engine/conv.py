"""Convolutions: forward by `torch.nn.functional`, gradients by ATen's convolution_backward.

Groups are not an attribute: they follow from the channels of x and w. Padding that differs before
and after is done by padding the input.

If the result is of a finer type than the operands, they are widened: half and bfloat16 are exact in
TF32, so matrix units may take them as that and still add up in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch.nn import functional

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise

T: TypeAlias = torch.Tensor
CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
LAUNCHES = 14


@dataclass(frozen=True)
class ConvGeometry:
    """`extra` is what is padded before the convolution, in the order of `functional.pad`."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    flip: tuple[int, ...]
    extra: tuple[int, ...] | None
    before: tuple[int, ...]


def convolution_forward(op: TorchOp) -> BoundKernel:
    g, dtype = _geometry(op, "x", "w"), op.working_type("x", "w", result="y")
    convolve = (
        convolve_widened if dtype == torch.float32 and _narrow(op, "x", "w") else convolve_plain
    )

    def function(x: T, w: T) -> T:
        x, w = elementwise(x, dtype), elementwise(w, dtype)
        x = x if g.extra is None else functional.pad(x, g.extra)
        w = w.flip(g.flip) if g.flip else w
        return convolve(x, w, g)

    return BoundKernel(("x", "w"), ("y",), function, LAUNCHES)


def convolution_backward_data(op: TorchOp) -> BoundKernel:
    g, dtype = _geometry(op, "dx", "w"), _gradient_type(op, "dy", "w", result="dx")
    # The part of a padded gradient that belongs to the input.
    spatial = (slice(a, a + n) for a, n in zip(g.before, op.dims("dx")[2:], strict=True))
    inside = (slice(None), slice(None), *spatial)
    like = _padded(g, _like(op, "dx", dtype))

    def function(dy: T, w: T) -> T:
        dy, w = elementwise(dy, dtype), elementwise(w, dtype)
        w = w.flip(g.flip) if g.flip else w
        dx = _backward(g, (dy, like, w), (True, False, False))[0]
        return dx if g.extra is None else dx[inside]

    return BoundKernel(("dy", "w"), ("dx",), function, LAUNCHES)


def convolution_backward_weights(op: TorchOp) -> BoundKernel:
    g, dtype = _geometry(op, "x", "dw"), _gradient_type(op, "x", "dy", result="dw")
    like = _like(op, "dw", dtype)

    def function(x: T, dy: T) -> T:
        x, dy = _padded(g, elementwise(x, dtype)), elementwise(dy, dtype)
        dw = _backward(g, (dy, x, like), (False, True, False))[1]
        return dw.flip(g.flip) if g.flip else dw

    return BoundKernel(("x", "dy"), ("dw",), function, LAUNCHES)


def convolve_plain(x: T, w: T, g: ConvGeometry) -> T:
    convolve = CONVOLUTIONS[len(g.stride)]
    return convolve(x, w, None, g.stride, g.padding, g.dilation, g.groups)


def convolve_widened(x: T, w: T, g: ConvGeometry) -> T:
    """Return the same with TF32 allowed for this call, whatever the mode of the run."""
    zeros, cudnn = (0,) * len(g.stride), torch.backends.cudnn
    y: T = torch.ops.aten._convolution(
        x,
        w,
        None,
        g.stride,
        g.padding,
        g.dilation,
        False,
        zeros,
        g.groups,
        cudnn.benchmark,
        cudnn.deterministic,
        cudnn.enabled,
        True,
    )
    return y


def _narrow(op: TorchOp, *ports: str) -> bool:
    return all(op.dtype(port) in (torch.float16, torch.bfloat16) for port in ports)


def _gradient_type(op: TorchOp, *ports: str, result: str) -> torch.dtype:
    """Return the type to compute gradients in. On the CPU it is the compute type instead of half,
    which would add up in half, and instead of bfloat16 if oneDNN does not support it."""
    dtype = op.working_type(*ports, result=result)
    if op.device.type != "cpu" or dtype not in (torch.float16, torch.bfloat16):
        return dtype
    exact = dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype if exact else op.compute


def _backward(
    g: ConvGeometry, tensors: tuple[T, T, T], wanted: tuple[bool, bool, bool]
) -> tuple[T, T, T]:
    """Return the wanted ones of (dx, dw, dbias) for (dy, x, w)."""
    zeros = (0,) * len(g.stride)
    found: tuple[T, T, T] = torch.ops.aten.convolution_backward(
        *tensors, None, g.stride, g.padding, g.dilation, False, zeros, g.groups, wanted
    )
    return found


def _geometry(op: TorchOp, data: str, weights: str) -> ConvGeometry:
    x, w = op.dims(data), op.dims(weights)
    pre, post = tuple(op.attribute("pre_padding")), tuple(op.attribute("post_padding"))
    stride = tuple(op.attribute("stride"))
    if len(stride) not in CONVOLUTIONS:
        raise op.refusal(f"{len(stride)} spatial dims")
    if x[1] % w[1]:
        raise op.refusal(f"{x[1]} channels do not divide into groups of {w[1]}")
    flips = {"cross_correlation": (), "unset": (), "convolution": tuple(range(2, len(x)))}
    mode = op.attribute("conv_mode", "cross_correlation")
    if mode not in flips:
        raise op.refusal(f"no conv_mode {mode!r}; choose from {', '.join(flips)}")
    pairs = [pair for both in zip(reversed(pre), reversed(post), strict=True) for pair in both]
    symmetric = pre == post
    return ConvGeometry(
        stride=stride,
        padding=pre if symmetric else (0,) * len(pre),
        dilation=tuple(op.attribute("dilation", (1,) * len(stride))),
        groups=x[1] // w[1],
        flip=flips[mode],
        extra=None if symmetric else tuple(pairs),
        before=pre,
    )


def _padded(g: ConvGeometry, x: T) -> T:
    return x if g.extra is None else functional.pad(x, g.extra)


def _like(op: TorchOp, port: str, dtype: torch.dtype) -> T:
    """Return a tensor of the result's dims and layout, of which only those are read."""
    tensor = op.tensor(port)
    return torch.empty_strided(tensor.dims, tensor.strides, dtype=dtype, device=op.device)
