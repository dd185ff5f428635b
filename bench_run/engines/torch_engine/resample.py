"""Pooling: PyTorch's kernels, with padding of our own if it is more than they allow.

They pad both sides alike and by at most half a window. Padding never wins a maximum and is never
counted by ``avgpool_exclude_padding``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch.nn import functional

from bench_run.engines.torch_engine.op import BoundKernel, TorchOp, elementwise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T: TypeAlias = torch.Tensor
MAXIMA: Mapping[int, Callable[..., tuple[T, T]]] = {
    1: functional.max_pool1d_with_indices,
    2: functional.max_pool2d_with_indices,
    3: functional.max_pool3d_with_indices,
}
PLAIN_MAXIMA: Mapping[int, Callable[..., T]] = {
    1: functional.max_pool1d,
    2: functional.max_pool2d,
    3: functional.max_pool3d,
}
AVERAGES: Mapping[int, Callable[..., T]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}
MODES = ("maxpool", "avgpool_exclude_padding", "avgpool_include_padding")


@dataclass(frozen=True)
class Windows:
    window: tuple[int, ...]
    stride: tuple[int, ...]
    pre: tuple[int, ...]
    post: tuple[int, ...]
    spatial: tuple[int, ...]
    """Spatial lengths of x."""

    @classmethod
    def of(cls, op: TorchOp, data: str) -> Windows:
        names = ("window", "stride", "pre_padding", "post_padding")
        window, stride, pre, post = (tuple(op.attribute(name)) for name in names)
        return cls(window, stride, pre, post, op.dims(data)[2:])

    @property
    def plain(self) -> bool:
        """True if the kernels can pad by themselves."""
        pairs = zip(self.pre, self.window, strict=True)
        return self.pre == self.post and all(2 * pad <= length for pad, length in pairs)

    @property
    def extra(self) -> tuple[int, ...]:
        """The padding in the order of `functional.pad`."""
        both = zip(reversed(self.pre), reversed(self.post), strict=True)
        return tuple(pad for pair in both for pad in pair)

    @property
    def own(self) -> tuple[int, ...]:
        """Padding that the kernels do."""
        return self.pre if self.plain else (0,) * len(self.pre)


def resample(op: TorchOp) -> BoundKernel:
    mode = str(op.attribute("resample_mode"))
    w = Windows.of(op, "x")
    if len(w.window) not in AVERAGES:
        raise op.refusal(f"{len(w.window)} spatial dims")
    dtype = op.working_type("x", result="y")
    if mode == "maxpool":
        return _maximum(op, w, dtype)
    include = mode == "avgpool_include_padding"
    pool = AVERAGES[len(w.window)]
    if op.device.type == "cpu" and len(w.window) == 3:
        dtype = op.compute  # it has no kernel for narrow types
    if w.plain:
        kernel = partial(pool, kernel_size=w.window, stride=w.stride, padding=w.own)
        kernel = partial(kernel, count_include_pad=include)
        return BoundKernel(("x",), ("y",), lambda x: kernel(elementwise(x, dtype)))
    factor = 1.0 if include else math.prod(w.window) / _counts(op, w)

    def function(x: T) -> T:
        padded = functional.pad(elementwise(x, op.compute), w.extra)
        return pool(padded, w.window, w.stride) * factor

    return BoundKernel(("x",), ("y",), function)


def _maximum(op: TorchOp, w: Windows, dtype: torch.dtype) -> BoundKernel:
    pool, indexed = PLAIN_MAXIMA[len(w.window)], MAXIMA[len(w.window)]

    def padded(x: T) -> T:
        x = elementwise(x, dtype)
        return x if w.plain else functional.pad(x, w.extra, value=-math.inf)

    if not op.has("index"):
        return BoundKernel(("x",), ("y",), lambda x: pool(padded(x), w.window, w.stride, w.own))

    def function(x: T) -> tuple[T, T]:
        y, index = indexed(padded(x), w.window, w.stride, w.own)
        return y, index if w.plain else _unpadded(index, w)

    return BoundKernel(("x",), ("y", "index"), function)


def _unpadded(index: T, w: Windows) -> T:
    """Return positions in the padded plane as positions in x, −1 for those in the padding."""
    sizes = padded_lengths(w)
    total, inside, step = torch.zeros_like(index), torch.ones_like(index, dtype=torch.bool), 1
    for size, length, before in zip(
        reversed(sizes), reversed(w.spatial), reversed(w.pre), strict=True
    ):
        place = index % size - before
        index = index // size
        inside = inside & (place >= 0) & (place < length)
        total, step = total + place * step, step * length
    return torch.where(inside, total, -1)


def _counts(op: TorchOp, w: Windows) -> T:
    """Return the number of elements of x in each window, at least 1."""
    ones = torch.ones((1, 1, *w.spatial), dtype=op.compute, device=op.device)
    shares = AVERAGES[len(w.window)](functional.pad(ones, w.extra), w.window, w.stride)
    return (shares * math.prod(w.window)).round().clamp_min(1.0)


def resample_backward(op: TorchOp) -> BoundKernel:
    """Return the adjoint: averages spread dy, maxima add it where the index points; −1 points
    nowhere."""
    mode = str(op.attribute("resample_mode"))
    w = Windows.of(op, "dx")
    if mode == "maxpool":
        return _maximum_backward(op)
    rank, channels = len(w.window), op.dims("dx")[1]
    included = mode == "avgpool_include_padding"
    divisor = math.prod(w.window) if included else _counts(op, w)
    weights = torch.ones((channels, 1, *w.window), dtype=op.compute, device=op.device)
    like = torch.empty((op.dims("dx")[0], channels, *padded_lengths(w)), dtype=op.compute)
    like = like.to(op.device)
    inside = tuple(slice(a, a + n) for a, n in zip(w.pre, w.spatial, strict=True))
    zeros, ones = (0,) * rank, (1,) * rank

    def function(dy: T) -> T:
        shares = elementwise(dy, op.compute) / divisor
        dx: T = torch.ops.aten.convolution_backward(
            shares,
            like,
            weights,
            None,
            w.stride,
            zeros,
            ones,
            False,
            zeros,
            channels,
            (True, False, False),
        )[0]
        return dx[(slice(None), slice(None), *inside)]

    return BoundKernel(("dy",), ("dx",), function)


def padded_lengths(w: Windows) -> tuple[int, ...]:
    return tuple(n + a + b for n, a, b in zip(w.spatial, w.pre, w.post, strict=True))


def _maximum_backward(op: TorchOp) -> BoundKernel:
    if not op.has("index"):
        raise op.refusal("max pooling backward without the forward's index")
    dims, size = op.dims("dx"), math.prod(op.dims("dx")[2:])

    def function(dy: T, index: T) -> T:
        cells = index.to(torch.int64).flatten(2)
        values = torch.where(cells >= 0, elementwise(dy, op.compute).flatten(2), 0.0)
        total = torch.zeros((*dims[:2], size), dtype=op.compute, device=dy.device)
        return total.scatter_add(2, cells.clamp_min(0), values).reshape(dims)

    return BoundKernel(("dy", "index"), ("dx",), function)
