"""Recipes of the pointwise modes: activations, arithmetic, mathematics, comparisons, logic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.graph.layouts import order_of
from bench_run.graph.make.build import Builder, Dims, Value
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
)
from bench_run.graph.operations import POINTWISE_MODES
from bench_run.graph.operations.base import spreads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DIMS = SpecParameter(
    "dims", None, "lengths of any rank, row-major, in place of n c d h w", "dims", ""
)

OPERAND = SpecParameter(
    "rhs",
    "same",
    "second operand: same shape, one number per channel, or a scalar",
    "choice",
    "",
    choices=("same", "channel", "scalar"),
    shape=False,
)

RHS_DIMS = SpecParameter(
    "rhs_dims",
    None,
    "lengths of the second operand, broadcast to the first",
    "dims",
    "rhs",
    shape=False,
)

SHAPES = {
    "small": ("n=2 c=3 h=4 w=5",),
    "common": ("n=32 c=64 h=28 w=28",),
    "large": ("n=64 c=256 h=56 w=56",),
    "skewed": ("n=1 c=8192 h=1 w=1", "dims=3x1000003"),
}

_FLOATS = ("float", "half", "bfloat16", "double")
_NUMBERS = (*_FLOATS, "int64", "int32", "int8")


def _real(key: str, attribute_help: str, code: str, default: float | None = None) -> SpecParameter:
    return SpecParameter(key, default, attribute_help, "float", code, shape=False)


LOW = _real("low", "lower clip, 0 when not given", "low")
HIGH = _real("high", "upper clip, none when not given", "high")
SLOPE = _real("slope", "slope below the lower clip, 0 when not given", "slope")
BETA = _real("beta", "factor of the argument, 1 when not given", "beta")
ALPHA = _real("alpha", "scale of the negative branch, 1 when not given", "alpha")
AXIS = SpecParameter("axis", 1, "axis whose index is written", code="axis", least=0, shape=False)

RELU = {"low": "relu_lower_clip", "high": "relu_upper_clip", "slope": "relu_lower_clip_slope"}


@dataclass(frozen=True)
class Mode:
    """A mode of hipDNN's pointwise node. ``inputs``: 1, 2 or 3 operands."""

    operation: str
    inputs: int
    attributes: Mapping[str, str]
    """Parameter key → attribute key of the node."""


def complete(op: str, params: Params) -> Params:
    if params["dims"] is not None:
        given = [key for key in ("d", "h", "w", "layout", "spatial") if params[key] is not None]
        if given:
            raise UsageError(f"{op}: dims and {', '.join(given)} exclude each other")
        params = {**params, "n": None, "c": None}
    else:
        params = complete_image(op, params, 28)
    rhs = params.get("rhs_dims")
    if rhs is not None and not spreads(rhs, tensor_dims(params)):
        raise UsageError(f"{op}: rhs_dims={'x'.join(map(str, rhs))} do not broadcast to the first")
    return params


def tensor_dims(params: Params) -> Dims:
    return image_dims(params) if params["dims"] is None else tuple(params["dims"])


def start(builder: Builder, params: Params, chained: Value | None, name: str = "x") -> Value:
    """Return the operation's input: the value it follows, or an input of the shape in `params`."""
    if chained is not None:
        return chained
    dims = tensor_dims(params)
    plain = params["dims"] is not None
    order = tuple(range(len(dims))) if plain else order_of(params["layout"])
    channel = len(dims) - 1 if plain else 1
    uid = builder.operand(name, dims, order)
    return Value(uid, dims, order, channel)


def _add_second(builder: Builder, params: Params, first: Value, name: str) -> int:
    rhs, kind = params.get("rhs_dims"), params.get("rhs", "same")
    if rhs is not None:
        dims: Dims = tuple(rhs)
    elif kind == "same":
        dims = first.dims
    else:
        kept = first.channel if kind == "channel" else None
        dims = tuple(n if axis == kept else 1 for axis, n in enumerate(first.dims))
    order = first.order if len(dims) == len(first.dims) else tuple(range(len(dims)))
    return builder.operand(name, dims, order)


def _attributes(mode: Mode, params: Params) -> dict[str, Any]:
    chosen = {key: params.get(name) for name, key in mode.attributes.items()}
    return {"operation": mode.operation, **chosen}


