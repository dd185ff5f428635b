"""Recipes of block-scaled (MX) quantisation and dequantisation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.graph.make.parameters import Params, SpecParameter
from bench_run.graph.make.recipes.recipe import DTYPE, Recipe

if TYPE_CHECKING:
    from bench_run.graph.make.build import Builder, Value

_FP8 = ("fp8_e4m3", "fp8_e5m2")

_SHAPE = (
    SpecParameter("m", 1024, "rows", code="m", always=True),
    SpecParameter("n", 1024, "columns", code="n", always=True),
    SpecParameter("block", 32, "elements of a row that share a scale", code="block", always=True),
    DTYPE,
)

_TO = SpecParameter(
    "to",
    "fp8_e4m3",
    "data type of the quantised tensor",
    "dtype",
    "to",
    choices=_FP8,
    shape=False,
    always=True,
)
_FROM = SpecParameter(
    "source",
    "fp8_e4m3",
    "data type of the quantised tensor",
    "dtype",
    "from",
    choices=_FP8,
    shape=False,
    always=True,
)

_SHAPES = {
    "small": ("m=4 n=64", "m=3 n=8 block=4"),
    "common": ("m=1024 n=1024",),
    "large": ("m=8192 n=8192",),
    "skewed": ("m=1 n=65536", "m=65536 n=32"),
}


def _complete(op: str, params: Params) -> Params:
    if params["n"] % params["block"]:
        raise UsageError(f"{op}: block={params['block']} does not divide n={params['n']}")
    return params


def dequantize(builder: Builder, params: Params, _: Value | None) -> Value:
    m, n, block = params["m"], params["n"], params["block"]
    x = builder.tensor("x", (m, n), None, params["source"])
    scale = builder.tensor("scale", (m, n // block), None, "fp8_e8m0")
    y = builder.result("block_scale_dequantize", (m, n), channel=1)
    builder.node(
        "BlockScaleDequantizeAttributes",
        "block_scale_dequantize",
        {"x": x, "scale": scale},
        {"y": y.uid},
        {"block_size": (block,), "is_negative_scale": False},
    )
    return y


def quantize(builder: Builder, params: Params, _: Value | None) -> Value:
    m, n, block = params["m"], params["n"], params["block"]
    x = builder.tensor("x", (m, n))
    y = builder.result("block_scale_quantize", (m, n), channel=1, data_type=params["to"])
    scale = builder.tensor("scale", (m, n // block), None, "fp8_e8m0")
    builder.node(
        "BlockScaleQuantizeAttributes",
        "block_scale_quantize",
        {"x": x},
        {"y": y.uid, "scale": scale},
        {"block_size": block},
    )
    return y


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "block_scale_quantize",
        "quantization",
        "to fp8 with one scale for each block",
        quantize,
        (*_SHAPE, _TO),
        _SHAPES,
        complete=partial(_complete, "block_scale_quantize"),
        dtypes=("float", "half", "bfloat16"),
    ),
    Recipe(
        "block_scale_dequantize",
        "quantization",
        "from fp8 with one scale for each block",
        dequantize,
        (*_SHAPE, _FROM),
        _SHAPES,
        complete=partial(_complete, "block_scale_dequantize"),
        dtypes=("float", "half", "bfloat16"),
    ),
)
