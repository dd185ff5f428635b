"""Calls of a model to layers of a pipeline: a graph each, made from an op spec, and where its
tensors lie. Views (reshapes, transpositions, slices) become strides and offsets of what reads them.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import GraphError, UsageError
from bench_run.graph.layouts import strides_of
from bench_run.graph.make import make_graphs
from bench_run.graph.make.spec import find
from bench_run.models.model import (
    Array,
    Dims,
    LinkedView,
    Model,
    ModelCall,
    contiguous,
    float64,
    known,
    permuted,
    placed,
    reshaped,
    sliced,
    spread,
)
from bench_run.models.patterns import join

if TYPE_CHECKING:
    from bench_run.graph.model import Graph


PRODUCTS = ("matmul", "gemm", "linear", "addmm", "bmm")
RECURRENT = ("lstm", "gru", "rnn")


def work_of(call: ModelCall, dims: Mapping[str, Dims]) -> int | None:
    """Return floating-point operations: as the model's library counts them, otherwise of a
    convolution or a matrix product by what it reads, otherwise one for each element of the result.
    None for a loop, a branch or an operation of another library, which may do anything."""
    counted = call.attributes.get("flops", 0)
    if counted != 0:
        return None if counted is None else int(counted)
    elements = sum(math.prod(dims[name]) for name in call.outputs if name in dims)
    known = [dims[name] for name in call.inputs if isinstance(name, str) and name in dims]
    operation = call.operation.lower()
    if not known:
        return elements
    first, *others = known
    if "attention" in operation and len(known) > 2:
        return 2 * (elements * known[1][-2] + math.prod(first[:-1]) * known[1][-2] * first[-1])
    if "conv" in operation:
        filters = [each for each in others if len(each) == len(first) > 2]
        return 2 * elements * math.prod(filters[0][1:]) if filters else elements
    if any(name in operation for name in PRODUCTS) and first:
        return 2 * elements * first[-1]
    if any(name in operation for name in RECURRENT):
        return 2 * math.prod(first[:-1]) * sum(map(math.prod, others))
    return elements


SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}
TAPS = {1: ("s",), 2: ("r", "s"), 3: ("t", "r", "s")}
TYPES = ("float", "half", "bfloat16", "double")
"""Types of arithmetic."""
WHOLE = ("int64", "int32", "int8", "boolean")
"""Further types for which graphs are made, of the operations that have them."""
SPELLED = {"bool": "boolean"}
"""Types of models in the words of graphs."""
LAYOUTS = {
    "nchw": {1: "ncw", 2: "nchw", 3: "ncdhw"},
    "nhwc": {1: "nwc", 2: "nhwc", 3: "ndhwc"},
}
"""Layouts of ``--layout``, by number of spatial axes."""


class UnsupportedCallError(Exception):
    """No graph expresses the call; the message says why."""


@dataclass(frozen=True)
class Lowered:
    """A layer: its graph, where its inputs come from, and what is known of them."""

    id: str
    graph: Graph
    links: Mapping[str, LinkedView]
    weights: Mapping[str, Array]
    gradients: tuple[str, ...]
    """Op specs of its backward graphs."""
    kind: str
    """Kind of the original call."""


@dataclass(frozen=True)
class RefusedCall:
    """A call that no graph expresses."""

    call: ModelCall
    work: int | None
    """Floating-point operations; None if they are not known."""
    reason: str


@dataclass
class ModelLowering:
    """Layers so far. `views` says where each value lies."""

    model: Model
    table: Mapping[str, Row]
    """Kind of a call to what makes layers of it."""
    layout: str = "nchw"
    layers: list[Lowered] = field(default_factory=list)
    refused: list[RefusedCall] = field(default_factory=list)
    inputs: dict[str, LinkedView] = field(default_factory=dict)
    views: dict[str, LinkedView] = field(default_factory=dict)
    written: dict[tuple[str | None, str], str] = field(default_factory=dict)
    """Layer and tensor of a result to its data type."""
    results: tuple[LinkedView, ...] = ()
    """Results of the last layer."""

    def run(self) -> None:
        for name in self.model.inputs:
            self._add_input(name)
        for name, array in self.model.weights.items():
            self.views[name] = known(name, array)
        for call in self.model.calls:
            self._lower_or_refuse(call)
        for name in self.model.outputs:
            self._write_out(name)

    def _write_out(self, name: str) -> None:
        """Add a copy for a result that is an input in another order, as of a transposition."""
        view = self.views.get(name)
        if view is None or view.array is not None or view.layer is not None:
            return
        kind = self.type_of(view)
        if kind in TYPES and view.strides != contiguous(view.dims) and name not in self.inputs:
            call = ModelCall("copy", name, (), (name,), {}, "copy")
            spec = f"identity: dims={joined(view.dims)}"
            self.views[name] = self.emit(call, spec, {"x": view}, data_type=kind)

    def _lower_or_refuse(self, call: ModelCall) -> None:
        """Lower a call. A joined call that no graph expresses is lowered part by part: some of them
        may be."""
        try:
            lowering = self.table.get(call.kind)
            if lowering is None:
                reason = call.attributes.get("reason", "no operation of hipDNN does this")
                raise UnsupportedCallError(reason)
            made = len(self.layers)
            try:
                lowering(self, call)
            except (UnsupportedCallError, UsageError, GraphError):
                del self.layers[made:]  # copies for something that was not to be
                raise
        except (UnsupportedCallError, UsageError, GraphError) as error:
            for part in call.parts:
                self._lower_or_refuse(part)
            if not call.parts:
                work = work_of(call, self.model.dims)
                self.refused.append(RefusedCall(call, work, str(error)))
                for name in call.outputs:  # an input of the pipeline for those that read it
                    if name in self.model.dims:
                        self._add_input(name)

    def _add_input(self, name: str) -> None:
        dims = self.model.dims[name]
        nhwc = self.layout == "nhwc" and 4 <= len(dims) <= 5
        strides = strides_of(dims, LAYOUTS["nhwc"][len(dims) - 2]) if nhwc else contiguous(dims)
        self.views[name] = self.inputs[name] = placed(name, None, dims, strides)

    def add_input(self, name: str, dims: Dims, data_type: str) -> LinkedView:
        """Add an input of the pipeline that the model does not have."""
        self.model.types[name] = data_type
        self.inputs[name] = placed(name, None, dims, contiguous(dims))
        return self.inputs[name]

    def view(self, name: str | float | None) -> LinkedView:
        if isinstance(name, (int, float)):
            return known(str(name), np.full((1,), float(name)))
        if name is None:
            raise UnsupportedCallError("one of its operands is not a tensor")
        if name not in self.views:
            raise UnsupportedCallError("one of its operands has no known dims")
        return self.views[name]

    def data_type(self, call: ModelCall) -> str:
        """Return the data type of a call's result. Raises `UnsupportedCallError` for one without a
        graph."""
        return self.known_type(call.outputs[0])

    def known_type(self, value: str) -> str:
        found = self.model.types.get(value, self.model.data_type)
        found = SPELLED.get(found, found)
        if found not in (*TYPES, *WHOLE):
            raise UnsupportedCallError(f"its data are {found}")
        return found

    def emit(
        self,
        call: ModelCall,
        spec: str,
        operands: Mapping[str, LinkedView],
        *,
        like: LinkedView | None = None,
        gradients: tuple[str, ...] = (),
        data_type: str | None = None,
    ) -> LinkedView:
        """Add a layer; operands by name of the graph's tensor. The result is laid out like `like`,
        if given. `data_type`: of the operands, if it differs from that of the result. Returns the
        place of the result."""
        graph = self.graph(spec, data_type or self.data_type(call))
        return self.add(call, graph, operands, like=like, gradients=gradients)

    def graph(self, spec: str, data_type: str) -> Graph:
        """Return the graph of an op spec. Raises `UnsupportedCallError` if its operation does not
        have the type."""
        names = spec.partition(":")[0].split("+")
        if any(data_type not in find(name, spec).dtypes for name in names):
            raise UnsupportedCallError(f"its data are {data_type}")
        return make_graphs(f"{spec} dtype={data_type}")[0]

    def add(
        self,
        call: ModelCall,
        graph: Graph,
        operands: Mapping[str, LinkedView],
        *,
        like: LinkedView | None = None,
        gradients: tuple[str, ...] = (),
    ) -> LinkedView:
        by_name = {tensor.name: tensor for tensor in graph.inputs}
        strides: dict[str, Dims] = {}
        weights: dict[str, Array] = {}
        plain = {
            name: self.plain(call, self._seen_as(call, view, by_name[name].dims))
            for name, view in operands.items()
        }
        for name, view in plain.items():
            tensor = by_name[name]
            if view.array is not None:
                if _plain_dims(view.array.shape) != _plain_dims(tensor.dims):
                    found, wanted = joined(view.array.shape), joined(tensor.dims)
                    raise UnsupportedCallError(f"{name} is {found}, expected {wanted}")
                array = view.array.reshape(tensor.dims)
                is_truth = array.dtype == bool and tensor.data_type != "boolean"
                weights[name] = array.astype(np.float32) if is_truth else array
            elif view.dims != tensor.dims:
                raise UnsupportedCallError(f"{name} is {view.dims}, expected {tensor.dims}")
            elif self.type_of(view) != tensor.data_type:
                found = f"{self.type_of(view)}, expected {tensor.data_type}"
                raise UnsupportedCallError(f"{name} is {found}")
            elif view.strides is not None:
                strides[name] = view.strides
        out = graph.outputs[0]
        if like is not None and like.dims == out.dims and _is_dense(like):
            strides[out.name] = like.strides or out.strides
        graph = restrided(graph, strides)
        out = graph.outputs[0]
        links = {name: view for name, view in plain.items() if view.array is None}
        name = self._id(call)
        self.layers.append(Lowered(name, graph, links, weights, gradients, call.kind))
        for each in graph.outputs:
            self.written[name, each.name] = each.data_type
        self.results = tuple(placed(o.name, name, o.dims, o.strides) for o in graph.outputs)
        return self.results[0]

    def _seen_as(self, call: ModelCall, view: LinkedView, dims: Dims) -> LinkedView:
        """Return an operand with the lengths of 1 that its tensor has, as of a number for each
        channel."""
        same = view.array is not None or view.dims == dims
        if same or _plain_dims(view.dims) != _plain_dims(dims):
            return view
        return self.reshape(call, view, dims)

    def type_of(self, view: LinkedView) -> str:
        if view.layer is None:
            found = self.model.types.get(view.tensor, self.model.data_type)
            return SPELLED.get(found, found)
        return self.written[view.layer, view.tensor]

    def _id(self, call: ModelCall) -> str:
        plain = linkable(call.name) or "layer"
        taken = {layer.id for layer in self.layers}
        number = 2
        for name in (plain, f"{plain}.{call.kind}"):
            if name not in taken:
                return name
        while f"{plain}.{call.kind}{number}" in taken:
            number += 1
        return f"{plain}.{call.kind}{number}"

    def plain(self, call: ModelCall, view: LinkedView) -> LinkedView:
        """Return the view with a stride for each axis; a row-major copy if one is missing."""
        if view.array is not None:
            return view
        if view.strides is not None:
            return view
        atoms = tuple(part for axis in view.axes for part in axis)
        apart = replace(view, axes=tuple((part,) for part in atoms))
        text, kind = joined(apart.dims), self.type_of(view)
        copy = replace(call, kind="copy")
        copied = self.emit(copy, f"identity: dims={text}", {"x": apart}, data_type=kind)
        return self.reshape(call, copied, view.dims)

    def reshape(self, call: ModelCall, view: LinkedView, dims: Dims) -> LinkedView:
        """Return the view with other dims; through a copy where these cut across its axes."""
        if math.prod(view.dims) != math.prod(dims):
            raise UnsupportedCallError(f"{joined(view.dims)} cannot be seen as {joined(dims)}")
        found = reshaped(view, dims)
        if found is not None:
            return found
        copied = self.plain(call, view)
        if copied is view:
            text, kind = joined(view.dims), self.type_of(view)
            copy = replace(call, kind="copy")
            copied = self.emit(copy, f"identity: dims={text}", {"x": view}, data_type=kind)
        again = reshaped(copied, dims)
        assert again is not None, "a row-major copy has every shape"
        return again

    def slice(
        self,
        call: ModelCall,
        view: LinkedView,
        axis: int,
        start: int,
        length: int,
        step: int = 1,
    ) -> LinkedView:
        found = sliced(view, axis, start, length, step)
        if found is None:
            found = sliced(self.plain(call, view), axis, start, length, step)
        assert found is not None, "a plain view has every slice"
        return found

    def leave(self, call: ModelCall, view: LinkedView) -> None:
        """Set the call's result, in the dims of the model."""
        name = call.outputs[0]
        self.views[name] = self.reshape(call, view, self.model.dims[name])

    def image(self, view: LinkedView) -> tuple[str, str]:
        """Return batch, channels and lengths as items of a spec, and its layout."""
        rank = len(view.dims) - 2
        if rank not in SPATIAL:
            raise UnsupportedCallError(f"{rank} spatial axes")
        n, c, *lengths = view.dims
        named = " ".join(f"{k}={v}" for k, v in zip(SPATIAL[rank], lengths, strict=True))
        deep = " spatial=1" if rank == 1 else ""
        return f"n={n} c={c} {named}{deep}", f"layout={LAYOUTS[self.layout][rank]}"


