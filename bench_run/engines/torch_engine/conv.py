"""Convolutions: forward by `torch.nn.functional`, gradients by ATen's convolution_backward.

There is no group attribute: groups follow from the channels of x and w. Padding that differs
before and after is done by padding the input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from bench_run.engines.torch_engine.op import Call, Op, elementwise

T = torch.Tensor
CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
LAUNCHES = 14


@dataclass(frozen=True)
class Geometry:
    """`extra` is what is padded before the convolution, in the order of `functional.pad`."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    flip: tuple[int, ...]
    extra: tuple[int, ...] | None
    before: tuple[int, ...]


def convolution_forward(op: Op) -> Call:
    g, dtype = _geometry(op, "x", "w"), op.working_type("x", "w")
    convolve = CONVOLUTIONS[len(g.stride)]

    def function(x: T, w: T) -> T:
        x, w = elementwise(x, dtype), elementwise(w, dtype)
        x = x if g.extra is None else functional.pad(x, g.extra)
        w = w.flip(g.flip) if g.flip else w
        return convolve(x, w, None, g.stride, g.padding, g.dilation, g.groups)

    return Call(("x", "w"), ("y",), function, LAUNCHES)


def convolution_backward_data(op: Op) -> Call:
    g, dtype = _geometry(op, "dx", "w"), op.working_type("dy", "w")
    inside = _inside(g, op.dims("dx"))
    like = _padded(g, _like(op, "dx", dtype))

    def function(dy: T, w: T) -> T:
        dy, w = elementwise(dy, dtype), elementwise(w, dtype)
        w = w.flip(g.flip) if g.flip else w
        dx = _backward(g, (dy, like, w), (True, False, False))[0]
        return dx if g.extra is None else dx[inside]

    return Call(("dy", "w"), ("dx",), function, LAUNCHES)


def convolution_backward_weights(op: Op) -> Call:
    g, dtype = _geometry(op, "x", "dw"), op.working_type("x", "dy")
    like = _like(op, "dw", dtype)

    def function(x: T, dy: T) -> T:
        x, dy = _padded(g, elementwise(x, dtype)), elementwise(dy, dtype)
        dw = _backward(g, (dy, x, like), (False, True, False))[1]
        return dw.flip(g.flip) if g.flip else dw

    return Call(("x", "dy"), ("dw",), function, LAUNCHES)


def _backward(
    g: Geometry, tensors: tuple[T, T, T], wanted: tuple[bool, bool, bool]
) -> tuple[T, T, T]:
    """(dx, dw, dbias) of (dy, x, w), those that are wanted."""
    zeros = (0,) * len(g.stride)
    found: tuple[T, T, T] = torch.ops.aten.convolution_backward(
        *tensors, None, g.stride, g.padding, g.dilation, False, zeros, g.groups, wanted
    )
    return found


def _geometry(op: Op, data: str, weights: str) -> Geometry:
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
    return Geometry(
        stride=stride,
        padding=pre if symmetric else (0,) * len(pre),
        dilation=tuple(op.attribute("dilation", (1,) * len(stride))),
        groups=x[1] // w[1],
        flip=flips[mode],
        extra=None if symmetric else tuple(pairs),
        before=pre,
    )


def _padded(g: Geometry, x: T) -> T:
    return x if g.extra is None else functional.pad(x, g.extra)


def _like(op: Op, port: str, dtype: torch.dtype) -> T:
    """A tensor of the result's dims and layout, of which only those are read."""
    tensor = op.tensor(port)
    return torch.empty_strided(tensor.dims, tensor.strides, dtype=dtype, device=op.device)


def _inside(g: Geometry, dims: tuple[int, ...]) -> tuple[slice, ...]:
    """The part of a padded gradient that belongs to the input."""
    spatial = (slice(a, a + n) for a, n in zip(g.before, dims[2:], strict=True))
    return (slice(None), slice(None), *spatial)
