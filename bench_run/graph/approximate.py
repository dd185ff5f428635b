"""Cheaper graphs that compute nearly the same: perforated and sampled convolutions, int8.

Each is made of operations that exist, and keeps the inputs and the outputs of the graph, so that
its error is that of its outputs against those of the graph itself.

``perf:1/K:row:O``   one of K rows of the output is computed, from row O on; the others are copies
                     of it (``col``: columns)
``samp:1/K:O``       one of K input channels is left out, from channel O on; the filter is scaled
``int8``             operands are rounded to int8 by their largest magnitude, the product is exact

The first two are the approximations of HPVM: perforation and filter sampling.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.graph.check import check
from bench_run.graph.layouts import ordered
from bench_run.graph.make.operators import OPERATORS
from bench_run.graph.make.operators.row import FORWARD, PREFIX, TYPE
from bench_run.graph.model import Node, Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph

CONVOLUTION = "ConvolutionFwdAttributes"
PRODUCT = "MatmulAttributes"
FLOATS = ("float", "half", "bfloat16", "double")
LARGEST = 127
"""Largest magnitude of a rounded operand."""
LEAST = 1e-30
"""Largest magnitude of an operand of zeros, so that nothing is divided by zero."""
NONE = "none"
"""The graph as it is, beside its approximations."""
_FORM = re.compile(r"(?:perf:1/(\d+):(row|col):(\d+)|samp:1/(\d+):(\d+))")


def parse_approximation(text: str) -> str:
    """Return the text if it names an approximation. Raises `ValueError` with the forms."""
    if text == NONE:
        return text
    found = _FORM.fullmatch(text)
    step, first = (found[1] or found[4], found[3] or found[5]) if found else ("1", "0")
    if not 2 <= int(step) <= 16 or int(first) >= int(step):
        raise ValueError("expected none, perf:1/2:row:0, perf:1/3:col:1 or samp:1/4:1")
    return text


def with_approximation(graph: Graph, text: str) -> Graph | None:
    """Return the graph with its convolution approximated; None unless it has exactly one. Raises
    `GraphError` if the convolution cannot be approximated so."""
    parse_approximation(text)
    found = [node for node in graph.nodes if node.type == CONVOLUTION]
    if text == NONE or len(found) != 1 or len(graph.by_uid[found[0].outputs["y"]].dims) != 4:
        return None
    kind, fraction, *rest = text.split(":")
    step = int(fraction.removeprefix("1/"))
    if kind == "samp":
        return _sampled(graph, found[0], step, int(rest[0]))
    return _perforated(graph, found[0], step, ("row", "col").index(rest[0]), int(rest[1]))


def with_int8(graph: Graph) -> Graph | None:
    """Return the graph with its convolution or matrix product in int8; None unless it has one.
    Raises `GraphError` for operands of other types."""
    found = [node for node in graph.nodes if node.type in (CONVOLUTION, PRODUCT)]
    return None if len(found) != 1 else _quantised(graph, found[0])


class _Editor:
    """A graph with tensors and nodes in place of one of its nodes."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph, self._node = graph, node
        self._tensors = list(graph.tensors)
        self._nodes: list[Node] = []

    def tensor(self, name: str, dims: tuple[int, ...], like: Tensor, data_type: str) -> int:
        """Return a tensor inside of the graph whose axes lie in memory as those of `like`."""
        order = sorted(range(len(dims)), key=lambda axis: (-like.strides[axis], axis))
        return self._add(name, data_type, dims, ordered(dims, tuple(order)))

    def constant(self, name: str, value: float) -> int:
        uid = self._add(name, "float", (1,), (1,))
        self._tensors[-1] = replace(self._tensors[-1], value=value, virtual=False)
        return uid

    def _add(
        self, name: str, data_type: str, dims: tuple[int, ...], strides: tuple[int, ...]
    ) -> int:
        uid = 1 + max(tensor.uid for tensor in self._tensors)
        taken = {tensor.name for tensor in self._tensors}
        plain = name if name not in taken else f"{name}_{uid}"
        self._tensors.append(Tensor(uid, plain, data_type, dims, strides, virtual=True))
        return uid

    def node(
        self,
        kind: str,
        name: str,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        attributes: Mapping[str, Any],
        compute: str = "float",
    ) -> None:
        self._nodes.append(Node(kind, name, compute, dict(inputs), dict(outputs), dict(attributes)))

    def pointwise(self, operation: str, out: int, *operands: int) -> int:
        inputs = {f"in_{place}": uid for place, uid in enumerate(operands)}
        attributes = {"operation": operation}
        self.node("PointwiseAttributes", operation, inputs, {"out_0": out}, attributes)
        return out

    def changed(self, node: Node) -> None:
        self._nodes.append(node)

    def graph(self) -> Graph:
        place = self._graph.nodes.index(self._node)
        before, after = self._graph.nodes[:place], self._graph.nodes[place + 1 :]
        nodes = (*before, *self._nodes, *after)
        return check(replace(self._graph, tensors=tuple(self._tensors), nodes=nodes))


