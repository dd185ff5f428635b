"""Scaled dot-product attention, forward and backward. See graphs/FORMAT.md.

Flops: 2·pairs·(D + Dv), where pairs are the (query row, key) pairs that the masks leave, counted
exactly, over batch and query heads; the softmax is left out. Backward 2.5 times as much, by custom.
Lengths that are run-time data (padded and paged sequences) leave the flops unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_run.graph.operations.base import (
    NodeView,
    Operation,
    Parameter,
    Port,
    expect_broadcast,
    expect_dims,
    expect_like,
    expect_rank,
    expect_scalar,
    expect_together,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Node

_MASKS = ("causal_mask", "causal_mask_bottom_right")


@dataclass(frozen=True)
class Band:
    """Keys j that query row i sees: i + shift - left <= j <= i + shift + right.

    None: no bound on that side. Shift is 0, or keys - queries if `bottom_right`.
    """

    left: int | None
    right: int | None
    bottom_right: bool


def band(attributes: Mapping[str, Any]) -> Band:
    """Return the masks of a node as one band: causal flags are right bounds of 0, -1 is
    unbounded."""
    bounds = (attributes.get(name) for name in ("left_bound", "right_bound"))
    left, right = (None if bound is None or bound < 0 else bound for bound in bounds)
    if any(attributes.get(name) for name in _MASKS) and right is None:
        right = 0
    bottom = attributes.get("diagonal_alignment") == "bottom_right"
    return Band(left, right, bottom or bool(attributes.get("causal_mask_bottom_right")))


def has_scale(node: Node) -> bool:
    """Return True if the graph sets the scale of scores, by a tensor or a number."""
    return "scale" in node.inputs or node.attributes.get("attn_scale_value") is not None


def _meaning(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return masks as a band, so that the spellings of one mask are one."""
    spelled = (*_MASKS, "left_bound", "right_bound", "diagonal_alignment")
    rest = {name: value for name, value in attributes.items() if name not in spelled}
    mask = band(attributes)
    bounded = mask.left is not None or mask.right is not None
    corner = mask.bottom_right and bounded
    return rest | {"left": mask.left, "right": mask.right, "bottom_right": corner}


def visible_pairs(queries: int, keys: int, mask: Band) -> int:
    """Return the number of (row, key) pairs of one head that the band leaves."""
    shift = keys - queries if mask.bottom_right else 0
    up_to = queries * keys
    if mask.right is not None:
        up_to = _clamped_sum(queries, shift + mask.right + 1, keys)
    below = 0 if mask.left is None else _clamped_sum(queries, shift - mask.left, keys)
    return up_to - below


def _clamped_sum(rows: int, start: int, limit: int) -> int:
    """Compute Σ over i < rows of min(max(i + start, 0), limit)."""
    first = min(max(-start, 0), rows)
    full = min(max(limit - start, first), rows)
    ramp = full - first
    return ramp * (first + start) + ramp * (ramp - 1) // 2 + (rows - full) * limit


def _check(view: NodeView) -> None:
    for port in ("q", "k", "v"):
        expect_rank(view, port, 4, 4)
    q, k, v = (view[port].dims for port in ("q", "k", "v"))
    if k[3] != q[3]:
        raise view.port_error("k", f"has head size {k[3]}, expected {q[3]} as q")
    for port, dims in (("k", k), ("v", v)):
        if q[1] % dims[1]:
            raise view.port_error(port, f"has {dims[1]} heads, which do not divide the {q[1]} of q")
    paged = view.get("page_table_k") is not None
    if not paged:
        _check_dense(view, q, k)
    elif k[2] != v[2]:
        raise view.port_error("v", f"has pages of {v[2]} rows, expected {k[2]} as k")
    _check_results(view, (*q[:3], v[3]))
    _check_extras(view, q)


def _check_dense(view: NodeView, q: tuple[int, ...], k: tuple[int, ...]) -> None:
    for port in ("k", "v"):
        dims = view[port].dims
        if dims[0] != q[0]:
            raise view.port_error(port, f"has batch {dims[0]}, expected {q[0]} as q")
    if view["v"].dims[2] != k[2]:
        raise view.port_error("v", f"has {view['v'].dims[2]} rows, expected {k[2]} as k")
    expect_broadcast(view, "attn_mask", (*q[:3], k[2]))


def _check_results(view: NodeView, o_dims: tuple[int, ...]) -> None:
    expect_dims(view, "o", o_dims, "rows of q, columns of v")
    for port in ("do", "dq", "dk", "dv"):
        if view.get(port) is not None:
            expect_like(view, port, port[1:])
    for port in ("stats", "max", "sum_exp"):
        tensor = view.get(port)
        if tensor is not None and tensor.dims != o_dims[:3]:
            expect_dims(view, port, (*o_dims[:3], 1), "one value for each row of q")