def linkable(name: str) -> str:
    """Replace characters with a meaning in links: ``onnx::Conv_0`` is not a tensor of a layer
    ``onnx``."""
    return "".join("_" if c.isspace() or c in ":@#" else c for c in name)


def _plain_dims(dims: Dims) -> Dims:
    """Return the dims without lengths of 1."""
    return tuple(length for length in dims if length != 1)


def _is_dense(view: LinkedView) -> bool:
    """Return True if its elements are contiguous."""
    atoms = [part for axis in view.axes for part in axis]
    return sum((d - 1) * s for d, s in atoms) + 1 == math.prod(view.dims)


def restrided(graph: Graph, strides: Mapping[str, Dims]) -> Graph:
    """Return the graph with these strides of its tensors, by name; a name of its own if they differ
    from what it had. Strides of length 1 mean nothing."""
    made = []
    for tensor in graph.tensors:
        wanted = strides.get(tensor.name, tensor.strides)
        rows = zip(tensor.dims, tensor.strides, wanted, strict=True)
        made.append(replace(tensor, strides=tuple(old if d == 1 else new for d, old, new in rows)))
    tensors = tuple(made)
    if tensors == graph.tensors:
        return graph
    text = ";".join(f"{t.name}:{t.strides}" for t in tensors)
    suffix = hashlib.sha256(text.encode()).hexdigest()[:8]
    return replace(graph, tensors=tensors, name=f"{graph.name}_strides{suffix}")


