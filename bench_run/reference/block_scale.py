"""Block-scaled (MX) quantisation and back.

Source: hipDNN's block-scale nodes; OCP Microscaling Formats specification 1.0, 2023.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.meaning import refusal
from bench_run.reference.rounding import rounded_up

if TYPE_CHECKING:
    from bench_run.graph.model import Node
    from bench_run.reference.common import Array, Arrays, Outputs

Dims = tuple[int, ...]


def dequantize(node: Node, inputs: Arrays, _outputs: Outputs) -> dict[str, Array]:
    """Compute y = x·scale[index // block], or x·2^(−scale[…]) with `is_negative_scale`.

    `block_size` applies to the trailing axes: (32,) is blocks of 32 along the last axis, (32, 1)
    along the one before. scale has x's rank and ⌈dim / block⌉ entries along each axis.
    """
    x, scale = inputs["x"], inputs["scale"]
    sizes = node.attributes.get("block_size") or ()
    if not 1 <= len(sizes) <= x.ndim or min(sizes) < 1:
        raise refusal(node, f"block_size {sizes} does not fit x of {x.shape}")
    blocks = (1,) * (x.ndim - len(sizes)) + tuple(sizes)
    factor = np.exp2(-scale) if node.attributes.get("is_negative_scale") else scale
    return {"y": x * _expanded(node, factor, x.shape, blocks)}


def quantize(node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
    """Compute scale = roundup(max |x| over the block / largest finite value of y's type), y = x /
    scale.

    Rounding up is to the next value of scale's own type (e8m0: the next power of two), so that
    nothing in the block overflows. y is 0 if scale is. Blocks of `block_size` lie along `axis` (the
    last if it is left out).
    """
    x = inputs["x"]
    axis = node.attributes.get("axis")
    axis = x.ndim - 1 if axis is None else axis
    block = node.attributes.get("block_size")
    if block is None or block < 1 or not 0 <= axis < x.ndim:
        raise refusal(node, f"block_size {block!r} along axis {axis} does not fit x of {x.shape}")
    largest = DTYPES[outputs["y"].data_type].largest
    maxima = np.maximum.reduceat(np.abs(x), range(0, x.shape[axis], block), axis=axis)
    scale = rounded_up(maxima / largest, outputs["scale"].data_type).astype(x.dtype, copy=False)
    blocks = tuple(block if i == axis else 1 for i in range(x.ndim))
    divisor = _expanded(node, scale, x.shape, blocks)
    y = np.divide(x, divisor, out=np.zeros_like(x), where=divisor != 0)
    return {"y": y, "scale": scale}


def _expanded(node: Node, scale: Array, dims: Dims, blocks: Dims) -> Array:
    """Return each scale repeated over its block, cut to x's dims."""
    want = tuple(-(-length // block) for length, block in zip(dims, blocks, strict=True))
    if scale.shape != want:
        raise refusal(node, f"scale has dims {scale.shape}, x of {dims} needs {want}")
    for axis, block in enumerate(blocks):
        if block > 1:
            scale = np.repeat(scale, block, axis=axis)
    return scale[tuple(slice(length) for length in dims)]