def _build(mode: Mode, name: str, builder: Builder, params: Params, chained: Value | None) -> Value:
    first = start(builder, params, chained)
    inputs = {"in_0": first.uid}
    if mode.inputs == 2:
        inputs["in_1"] = _add_second(builder, params, first, "b")
    y = builder.result(name, first.dims, first.order, channel=first.channel)
    builder.node("PointwiseAttributes", name, inputs, {"out_0": y.uid}, _attributes(mode, params))
    return y


def complete_convert(params: Params) -> Params:
    out = dict(complete("convert", params))
    out["to"] = out["dtype"] if out["to"] is None else out["to"]
    if out["dims"] is not None and out["to_layout"] is not None:
        raise UsageError("convert: dims and to_layout exclude each other")
    if out["dims"] is None:
        given = out["layout"] if out["to_layout"] is None else out["to_layout"]
        out["to_layout"] = checked_layout("convert", "to_layout", given, out["spatial"])
    if (out["to"], out["to_layout"]) == (out["dtype"], out["layout"]):
        raise UsageError("convert: give another type (to=half) or memory order (to_layout=nhwc)")
    return out


def build_convert(builder: Builder, params: Params, _: Value | None) -> Value:
    x = start(builder, params, None)
    order = x.order if params["to_layout"] is None else order_of(params["to_layout"])
    y = builder.result("convert", x.dims, order, channel=x.channel, data_type=params["to"])
    builder.node(
        "PointwiseAttributes",
        "convert",
        {"in_0": x.uid},
        {"out_0": y.uid},
        {"operation": "identity"},
    )
    return y


def build_select(
    mode: Mode, name: str, builder: Builder, params: Params, chained: Value | None
) -> Value:
    """Build a selection: in_2 is the condition, in_0 its value if true, in_1 if false."""
    first = start(builder, params, chained)
    other = _add_second(builder, params, first, "b")
    mask = builder.operand("mask", first.dims, first.order)
    y = builder.result(name, first.dims, first.order, channel=first.channel)
    inputs = {"in_0": first.uid, "in_1": other, "in_2": mask}
    builder.node("PointwiseAttributes", name, inputs, {"out_0": y.uid}, _attributes(mode, params))
    return y


def build_gradient(
    mode: Mode, name: str, builder: Builder, params: Params, chained: Value | None
) -> Value:
    """Build a gradient: in_0 is dy, in_1 the forward input, as in hipDNN's captured graphs."""
    dy = start(builder, params, chained, "dy")
    x = builder.operand("x", dy.dims, dy.order)
    dx = builder.result(name, dy.dims, dy.order, channel=dy.channel, name="dx")
    inputs = {"in_0": dy.uid, "in_1": x}
    builder.node("PointwiseAttributes", name, inputs, {"out_0": dx.uid}, _attributes(mode, params))
    return dx


def build_bias(builder: Builder, _: Params, chained: Value | None) -> Value:
    if chained is None:
        raise UsageError("bias: follows another operation: conv_fwd+bias, matmul+bias")
    axes = range(len(chained.dims))
    dims = tuple(chained.dims[axis] if axis == chained.channel else 1 for axis in axes)
    bias = builder.operand("bias", dims, chained.order)
    y = builder.result("bias", chained.dims, chained.order, channel=chained.channel)
    builder.node(
        "PointwiseAttributes",
        "bias",
        {"in_0": chained.uid, "in_1": bias},
        {"out_0": y.uid},
        {"operation": "add"},
    )
    return y


def _recipe(name: str, family: str, summary: str, mode: Mode, **more: Any) -> Recipe:
    extra: tuple[SpecParameter, ...] = more.pop("extra", ())
    make: Callable[..., Value] = more.pop("make", _build)
    operands = (OPERAND, RHS_DIMS) if mode.inputs == 2 and make is _build else ()
    return Recipe(
        name,
        family,
        summary,
        partial(make, mode, name),
        (*image_rows(32, 64, 28), DIMS, *operands, *extra, DTYPE, LAYOUT),
        SHAPES,
        complete=partial(complete, name),
        chains=True,
        **more,
    )


