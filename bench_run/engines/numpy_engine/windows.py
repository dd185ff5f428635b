"""Sliding windows over the spatial axes of an image: padding and views, nothing computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.program import Program

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Geometry:
    """Sizes of a convolution or a pooling; `last`: channels are the data's fastest axis."""

    groups: int
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pre: tuple[int, ...]
    post: tuple[int, ...]
    kernel: tuple[int, ...]
    out: tuple[int, ...]
    last: bool

    @property
    def padded(self) -> bool:
        return any(self.pre) or any(self.post)

    @property
    def rank(self) -> int:
        return len(self.kernel)


def channels_last(x: Array) -> bool:
    return x.shape[1] > 1 and x.strides[1] < min(x.strides[2:])


def padding_buffer(p: Program, g: Geometry, images: Array, fill: float = 0.0) -> Array:
    """Room for padded images that keeps its borders from run to run, `fill` everywhere."""
    lengths = tuple(length + g.pre[i] + g.post[i] for i, length in enumerate(images.shape[2:]))
    shape = (*images.shape[:2], *lengths)
    if g.last:
        buffer = np.moveaxis(p.lasting((shape[0], *lengths, shape[1]), images.dtype), -1, 1)
    else:
        buffer = p.lasting(shape, images.dtype)
    buffer.fill(fill)
    return buffer


def interior(g: Geometry, padded: Array, shape: tuple[int, ...]) -> Array:
    inside = (slice(before, before + n) for before, n in zip(g.pre, shape[2:], strict=True))
    return padded[(slice(None), slice(None), *inside)]


def windows(g: Geometry, x: Array) -> Array:
    """Axes (n, g, c, taps…, positions…) of a padded input."""
    n, channels = x.shape[:2]
    per_group = channels // g.groups
    along = x.strides[2:]
    strides = (
        x.strides[0],
        x.strides[1] * per_group,
        x.strides[1],
        *(s * d for s, d in zip(along, g.dilation, strict=True)),
        *(s * d for s, d in zip(along, g.stride, strict=True)),
    )
    return as_strided(x, (n, g.groups, per_group, *g.kernel, *g.out), strides)
