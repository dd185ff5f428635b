"""Attention, forward and backward, as cuDNN's frontend takes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.rewrite import refuse
from bench_run.graph.operations.sdpa import band

if TYPE_CHECKING:
    from bench_run.engines.cudnn.operands import Call

REFUSED = (
    "seed", "offset", "dropout_mask", "dropout_scale", "dropout_scale_inv", "block_mask",
    "descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o",
    "rng_dump", "amax_s", "amax_o", "max", "sum_exp", "dbias", "sink_token",
)  # fmt: skip
"""Ports that are not lowered: dropout, 8-bit scaling, sparse blocks and what goes with them."""


def forward(call: Call) -> dict[str, Any]:
    arguments = _shared(call)
    for port, name in (("page_table_k", "k"), ("page_table_v", "v")):
        if call.has(port):
            arguments[f"paged_attention_{name}_table"] = call.operand(port)
            arguments["paged_attention_max_seq_len_kv"] = _longest(call)
    made = call.make("sdpa", generate_stats=call.has("stats"), **arguments)
    return dict(zip(("o", "stats"), made, strict=True))


def backward(call: Call) -> dict[str, Any]:
    made = call.make(
        "sdpa_backward",
        o=call.operand("o"),
        dO=call.operand("do"),
        stats=call.operand("stats"),
        **_shared(call),
    )
    return dict(zip(("dq", "dk", "dv"), made, strict=True))


def _shared(call: Call) -> dict[str, Any]:
    used = [port for port in REFUSED if call.has(port)]
    if used:
        raise refuse(call.node, f"{', '.join(used)}: not lowered to cuDNN here")
    if call.attribute("dropout_probability"):
        raise refuse(call.node, "dropout draws other numbers than the reference")
    arguments: dict[str, Any] = {port: call.operand(port) for port in ("q", "k", "v")}
    if call.has("attn_mask"):
        arguments["bias"] = call.operand("attn_mask")
    if call.attribute("alibi_mask"):
        arguments["use_alibi_mask"] = True
    if call.has("seq_len_q") or call.has("seq_len_kv"):
        call.need("seq_len_q", "seq_len_kv")
        arguments["use_padding_mask"] = True
        arguments["seq_len_q"] = call.operand("seq_len_q")
        arguments["seq_len_kv"] = call.operand("seq_len_kv")
    return {**arguments, **_scale(call), **_mask(call)}


def _scale(call: Call) -> dict[str, Any]:
    """The frontend's default is no scale at all; the graph's is 1/√D."""
    if call.has("scale"):
        return {"attn_scale": call.operand("scale")}
    value = call.attribute("attn_scale_value")
    head_size = call.tensor_of("q").dims[3]
    return {"attn_scale": 1 / math.sqrt(head_size) if value is None else value}


def _mask(call: Call) -> dict[str, Any]:
    """Keys j of row i: i + shift - left <= j <= i + shift + right. cuDNN's left bound leaves its
    own key out, ours does not."""
    seen = band(call.node.attributes)
    arguments: dict[str, Any] = {}
    if seen.left is not None:
        arguments["diagonal_band_left_bound"] = seen.left + 1
    if seen.right is not None:
        arguments["diagonal_band_right_bound"] = seen.right
    if arguments:
        corners = call.cudnn.diagonal_alignment
        corner = corners.BOTTOM_RIGHT if seen.bottom_right else corners.TOP_LEFT
        arguments["diagonal_alignment"] = corner
    return arguments


def _longest(call: Call) -> int:
    """Keys that the page tables can hold: cuDNN wants just that, the sequences' lengths mask."""
    pages, page = call.tensor_of("page_table_k").dims[1], call.tensor_of("k").dims[2]
    stated = call.attribute("max_seq_len_kv")
    if stated is not None and -(-stated // page) != pages:
        why = f"{pages} pages of {page} keys contradict a max_seq_len_kv of {stated}"
        raise refuse(call.node, why)
    return int(pages * page)