def joined(numbers: Dims) -> str:
    """Join numbers as specs do; a single number has a length of 1."""
    return "x".join(map(str, numbers)) or "1"


def identity(to: ModelLowering, call: ModelCall) -> None:
    to.views[call.outputs[0]] = to.view(call.inputs[0])


def reshape(to: ModelLowering, call: ModelCall) -> None:
    to.leave(call, to.view(call.inputs[0]))


def permute(to: ModelLowering, call: ModelCall) -> None:
    to.views[call.outputs[0]] = permuted(to.view(call.inputs[0]), call.attributes["order"])


def expand(to: ModelLowering, call: ModelCall) -> None:
    """Repeat along axes of length 1 and along new ones; nothing is copied."""
    name = call.outputs[0]
    to.views[name] = spread(to.view(call.inputs[0]), to.model.dims[name])


def slice_axis(to: ModelLowering, call: ModelCall) -> None:
    part = to.view(call.inputs[0])
    for axis, *span in call.attributes["parts"]:
        part = to.slice(call, part, axis, *span)
    to.views[call.outputs[0]] = part


def select(to: ModelLowering, call: ModelCall) -> None:
    a = call.attributes
    part = to.slice(call, to.view(call.inputs[0]), a["axis"], a["start"], 1)
    to.leave(call, part)


