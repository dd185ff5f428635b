"""A graph in words, 80 columns wide: operations, tensors with their layouts, work."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from bench_schema.units import significant
from tabulate import tabulate

from bench_run.graph.layouts import is_packed, layout_name
from bench_run.graph.make.operators import is_operator, row_of
from bench_run.graph.make.operators.row import PREFIX
from bench_run.graph.operations import OPERATIONS, node_view
from bench_run.graph.work import family, work
from bench_run.text import shorten, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Graph, Node, Tensor

WIDTH = 80
_NAME_WIDTH = 24
_FLOP_UNITS = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"))

_IMAGE_AXES = {3: "ncw", 4: "nchw", 5: "ncdhw"}
_IMAGE_FAMILIES = ("convolution", "batchnorm", "resample")
_MATRIX_FAMILIES = ("matmul", "block_scale")

_FILTER_WORDS = {
    "ncw": "kcs",
    "nwc": "ksc",
    "nchw": "kcrs",
    "nhwc": "krsc",
    "ncdhw": "kctrs",
    "ndhwc": "ktrsc",
}


def describe(graph: Graph) -> str:
    """Describe the graph in several lines, none wider than `WIDTH`; the last one is blank."""
    does = work(graph)
    moved = "bytes moved unknown" if does.moved_bytes is None else size_text(does.moved_bytes)
    ratio = "" if does.intensity is None else f", {significant(does.intensity, 3)} FLOP/byte"
    lines = [
        *textwrap.wrap(plain(graph.name) or "a graph without a name", WIDTH),
        *_wrap(
            f"{family(graph)}; {graph.io_data_type} in and out, "
            f"{graph.intermediate_data_type} between, arithmetic in {graph.compute_data_type}",
            2,
        ),
        *_wrap(f"{flop_text(does.flops)}, {moved} moved{ratio}", 2),
        "",
    ]
    for index, node in enumerate(graph.nodes):
        seen = node_view(graph, index)
        names = [
            ", ".join(tensor_name(graph.by_uid[uid]) for uid in ports)
            for ports in (node.inputs.values(), node.outputs.values())
        ]
        lines += _wrap(f"{index + 1}. {operation_name(node)}: {names[0]} -> {names[1]}", 2)
        lines += _wrap(", ".join([flop_text(seen.operation.flops(seen)), *node_facts(node)]), 5)
    tensors = tabulate(
        [
            (
                role(graph, tensor),
                tensor_name(tensor),
                tensor.data_type,
                dims_text(tensor),
                layout_text(graph, tensor),
                size_text(tensor.bytes),
            )
            for tensor in graph.tensors
        ],
        headers=("role", "tensor", "type", "dims", "layout", "size"),
        tablefmt="plain",
        colalign=("left", "left", "left", "left", "left", "right"),
        disable_numparse=True,
    )
    lines += ["", *(f"  {shorten(line, WIDTH - 2)}" for line in tensors.splitlines()), ""]
    return "\n".join(line.rstrip() for line in lines)


def _wrap(text: str, indent: int) -> list[str]:
    pad = " " * indent
    return textwrap.wrap(text, WIDTH, initial_indent=pad, subsequent_indent=pad + "  ")


def plain(name: str) -> str:
    """Return a name from a file without what would move the cursor or break a line."""
    return "".join(letter if letter.isprintable() else "�" for letter in name)


def flop_text(flops: int | None) -> str:
    if flops is None:
        return "FLOP unknown"
    factor, unit = next(((f, u) for f, u in _FLOP_UNITS if flops >= f), (1.0, "FLOP"))
    return f"{significant(flops / factor, 3)} {unit}"


def tensor_name(tensor: Tensor) -> str:
    return shorten(plain(tensor.name) or f"tensor {tensor.uid}", _NAME_WIDTH)


def operation_name(node: Node) -> str:
    """Return our short name of the node type; of a pointwise node its mode."""
    mode = node.attributes.get("operation")
    if is_operator(node):
        return str(node.attributes["custom_op_id"]).removeprefix(PREFIX)
    return str(mode) if mode is not None else OPERATIONS[node.type].name


_NEUTRAL: dict[str, Any] = {"stride": 1, "dilation": 1, "pre_padding": 0, "post_padding": 0}


def node_facts(node: Node) -> Iterator[str]:
    """Yield attributes that differ from their defaults, as ``key value``; for an operator of the
    table its formula and its parameters."""
    if is_operator(node):
        row, _, params = row_of(node)
        yield row.text
        yield from (f"{key} {value}" for key, value in params.items() if value is not None)
        return
    defaults = {row.name: row.default for row in OPERATIONS[node.type].parameters}
    defaults["conv_mode"] = "cross_correlation"
    for key, value in sorted(node.attributes.items()):
        neutral = isinstance(value, tuple) and set(value) == {_NEUTRAL.get(key)}
        if key != "operation" and value != defaults.get(key) and not neutral:
            text = f"{value:g}" if isinstance(value, float) else str(value)
            yield f"{key} {'×'.join(map(str, value)) if isinstance(value, tuple) else text}"


def dims_text(tensor: Tensor) -> str:
    """Return the lengths, or the value of a constant."""
    return "×".join(map(str, tensor.dims)) if tensor.value is None else f"= {tensor.value}"


def role(graph: Graph, tensor: Tensor) -> str:
    """Return the role of a tensor in the graph: input, output, between, constant, or unused."""
    if tensor.value is not None:
        return "constant"
    if tensor.virtual:
        return "between"
    if tensor.uid in graph.produced:
        return "output"
    return "input" if tensor.uid in graph.consumed else "unused"


def layout_text(graph: Graph, tensor: Tensor) -> str:
    """Return the name of the layout with these strides, otherwise the strides."""
    packed = is_packed(tensor.dims, tensor.strides)
    if packed and sum(length > 1 for length in tensor.dims) <= 1:
        return "scalar" if tensor.elements == 1 else "vector"
    axes, is_filter = _axes(graph, tensor)
    if axes == "mn":
        rank = len(tensor.dims)
        name = layout_name(tensor.dims[-2:], tensor.strides[-2:], "mn") if rank >= 2 else None
    else:
        name = layout_name(tensor.dims, tensor.strides, axes) if axes else None
    if name is not None:
        return _FILTER_WORDS.get(name, name) if is_filter else name
    return "packed" if packed else "strides " + "×".join(map(str, tensor.strides))


def _axes(graph: Graph, tensor: Tensor) -> tuple[str, bool]:
    """Return logical axes of a tensor by what uses it ('' for none), and whether it is a filter."""
    rank = len(tensor.dims)
    for node in graph.nodes:
        ports = {uid: port for port, uid in (*node.inputs.items(), *node.outputs.items())}
        kind = OPERATIONS[node.type].family
        if tensor.uid not in ports or kind == "pointwise":
            continue
        if kind in _IMAGE_FAMILIES:
            return _IMAGE_AXES.get(rank, ""), kind == "convolution" and ports[tensor.uid] in "w dw"
        if kind in _MATRIX_FAMILIES:
            return "mn", False
        return ("bhsd" if kind == "sdpa" and rank == 4 else ""), False
    # The pointwise part has the axes of the other operations, of images where there are none and
    # the rank leaves no doubt.
    kinds = {OPERATIONS[node.type].family for node in graph.nodes} - {"pointwise"}
    if kinds & set(_MATRIX_FAMILIES):
        return "mn", False
    if kinds - set(_IMAGE_FAMILIES):
        return "", False
    return (_IMAGE_AXES.get(rank, "") if kinds or rank >= 4 else ""), False
