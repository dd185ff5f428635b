"""Convolution forward, data gradient, weight gradient. See graphs/FORMAT.md.

One rule serves all three: the same x, w and y, of which another one is the result.
Flops: 2·N·K·(C/G)·Πoutput·Πkernel in every direction, a multiplication and an addition a tap.
"""

from __future__ import annotations

import math
from functools import partial

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

PARAMETERS = (
    Parameter("pre_padding", "ints", required=True),
    Parameter("post_padding", "ints", required=True),
    Parameter("stride", "ints", required=True),
    Parameter("dilation", "ints", required=True),
    Parameter(
        "conv_mode",
        "enum",
        required=True,
        choices=("unset", "convolution", "cross_correlation"),
        spelling="upper",
    ),
)
_LOWEST = {"pre_padding": 0, "post_padding": 0, "stride": 1, "dilation": 1}


def groups(x_dims: tuple[int, ...], w_dims: tuple[int, ...]) -> int:
    """Return the number of groups, which is not an attribute: w has C/G channels."""
    return x_dims[1] // w_dims[1]


def check(view: NodeView, x: str, w: str, y: str) -> None:
    expect_rank(view, x, 3, 5)
    rank = len(view[x].dims)
    for port in (w, y):
        expect_rank(view, port, rank, rank)
    for name, lowest in _LOWEST.items():
        expect_length(view, name, rank - 2, lowest)
    if view.attribute("conv_mode") == "unset":
        raise view.parameter_error("conv_mode", "is unset, expected CROSS_CORRELATION")
    x_dims, w_dims = view[x].dims, view[w].dims
    if x_dims[1] % w_dims[1]:
        what = f"has {w_dims[1]} channels per group, which do not divide the {x_dims[1]} of {x}"
        raise view.port_error(w, what)
    if w_dims[0] % groups(x_dims, w_dims):
        what = f"has {w_dims[0]} filters for {groups(x_dims, w_dims)} groups"
        raise view.port_error(w, what)
    pre, post, stride, dilation = (view.attribute(name) for name in _LOWEST)
    spatial = output_lengths(x_dims[2:], w_dims[2:], pre, post, stride, dilation)
    expect_dims(view, y, (x_dims[0], w_dims[0], *spatial), f"the convolution of {x} and {w}")


def count_flops(view: NodeView, w: str, y: str) -> int:
    return 2 * view[y].elements * math.prod(view[w].dims[1:])


def _row(kind: str, name: str, inputs: tuple[str, str], output: str, roles: str) -> Operation:
    x, w, y = roles.split()
    return Operation(
        type=f"Convolution{kind}Attributes",
        name=name,
        family="convolution",
        inputs=tuple(Port(port) for port in inputs),
        outputs=(Port(output),),
        parameters=PARAMETERS,
        place="parameters",
        check=partial(check, x=x, w=w, y=y),
        flops=partial(count_flops, w=w, y=y),
    )


ROWS = (
    _row("Fwd", "conv_fwd", ("x", "w"), "y", "x w y"),
    _row("Bwd", "conv_dgrad", ("dy", "w"), "dx", "dx w dy"),
    _row("Wrw", "conv_wgrad", ("x", "dy"), "dw", "x dw dy"),
)
