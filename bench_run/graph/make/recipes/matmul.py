"""Recipes of matrix products: plain, block-scaled (MX), grouped by expert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.graph.layouts import order_of, strides_of
from bench_run.graph.make.parameters import Params, SpecParameter
from bench_run.graph.make.recipes.recipe import DTYPE, Recipe

if TYPE_CHECKING:
    from bench_run.graph.make.build import Builder, Dims, Value

_FLOATS = ("float", "half", "bfloat16", "double")
_FP8 = ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3_fnuz", "fp8_e5m2_fnuz")

M = SpecParameter("m", 256, "rows of A and C", code="m", always=True)
N = SpecParameter("n", 256, "columns of B and C", code="n", always=True)
K = SpecParameter("k", 256, "columns of A, rows of B", code="k", always=True)
BATCH = SpecParameter("batch", None, "batch lengths (8, or 8x16); none makes matrices", "dims", "b")

PARAMETERS = (
    BATCH,
    M,
    N,
    K,
    DTYPE,
    SpecParameter(
        "layout",
        "nn",
        "memory order of A and B: n row-major, t column-major",
        "choice",
        "",
        choices=("nn", "nt", "tn", "tt"),
        shape=False,
        always=True,
    ),
    SpecParameter(
        "c_layout", "row", "memory order of C", "choice", "c", choices=("row", "col"), shape=False
    ),
    SpecParameter(
        "broadcast",
        "none",
        "operand that all batches share",
        "choice",
        "shared",
        choices=("none", "a", "b"),
        shape=False,
    ),
    SpecParameter(
        "out",
        None,
        "data type of C; as dtype, of int8 int32",
        "dtype",
        "to",
        shape=False,
        follows="dtype",
        choices=(*_FLOATS, *_FP8, "int8", "int32"),
    ),
)

SHAPES = {
    "small": ("m=5 n=7 k=3", "batch=2 m=4 n=3 k=8"),
    "common": ("m=512 n=512 k=512", "batch=8 m=256 n=256 k=64"),
    "large": ("m=4096 n=4096 k=4096", "batch=64 m=2048 n=2048 k=64"),
    "skewed": ("m=1 n=4096 k=4096", "m=8192 n=16 k=1024", "m=64 n=64 k=65536"),
}

_MATRIX = {"n": "row", "t": "col"}


def complete(params: Params) -> Params:
    out = dict(params)
    sums = "int32" if out["dtype"] == "int8" else out["dtype"]
    out["out"] = sums if out["out"] is None else out["out"]
    if out["broadcast"] != "none" and out["batch"] is None:
        raise UsageError(f"matmul: broadcast={out['broadcast']} needs batch")
    return out


def _operand_batch(params: Params, operand: str) -> Dims:
    batch: Dims = params["batch"] or ()
    return (1,) * len(batch) if params["broadcast"] == operand else batch


def matrix_order(rank: int, layout: str) -> tuple[int, ...]:
    """Return axis numbers in memory: batches outside, then the last two as `row` or `col` says."""
    last = order_of(layout)
    return (*range(rank - 2), *(rank - 2 + axis for axis in last))


def build(builder: Builder, params: Params, _: Value | None) -> Value:
    a_order, b_order = (_MATRIX[letter] for letter in params["layout"])
    a_dims = (*_operand_batch(params, "a"), params["m"], params["k"])
    b_dims = (*_operand_batch(params, "b"), params["k"], params["n"])
    a = builder.tensor("a", a_dims, strides_of(a_dims, a_order))
    b = builder.tensor("b", b_dims, strides_of(b_dims, b_order))
    dims = (*(params["batch"] or ()), params["m"], params["n"])
    order = matrix_order(len(dims), params["c_layout"])
    kind = params["out"]
    c = builder.result("matmul", dims, order, channel=len(dims) - 1, name="c", data_type=kind)
    builder.node("MatmulAttributes", "matmul", {"a": a, "b": b}, {"c": c.uid})
    return c


def complete_mx(params: Params) -> Params:
    if params["k"] % params["block"]:
        raise UsageError(f"mx_matmul: block={params['block']} does not divide k={params['k']}")
    return params


def build_mx(builder: Builder, params: Params, _: Value | None) -> Value:
    """Build the product of A (column-major) and B (row-major), each with one scale for `block`
    steps along k."""
    m, n, k, block = (params[key] for key in ("m", "n", "k", "block"))
    a = _dequantized(builder, "a", (m, k), "col", (block,))
    b = _dequantized(builder, "b", (k, n), "row", (block, 1))
    kind = params["out"]
    c = builder.result("mx_matmul", (m, n), channel=1, name="c", data_type=kind)
    builder.node("MatmulAttributes", "matmul", {"a": a, "b": b}, {"c": c.uid})
    return c


def _dequantized(builder: Builder, name: str, dims: Dims, layout: str, block: Dims) -> int:
    sizes = (1,) * (len(dims) - len(block)) + block
    scales = tuple(d // s for d, s in zip(dims, sizes, strict=True))
    x = builder.tensor(name, dims, strides_of(dims, layout))
    scale = builder.tensor(f"{name}_scale", scales, strides_of(scales, layout), "fp8_e8m0")
    y = builder.tensor(
        f"{name}_dequantized", dims, strides_of(dims, layout), builder.compute, virtual=True
    )
    builder.node(
        "BlockScaleDequantizeAttributes",
        f"dequantize_{name}",
        {"x": x, "scale": scale},
        {"y": y},
        {"block_size": block, "is_negative_scale": False},
    )
    return y


def complete_moe(params: Params) -> Params:
    if params["mode"] == "none" and params["top_k"] != 1:
        raise UsageError("moe_grouped_matmul: top_k needs mode=gather or mode=scatter")
    return params


def build_moe(builder: Builder, params: Params, _: Value | None) -> Value:
    """Build a grouped product: rows of a group go through one expert; `tokens` is the number of
    rows per expert choice."""
    t, k, n, e, top = (params[key] for key in ("tokens", "k", "n", "experts", "top_k"))
    mode: str = params["mode"]
    rows = t * top
    source, target = (t if mode == "gather" else rows), rows
    inputs = {
        "token": builder.tensor("token", (1, source, k)),
        "weight": builder.tensor("weight", (e, k, n)),
        "first_token_offset": builder.tensor("first_token_offset", (e, 1, 1), None, "int32"),
    }
    if mode != "none":
        inputs["token_index"] = builder.tensor("token_index", (1, rows, 1), None, "int32")
    if mode == "scatter":
        inputs["token_ks"] = builder.tensor("token_ks", (1, rows, 1), None, "int32")
    y = builder.result("moe_grouped_matmul", (1, target, n), channel=2, name="output")
    builder.node(
        "MoeGroupedMatmulAttributes",
        "moe_grouped_matmul",
        inputs,
        {"output": y.uid},
        {"mode": mode, "top_k": top},
    )
    return y


def build_moe_bwd(builder: Builder, params: Params, _: Value | None) -> Value:
    t, k, n, e = (params[key] for key in ("tokens", "k", "n", "experts"))
    inputs = {
        "doutput": builder.tensor("doutput", (1, t, n)),
        "token": builder.tensor("token", (1, t, k)),
        "first_token_offset": builder.tensor("first_token_offset", (e, 1, 1), None, "int32"),
    }
    dweight = builder.result("moe_grouped_matmul_bwd", (e, k, n), channel=2, name="dweight")
    builder.node(
        "MoeGroupedMatmulBwdAttributes", "moe_grouped_matmul_bwd", inputs, {"dweight": dweight.uid}
    )
    return dweight


def _row(*words: str, **more: Any) -> Recipe:
    return Recipe(words[0], words[1], words[2], **more)


_MOE = (
    SpecParameter("experts", 8, "number of matrices", code="e", always=True),
    SpecParameter("tokens", 512, "tokens", code="t", always=True),
    N,
    K,
)
_MOE_SHAPES = {
    "small": ("experts=2 tokens=6 n=5 k=4",),
    "common": ("experts=8 tokens=512 n=256 k=256",),
    "large": ("experts=64 tokens=8192 n=2048 k=1024",),
    "skewed": ("experts=64 tokens=16 n=1024 k=256",),
}

RECIPES: tuple[Recipe, ...] = (
    _row(
        "matmul",
        "gemm",
        "matrix product C = A·B, optionally batched",
        build=build,
        parameters=PARAMETERS,
        shapes=SHAPES,
        aliases=("gemm",),
        complete=complete,
        dtypes=(*_FLOATS, *_FP8, "int8"),
    ),
    _row(
        "mx_matmul",
        "gemm",
        "product of two block-scaled fp8 matrices",
        build=build_mx,
        complete=complete_mx,
        dtypes=("fp8_e4m3", "fp8_e5m2"),
        parameters=(
            M,
            N,
            K,
            SpecParameter("block", 32, "elements that share a scale", code="block"),
            DTYPE,
            SpecParameter(
                "out",
                "bfloat16",
                "data type of C",
                "dtype",
                "to",
                shape=False,
                choices=("float", "half", "bfloat16"),
            ),
        ),
        shapes={
            "small": ("m=32 n=32 k=64",),
            "common": ("m=512 n=512 k=512",),
            "large": ("m=4096 n=4096 k=4096",),
            "skewed": ("m=16 n=4096 k=2048",),
        },
        defaults={"dtype": "fp8_e4m3"},
    ),
    _row(
        "moe_grouped_matmul",
        "moe",
        "each token through the matrix of its expert",
        build=build_moe,
        complete=complete_moe,
        backward=("moe_grouped_matmul_bwd",),
        shapes=_MOE_SHAPES,
        parameters=(
            *_MOE,
            SpecParameter(
                "mode",
                "none",
                "how rows are found",
                "choice",
                "",
                shape=False,
                choices=("none", "gather", "scatter"),
            ),
            SpecParameter("top_k", 1, "experts each token goes to", code="top", shape=False),
            DTYPE,
        ),
    ),
    _row(
        "moe_grouped_matmul_bwd",
        "moe",
        "gradient of the experts' matrices",
        build=build_moe_bwd,
        parameters=(*_MOE, DTYPE),
        shapes=_MOE_SHAPES,
        direction="bwd",
    ),
)