def split(to: ModelLowering, call: ModelCall) -> None:
    view, axis, start = to.view(call.inputs[0]), call.attributes["axis"], 0
    for name in call.outputs:
        length = to.model.dims[name][axis] if call.kind == "split" else 1
        part = to.slice(call, view, axis, start, length)
        to.views[name] = to.reshape(call, part, to.model.dims[name])
        start += length


Row = Callable[[ModelLowering, ModelCall], None]
VIEWS: dict[str, Row] = {
    "identity": identity,
    "reshape": reshape,
    "permute": permute,
    "expand": expand,
    "slice": slice_axis,
    "select": select,
    "split": split,
    "unbind": split,
}
"""The kinds of calls that only look at memory in another way."""


ACTIVATIONS = ("relu", "relu6", "gelu", "gelu_tanh", "sigmoid", "tanh", "swish")
TAKES_ACTIVATION = ("conv", "linear", "matmul", "add")


def fuse(model: Model) -> Model:
    """Replace spelled-out norms and activations by one call, fold batch norms into the convolutions
    before them, and join activations to the calls that they follow, if no other call reads the
    value between. A joined call keeps its parts."""
    model = join(model)
    calls, weights = list(model.calls), dict(model.weights)
    read = [name for call in model.calls for name in call.inputs if isinstance(name, str)]
    users = Counter([*read, *model.outputs])
    made: dict[str, int] = {}
    kept: list[ModelCall | None] = []
    for call in calls:
        source = call.inputs[0] if call.inputs else None
        place = made.get(source) if isinstance(source, str) else None
        before = None if place is None or users[str(source)] > 1 else kept[place]
        joined = None if before is None else _joined(before, call, weights)
        if joined is None:
            kept.append(call)
            made.update(dict.fromkeys(call.outputs, len(kept) - 1))
        else:
            assert place is not None
            kept[place] = None
            assert before is not None
            kept.append(replace(joined, parts=(before, call)))
            made.update(dict.fromkeys(joined.outputs, len(kept) - 1))
    return replace(model, calls=tuple(c for c in kept if c is not None), weights=weights)


