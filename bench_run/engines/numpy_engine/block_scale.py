"""Block-scaled (MX) quantisation and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.graph.dtypes import DTYPES

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.op import Op

Array: TypeAlias = npt.NDArray[Any]


def dequantize(op: Op) -> None:
    """y = x·scale[index // block]; `block_size` belongs to the trailing axes."""
    p, x, scale = op.program, op.read("x"), op.read("scale")
    sizes = tuple(op.attribute("block_size", ()))
    if not 1 <= len(sizes) <= x.ndim:
        raise op.refusal(f"block_size {sizes} does not fit x of {x.shape}")
    blocks = (*(1 for _ in range(x.ndim - len(sizes))), *sizes)
    if op.attribute("is_negative_scale"):
        factor = p.scratch_like(scale)
        p.each(np.negative, scale, out=factor)
        p.each(np.exp2, factor, out=factor)
        scale = factor
    with op.writing("y") as y:
        p.each(np.multiply, x, _expanded(op, scale, blocks, x.shape), out=y)


def quantize(op: Op) -> None:
    """scale = max |x| over the block / largest of y's type, rounded up to a power of two where its
    type is one; y = x / scale, and 0 where the scale is."""
    if op.attribute("transpose"):
        raise op.refusal("what transpose does is not documented")
    p, x = op.program, op.read("x")
    size, axis = int(op.attribute("block_size", 0)), int(op.attribute("axis", x.ndim - 1))
    kind = op.tensor("scale").data_type
    if size < 1 or x.shape[axis] % size:
        raise op.refusal(f"blocks of {size} do not divide the {x.shape[axis]} of axis {axis}")
    if kind not in ("fp8_e8m0", "float"):
        raise op.refusal(f"scales of type {kind}")
    shape = (*x.shape[:axis], x.shape[axis] // size, size, *x.shape[axis + 1 :])
    magnitude = p.scratch(x.shape, x.dtype)
    p.each(np.absolute, x, out=magnitude)
    with op.writing("scale") as scale, op.writing("y") as y:
        p.call(np.maximum.reduce, magnitude.reshape(shape), axis=axis + 1, out=scale)
        largest = DTYPES[op.tensor("y").data_type].largest
        p.each(np.multiply, scale, 1.0 / largest, out=scale)
        if kind == "fp8_e8m0":
            p.call(_round_up, scale, DTYPES[kind].smallest)
        blocks = tuple(size if i == axis else 1 for i in range(x.ndim))
        p.each(_quotient, x, _expanded(op, scale, blocks, x.shape), out=y)


def _round_up(scale: Array, smallest: float) -> None:
    """To the next power of two, in place and exactly: by mantissa and exponent."""
    mantissa, exponent = np.frexp(scale)
    np.ldexp(np.ones_like(scale), exponent - (mantissa == 0.5), out=scale)
    np.maximum(scale, smallest, out=scale)


def _quotient(x: Array, divisor: Array, out: Array) -> None:
    out.fill(0.0)
    np.divide(x, divisor, out=out, where=divisor != 0)


def _expanded(op: Op, scale: Array, blocks: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    """Each scale repeated over its block, cut to x's dims, by a call for each blocked axis."""
    for axis, size in enumerate(blocks):
        if size == 1:
            continue
        place = np.arange(dims[axis]) // size
        wide = op.program.scratch(
            (*scale.shape[:axis], dims[axis], *scale.shape[axis + 1 :]), scale.dtype
        )
        op.program.call(np.take, scale, place, axis=axis, out=wide, mode="clip")
        scale = wide
    return scale
