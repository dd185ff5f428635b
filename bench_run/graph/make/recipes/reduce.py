"""Recipes of reductions and of pooling (hipDNN: resample)."""

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
    complete_image,
    image_dims,
    image_rows,
    per_axis,
)
from bench_run.graph.operations.base import output_lengths
from bench_run.graph.operations.reduction import SUMMARIES

if TYPE_CHECKING:
    from bench_run.graph.make.build import Builder, Dims, Value

_REDUCTION = (
    SpecParameter("dims", (1024, 1024), "lengths, of any rank", "dims", "", always=True),
    SpecParameter(
        "axes",
        None,
        "axes reduced; the last one",
        "dims",
        "axes",
        least=0,
        always=True,
        shape=False,
    ),
    DTYPE,
)

_REDUCTION_SHAPES = {
    "small": ("dims=3x4x5 axes=1", "dims=2x3x4x5 axes=0x2x3"),
    "common": ("dims=4096x1024 axes=1", "dims=32x64x28x28 axes=0x2x3"),
    "large": ("dims=16384x8192 axes=1",),
    "skewed": ("dims=4x2000003 axes=1", "dims=1000003x4 axes=0"),
}


def complete_reduction(op: str, params: Params) -> Params:
    rank = len(params["dims"])
    axes = (rank - 1,) if params["axes"] is None else tuple(sorted(set(params["axes"])))
    if axes[-1] >= rank:
        raise UsageError(f"{op}: axes={axes[-1]} of {rank}; choose from 0 to {rank - 1}")
    if all(params["dims"][axis] == 1 for axis in axes):
        raise UsageError(f"{op}: axes={'x'.join(map(str, axes))} have length 1: nothing to reduce")
    return {**params, "axes": axes}


def reduction(mode: str, builder: Builder, params: Params, chained: Value | None) -> Value:
    if chained is None:
        dims: Dims = params["dims"]
        x, axes = builder.tensor("x", dims), params["axes"]
    else:
        dims, x = chained.dims, chained.uid
        axes = (len(dims) - 1,) if params["axes"] is None else params["axes"]
    out = tuple(1 if axis in axes else d for axis, d in enumerate(dims))
    y = builder.result(f"reduce_{mode}", out, channel=len(dims) - 1)
    builder.node(
        "ReductionAttributes",
        f"reduce_{mode}",
        {"in": x},
        {"out": y.uid},
        {"mode": mode, "is_deterministic": False},
    )
    return y


_POOLING = (
    *image_rows(16, 64, 56),
    SpecParameter("window", (2,), "lengths of the window", "ints", "r", always=True),
    SpecParameter("pad", (0,), "cells before (and after) each axis", "ints", "p", least=0),
    SpecParameter(
        "pad_post", None, "cells after, where they differ", "ints", "q", least=0, follows="pad"
    ),
    SpecParameter("stride", None, "step between windows; as window", "ints", "u", follows="window"),
)

_INDEX = SpecParameter(
    "index", False, "with the position of each winner", "flag", "index", shape=False
)

_POOLING_SHAPES = {
    "small": ("n=2 c=3 h=7 w=6 window=3 pad=1 stride=2", "n=1 c=2 d=4 h=4 w=4 window=2"),
    "common": ("n=16 c=64 h=56 w=56 window=3 pad=1 stride=2",),
    "large": ("n=128 c=256 h=112 w=112 window=3 pad=1 stride=2",),
    "skewed": ("n=64 c=2048 h=7 w=7 window=7", "n=1 c=8 h=1024 w=1024 window=2"),
}


def _complete_pooling(op: str, params: Params) -> Params:
    out = complete_image(op, params, 56)
    rank = out["spatial"]
    out["window"] = per_axis(op, "window", out["window"], rank)
    out["pad"] = per_axis(op, "pad", out["pad"], rank)
    for key, other in (("stride", "window"), ("pad_post", "pad")):
        out[key] = out[other] if out[key] is None else per_axis(op, key, out[key], rank)
    if min(_pooled(out)) < 1:
        raise UsageError(f"{op}: the window is larger than the padded input")
    return out


def _pooled(params: Params) -> Dims:
    rows = (params[key] for key in ("window", "pad", "pad_post", "stride"))
    return output_lengths(image_dims(params)[2:], *rows)


def _attributes(mode: str, params: Params) -> dict[str, Any]:
    return {
        "pre_padding": params["pad"],
        "post_padding": params["pad_post"],
        "stride": params["stride"],
        "window": params["window"],
        "resample_mode": mode,
        "padding_mode": "neg_inf_pad" if mode == "maxpool" else "zero_pad",
        "generate_index": True if params.get("index") else None,
    }


def pool(mode: str, name: str, builder: Builder, params: Params, _: Value | None) -> Value:
    dims, order = image_dims(params), order_of(params["layout"])
    x = builder.operand("x", dims, order)
    pooled = (*dims[:2], *_pooled(params))
    y = builder.result(name, pooled, order)
    outputs = {"y": y.uid}
    if params.get("index"):
        strides = strides_of(pooled, params["layout"])
        outputs["index"] = builder.tensor("index", pooled, strides, "int32")
    builder.node("ResampleFwdAttributes", name, {"x": x}, outputs, _attributes(mode, params))
    return y


def pool_bwd(mode: str, name: str, builder: Builder, params: Params, _: Value | None) -> Value:
    """Scatter dy to its cells: the winners by index, or in equal shares."""
    dims, order = image_dims(params), order_of(params["layout"])
    pooled = (*dims[:2], *_pooled(params))
    inputs = {"dy": builder.operand("dy", pooled, order)}
    if mode == "maxpool":
        strides = strides_of(pooled, params["layout"])
        inputs["index"] = builder.tensor("index", pooled, strides, "int32")
    dx = builder.result(name, dims, order, name="dx")
    builder.node("ResampleBwdAttributes", name, inputs, {"dx": dx.uid}, _attributes(mode, params))
    return dx


def _pooling(
    name: str, mode: str, summary: str, extra: tuple[SpecParameter, ...]
) -> tuple[Recipe, ...]:
    gradient = f"{name}_bwd"
    rows = (*_POOLING, *extra, DTYPE, LAYOUT)
    forward = Recipe(
        name,
        "pooling",
        summary,
        partial(pool, mode, name),
        rows,
        _POOLING_SHAPES,
        complete=partial(_complete_pooling, name),
        aliases=(f"{name}_fwd",),
        backward=(gradient,),
    )
    backward = Recipe(
        gradient,
        "pooling",
        f"gradient of {name}",
        partial(pool_bwd, mode, gradient),
        (*_POOLING, DTYPE, LAYOUT),
        _POOLING_SHAPES,
        direction="bwd",
        complete=partial(_complete_pooling, gradient),
    )
    return forward, backward


RECIPES: tuple[Recipe, ...] = (
    *(
        Recipe(
            f"reduce_{mode}",
            "reduction",
            f"{words} over axes",
            partial(reduction, mode),
            _REDUCTION,
            _REDUCTION_SHAPES,
            complete=partial(complete_reduction, f"reduce_{mode}"),
            chains=True,
        )
        for mode, words in SUMMARIES.items()
    ),
    *_pooling("maxpool", "maxpool", "largest of each window", (_INDEX,)),
    *_pooling("avgpool", "avgpool_exclude_padding", "mean of each window, padding left out", ()),
    *_pooling("avgpool_padded", "avgpool_include_padding", "mean of each window and padding", ()),
)
