"""Recipes of the normalisations: batch norm in its forms, layer norm, RMS norm, gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench_run.errors import UsageError
from bench_run.graph.layouts import order_of, ordered
from bench_run.graph.make.build import Builder, Dims, Value
from bench_run.graph.make.parameters import Params, SpecParameter
from bench_run.graph.make.recipes.recipe import (
    DTYPE,
    LAYOUT,
    Recipe,
    complete_image,
    image_dims,
    image_rows,
)

EPS = SpecParameter("eps", 1e-5, "added to the variance", "float", "eps", shape=False)
_FLOATS = ("float", "half", "bfloat16", "double")

STATS = SpecParameter(
    "stats",
    None,
    "data type of the statistics; the compute type",
    "dtype",
    "stats",
    choices=_FLOATS,
    shape=False,
)
AFFINE = SpecParameter(
    "affine",
    None,
    "data type of scale and bias; as stats",
    "dtype",
    "affine",
    choices=_FLOATS,
    shape=False,
)
SAVED = SpecParameter(
    "saved", True, "with saved mean and inverse variance", "flag", "saved", shape=False
)
RUNNING = SpecParameter(
    "running", False, "updates running statistics", "flag", "running", shape=False
)

_IMAGE = image_rows(32, 64, 28)

BATCHNORM_SHAPES = {
    "small": ("n=2 c=3 h=4 w=5", "n=2 c=4 d=3 h=2 w=3"),
    "common": ("n=32 c=64 h=28 w=28",),
    "large": ("n=128 c=256 h=56 w=56",),
    "skewed": ("n=1 c=2048 h=7 w=7", "n=256 c=8 h=56 w=56"),
}

ROWS = (
    SpecParameter("n", 8, "batch", code="n", always=True),
    SpecParameter("s", 512, "sequence length", code="s", always=True),
    SpecParameter("h", 1024, "hidden size, normalised", code="h", always=True),
    SpecParameter("dims", None, "lengths of any rank in place of n s h", "dims", ""),
    SpecParameter("last", 1, "how many of the last axes are normalised", code="last", shape=False),
)

ROW_SHAPES = {
    "small": ("n=2 s=3 h=8",),
    "common": ("n=8 s=512 h=768",),
    "large": ("n=32 s=2048 h=4096",),
    "skewed": ("n=1 s=1 h=8192", "n=64 s=4096 h=64"),
}


def complete_rows(op: str, params: Params) -> Params:
    out = dict(params)
    if out["dims"] is not None:
        out.update(n=None, s=None, h=None)
    rank = 3 if out["dims"] is None else len(out["dims"])
    if not 1 <= out["last"] < rank:
        raise UsageError(f"{op}: last={out['last']} must be below the rank, {rank}")
    return out


def _image(builder: Builder, params: Params, chained: Value | None) -> Value:
    if chained is not None:
        return chained
    dims, order = image_dims(params), order_of(params["layout"])
    return Value(builder.operand("x", dims, order), dims, order, 1)


def _shared(builder: Builder, params: Params, x: Value, *names: str) -> dict[str, int]:
    """Add tensors of [1, C, 1, …]: statistics in one type, scale and bias possibly in another."""
    dims = tuple(d if axis == 1 else 1 for axis, d in enumerate(x.dims))
    stats = _kind(builder, params)
    affine = stats if params["affine"] is None else params["affine"]
    return {
        name: builder.tensor(
            name, dims, ordered(dims, x.order), affine if name in ("scale", "bias") else stats
        )
        for name in names
    }


def inference(builder: Builder, params: Params, chained: Value | None) -> Value:
    x = _image(builder, params, chained)
    ports = _shared(builder, params, x, "mean", "inv_variance", "scale", "bias")
    y = builder.result("batchnorm_inference", x.dims, x.order)
    builder.node(
        "BatchnormInferenceAttributes", "batchnorm_inference", {"x": x.uid, **ports}, {"y": y.uid}
    )
    return y


def inference_variance(builder: Builder, params: Params, chained: Value | None) -> Value:
    name = "batchnorm_inference_variance"
    x = _image(builder, params, chained)
    ports = _shared(builder, params, x, "mean", "variance", "scale", "bias")
    ports["epsilon"] = builder.constant("epsilon", params["eps"])
    y = builder.result(name, x.dims, x.order)
    builder.node(
        "BatchnormInferenceAttributesVarianceExt", name, {"x": x.uid, **ports}, {"y": y.uid}
    )
    return y


def training(builder: Builder, params: Params, chained: Value | None) -> Value:
    x = _image(builder, params, chained)
    inputs = {"x": x.uid, **_shared(builder, params, x, "scale", "bias")}
    inputs["epsilon"] = builder.constant("epsilon", params["eps"])
    if params["running"]:
        inputs |= _shared(builder, params, x, "prev_running_mean", "prev_running_variance")
        inputs["momentum"] = builder.constant("momentum", params["momentum"])
    y = builder.result("batchnorm_training", x.dims, x.order)
    outputs = {"y": y.uid}
    if params["saved"]:
        outputs |= _shared(builder, params, x, "mean", "inv_variance")
    if params["running"]:
        outputs |= _shared(builder, params, x, "next_running_mean", "next_running_variance")
    builder.node("BatchnormAttributes", "batchnorm_training", inputs, outputs)
    return y


def batchnorm_bwd(builder: Builder, params: Params, chained: Value | None) -> Value:
    dims, order = image_dims(params), order_of(params["layout"])
    dy = builder.operand("dy", dims, order) if chained is None else chained.uid
    x = Value(builder.operand("x", dims, order), dims, order, 1)
    names = ("scale", "mean", "inv_variance") if params["saved"] else ("scale",)
    inputs = {"dy": dy, "x": x.uid, **_shared(builder, params, x, *names)}
    dx = builder.result("batchnorm_bwd", dims, order, name="dx")
    outputs = {"dx": dx.uid, **_shared(builder, params, x, "dscale", "dbias")}
    builder.node("BatchnormBackwardAttributes", "batchnorm_bwd", inputs, outputs)
    return dx


def batchnorm_bwd_relu(builder: Builder, params: Params, _: Value | None) -> Value:
    """Build the gradient of a norm and a relu, whose input is recomputed by inference."""
    dims, order = image_dims(params), order_of(params["layout"])
    x, dy = builder.operand("x", dims, order), builder.operand("dy", dims, order)
    value = Value(x, dims, order, 1)
    ports = _shared(builder, params, value, "mean", "inv_variance", "scale", "bias")
    builder.last = False
    normed = builder.result("batchnorm_inference", dims, order)
    masked = builder.result("relu_bwd", dims, order, name="dx")
    builder.last = True
    builder.node(
        "BatchnormInferenceAttributes",
        "batchnorm_inference",
        {"x": x, **ports},
        {"y": normed.uid},
    )
    builder.node(
        "PointwiseAttributes",
        "relu_bwd",
        {"in_0": dy, "in_1": normed.uid},
        {"out_0": masked.uid},
        {"operation": "relu_bwd"},
    )
    dx = builder.result("batchnorm_bwd", dims, order, name="dx")
    kept = {key: ports[key] for key in ("scale", "mean", "inv_variance")}
    outputs = {"dx": dx.uid, **_shared(builder, params, value, "dscale", "dbias")}
    builder.node(
        "BatchnormBackwardAttributes", "batchnorm_bwd", {"dy": masked.uid, "x": x, **kept}, outputs
    )
    return dx


def _row_dims(params: Params) -> Dims:
    if params["dims"] is not None:
        return tuple(params["dims"])
    return (params["n"], params["s"], params["h"])


def _rows(builder: Builder, params: Params, chained: Value | None) -> Value:
    if chained is not None:
        return chained
    dims = _row_dims(params)
    return Value(builder.tensor("x", dims), dims, tuple(range(len(dims))), len(dims) - 1)


def _affine_dims(dims: Dims, last: int) -> Dims:
    """Return the normalised axes at x's rank, 1 elsewhere."""
    return (*(1 for _ in dims[:-last]), *dims[-last:])