def _activation(
    name: str,
    mode: str,
    summary: str,
    extra: tuple[SpecParameter, ...],
    attributes: Mapping[str, str],
    aliases: tuple[str, ...] = (),
) -> tuple[Recipe, Recipe]:
    gradient = f"{name}_bwd"
    forward = _recipe(
        name,
        "activations",
        summary,
        Mode(f"{mode}_fwd", 1, attributes),
        extra=extra,
        aliases=(f"{name}_fwd", *aliases),
        backward=(gradient,),
    )
    backward = _recipe(
        gradient,
        "activations",
        f"gradient of {name}",
        Mode(f"{mode}_bwd", 2, attributes),
        extra=extra,
        make=build_gradient,
        direction="bwd",
    )
    return forward, backward


_LEAKY = _real("slope", "slope below 0", "slope", 0.01)
_SIX = _real("high", "upper clip", "high", 6.0)

_ACTIVATIONS: tuple[Any, ...] = (
    ("relu", "relu", "max(0, x), optionally clipped or leaky", (LOW, HIGH, SLOPE), RELU),
    ("leaky_relu", "relu", "x, or slope·x below 0", (_LEAKY,), {"slope": RELU["slope"]}),
    ("relu6", "relu", "min(6, max(0, x))", (_SIX,), {"high": RELU["high"]}),
    ("elu", "elu", "x, or alpha·(exp(x) - 1) below 0", (ALPHA,), {"alpha": "elu_alpha"}),
    ("gelu", "gelu", "x·Φ(x)", (), {}),
    ("gelu_tanh", "gelu_approx_tanh", "x·Φ(x) by tanh", (), {}, ("gelu_approx_tanh",)),
    ("sigmoid", "sigmoid", "1 / (1 + exp(-x))", (), {}),
    ("softplus", "softplus", "ln(1 + exp(beta·x)) / beta", (BETA,), {"beta": "softplus_beta"}),
    ("swish", "swish", "x·sigmoid(beta·x)", (BETA,), {"beta": "swish_beta"}, ("silu",)),
    ("tanh", "tanh", "tanh x", (), {}),
)

_DTYPES = {"arithmetic": _NUMBERS, "logic": _NUMBERS}
"""Data types of a family; the others have those of `Recipe`."""


def _plain(family: str) -> Iterator[Recipe]:
    """Yield the operations that a row of `POINTWISE_MODES` describes in full."""
    more = {"dtypes": _DTYPES[family]} if family in _DTYPES else {}
    for name, row in POINTWISE_MODES.items():
        if row.family == family:
            mode = Mode(name, row.arity, {})
            yield _recipe(name, family, row.summary, mode, aliases=row.aliases, **more)


RECIPES: tuple[Recipe, ...] = (
    *(recipe for row in _ACTIVATIONS for recipe in _activation(*row)),
    *_plain("math"),
    _recipe(
        "gen_index",
        "math",
        "index along an axis",
        Mode("gen_index", 1, {"axis": "axis_tensor_uid"}),
        extra=(AXIS,),
    ),
    *_plain("arithmetic"),
    Recipe(
        "bias",
        "arithmetic",
        "adds one number per channel to what it follows",
        build_bias,
        (DTYPE,),
        {},
        chains=True,
        only_after=True,
    ),
    Recipe(
        "convert",
        "arithmetic",
        "the same values in another type or memory order",
        build_convert,
        (
            *image_rows(32, 64, 28),
            DIMS,
            DTYPE,
            LAYOUT,
            SpecParameter(
                "to",
                None,
                "type of the result; as dtype",
                "dtype",
                "to",
                shape=False,
                follows="dtype",
                choices=_NUMBERS,
            ),
            layout_row("to_layout", "memory order of the result; as layout", "to", "layout"),
        ),
        {
            "small": ("n=2 c=3 h=4 w=5 to_layout=nhwc",),
            "common": ("n=32 c=64 h=28 w=28 to_layout=nhwc",),
            "large": ("n=64 c=256 h=56 w=56 to_layout=nhwc",),
            "skewed": ("n=1 c=8192 h=1 w=3 to_layout=nhwc",),
        },
        complete=complete_convert,
    ),
    *_plain("logic"),
    _recipe("logical_not", "logic", "not x", Mode("logical_not", 1, {})),
    _recipe(
        "binary_select",
        "logic",
        "x where the mask is set, else b",
        Mode("binary_select", 3, {}),
        make=build_select,
    ),
)
