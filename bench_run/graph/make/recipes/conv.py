"""Recipes of the convolutions: forward, data gradient, weight gradient, one to three axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.graph.layouts import order_of, strides_of
from bench_run.graph.make.parameters import Params, SpecParameter
from bench_run.graph.make.recipes.recipe import (
    DTYPE,
    LAYOUT,
    Build,
    Recipe,
    checked_layout,
    complete_image,
    image_dims,
    image_rows,
    layout_row,
    per_axis,
)

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


@dataclass(frozen=True)
class Shapes:
    """Dims and strides of the three tensors of a convolution, and its node's attributes."""

    x: tuple[Dims, Dims]
    w: tuple[Dims, Dims]
    y: tuple[Dims, Dims]
    attributes: dict[str, Any]


def complete(params: Params) -> Params:
    op = "conv"
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
    if min(output_lengths(out)) < 1:
        raise UsageError(f"{op}: the filter is larger than the padded input")
    return out


def output_lengths(params: Params) -> Dims:
    """floor((in + pre + post - dilation·(filter - 1) - 1) / stride) + 1, for each spatial axis."""
    lengths = image_dims(params)[2:]
    taps = filter_lengths(params)
    rows = zip(
        lengths,
        taps,
        params["pad"],
        params["pad_post"],
        params["stride"],
        params["dilation"],
        strict=True,
    )
    return tuple((i + a + b - dl * (r - 1) - 1) // st + 1 for i, r, a, b, st, dl in rows)


def filter_lengths(params: Params) -> Dims:
    return tuple(params[key] for key in ("t", "r", "s") if params[key] is not None)


def shapes(params: Params) -> Shapes:
    x = image_dims(params)
    w = (params["k"], params["c"] // params["groups"], *filter_lengths(params))
    y = (params["n"], params["k"], *output_lengths(params))
    return Shapes(
        x=(x, strides_of(x, params["layout"])),
        w=(w, strides_of(w, params["wlayout"])),
        y=(y, strides_of(y, params["ylayout"])),
        attributes={
            "conv_mode": params["mode"],
            "pre_padding": params["pad"],
            "post_padding": params["pad_post"],
            "stride": params["stride"],
            "dilation": params["dilation"],
        },
    )


def build_forward(builder: Builder, params: Params, _: Value | None) -> Value:
    made = shapes(params)
    x, w = builder.tensor("x", *made.x), builder.tensor("w", *made.w)
    kind = "int32" if params["dtype"] == "int8" else None
    y = builder.result("conv_fwd", made.y[0], order_of(params["ylayout"]), data_type=kind)
    builder.node(
        "ConvolutionFwdAttributes", "conv_fwd", {"x": x, "w": w}, {"y": y.uid}, made.attributes
    )
    return y


def data_gradient(builder: Builder, params: Params, _: Value | None) -> Value:
    made = shapes(params)
    dy, w = builder.tensor("dy", *made.y), builder.tensor("w", *made.w)
    dx = builder.result("conv_dgrad", made.x[0], order_of(params["layout"]), name="dx")
    builder.node(
        "ConvolutionBwdAttributes",
        "conv_dgrad",
        {"dy": dy, "w": w},
        {"dx": dx.uid},
        made.attributes,
    )
    return dx


def weight_gradient(builder: Builder, params: Params, _: Value | None) -> Value:
    made = shapes(params)
    x, dy = builder.tensor("x", *made.x), builder.tensor("dy", *made.y)
    dw = builder.result("conv_wgrad", made.w[0], order_of(params["wlayout"]), name="dw")
    builder.node(
        "ConvolutionWrwAttributes",
        "conv_wgrad",
        {"x": x, "dy": dy},
        {"dw": dw.uid},
        made.attributes,
    )
    return dw


def _row(name: str, summary: str, build: Build, **more: Any) -> Recipe:
    return Recipe(name, "conv", summary, build, PARAMETERS, SHAPES, complete=complete, **more)


_FLOATS = ("float", "half", "bfloat16", "double")

RECIPES: tuple[Recipe, ...] = (
    _row(
        "conv_fwd",
        "convolution y = x * w",
        build_forward,
        aliases=("conv",),
        backward=("conv_dgrad", "conv_wgrad"),
        dtypes=(*_FLOATS, "int8"),
    ),
    _row(
        "conv_dgrad", "its data gradient dx", data_gradient, aliases=("conv_bwd",), direction="bwd"
    ),
    _row(
        "conv_wgrad",
        "its weight gradient dw",
        weight_gradient,
        aliases=("conv_wrw",),
        direction="bwd",
    ),
)