def _row_dims_of_stats(dims: Dims, last: int) -> Dims:
    return (*dims[:-last], *(1 for _ in dims[-last:]))


def _kind(builder: Builder, params: Params) -> str:
    return builder.compute if params["stats"] is None else str(params["stats"])


def layernorm(builder: Builder, params: Params, chained: Value | None) -> Value:
    x, last = _rows(builder, params, chained), params["last"]
    affine = _affine_dims(x.dims, last)
    inputs = {
        "x": x.uid,
        "scale": builder.tensor("scale", affine),
        "bias": builder.tensor("bias", affine),
        "epsilon": builder.constant("epsilon", params["eps"]),
    }
    y = builder.result("layernorm", x.dims, x.order, channel=x.channel)
    outputs = {"y": y.uid}
    if params["phase"] == "training":
        stats = _row_dims_of_stats(x.dims, last)
        for name in ("mean", "inv_variance"):
            outputs[name] = builder.tensor(name, stats, None, _kind(builder, params))
    attributes = {"normalized_dim_count": last, "forward_phase": params["phase"]}
    builder.node("LayernormAttributes", "layernorm", inputs, outputs, attributes)
    return y


def layernorm_bwd(builder: Builder, params: Params, _: Value | None) -> Value:
    dims, last = _row_dims(params), params["last"]
    affine, stats = _affine_dims(dims, last), _row_dims_of_stats(dims, last)
    kind = _kind(builder, params)
    inputs = {name: builder.tensor(name, dims) for name in ("dy", "x")}
    inputs["scale"] = builder.tensor("scale", affine)
    for name in ("mean", "inv_variance"):
        inputs[name] = builder.tensor(name, stats, None, kind)
    dx = builder.result("layernorm_bwd", dims, channel=len(dims) - 1, name="dx")
    outputs = {"dx": dx.uid}
    for name in ("dscale", "dbias"):
        outputs[name] = builder.tensor(name, affine)
    builder.node(
        "LayernormBackwardAttributes",
        "layernorm_bwd",
        inputs,
        outputs,
        {"normalized_dim_count": last},
    )
    return dx


