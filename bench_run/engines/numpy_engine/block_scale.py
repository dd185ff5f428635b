"""Block-scaled (MX) quantisation and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.engines.numpy_engine.common import refusal
from bench_run.graph.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView


def refuse(node: NodeView) -> None:
    """Of `quantize`."""
    if node.attribute("transpose"):
        raise refusal(node, "what transpose does is not documented")
    dims, kind = node["x"].dims, node["scale"].data_type
    size, axis = node.attribute("block_size") or 0, _axis(node)
    if size < 1 or dims[axis] % size:
        raise refusal(node, f"blocks of {size} do not divide the {dims[axis]} of axis {axis}")
    if kind not in ("fp8_e8m0", "float"):
        raise refusal(node, f"scales of type {kind}")


def _axis(node: NodeView) -> int:
    axis: int | None = node.attribute("axis")
    return len(node["x"].dims) - 1 if axis is None else axis


def dequantize(node: NodeView, x: Array, scale: Array) -> dict[str, Array]:
    """y = x·scale[index // block]; `block_size` belongs to the trailing axes."""
    if node.attribute("is_negative_scale"):
        scale = np.exp2(-scale)
    sizes = node.attribute("block_size")
    return {"y": x * _expanded(scale, (*(1,) * (x.ndim - len(sizes)), *sizes), x.shape)}


def quantize(node: NodeView, x: Array) -> dict[str, Array]:
    """scale = max |x| over the block / largest of y's type, rounded up to a power of two where its
    type is one; y = x / scale, and 0 where the scale is."""
    size, axis = node.attribute("block_size"), _axis(node)
    blocks = np.abs(x).reshape(*x.shape[:axis], -1, size, *x.shape[axis + 1 :])
    scale = blocks.max(axis + 1) * (1.0 / DTYPES[node["y"].data_type].largest)
    kind = node["scale"].data_type
    if kind == "fp8_e8m0":
        # Exactly, by mantissa and exponent: ½ is a power of two already.
        mantissa, exponent = np.frexp(scale)
        powers = np.ldexp(np.ones_like(scale), exponent - (mantissa == 0.5))
        scale = np.maximum(powers, DTYPES[kind].smallest)
    divisor = _expanded(scale, [size if i == axis else 1 for i in range(x.ndim)], x.shape)
    return {"y": np.divide(x, divisor, out=np.zeros_like(x), where=divisor != 0), "scale": scale}


def _expanded(scale: Array, blocks: Sequence[int], dims: tuple[int, ...]) -> Array:
    """Each scale repeated over its block, cut to x's dims."""
    for axis, size in enumerate(blocks):
        scale = np.repeat(scale, size, axis) if size > 1 else scale
    return scale[tuple(slice(length) for length in dims)]
