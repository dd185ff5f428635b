"""Grouped matrix product of a mixture of experts. See graphs/FORMAT.md.

Flops: 2·rows·K·N, where the groups cover all rows: those of token, or the entries of token_index
where rows are gathered or scattered. The weight gradient counts the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench_run.graph.operations.base import (
    NodeView,
    Operation,
    Parameter,
    Port,
    expect_dims,
    expect_rank,
)

if TYPE_CHECKING:
    from bench_run.graph.model import Tensor

MOE_MODES = ("none", "gather", "scatter", "not_set")


def _check_groups(view: NodeView, weight: str) -> None:
    for port in ("token", weight, "first_token_offset"):
        expect_rank(view, port, 3, 3)
    token, experts = view["token"], view[weight]
    expect_dims(view, "token", (1, *token.dims[1:]), "one batch of rows")
    if experts.dims[1] != token.dims[2]:
        raise view.port_error(
            weight, f"has {experts.dims[1]} rows, expected the {token.dims[2]} columns of token"
        )
    offsets = view["first_token_offset"].dims
    expect_dims(view, "first_token_offset", (offsets[0], 1, 1), "one offset for each group")
    if offsets[0] % experts.dims[0]:
        what = f"has {offsets[0]} groups, expected a multiple of the {experts.dims[0]} experts"
        raise view.port_error("first_token_offset", what)


def check_forward(view: NodeView) -> None:
    _check_groups(view, "weight")
    mode, index = view.attribute("mode"), view.get("token_index")
    if mode != "not_set" and (index is None) != (mode == "none"):
        state = "is missing" if index is None else "is one too many"
        raise view.port_error("token_index", f"{state}: mode is {mode}")
    if mode == "scatter" and (view.get("token_ks") is None or view.attribute("top_k") < 1):
        raise view.parameter_error(
            "mode", "is scatter, which needs token_ks and a top_k of 1 or more"
        )
    # Indices stand in one row: of any length where rows are gathered, one for each row of token
    # where they are scattered.
    rows = view["token"].dims[1]
    for port in ("token_index", "token_ks"):
        indices = view.get(port)
        if indices is not None and max(indices.dims) != indices.elements:
            what = f"has dims {list(indices.dims)}, expected one row of numbers"
            raise view.port_error(port, what)
        if indices is not None and mode == "scatter" and indices.elements != rows:
            what = f"has {indices.elements} elements, expected one for each of the {rows} rows"
            raise view.port_error(port, what)
    expect_rank(view, "output", 3, 3)
    output, columns = view["output"].dims, view["weight"].dims[2]
    expect_dims(view, "output", (1, output[1], columns), "columns of weight")
    if mode == "none":
        expect_dims(view, "output", (1, rows, columns), "rows of token")
    if mode == "gather" and index is not None:
        expect_dims(view, "output", (1, index.elements, columns), "an index for each row")


def check_backward(view: NodeView) -> None:
    _check_groups(view, "dweight")
    columns = view["dweight"].dims[2]
    expect_dims(view, "doutput", (1, view["token"].dims[1], columns), "rows of token")


def _flops(view: NodeView, weight: str) -> int:
    index: Tensor | None = view.get("token_index")
    rows = view["token"].dims[1] if index is None else index.elements
    return 2 * rows * math.prod(view[weight].dims[1:])


_OFFSET = Port("first_token_offset", "token_offset")

ROWS = (
    Operation(
        type="MoeGroupedMatmulAttributes",
        name="moe_grouped_matmul",
        family="moe",
        inputs=(
            Port("token"),
            Port("weight"),
            _OFFSET,
            Port("token_index", "token_index", required=False, absent="omit"),
            Port("token_ks", "token_rank", required=False, absent="omit"),
        ),
        outputs=(Port("output"),),
        parameters=(
            Parameter("mode", "enum", default="none", choices=MOE_MODES),
            Parameter("top_k", "int", default=0),
        ),
        check=check_forward,
        flops=lambda view: _flops(view, "weight"),
    ),
    Operation(
        type="MoeGroupedMatmulBwdAttributes",
        name="moe_grouped_matmul_backward",
        family="moe",
        inputs=(Port("doutput"), Port("token"), _OFFSET),
        outputs=(Port("dweight"),),
        check=check_backward,
        flops=lambda view: _flops(view, "dweight"),
    ),
)
