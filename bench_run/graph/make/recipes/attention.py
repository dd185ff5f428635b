"""Recipes of scaled dot-product attention, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.graph.layouts import order_of, strides_of
from bench_run.graph.make.parameters import Params, SpecParameter
from bench_run.graph.make.recipes.recipe import DTYPE, Recipe

if TYPE_CHECKING:
    from bench_run.graph.make.build import Builder, Dims, Value

PARAMETERS = (
    SpecParameter("b", 2, "batch", code="b", always=True),
    SpecParameter("h", 8, "query heads", code="h", always=True),
    SpecParameter("hk", None, "key and value heads (GQA; 1 is MQA); as h", code="g", follows="h"),
    SpecParameter("s", 512, "query length", code="s", always=True),
    SpecParameter("skv", None, "key length; as s", code="t", follows="s"),
    SpecParameter("d", 64, "head size of queries and keys", code="d", always=True),
    SpecParameter("dv", None, "head size of values; as d", code="v", follows="d"),
    SpecParameter(
        "mask",
        "none",
        "keys a query may see: all, or none after its own (counted from the first or the last)",
        "choice",
        "",
        shape=False,
        choices=("none", "causal", "causal_bottom_right"),
    ),
    SpecParameter(
        "window", None, "how many earlier keys stay visible", code="window", least=0, shape=False
    ),
    SpecParameter(
        "bias", False, "with an additive bias of the scores", "flag", "bias", shape=False
    ),
    SpecParameter(
        "scale",
        None,
        "factor of the scores, 1/sqrt(d) when not given",
        "float",
        "scale",
        shape=False,
    ),
    DTYPE,
    SpecParameter(
        "layout",
        "bhsd",
        "memory order of q, k, v and o",
        "choice",
        "",
        shape=False,
        choices=("bhsd", "bshd", "sbhd"),
        always=True,
    ),
)

_FORWARD = (
    SpecParameter(
        "stats", False, "also writes the log-sum-exp of each row", "flag", "stats", shape=False
    ),
    SpecParameter(
        "lengths", False, "with real lengths of padded sequences", "flag", "lengths", shape=False
    ),
    SpecParameter("sink", False, "with one sink logit per head", "flag", "sink", shape=False),
)

SHAPES = {
    "small": ("b=2 h=4 hk=2 s=8 d=8", "b=1 h=2 s=6 skv=9 d=16 dv=8"),
    "common": ("b=2 h=8 s=512 d=64",),
    "large": ("b=8 h=32 hk=8 s=4096 d=128",),
    "skewed": ("b=8 h=32 hk=8 s=1 skv=4096 d=128", "b=1 h=1 s=4096 d=64"),
}


def complete(params: Params) -> Params:
    out = dict(params)
    for key, other in (("hk", "h"), ("skv", "s"), ("dv", "d")):
        out[key] = out[other] if out[key] is None else out[key]
    if out["h"] % out["hk"]:
        raise UsageError(f"sdpa: hk={out['hk']} does not divide h={out['h']}")
    return out


def _tensor(builder: Builder, name: str, dims: Dims, params: Params) -> int:
    return builder.tensor(name, dims, strides_of(dims, params["layout"]))


def _dims(params: Params) -> dict[str, Dims]:
    b, h, hk, s, t, d, dv = (params[key] for key in ("b", "h", "hk", "s", "skv", "d", "dv"))
    return {"q": (b, h, s, d), "k": (b, hk, t, d), "v": (b, hk, t, dv), "o": (b, h, s, dv)}


def _masks(params: Params) -> dict[str, Any]:
    """Return the masks: causal is a right bound of 0; a window is a left bound; the corner selects
    the diagonal."""
    mask = params["mask"]
    corner = "bottom_right" if mask == "causal_bottom_right" else "top_left"
    return {
        "right_bound": None if mask == "none" else 0,
        "left_bound": params["window"],
        "diagonal_alignment": corner,
        "attn_scale_value": params["scale"],
    }


def build_forward(builder: Builder, params: Params, _: Value | None) -> Value:
    dims = _dims(params)
    b, h, s, t = params["b"], params["h"], params["s"], params["skv"]
    inputs = {name: _tensor(builder, name, dims[name], params) for name in ("q", "k", "v")}
    if params["bias"]:
        inputs["attn_mask"] = builder.tensor("attn_mask", (1, h, s, t))
    if params["lengths"]:
        for name in ("seq_len_q", "seq_len_kv"):
            inputs[name] = builder.tensor(name, (b,), None, "int32")
    if params["sink"]:
        inputs["sink_token"] = builder.tensor("sink_token", (h,), None, "float")
    o = builder.result("sdpa", dims["o"], order_of(params["layout"]), name="o")
    outputs = {"o": o.uid}
    if params["stats"]:
        outputs["stats"] = builder.tensor("stats", (b, h, s, 1), None, "float")
    attributes = {**_masks(params), "generate_stats": params["stats"]}
    builder.node("SdpaAttributes", "sdpa", inputs, outputs, attributes)
    return o


def backward(builder: Builder, params: Params, _: Value | None) -> Value:
    dims = _dims(params)
    inputs = {name: _tensor(builder, name, dims[name], params) for name in ("q", "k", "v", "o")}
    inputs["do"] = _tensor(builder, "do", dims["o"], params)
    stats = (params["b"], params["h"], params["s"], 1)
    inputs["stats"] = builder.tensor("stats", stats, None, "float")
    if params["bias"]:
        bias = (1, params["h"], params["s"], params["skv"])
        inputs["attn_mask"] = builder.tensor("attn_mask", bias)
    dq = builder.result("sdpa_bwd", dims["q"], order_of(params["layout"]), name="dq")
    outputs = {"dq": dq.uid}
    for name in ("k", "v"):
        outputs[f"d{name}"] = _tensor(builder, f"d{name}", dims[name], params)
    builder.node("SdpaBackwardAttributes", "sdpa_bwd", inputs, outputs, _masks(params))
    return dq


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "sdpa",
        "attention",
        "scaled dot-product attention",
        build_forward,
        (*PARAMETERS, *_FORWARD),
        SHAPES,
        aliases=("sdpa_fwd", "attention"),
        backward=("sdpa_bwd",),
        complete=complete,
        dtypes=("float", "half", "bfloat16", "double"),
    ),
    Recipe(
        "sdpa_bwd",
        "attention",
        "gradients of attention",
        backward,
        PARAMETERS,
        SHAPES,
        direction="bwd",
        complete=complete,
    ),
)
