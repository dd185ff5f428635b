"""Pooling, forward and backward. See graphs/FORMAT.md.

Flops: one step for each element of each window; an average divides once more.
"""

from __future__ import annotations

import math

from bench_run.graph.operations.base import (
    NodeView,
    Operation,
    Parameter,
    Port,
    expect_dims,
    expect_length,
    expect_rank,
    output_lengths,
)

_MODES = (
    "not_set",
    "maxpool",
    "avgpool_exclude_padding",
    "avgpool_include_padding",
    "bilinear",
    "nearest",
)
_PADDINGS = ("padding_not_set", "neg_inf_pad", "zero_pad", "edge_val_pad")
"""Interpolation and edge padding are known by name only; engines refuse them."""
_LOWEST = {"pre_padding": 0, "post_padding": 0, "stride": 1, "window": 1}

PARAMETERS = (
    *(Parameter(name, "ints", required=True) for name in _LOWEST),
    Parameter("resample_mode", "enum", required=True, choices=_MODES),
    Parameter("padding_mode", "enum", default="padding_not_set", choices=_PADDINGS),
    Parameter("generate_index", "bool", absent="omit"),
)


def _check(view: NodeView, x: str, y: str) -> None:
    expect_rank(view, x, 3, 5)
    x_dims = view[x].dims
    for name, lowest in _LOWEST.items():
        expect_length(view, name, len(x_dims) - 2, lowest)
    if view.attribute("resample_mode") == "not_set":
        raise view.parameter_error("resample_mode", f"is not set, expected {', '.join(_MODES[1:])}")
    pre, post, stride, window = (view.attribute(name) for name in _LOWEST)
    spatial = output_lengths(x_dims[2:], window, pre, post, stride)
    expect_dims(view, y, (*x_dims[:2], *spatial), f"the windows over {x}")
    expect_dims(view, "index", view[y].dims, f"those of {y}")
    if view.get("index") is not None and view.attribute("resample_mode") != "maxpool":
        raise view.port_error("index", "has no meaning: only maxpool has winners")


def _flops(view: NodeView, y: str) -> int:
    division = 0 if view.attribute("resample_mode") == "maxpool" else 1
    window: tuple[int, ...] = view.attribute("window")
    return view[y].elements * (math.prod(window) + division)


ROWS = (
    Operation(
        type="ResampleFwdAttributes",
        name="resample",
        family="resample",
        inputs=(Port("x"),),
        outputs=(Port("y"), Port("index", required=False, absent="omit")),
        parameters=PARAMETERS,
        flat_ports=True,
        check=lambda view: _check(view, "x", "y"),
        flops=lambda view: _flops(view, "y"),
    ),
    Operation(
        type="ResampleBwdAttributes",
        name="resample_backward",
        family="resample",
        inputs=(Port("dy"), Port("index", "window_index", required=False, absent="omit")),
        outputs=(Port("dx"),),
        parameters=PARAMETERS,
        flat_ports=True,
        check=lambda view: _check(view, "dx", "dy"),
        flops=lambda view: _flops(view, "dy"),
    ),
)