def _sequences(view: NodeView, q: tuple[int, ...]) -> int:
    """Return the number of sequences: the batch, or the rows of the page tables, since a batch of
    one may contain several sequences one after another."""
    expect_together(view, "page_table_k", "page_table_v")
    if view.get("page_table_k") is None:
        return q[0]
    keys, values = (view[port].dims for port in ("page_table_k", "page_table_v"))
    for port in ("page_table_k", "page_table_v"):
        expect_rank(view, port, 2, 2)
    if keys[0] != values[0]:
        what = f"has {values[0]} rows, expected {keys[0]} as page_table_k, one for each sequence"
        raise view.port_error("page_table_v", what)
    if q[0] not in (1, keys[0]):
        what = f"has {keys[0]} rows, expected {q[0]}, one for each sequence"
        raise view.port_error("page_table_k", what)
    return keys[0]


def _check_extras(view: NodeView, q: tuple[int, ...]) -> None:
    sequences = _sequences(view, q)
    for port in ("seq_len_q", "seq_len_kv"):
        lengths = view.get(port)
        if lengths is not None and lengths.elements not in (sequences, sequences + 1):
            what = f"has {lengths.elements} elements, expected {sequences}, one for each sequence"
            raise view.port_error(port, what)
    expect_scalar(view, "scale", "seed", "offset")
    sink = view.get("sink_token")
    if sink is not None and sink.elements != q[1]:
        raise view.port_error("sink_token", f"has {sink.elements} elements, expected {q[1]} heads")
    for port in ("left_bound", "right_bound"):
        bound = view.attribute(port)
        if bound is not None and bound < -1:
            raise view.parameter_error(port, f"is {bound}, expected 0 or more, or -1 for none")
    rate = view.attribute("dropout_probability")
    if rate is not None and not 0 <= rate < 1:
        raise view.parameter_error("dropout_probability", f"is {rate}, expected 0 up to 1")


def _flops_forward(view: NodeView) -> int | None:
    run_time_data = ("seq_len_q", "seq_len_kv", "page_table_k", "block_mask")
    if any(view.get(port) is not None for port in run_time_data):
        return None
    batch, heads, queries, head_size = view["q"].dims
    keys, value_size = view["v"].dims[2:]
    pairs = visible_pairs(queries, keys, band(view.node.attributes))
    return 2 * batch * heads * pairs * (head_size + value_size)


def flops_backward(view: NodeView) -> int | None:
    forward = _flops_forward(view)
    return None if forward is None else forward * 5 // 2


def _optional(*names: str, hint: str = "general") -> tuple[Port, ...]:
    return tuple(Port(name, hint, required=False) for name in names)


_QKV = (Port("q"), Port("k"), Port("v"))
_COMMON = (
    *_optional("attn_mask", hint="attention_bias"),
    *_optional("scale", hint="attention_scale"),
    *_optional("seq_len_q", hint="seq_len_q"),
    *_optional("seq_len_kv", hint="seq_len_kv"),
    *_optional("seed", "offset", hint="seed"),
    *_optional("dropout_mask", hint="keep_mask"),
    *_optional("dropout_scale", hint="positive"),
)
_CORNERS = ("top_left", "bottom_right")
_SHARED = (
    Parameter("alibi_mask", "bool", default=False),
    Parameter("padding_mask", "bool", default=False),
    Parameter("causal_mask", "bool", default=False),
    Parameter("causal_mask_bottom_right", "bool", default=False),
    Parameter("dropout_probability", "float"),
    Parameter("attn_scale_value", "float"),
    Parameter("left_bound", "int"),
    Parameter("right_bound", "int"),
    Parameter("diagonal_alignment", "enum", default="top_left", choices=_CORNERS, spelling="upper"),
)
_IMPLEMENTATIONS = ("auto", "composite", "unified")

FORWARD = Operation(
    type="SdpaAttributes",
    name="sdpa",
    family="sdpa",
    inputs=(
        *_QKV,
        *_COMMON,
        *_optional("page_table_k", "page_table_v", hint="page_table"),
        *_optional("block_mask", hint="keep_mask"),
        *_optional("sink_token"),
        *_optional("descale_q", "descale_k", "descale_v", "descale_s", hint="descale"),
        *_optional("scale_s", "scale_o", hint="descale"),
    ),
    outputs=(
        Port("o"),
        *_optional("stats", "max", "sum_exp", "rng_dump", "amax_s", "amax_o"),
    ),
    parameters=(
        Parameter("generate_stats", "bool"),
        *_SHARED,
        Parameter("max_seq_len_kv", "int"),
        Parameter("mma_core_mode", "type", default="unset"),
        Parameter(
            "implementation", "enum", default="auto", choices=_IMPLEMENTATIONS, spelling="upper"
        ),
    ),
    place="attributes",
    check=_check,
    flops=_flops_forward,
    meaning=_meaning,
)

BACKWARD = Operation(
    type="SdpaBackwardAttributes",
    name="sdpa_backward",
    family="sdpa",
    inputs=(
        *_QKV,
        Port("o", "attention_output"),
        Port("do"),
        Port("stats", "attention_stats"),
        *_COMMON,
        *_optional("dropout_scale_inv", hint="positive"),
    ),
    outputs=(Port("dq"), Port("dk"), Port("dv"), *_optional("dbias")),
    parameters=_SHARED,
    place="parameters",
    check=_check,
    flops=flops_backward,
    meaning=_meaning,
)

ROWS = (FORWARD, BACKWARD)
