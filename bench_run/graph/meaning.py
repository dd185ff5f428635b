"""Nodes without a certain meaning, as their graph alone shows.

One table for the reference and for the engines that compute formulas. What hipDNN's sources leave
open is refused, and so is what cannot be compared: dropout, whose numbers differ by engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.operations import POINTWISE_MODES
from bench_run.graph.operations.pointwise import OPERANDS
from bench_run.graph.operations.reduction import REDUCTION_MODES

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node, Tensor

Tensors = Mapping[str, "Tensor"]
"""Inputs and outputs of a node by port."""
FACTORS = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
DROPOUT = ("dropout_mask", "dropout_scale", "dropout_scale_inv")


def refuse(graph: Graph) -> None:
    """Raise `UnsupportedGraphError` that names the first node without a certain meaning."""
    for node in graph.nodes:
        tensors = {p: graph.by_uid[uid] for p, uid in (*node.inputs.items(), *node.outputs.items())}
        for port, tensor in tensors.items():
            if tensor.ragged_offset_uid is not None:
                raise refusal(node, f"{port}: the meaning of ragged offsets is not documented")
        if node.type in REFUSALS:
            REFUSALS[node.type](node, tensors)


def refusal(node: Node, reason: str) -> UnsupportedGraphError:
    return UnsupportedGraphError(f"{node.label}: {reason}")


def _attention(node: Node, tensors: Tensors) -> None:
    if node.attributes.get("alibi_mask"):
        raise refusal(node, "the slopes of alibi_mask are not documented")
    if node.attributes.get("dropout_probability") or not tensors.keys().isdisjoint(DROPOUT):
        raise refusal(node, "dropout: its random numbers differ from engine to engine")
    if "block_mask" in tensors:
        raise refusal(node, "the meaning of block_mask is not documented")
    if node.attributes.get("padding_mask") and "seq_len_kv" not in tensors:
        raise refusal(node, "padding_mask needs seq_len_q and seq_len_kv")
    if "dbias" in tensors and "attn_mask" not in tensors:
        raise refusal(node, "dbias is requested, but there is no attn_mask")
    _mask(node)
    _heads(node, tensors)
    paged = bool({"page_table_k", "page_table_v"} & tensors.keys())
    if paged:
        _pages(node, tensors)
    count = tensors["page_table_k" if paged else "k"].dims[0]
    for port in {"seq_len_q", "seq_len_kv"} & tensors.keys():
        if tensors[port].elements != count:
            have = tensors[port].elements
            raise refusal(node, f"{port} has {have} entries for {count} sequences")


def _heads(node: Node, tensors: Tensors) -> None:
    q, k, v = (tensors[port].dims for port in "qkv")
    if q[1] % k[1] or q[1] % v[1]:
        raise refusal(node, f"{q[1]} query heads do not share k {k} and v {v}")
    for port in tensors.keys() & set(FACTORS):
        dims = tensors[port].dims
        one_each = len(dims) > 1 and dims[0] == q[0] and prod(dims[2:]) == 1
        if prod(dims) != 1 and not (one_each and q[1] % dims[1] == 0):
            raise refusal(node, f"{port} of {dims} is neither one number nor one per head")


def _mask(node: Node) -> None:
    get = node.attributes.get
    for key in ("left_bound", "right_bound"):
        if (value := get(key)) is not None and value < -1:
            raise refusal(node, f"{key} must be -1 (none) or ≥ 0, not {value}")
    top, bottom = bool(get("causal_mask")), bool(get("causal_mask_bottom_right"))
    if top and (bottom or get("diagonal_alignment") == "bottom_right"):
        raise refusal(node, "causal_mask is top-left, but bottom-right is also requested")
    if (top or bottom) and get("right_bound") not in (None, -1, 0):
        what = f"a causal mask and right_bound {get('right_bound')} contradict each other"
        raise refusal(node, what)


def _pages(node: Node, tensors: Tensors) -> None:
    missing = {"page_table_k", "page_table_v", "seq_len_kv"} - tensors.keys()
    if missing:
        raise refusal(node, f"paged keys need {', '.join(sorted(missing))}")
    if "dq" in tensors:
        raise refusal(node, "the backward of paged keys is not documented")
    if "attn_mask" in tensors:
        raise refusal(node, "where attn_mask lies for paged keys is not documented")
    queries, table, page = tensors["q"].dims[0], tensors["page_table_k"], tensors["k"].dims[2]
    count = table.dims[0]
    if queries == 1 < count and "seq_len_q" not in tensors:
        raise refusal(node, "packed queries need seq_len_q")
    if queries not in (1, count):
        raise refusal(node, f"{count} page tables for a batch of {queries}")
    # Keys that one page table can hold; must agree with max_seq_len_kv.
    pages = table.elements // count
    stated, capacity = node.attributes.get("max_seq_len_kv"), page * pages
    if stated is not None and not capacity - page < stated <= capacity:
        raise refusal(node, f"{pages} pages of {page} keys contradict a max_seq_len_kv of {stated}")


def _batchnorm(node: Node, tensors: Tensors) -> None:
    if node.input_lists.get("peer_stats"):
        raise refusal(node, "peer_stats are statistics of other GPUs")
    for name in ("running_mean", "running_variance"):
        if f"next_{name}" in tensors and not {f"prev_{name}", "momentum"} <= tensors.keys():
            raise refusal(node, f"a running statistic needs prev_{name} and momentum")
    if "dy" in tensors and len({"mean", "inv_variance"} & tensors.keys()) == 1:
        raise refusal(node, "mean and inv_variance must be given both, or neither")


def _layernorm_backward(node: Node, tensors: Tensors) -> None:
    given = {"mean", "inv_variance"} & tensors.keys()
    if len(given) != 2 and (given or "epsilon" not in tensors):
        raise refusal(node, "needs mean and inv_variance, or epsilon to compute both")


def _block_scale(node: Node, _tensors: Tensors) -> None:
    if node.attributes.get("transpose"):
        raise refusal(node, "what transpose does is not documented")


def _grouped_matmul(node: Node, tensors: Tensors) -> None:
    mode = node.attributes.get("mode", "none")
    needed = {"none": (), "gather": ("token_index",), "scatter": ("token_index", "token_ks")}
    if mode not in needed:
        raise refusal(node, f"mode {mode!r} is not one of {', '.join(needed)}")
    if mode != "none" and "dweight" in tensors:
        raise refusal(node, f"what mode {mode!r} does backward is not documented")
    for port in needed[mode]:
        if port not in tensors:
            raise refusal(node, f"mode {mode} needs {port}")
    top_k = node.attributes.get("top_k")
    if mode == "scatter" and (top_k is None or top_k < 1):
        raise refusal(node, f"scatter needs top_k ≥ 1, not {top_k!r}")


def _pointwise(node: Node, tensors: Tensors) -> None:
    mode = node.attributes.get("operation")
    if mode not in POINTWISE_MODES:
        known = ", ".join(sorted(POINTWISE_MODES))
        raise refusal(node, f"no pointwise mode {mode!r}; known are {known}")
    if mode == "gen_index":
        axis, rank = axis_of(node), len(tensors["out_0"].dims)
        if axis is None or not 0 <= axis < rank:
            raise refusal(node, f"gen_index needs an axis from 0 to {rank - 1}, not {axis!r}")
        return
    ports = OPERANDS[: POINTWISE_MODES[mode].arity]
    if any(port not in tensors for port in ports):
        raise refusal(node, f"mode {mode} needs {', '.join(ports)}")


def axis_of(node: Node) -> int | None:
    """Return the axis of gen_index, None if the node lacks it. Its key in the file is
    ``axis_tensor_uid``, although its value is not a uid."""
    axis: int | None = node.attributes.get("axis", node.attributes.get("axis_tensor_uid"))
    return axis


def _reduction(node: Node, tensors: Tensors) -> None:
    mode, have, want = node.attributes.get("mode"), tensors["in"].dims, tensors["out"].dims
    if mode not in REDUCTION_MODES:
        known = ", ".join(REDUCTION_MODES)
        raise refusal(node, f"no reduction mode {mode!r}; known are {known}")
    if len(have) != len(want) or any(w not in (1, n) for w, n in zip(want, have, strict=True)):
        raise refusal(node, f"{have} does not reduce to {want}")
    if have == want:
        raise refusal(node, f"no axis is reduced from {have} to {want}")


def _resample(node: Node, tensors: Tensors) -> None:
    modes = ("maxpool", "avgpool_exclude_padding", "avgpool_include_padding")
    mode = node.attributes.get("resample_mode")
    if mode not in modes:
        raise refusal(node, f"no resample mode {mode!r}; known are {', '.join(modes)}")
    if node.attributes.get("padding_mode") == "edge_val_pad":
        raise refusal(node, "padding_mode 'edge_val_pad' is not computed")
    if mode == "maxpool" and "dy" in tensors and not {"index", "x"} & tensors.keys():
        raise refusal(node, "max pooling backward needs the forward's index or its x")


REFUSALS: Mapping[str, Callable[[Node, Tensors], None]] = {
    "BatchnormAttributes": _batchnorm,
    "BatchnormBackwardAttributes": _batchnorm,
    "BlockScaleQuantizeAttributes": _block_scale,
    "LayernormBackwardAttributes": _layernorm_backward,
    "MoeGroupedMatmulAttributes": _grouped_matmul,
    "MoeGroupedMatmulBwdAttributes": _grouped_matmul,
    "PointwiseAttributes": _pointwise,
    "ReductionAttributes": _reduction,
    "ResampleBwdAttributes": _resample,
    "ResampleFwdAttributes": _resample,
    "SdpaAttributes": _attention,
    "SdpaBackwardAttributes": _attention,
}
