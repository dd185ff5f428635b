"""Quantisation by blocks that share a scale (MX formats). See graphs/FORMAT.md.

Flops per element of x: 1 product to dequantise; 3 to quantise (magnitude, maximum, division).
"""

from __future__ import annotations

from bench_run.graph.operations.base import (
    NodeView,
    Operation,
    Parameter,
    Port,
    expect_dims,
    expect_like,
)


def blocks(dims: tuple[int, ...], block_size: tuple[int, ...]) -> tuple[int, ...]:
    """Return dims of the scale: `block_size` belongs to the trailing dims, rounded up."""
    sizes = (*(1 for _ in range(len(dims) - len(block_size))), *block_size)
    return tuple(-(-length // size) for length, size in zip(dims, sizes, strict=True))


def check_dequantize(view: NodeView) -> None:
    expect_like(view, "y", "x")
    dims, sizes = view["x"].dims, view.attribute("block_size")
    if not 1 <= len(sizes) <= len(dims) or min(sizes) < 1:
        what = f"is {list(sizes)}, expected 1 to {len(dims)} sizes of 1 or more"
        raise view.parameter_error("block_size", what)
    expect_dims(view, "scale", blocks(dims, sizes), "one scale for each block of x")


def check_quantize(view: NodeView) -> None:
    dims, size = view["x"].dims, view.attribute("block_size")
    if size < 1:
        raise view.parameter_error("block_size", f"is {size}, expected 1 or more")
    axis = view.attribute("axis")
    if axis is not None and not 0 <= axis < len(dims):
        raise view.parameter_error("axis", f"is {axis}, expected 0 to {len(dims) - 1}")
    if view.attribute("transpose"):
        return  # what it does to the shapes is not documented
    expect_like(view, "y", "x")
    blocked = len(dims) - 1 if axis is None else axis
    scales = tuple(-(-n // size) if i == blocked else n for i, n in enumerate(dims))
    expect_dims(view, "scale", scales, "one scale for each block of x")


ROWS = (
    Operation(
        type="BlockScaleDequantizeAttributes",
        name="block_scale_dequantize",
        family="block_scale",
        inputs=(Port("x"), Port("scale", "block_scale")),
        outputs=(Port("y"),),
        parameters=(
            Parameter("block_size", "ints", required=True),
            Parameter("is_negative_scale", "bool", default=False),
        ),
        check=check_dequantize,
        flops=lambda view: view["x"].elements,
    ),
    Operation(
        type="BlockScaleQuantizeAttributes",
        name="block_scale_quantize",
        family="block_scale",
        inputs=(Port("x"),),
        outputs=(Port("y"), Port("scale", "block_scale")),
        parameters=(
            Parameter("block_size", "int", default=0, absent="omit"),
            Parameter("axis", "int", absent="omit"),
            Parameter("transpose", "bool", default=False),
        ),
        check=check_quantize,
        flops=lambda view: 3 * view["x"].elements,
    ),
)
