"""Layout names ⇄ strides. Dims are logical; a layout is nothing but strides.

A layout is the memory order of the axes, slowest first: the stride of an axis is the product of
the lengths of the axes that stand to its right in the layout's name.
"""

from __future__ import annotations

import math

LOGICAL_AXES = {
    "ncw": "ncw",
    "nwc": "ncw",
    "nchw": "nchw",
    "nhwc": "nchw",
    "chwn": "nchw",
    "ncdhw": "ncdhw",
    "ndhwc": "ncdhw",
    "bhsd": "bhsd",
    "bshd": "bhsd",
    "sbhd": "bhsd",
    "row": "mn",
    "col": "mn",
}
"""Layout name → the axes in the order of the dims."""

_MEMORY_ORDER = {"row": "mn", "col": "nm"}


def strides_of(dims: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Return packed strides, in elements. `row` and `col` order the last two dims, batches
    outside."""
    if layout in _MEMORY_ORDER:
        rows, columns = dims[-2:]
        batch = tuple(rows * columns * stride for stride in packed(dims[:-2]))
        return (*batch, columns, 1) if layout == "row" else (*batch, 1, rows)
    axes, order = LOGICAL_AXES[layout], layout
    lengths = dict(zip(axes, dims, strict=True))
    return tuple(math.prod(lengths[a] for a in order[order.index(axis) + 1 :]) for axis in axes)


def packed(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of a row-major tensor of any rank."""
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))


def channels_last(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides with axis 1 innermost, at any rank: NWC, NHWC, NDHWC."""
    return ordered(dims, (0, *range(2, len(dims)), 1))


def ordered(dims: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Return packed strides with the axes in memory as `order` says, slowest first."""
    strides = [0] * len(dims)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis]
    return tuple(strides)


def order_of(layout: str) -> tuple[int, ...]:
    """Return axis numbers in memory order, slowest first."""
    axes = LOGICAL_AXES[layout]
    return tuple(axes.index(axis) for axis in _MEMORY_ORDER.get(layout, layout))


def layout_name(dims: tuple[int, ...], strides: tuple[int, ...], axes: str) -> str | None:
    """Return the first known layout of these logical axes with these strides; None for any other.

    Strides of axes of length 1 say nothing and are not looked at.
    """
    for name, logical in LOGICAL_AXES.items():
        if logical == axes and _same(dims, strides, strides_of(dims, name)):
            return name
    return None


def is_packed(dims: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return _same(dims, strides, packed(dims))


def _same(dims: tuple[int, ...], one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return all(d == 1 or s == t for d, s, t in zip(dims, one, two, strict=True))