def _perforated(graph: Graph, node: Node, step: int, axis: int, first: int) -> Graph:
    x, w, y = (graph.by_uid[uid] for uid in (*node.inputs.values(), *node.outputs.values()))
    a, place = node.attributes, axis + 2
    stride, dilation = a["stride"][axis], a["dilation"][axis]
    rows = -(-y.dims[place] // step)
    before = a["pre_padding"][axis] - first * stride
    window = dilation * (w.dims[place] - 1) + 1
    after = (rows - 1) * step * stride + window - x.dims[place] - before
    if before < 0:
        what = f"its padding of {a['pre_padding'][axis]} is less than {first * stride}"
        raise GraphError(graph.name, f"output from {first} on cannot be computed alone: {what}")
    edit = _Editor(graph, node)
    dims = tuple(rows if i == place else length for i, length in enumerate(y.dims))
    few = edit.tensor("computed", dims, y, y.data_type)
    spread = edit.tensor("spread", y.dims, y, y.data_type)
    new = {
        "stride": _at(a["stride"], axis, step * stride),
        "pre_padding": _at(a["pre_padding"], axis, before),
        "post_padding": _at(a["post_padding"], axis, max(0, after)),
    }
    edit.changed(replace(node, attributes={**a, **new}, outputs={"y": few}))
    ones, zeros = (1, 1), (0, 0)
    pooling = {
        "resample_mode": "avgpool_include_padding",
        "padding_mode": "zero_pad",
        "pre_padding": zeros,
        "post_padding": _at(zeros, axis, rows * step - y.dims[place]),
        "stride": _at(ones, axis, step),
        "window": _at(ones, axis, step),
    }
    # An average's gradient spreads each element over its window, divided by the window's size.
    edit.node("ResampleBwdAttributes", "spread", {"dy": few}, {"dx": spread}, pooling)
    edit.pointwise("mul", y.uid, spread, edit.constant("rows", float(step)))
    return edit.graph()


def _at(values: tuple[int, ...], axis: int, value: int) -> tuple[int, ...]:
    return tuple(value if i == axis else old for i, old in enumerate(values))


def _sampled(graph: Graph, node: Node, step: int, first: int) -> Graph:
    x, w, y = (graph.by_uid[uid] for uid in (*node.inputs.values(), *node.outputs.values()))
    channels = x.dims[1]
    if w.dims[1] != channels:
        raise GraphError(graph.name, "channels of a convolution in groups cannot be left out")
    kept = channels - (channels - first + step - 1) // step
    if not 0 < kept < channels:
        raise GraphError(graph.name, f"{channels} channels are too few to leave out 1 of {step}")
    edit = _Editor(graph, node)
    operands = {}
    for port, tensor in (("x", x), ("w", w)):
        dims = (tensor.dims[0], kept, *tensor.dims[2:])
        operands[port] = edit.tensor(f"{port}_sampled", dims, tensor, tensor.data_type)
        params = {"dims": tensor.dims, "step": step, "first": first}
        data = json.dumps({"shape": params}, sort_keys=True)
        edit.changed(
            Node(
                TYPE,
                "sample",
                "float",
                {"input_0": tensor.uid},
                {"output_0": operands[port]},
                {"custom_op_id": f"{PREFIX}skip_channels", "data": tuple(data.encode())},
                custom=OPERATORS["skip_channels"].custom(
                    FORWARD, {**params, "dtype": tensor.data_type}
                ),
            )
        )
    plain = edit.tensor("unscaled", y.dims, y, y.data_type)
    edit.changed(replace(node, inputs=operands, outputs={"y": plain}))
    edit.pointwise("mul", y.uid, plain, edit.constant("share", channels / kept))
    return edit.graph()


def _quantised(graph: Graph, node: Node) -> Graph:
    edit = _Editor(graph, node)
    (result,) = node.outputs.values()
    y = graph.by_uid[result]
    operands, steps = {}, []
    for port, uid in node.inputs.items():
        tensor = graph.by_uid[uid]
        if tensor.data_type not in FLOATS:
            raise GraphError(graph.name, f"{port} is {tensor.data_type}, expected a float type")
        operands[port], step = _rounded(edit, port, tensor)
        steps.append(step)
    total = edit.tensor("total", y.dims, y, "int32")
    edit.changed(
        replace(
            node,
            inputs=operands,
            outputs={next(iter(node.outputs)): total},
            compute_data_type="int32",
        )
    )
    wide = edit.pointwise("identity", edit.tensor("wide", y.dims, y, "float"), total)
    scaled = edit.pointwise("mul", edit.tensor("scaled", y.dims, y, "float"), wide, steps[0])
    edit.pointwise("mul", y.uid, scaled, steps[1])
    return edit.graph()


def _rounded(edit: _Editor, port: str, tensor: Tensor) -> tuple[int, int]:
    """Add nodes that round the operand to int8; return the uids of the rounded operand and of the
    size of its steps: floor(x/step + 0.5), step = max(abs(x))/127."""
    one = (1,) * len(tensor.dims)

    def scalar(name: str) -> int:
        return edit.tensor(f"{port}_{name}", one, tensor, "float")

    def whole(name: str, data_type: str = "float") -> int:
        return edit.tensor(f"{port}_{name}", tensor.dims, tensor, data_type)

    largest = scalar("largest")
    attributes = {"mode": "amax", "is_deterministic": False}
    edit.node("ReductionAttributes", "amax", {"in": tensor.uid}, {"out": largest}, attributes)
    above = edit.pointwise("max_op", scalar("above"), largest, edit.constant("least", LEAST))
    step = edit.pointwise("mul", scalar("step"), above, edit.constant("steps", 1 / LARGEST))
    steps = edit.pointwise("div", whole("in_steps"), tensor.uid, step)
    up = edit.pointwise("add", whole("up"), steps, edit.constant("half", 0.5))
    floor = edit.pointwise("floor", whole("floor"), up)
    return edit.pointwise("identity", whole("int8", "int8"), floor), step
