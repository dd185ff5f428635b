"""The graph as text that hipDNN reads, and what of a graph hipDNN leaves open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.format.fields import MULTIPLIER
from bench_run.graph.format.hipdnn_json import to_json
from bench_run.graph.operations import OPERATIONS
from bench_run.graph.operations.sdpa import has_scale
from bench_run.tensors.layout import describe, storage_type

if TYPE_CHECKING:
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.graph.model import Graph, Node


TYPES = ("io_data_type", "intermediate_data_type", "compute_data_type")
"""Graph-wide default types."""
UNSET, FLOAT = "unset", "float"
"""hipDNN rejects a node whose compute type is unset; a graph type that is not said is float."""


def refuse_unwritable(graph: Graph) -> None:
    """Raise `UnsupportedGraphError` for anything that hipDNN's reader would misread (unknown
    spellings become the first of their list), and for types without a certain packing."""
    for node in graph.nodes:
        row = OPERATIONS.get(node.type)
        if row is None:
            raise UnsupportedGraphError(f"hipdnn: {node.label}: unknown node type")
        for parameter in row.parameters:
            value = node.attributes.get(parameter.name)
            if parameter.kind == "enum" and value is not None and value not in parameter.choices:
                raise UnsupportedGraphError(
                    f"hipdnn: {node.label}: no {parameter.name} {value!r}; "
                    f"known are {', '.join(map(str, parameter.choices))}"
                )
        for uid in (*node.inputs.values(), *node.outputs.values()):
            try:
                storage_type(graph.by_uid[uid])
            except UnsupportedGraphError as error:
                raise UnsupportedGraphError(f"hipdnn: {node.label}: {error}") from None


def refuse_unknown_types(library: Library, graph: Graph) -> None:
    """Raise `UnsupportedGraphError` for a type that this release does not name."""
    for tensor in graph.tensors:
        if not hasattr(library.module.DataType, tensor.data_type.upper()):
            raise UnsupportedGraphError(
                f"hipdnn: {library.version} has no data type {tensor.data_type}, "
                f"which {describe(tensor)} has"
            )


def graph_text(graph: Graph) -> str:
    """Return the file's text in the form that the strict reader wants."""
    data: dict[str, Any] = to_json(graph)
    for key in TYPES:
        data[key] = FLOAT if data[key] == UNSET else data[key]
    for node in data["nodes"]:
        if node["compute_data_type"] == UNSET:
            node["compute_data_type"] = data["compute_data_type"]
    return orjson.dumps(data).decode()


def deserialise(library: Library, graph: Graph, *, keep_preference: bool) -> Any:
    """Return hipDNN's graph object. A preference of the file is left out where the user chose."""
    refuse_unknown_types(library, graph)
    if not keep_preference:
        graph = replace(graph, preferred_engine_id=None)
    with library.calling("Graph"):
        native = library.module.Graph()
        for key in TYPES:  # before the text, which need not keep them
            kind = FLOAT if getattr(graph, key) == UNSET else getattr(graph, key)
            getattr(native, f"set_{key}")(getattr(library.module.DataType, kind.upper()))
    library.step(native, "from_json", graph_text(graph))
    return native


# What hipDNN's graph format leaves open and its engines answer differently: refused, since a time
# of one meaning beside a reference of the other would say nothing.
#
# Attention without `attn_scale_value` is scaled by 1 in some engines and by 1/√(head size) in
# others. Causal masks with further bounds: hipDNN's own reference takes them as top-left with an
# open left side, the newest engine as they are stored.

FLAGS = ("causal_mask", "causal_mask_bottom_right")
ATTENTION = ("SdpaAttributes", "SdpaBackwardAttributes")


def refuse_undefined(graph: Graph) -> None:
    """Raise `UnsupportedGraphError` with the undefined property and the remedy."""
    for tensor in graph.tensors:
        if tensor.extras.get(MULTIPLIER, 1) != 1:
            raise UnsupportedGraphError(
                f"hipdnn: {describe(tensor)}: {MULTIPLIER} {tensor.extras[MULTIPLIER]}: only 1 can "
                "be held against a reference"
            )
    for node in graph.nodes:
        if node.type in ATTENTION:
            if not has_scale(node):
                raise UnsupportedGraphError(
                    f"hipdnn: {node.label}: attn_scale_value is not set, and hipDNN's engines take "
                    "that as 1 or as 1/sqrt(head size): say which by --sdpa-scale one or "
                    "--sdpa-scale rsqrt"
                )
            _refuse_mask(graph, node)


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