def _joined(before: ModelCall, call: ModelCall, weights: dict[str, Array]) -> ModelCall | None:
    if call.kind == "batchnorm" and before.kind == "conv" and "act" not in before.attributes:
        # y = (w·x + b − mean)·s + bias with s = scale/√(var + eps) is a convolution
        # too.
        w_name, b_name = before.inputs[1], before.inputs[2]
        if w_name not in weights or (b_name is not None and b_name not in weights):
            return None
        if call.inputs[3] not in weights or call.inputs[4] not in weights:
            return None
        w = float64(weights[str(w_name)])
        variance = float64(weights[str(call.inputs[4])]) + call.attributes["eps"]
        if not np.all(variance > 0):
            return None
        old = np.zeros(len(w)) if b_name is None else float64(weights[str(b_name)])
        _, scale_name, bias_name, mean, _ = call.inputs
        scale = _or(weights, scale_name, np.ones(len(w)))
        bias = _or(weights, bias_name, np.zeros(len(w)))
        factor = scale / np.sqrt(variance)
        names = f"{call.outputs[0]}.w", f"{call.outputs[0]}.bias"
        weights[names[0]] = w * factor.reshape((-1,) + (1,) * (w.ndim - 1))
        weights[names[1]] = (old - float64(weights[str(mean)])) * factor + bias
        return replace(before, inputs=(before.inputs[0], *names), outputs=call.outputs)
    if call.kind in ACTIVATIONS and before.kind in TAKES_ACTIVATION:
        if "act" in before.attributes:
            return None
        return replace(
            before, outputs=call.outputs, attributes={**before.attributes, "act": call.kind}
        )
    return None


def _or(weights: dict[str, Array], name: str | float | None, otherwise: Array) -> Array:
    return float64(weights[name]) if isinstance(name, str) else otherwise


def take_apart(model: Model) -> Model:
    """Replace biases of convolutions and matrix products by separate additions."""
    dims = dict(model.dims)
    calls: list[ModelCall] = []
    for call in model.calls:
        if call.kind not in ("conv", "linear", "matmul") or call.inputs[2] is None:
            calls.append(call)
            continue
        between = f"{call.outputs[0]}.unbiased"
        dims[between] = dims[call.outputs[0]]
        calls.append(replace(call, inputs=(*call.inputs[:2], None), outputs=(between,)))
        kind, operands = "channel_bias" if call.kind == "conv" else "add", (between, call.inputs[2])
        calls.append(ModelCall(kind, f"{call.name}.bias", operands, call.outputs, {}, "bias"))
    return replace(model, calls=tuple(calls), dims=dims)
