"""What hipDNN's graph format leaves open and its engines answer differently: refused, since a time
of one meaning beside a reference of the other would say nothing.

Attention without `attn_scale_value` is scaled by 1 in some engines and by 1/√(head size) in others.
Causal masks with further bounds: hipDNN's own reference takes them as top-left with an open left
side, the newest engine as they are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.format.notes import MULTIPLIER
from bench_run.graph.operations.sdpa import has_scale
from bench_run.tensors.layout import describe

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node

FLAGS = ("causal_mask", "causal_mask_bottom_right")
ATTENTION = ("SdpaAttributes", "SdpaBackwardAttributes")


def refuse_undefined(graph: Graph) -> None:
    """Raises `UnsupportedGraphError` with what is open and what settles it."""
    for tensor in graph.tensors:
        if tensor.extras.get(MULTIPLIER, 1) != 1:
            raise UnsupportedGraphError(
                f"hipdnn: {describe(tensor)}: {MULTIPLIER} {tensor.extras[MULTIPLIER]}: only 1 can "
                "be held against a reference"
            )
    for node in graph.nodes:
        if node.type in ATTENTION:
            _refuse_scale(node)
            _refuse_mask(graph, node)


def _refuse_scale(node: Node) -> None:
    if not has_scale(node):
        raise UnsupportedGraphError(
            f"hipdnn: {node.label}: attn_scale_value is not set, and hipDNN's engines take that as "
            "1 or as 1/sqrt(head size): say which by --sdpa-scale one or --sdpa-scale rsqrt"
        )


def _refuse_mask(graph: Graph, node: Node) -> None:
    flag = next((name for name in FLAGS if node.attributes.get(name)), None)
    if flag is None:
        return
    queries, keys = (graph.by_uid[node.inputs[port]].dims[2] for port in ("q", "k"))
    stored = {
        "left_bound": _is_bound(node, "left_bound", 0),
        "right_bound": _is_bound(node, "right_bound", 1),
        "diagonal_alignment bottom_right": flag == "causal_mask"
        and queries != keys
        and node.attributes.get("diagonal_alignment") == "bottom_right",
    }
    open_ones = [name for name, is_set in stored.items() if is_set]
    if open_ones:
        raise UnsupportedGraphError(
            f"hipdnn: {node.label}: {flag} with {' and '.join(open_ones)}: hipDNN's engines "
            "differ on whether the causal flag overrules it; write the mask as bounds alone"
        )


def _is_bound(node: Node, name: str, least: int) -> bool:
    value = node.attributes.get(name)
    return value is not None and value >= least
