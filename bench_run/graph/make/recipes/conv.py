"""Recipes of the convolutions: forward, data gradient, weight gradient, one to three axes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.graph.layouts import order_of, strides_of
from bench_run.graph.make.parameters import Params, SpecParameter
from bench_run.graph.make.recipes.recipe import (
    DTYPE,
    LAYOUT,
    Recipe,
    checked_layout,
    complete_image,
    image_dims,
    image_rows,
    layout_row,
    per_axis,
)
from bench_run.graph.operations.base import output_lengths

if TYPE_CHECKING:
    from bench_run.graph.make.build import Builder, Dims, Value

_FILTER = 3

PARAMETERS = (
    *image_rows(16, 64, 28),
    SpecParameter("k", 64, "output channels", code="k", always=True),
    SpecParameter("t", None, "filter depth (3-D)", code="t", always=True),
    SpecParameter("r", None, f"filter height, {_FILTER} when not given", code="r", always=True),
    SpecParameter("s", None, f"filter width, {_FILTER} when not given", code="s", always=True),
    SpecParameter("pad", (0,), "zeros before (and after) each axis", "ints", "p", least=0),
    SpecParameter(
        "pad_post", None, "zeros after, where they differ", "ints", "q", least=0, follows="pad"
    ),
    SpecParameter("stride", (1,), "step between outputs", "ints", "u"),
    SpecParameter("dilation", (1,), "step between filter taps, 1 is dense", "ints", "l"),
    SpecParameter("groups", 1, "groups; channels make it depthwise", code="g"),
    SpecParameter(
        "mode",
        "cross_correlation",
        "whether the filter is mirrored",
        "choice",
        "",
        shape=False,
        choices=("cross_correlation", "convolution"),
    ),
    DTYPE,
    LAYOUT,
    layout_row("wlayout", "memory order of the filter, n for k; as layout", "filter", "layout"),
    layout_row("ylayout", "memory order of the output; as layout", "out", "layout"),
)

SHAPES = {
    "small": (
        "n=2 c=4 h=7 w=6 k=6 r=3 s=3 pad=1",
        "n=1 c=6 h=9 w=9 k=4 r=3 s=2 pad=1x0 stride=2 dilation=2x1 groups=2",
        "n=2 c=3 w=11 k=4 s=3 pad=1 spatial=1",
        "n=1 c=2 d=4 h=5 w=5 k=3 t=2 r=3 s=3 pad=1 spatial=3",
    ),
    "common": (
        "n=16 c=64 h=28 w=28 k=64 r=3 s=3 pad=1",
        "n=16 c=128 h=28 w=28 k=256 r=1 s=1",
    ),
    "large": (
        "n=64 c=256 h=56 w=56 k=256 r=3 s=3 pad=1",
        "n=128 c=512 h=28 w=28 k=1024 r=1 s=1 stride=2",
    ),
    "skewed": (
        "n=1 c=2048 h=7 w=7 k=512 r=1 s=1",
        "n=1 c=3 h=512 w=512 k=8 r=7 s=7 pad=3 stride=2",
        "n=4 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 groups=256",
    ),
}


def _completed(op: str, params: Params) -> dict[str, Any]:
    out = complete_image(op, params, 28)
    rank = out["spatial"]
    for axis, key in ((3, "t"), (2, "r"), (1, "s")):
        if rank < axis and out[key] is not None:
            raise UsageError(f"{op}: {key}={out[key]} has no meaning with spatial={rank}")
        if rank >= axis and out[key] is None:
            out[key] = _FILTER
    for key in ("pad", "stride", "dilation"):
        out[key] = per_axis(op, key, out[key], rank)
    post = out["pad_post"]
    out["pad_post"] = out["pad"] if post is None else per_axis(op, "pad_post", post, rank)
    for key in ("wlayout", "ylayout"):
        given = out["layout"] if out[key] is None else out[key]
        out[key] = checked_layout(op, key, given, rank)
    for key in ("c", "k"):
        if out[key] % out["groups"]:
            raise UsageError(f"{op}: groups={out['groups']} does not divide {key}={out[key]}")
    return out


def complete(params: Params) -> Params:
    out = _completed("conv", params)
    if min(sizes(out)["y"][2:]) < 1:
        raise UsageError("conv: the filter is larger than the padded input")
    return out


def complete_transposed(params: Params) -> Params:
    """Return the parameters of a convolution backwards, whose lengths are those of its input."""
    op = "conv_transpose"
    out = _completed(op, params)
    out["output_padding"] = per_axis(op, "output_padding", out["output_padding"], out["spatial"])
    if any(extra >= step for extra, step in zip(out["output_padding"], out["stride"], strict=True)):
        raise UsageError(f"{op}: output_padding has to be below stride")
    if min(_grown(out)) < 1:
        raise UsageError(f"{op}: the padding is larger than the result")
    return out


def _grown(params: Params) -> Dims:
    """Return the lengths of a transposed convolution's result (Dumoulin and Visin, A guide to
    convolution arithmetic, 2016)."""
    lengths = image_dims(params)[2:]
    taps = (n for key in ("t", "r", "s") if (n := params[key]) is not None)
    rows = (params[key] for key in ("pad", "pad_post", "stride", "dilation", "output_padding"))
    return tuple(
        (length - 1) * step - before - after + spread * (tap - 1) + 1 + extra
        for length, tap, before, after, step, spread, extra in zip(
            lengths, taps, *rows, strict=True
        )
    )


def build_transposed(builder: Builder, params: Params, _: Value | None) -> Value:
    """Build a convolution backwards: the data gradient of one whose result is the input."""
    axes = [key for key in ("d", "h", "w") if params[key] is not None]
    turned = {
        **params,
        **dict(zip(axes, _grown(params), strict=True)),
        "c": params["k"],
        "k": params["c"],
        "layout": params["ylayout"],
        "ylayout": params["layout"],
    }
    return build("Bwd", "conv_transpose", ("dy", "w"), "dx", builder, turned, None)


def sizes(params: Params) -> dict[str, Dims]:
    """Return dims of x, w and y."""
    x, taps = (
        image_dims(params),
        tuple(n for key in ("t", "r", "s") if (n := params[key]) is not None),
    )
    rows = (params[key] for key in ("pad", "pad_post", "stride", "dilation"))
    return {
        "x": x,
        "w": (params["k"], params["c"] // params["groups"], *taps),
        "y": (params["n"], params["k"], *output_lengths(x[2:], taps, *rows)),
    }


LAYOUTS = {"x": "layout", "w": "wlayout", "y": "ylayout"}


def build(
    kind: str,
    op: str,
    inputs: tuple[str, str],
    output: str,
    builder: Builder,
    params: Params,
    _: Value | None,
) -> Value:
    """Build a convolution: two of x, w and y, or their gradients, give the third one."""
    dims = sizes(params)
    uids = {}
    for port in inputs:
        role = port[-1]
        strides = strides_of(dims[role], params[LAYOUTS[role]])
        uids[port] = builder.tensor(port, dims[role], strides)
    role = output[-1]
    data_type = "int32" if params["dtype"] == "int8" else None
    order = order_of(params[LAYOUTS[role]])
    made = builder.result(op, dims[role], order, name=output, data_type=data_type)
    attributes = {
        "conv_mode": params["mode"],
        "pre_padding": params["pad"],
        "post_padding": params["pad_post"],
        "stride": params["stride"],
        "dilation": params["dilation"],
    }
    node_type = f"Convolution{kind}Attributes"
    builder.node(node_type, op, uids, {output: made.uid}, attributes)
    return made


def build_bias_gradient(builder: Builder, params: Params, _: Value | None) -> Value:
    """Build the gradient of a bias: dy summed over all but the channels."""
    dims = sizes(params)["y"]
    order = order_of(params["ylayout"])
    dy = builder.operand("dy", dims, order)
    db = builder.result("conv_bgrad", (1, dims[1], *(1 for _ in dims[2:])), order, name="db")
    attributes = {"mode": "add", "is_deterministic": False}
    builder.node("ReductionAttributes", "conv_bgrad", {"in": dy}, {"out": db.uid}, attributes)
    return db


OUTPUT_PADDING = SpecParameter(
    "output_padding", (0,), "more at the end of each axis of the result", "ints", "o", least=0
)
TRANSPOSED_SHAPES = {
    "small": (
        "n=2 c=4 h=5 w=4 k=6 r=3 s=3 pad=1 stride=2 output_padding=1",
        "n=1 c=4 h=5 w=5 k=6 r=3 s=2 pad=1x0 stride=2 dilation=2x1 groups=2",
        "n=2 c=3 w=6 k=4 s=3 spatial=1",
        "n=1 c=2 d=3 h=4 w=4 k=3 t=2 r=3 s=3 pad=1 spatial=3",
    ),
    "common": ("n=16 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 stride=2 output_padding=1",),
    "large": ("n=64 c=256 h=28 w=28 k=256 r=4 s=4 pad=1 stride=2",),
    "skewed": ("n=1 c=512 h=4 w=4 k=3 r=16 s=16 stride=16",),
}


def _row(
    name: str, summary: str, kind: str, inputs: tuple[str, str], output: str, **more: Any
) -> Recipe:
    make = partial(build, kind, name, inputs, output)
    return Recipe(name, "conv", summary, make, PARAMETERS, SHAPES, complete=complete, **more)


_FLOATS = ("float", "half", "bfloat16", "double")

RECIPES: tuple[Recipe, ...] = (
    _row(
        "conv_fwd",
        "convolution y = x * w",
        "Fwd",
        ("x", "w"),
        "y",
        aliases=("conv",),
        backward=("conv_dgrad", "conv_wgrad"),
        dtypes=(*_FLOATS, "int8"),
    ),
    _row(
        "conv_dgrad",
        "its data gradient dx",
        "Bwd",
        ("dy", "w"),
        "dx",
        aliases=("conv_bwd",),
        direction="bwd",
    ),
    _row(
        "conv_wgrad",
        "its weight gradient dw",
        "Wrw",
        ("x", "dy"),
        "dw",
        aliases=("conv_wrw",),
        direction="bwd",
    ),
    Recipe(
        "conv_transpose",
        "conv",
        "convolution backwards: each input adds its filter to the result",
        build_transposed,
        (*PARAMETERS, OUTPUT_PADDING),
        TRANSPOSED_SHAPES,
        complete=complete_transposed,
    ),
    Recipe(
        "conv_bgrad",
        "conv",
        "gradient of the bias that follows it",
        build_bias_gradient,
        PARAMETERS,
        SHAPES,
        complete=complete,
        direction="bwd",
    ),
)