def rmsnorm(builder: Builder, params: Params, chained: Value | None) -> Value:
    x, last = _rows(builder, params, chained), params["last"]
    affine = _affine_dims(x.dims, last)
    inputs = {"x": x.uid, "scale": builder.tensor("scale", affine)}
    inputs["epsilon"] = builder.constant("epsilon", params["eps"])
    if params["bias"]:
        inputs["bias"] = builder.tensor("bias", affine)
    y = builder.result("rmsnorm", x.dims, x.order, channel=x.channel)
    outputs = {"y": y.uid}
    if params["phase"] == "training":
        stats = _row_dims_of_stats(x.dims, last)
        outputs["inv_rms"] = builder.tensor("inv_rms", stats, None, _kind(builder, params))
    builder.node(
        "RMSNormAttributes", "rmsnorm", inputs, outputs, {"forward_phase": params["phase"]}
    )
    return y


def rmsnorm_bwd(builder: Builder, params: Params, _: Value | None) -> Value:
    dims, last = _row_dims(params), params["last"]
    affine = _affine_dims(dims, last)
    inputs = {name: builder.tensor(name, dims) for name in ("dy", "x")}
    inputs["scale"] = builder.tensor("scale", affine)
    inputs["inv_rms"] = builder.tensor(
        "inv_rms", _row_dims_of_stats(dims, last), None, _kind(builder, params)
    )
    dx = builder.result("rmsnorm_bwd", dims, channel=len(dims) - 1, name="dx")
    outputs = {"dx": dx.uid, "dscale": builder.tensor("dscale", affine)}
    if params["bias"]:
        outputs["dbias"] = builder.tensor("dbias", affine)
    builder.node("RMSNormBackwardAttributes", "rmsnorm_bwd", inputs, outputs)
    return dx


_PHASE = SpecParameter(
    "phase",
    "inference",
    "training also writes the statistics",
    "choice",
    "",
    choices=("inference", "training"),
    shape=False,
)
_BIAS = SpecParameter("bias", False, "with a bias", "flag", "bias", shape=False)
_MOMENTUM = SpecParameter(
    "momentum",
    0.1,
    "share of the batch in the running statistics",
    "float",
    "momentum",
    shape=False,
)


def _batch(name: str, summary: str, build: Any, *extra: SpecParameter, **more: Any) -> Recipe:
    return Recipe(
        name,
        "normalization",
        summary,
        build,
        (*_IMAGE, STATS, AFFINE, *extra, DTYPE, LAYOUT),
        BATCHNORM_SHAPES,
        complete=partial(complete_image, name, size=28),
        **more,
    )


def _over_rows(name: str, summary: str, build: Any, *extra: SpecParameter, **more: Any) -> Recipe:
    return Recipe(
        name,
        "normalization",
        summary,
        build,
        (*ROWS, STATS, *extra, DTYPE),
        ROW_SHAPES,
        complete=partial(complete_rows, name),
        **more,
    )


RECIPES: tuple[Recipe, ...] = (
    _batch(
        "batchnorm_inference",
        "batch norm from mean and inverse variance",
        inference,
        aliases=("bn_inference",),
        backward=("batchnorm_bwd",),
        chains=True,
    ),
    _batch(
        "batchnorm_inference_variance",
        "batch norm from mean and variance",
        inference_variance,
        EPS,
        aliases=("bn_inference_variance",),
        backward=("batchnorm_bwd",),
        chains=True,
    ),
    _batch(
        "batchnorm_training",
        "batch norm with the statistics of the batch",
        training,
        EPS,
        SAVED,
        RUNNING,
        _MOMENTUM,
        aliases=("batchnorm", "bn_training"),
        backward=("batchnorm_bwd",),
        chains=True,
    ),
    _batch(
        "batchnorm_bwd",
        "gradients of batch norm",
        batchnorm_bwd,
        SAVED,
        aliases=("bn_bwd",),
        direction="bwd",
    ),
    _batch(
        "batchnorm_bwd_relu",
        "gradients of batch norm + relu",
        batchnorm_bwd_relu,
        aliases=("bn_bwd_relu",),
        direction="bwd",
    ),
    _over_rows(
        "layernorm",
        "layer norm over the last axes",
        layernorm,
        EPS,
        _PHASE,
        backward=("layernorm_bwd",),
        chains=True,
    ),
    _over_rows("layernorm_bwd", "gradients of layer norm", layernorm_bwd, direction="bwd"),
    _over_rows(
        "rmsnorm",
        "RMS norm over the last axes",
        rmsnorm,
        EPS,
        _BIAS,
        _PHASE,
        backward=("rmsnorm_bwd",),
        chains=True,
    ),
    _over_rows("rmsnorm_bwd", "gradients of RMS norm", rmsnorm_bwd, _BIAS, direction="bwd"),
)
