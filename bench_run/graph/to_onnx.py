"""A graph as an ONNX model, for runtimes that take those: one function for each node type.

Tensors are logical: where a tensor's memory has its axes in another order, the model's input (or
output) has the axes of memory, and a Transpose stands behind it (or before it). Products and
convolutions compute in the type of their operands, everything else in the widest type at hand, and
what a node makes is cast to the tensor's type. Statistics, masks and inverse deviations are spelled
out, so that every runtime takes them. Source of the operations: ONNX's operator reference,
opset 21.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.errors import EngineUnavailableError, UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES, array_type
from bench_run.graph.operations.reduction import reduced_axes
from bench_run.graph.operations.sdpa import band

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.graph.model import Graph, Node, Tensor

OPSET = 21
IR_VERSION = 10
TYPES: Mapping[str, int] = {
    "float": 1,
    "uint8": 2,
    "int8": 3,
    "int32": 6,
    "int64": 7,
    "boolean": 9,
    "half": 10,
    "double": 11,
    "bfloat16": 16,
    "fp8_e4m3": 17,
    "fp8_e4m3_fnuz": 18,
    "fp8_e5m2": 19,
    "fp8_e5m2_fnuz": 20,
}
"""Data type → member of ONNX's `TensorProto.DataType`."""
WIDTHS = ("half", "bfloat16", "float", "double")
IN_BFLOAT16 = ("MatmulAttributes", "SdpaAttributes")


@dataclass(frozen=True)
class End:
    """An input or output of the model: its name, and the tensor's axes as memory has them."""

    name: str
    uid: int
    dims: tuple[int, ...]


@dataclass(frozen=True)
class OnnxModel:
    data: bytes
    inputs: tuple[End, ...]
    outputs: tuple[End, ...]


def refuse(node: Node, why: str) -> UnsupportedGraphError:
    return UnsupportedGraphError(f"onnx: {node.label}: {why}")


def to_onnx(graph: Graph, *, fast: bool = False) -> OnnxModel:
    """`fast`: products of half operands are half, also where the graph keeps more of them until
    the next node. Raises `UnsupportedGraphError` for what has no form in ONNX here."""
    return _Writer(graph, fast=fast).model()


def memory_order(tensor: Tensor) -> tuple[int, ...]:
    """Return the tensor's axes, longest stride first. Raises `UnsupportedGraphError` if memory has
    gaps."""
    axes = sorted(range(len(tensor.dims)), key=lambda i: (-tensor.strides[i], i))
    if all(d == 1 for d in tensor.dims):
        return tuple(range(len(tensor.dims)))
    step = 1
    for axis in reversed([i for i in axes if tensor.dims[i] > 1]):
        if tensor.strides[axis] != step:
            name = tensor.name or f"tensor {tensor.uid}"
            raise UnsupportedGraphError(f"onnx: {name} has gaps between its elements")
        step *= tensor.dims[axis]
    used = iter([i for i in axes if tensor.dims[i] > 1])
    # Axes of length 1 stay where they are.
    return tuple(i if d == 1 else next(used) for i, d in enumerate(tensor.dims))


class _Writer:
    def __init__(self, graph: Graph, *, fast: bool) -> None:
        try:
            import onnx
        except ImportError as error:
            what = f"onnx does not load: {error}; pip install 'dnn-bench[onnx]'"
            raise EngineUnavailableError(what) from error
        self._onnx, self._helper = onnx, onnx.helper
        self.graph, self.fast = graph, fast
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._values: dict[int, str] = {}
        self._count = 0

    def model(self) -> OnnxModel:
        graph, helper = self.graph, self._helper
        for tensor in graph.constants:
            if tensor.data_type not in TYPES:
                raise UnsupportedGraphError(f"onnx: there is no type {tensor.data_type}")
            self._values[tensor.uid] = self.constant(tensor.value, tensor.data_type, tensor.dims)
        for node in graph.nodes:
            self._check_types(node)
        inputs = tuple(self._input(tensor) for tensor in graph.inputs)
        for node in graph.nodes:
            self._node(node)
        outputs = tuple(self._output(tensor) for tensor in graph.outputs)
        made = helper.make_graph(
            self._nodes,
            graph.name or "graph",
            [self._info(end) for end in inputs],
            [self._info(end) for end in outputs],
            self._constants,
        )
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(made, opset_imports=opset, ir_version=IR_VERSION)
        self._onnx.checker.check_model(model)
        return OnnxModel(model.SerializeToString(), inputs, outputs)

    def _info(self, end: End) -> Any:
        kind = TYPES[self.graph.by_uid[end.uid].data_type]
        return self._helper.make_tensor_value_info(end.name, kind, end.dims)

    def _input(self, tensor: Tensor) -> End:
        order = memory_order(tensor)
        end = End(self._named(tensor), tensor.uid, tuple(tensor.dims[i] for i in order))
        back = np.argsort(order).tolist()
        plain = back == list(range(len(back)))
        self._values[tensor.uid] = (
            end.name if plain else self.emit("Transpose", end.name, perm=back)
        )
        return end

    def _output(self, tensor: Tensor) -> End:
        order = memory_order(tensor)
        end = End(self._named(tensor), tensor.uid, tuple(tensor.dims[i] for i in order))
        value = self._values[tensor.uid]
        plain = order == tuple(range(len(order)))
        operation = "Identity" if plain else "Transpose"
        settings: dict[str, Any] = {} if plain else {"perm": list(order)}
        self._nodes.append(self._helper.make_node(operation, [value], [end.name], **settings))
        return end

    def _named(self, tensor: Tensor) -> str:
        word = "".join(c if c.isalnum() else "_" for c in tensor.name) or "t"
        return f"{word}_{tensor.uid}"

    def _check_types(self, node: Node) -> None:
        for uid in (*node.inputs.values(), *node.outputs.values()):
            if (kind := self.graph.by_uid[uid].data_type) not in TYPES:
                raise refuse(node, f"ONNX has no type {kind}")
        mode = str(node.attributes.get("operation"))
        made = [self.graph.by_uid[uid].data_type for uid in node.outputs.values()]
        if not mode.startswith(("cmp_", "logical_")) and any(
            DTYPES[kind].kind == "integer" for kind in made
        ):
            raise refuse(node, "whole numbers wrap around in ONNX; a graph's keep to their range")

    def _node(self, node: Node) -> None:
        if node.type not in NODES:
            raise refuse(node, "it has no form in ONNX here")
        call = Call(self, node)
        results = NODES[node.type](call)
        for port, uid in node.outputs.items():
            if port not in results:
                raise refuse(node, f"output {port} has no form in ONNX here")
            tensor = self.graph.by_uid[uid]
            value, kind = results[port]
            self._values[uid] = call.cast((call.shaped(value, tensor.dims), kind), tensor.data_type)

    # What calls are made of.

    def value(self, uid: int) -> str:
        return self._values[uid]

    def emit(self, operation: str, *inputs: str, outputs: int = 0, **settings: Any) -> Any:
        """Return the name of the result; of several results their names."""
        count = max(1, outputs)
        names = [f"v{self._count + i}" for i in range(count)]
        self._count += count
        self._nodes.append(self._helper.make_node(operation, list(inputs), names, **settings))
        return names if outputs else names[0]

    def constant(self, value: Any, data_type: str, dims: Sequence[int] | None = None) -> str:
        """Add a constant: an array, or one number for every element; return its name."""
        array = np.asarray(value).astype(array_type(data_type))
        shape = array.shape if dims is None else tuple(dims)
        data = np.broadcast_to(array, shape).tobytes()
        name = f"c{len(self._constants)}"
        made = self._helper.make_tensor(name, TYPES[data_type], shape, data, raw=True)
        self._constants.append(made)
        return name


Value = tuple[str, str]
"""Name of a value, and its data type."""


class Call:
    """One node, as a row's function sees it."""

    def __init__(self, writer: _Writer, node: Node) -> None:
        self.writer, self.node = writer, node
        self.emit, self._by_uid = writer.emit, writer.graph.by_uid

    def tensor(self, port: str) -> Tensor:
        return self._by_uid[{**self.node.inputs, **self.node.outputs}[port]]

    def has(self, port: str) -> bool:
        return port in self.node.inputs or port in self.node.outputs

    def attribute(self, name: str) -> Any:
        return self.node.attributes.get(name)

    def take(self, port: str, data_type: str | None = None) -> str:
        """Return the operand at `port`, in a type."""
        tensor = self.tensor(port)
        own = self.writer.value(self.node.inputs[port]), tensor.data_type
        return self.cast(own, data_type or tensor.data_type)

    def cast(self, value: Value, data_type: str) -> str:
        name, own = value
        if own == data_type:
            return name
        return str(self.emit("Cast", name, to=TYPES[data_type]))

    def number(self, value: float, data_type: str) -> str:
        return self.writer.constant(value, data_type, ())

    def shaped(self, name: str, dims: Sequence[int]) -> str:
        shape = self.writer.constant(list(dims), "int64", (len(dims),))
        return str(self.emit("Reshape", name, shape))

    def axes(self, axes: Sequence[int]) -> str:
        return self.writer.constant(list(axes), "int64", (len(axes),))

    def widest(self) -> str:
        """Return the type that holds every float operand and result."""
        uids = (*self.node.inputs.values(), *self.node.outputs.values())
        kinds = {self._by_uid[uid].data_type for uid in uids}
        floats = [kind for kind in kinds if DTYPES[kind].kind == "float"]
        if not floats:
            return self._by_uid[next(iter(self.node.outputs.values()))].data_type
        if floats == ["half"] or floats == ["double"]:
            return floats[0]
        return "double" if "double" in floats else "float"

    def chain(self, value: str, *steps: tuple[str, str]) -> str:
        """Convert a chain of operations with one further operand each."""
        for operation, operand in steps:
            value = self.emit(operation, value, operand)
        return value


Results = dict[str, Value]


def _conv_settings(call: Call) -> dict[str, Any]:
    if call.attribute("conv_mode") not in (None, "cross_correlation"):
        raise refuse(call.node, "ONNX has cross-correlations only")
    pads = [*call.attribute("pre_padding"), *call.attribute("post_padding")]
    strides, dilations = list(call.attribute("stride")), list(call.attribute("dilation"))
    return {"pads": pads, "strides": strides, "dilations": dilations}


def _groups(x: Tensor, w: Tensor) -> int:
    return x.dims[1] // w.dims[1]


def _operand_type(call: Call, *ports: str) -> str:
    """Return the type of the operands, or of a wider result: ONNX's products have the type of their
    operands. Opset 21 has bfloat16 only in products."""
    kinds = {call.tensor(port).data_type for port in ports}
    made = [port for port in ("y", "dx", "dw", "c", "o") if call.has(port)]
    results = {call.tensor(port).data_type for port in made}
    if kinds & {"half", "bfloat16"} and results & {"float", "double"} and not call.writer.fast:
        return "float"
    if kinds == {"bfloat16"} and call.node.type not in IN_BFLOAT16:
        return "float"
    if len(kinds) == 1 and kinds <= {*WIDTHS}:
        return kinds.pop()
    if any(DTYPES[kind].kind != "float" for kind in kinds):
        raise refuse(call.node, "products of integers are not written")
    return "double" if "double" in kinds else "float"


def conv_fwd(call: Call) -> Results:
    kind = _operand_type(call, "x", "w")
    group = _groups(call.tensor("x"), call.tensor("w"))
    x, w = call.take("x", kind), call.take("w", kind)
    return {"y": (call.emit("Conv", x, w, group=group, **_conv_settings(call)), kind)}


def conv_bwd(call: Call) -> Results:
    """Convert the gradient of the input: dx is the transposed convolution of dy."""
    kind = _operand_type(call, "dy", "w")
    dx, dy, w = (call.tensor(port) for port in ("dx", "dy", "w"))
    settings = _conv_settings(call)
    half = len(settings["pads"]) // 2
    extra = [
        dx.dims[i + 2]
        - (
            (dy.dims[i + 2] - 1) * settings["strides"][i]
            - settings["pads"][i]
            - settings["pads"][i + half]
            + settings["dilations"][i] * (w.dims[i + 2] - 1)
            + 1
        )
        for i in range(half)
    ]
    operands = call.take("dy", kind), call.take("w", kind)
    made = call.emit(
        "ConvTranspose", *operands, group=_groups(dx, w), output_padding=extra, **settings
    )
    return {"dx": (made, kind)}


def conv_wrw(call: Call) -> Results:
    """Compute dw[k, c] = Σ over n of x[n, c] ⋆ dy[n, k]: batch and channels change places."""
    kind = _operand_type(call, "x", "dy")
    dw, x = call.tensor("dw"), call.tensor("x")
    if _groups(x, dw) != 1:
        raise refuse(call.node, "weights of grouped convolutions are not written")
    settings = _conv_settings(call)
    settings["strides"], settings["dilations"] = settings["dilations"], settings["strides"]
    rank = len(dw.dims)
    turned = [1, 0, *range(2, rank)]
    first, second = (call.emit("Transpose", call.take(p, kind), perm=turned) for p in ("x", "dy"))
    made = call.emit("Conv", first, second, **settings)  # [c, k, at least r, s]
    begin, end = call.axes([0] * (rank - 2)), call.axes(dw.dims[2:])
    cut = call.emit("Slice", made, begin, end, call.axes(range(2, rank)))
    return {"dw": (call.emit("Transpose", cut, perm=turned), kind)}


def matmul(call: Call) -> Results:
    batches = zip(call.tensor("a").dims[-3::-1], call.tensor("b").dims[-3::-1], strict=False)
    if any(a != b and 1 not in (a, b) for a, b in batches):
        raise refuse(call.node, "batches of different lengths")
    kind = _operand_type(call, "a", "b")
    return {"c": (call.emit("MatMul", call.take("a", kind), call.take("b", kind)), kind)}


def _relu(call: Call, x: str, kind: str) -> str:
    lower, upper, slope = (
        call.attribute(name)
        for name in ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope")
    )
    if slope:
        if lower or upper is not None:
            raise refuse(call.node, "a relu with a slope and bounds has no form in ONNX")
        return str(call.emit("LeakyRelu", x, alpha=float(slope)))
    if upper is None and not lower:
        return str(call.emit("Relu", x))
    most = DTYPES[kind].largest if upper is None else upper
    return str(call.emit("Clip", x, call.number(lower or 0.0, kind), call.number(most, kind)))


def _softplus(call: Call, x: str, kind: str) -> str:
    beta = call.attribute("softplus_beta") or 1.0
    if beta == 1.0:
        return str(call.emit("Softplus", x))
    scaled = call.emit("Softplus", call.emit("Mul", x, call.number(beta, kind)))
    return str(call.emit("Div", scaled, call.number(beta, kind)))


def _swish(call: Call, x: str, kind: str) -> str:
    beta = call.attribute("swish_beta")
    inner = x if beta in (None, 1.0) else call.emit("Mul", x, call.number(beta, kind))
    return str(call.emit("Mul", x, call.emit("Sigmoid", inner)))


def _elu(call: Call, x: str, _kind: str) -> str:
    alpha = call.attribute("elu_alpha")
    return str(call.emit("Elu", x, alpha=1.0 if alpha is None else float(alpha)))


def _gelu_tanh(call: Call, x: str, kind: str) -> str:
    """Write the formula for double, since ONNX Runtime has its constants in float."""
    if kind != "double":
        return str(call.emit("Gelu", x, approximate="tanh"))
    cube = call.emit("Mul", x, call.emit("Mul", x, x))
    inner = call.emit("Add", x, call.emit("Mul", cube, call.number(0.044715, kind)))
    inner = call.emit("Mul", inner, call.number(math.sqrt(2 / math.pi), kind))
    share = call.emit("Add", call.emit("Tanh", inner), call.number(1.0, kind))
    return str(call.emit("Mul", call.emit("Mul", x, share), call.number(0.5, kind)))


def _rsqrt(call: Call, x: str, _kind: str) -> str:
    return str(call.emit("Reciprocal", call.emit("Sqrt", x)))


UNARY: Mapping[str, Any] = {
    **{
        mode: mode.capitalize()
        for mode in ("abs", "ceil", "erf", "exp", "floor", "identity", "log", "neg", "reciprocal")
    },
    **{mode: mode.capitalize() for mode in ("sin", "cos", "tan", "sqrt")},
    "sigmoid_fwd": "Sigmoid",
    "tanh_fwd": "Tanh",
    "gelu_fwd": lambda call, x, _kind: call.emit("Gelu", x),
    "gelu_approx_tanh_fwd": _gelu_tanh,
    "relu_fwd": _relu,
    "softplus_fwd": _softplus,
    "swish_fwd": _swish,
    "elu_fwd": _elu,
    "rsqrt": _rsqrt,
}
"""Operation, or a function that makes it of the call, its operand and the type."""
BINARY: Mapping[str, str] = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "max_op": "Max",
    "min_op": "Min",
    "pow": "Pow",
}
COMPARED: Mapping[str, str] = {
    "cmp_eq": "Equal",
    "cmp_gt": "Greater",
    "cmp_ge": "GreaterOrEqual",
    "cmp_lt": "Less",
    "cmp_le": "LessOrEqual",
}
LOGICAL: Mapping[str, str] = {"logical_and": "And", "logical_or": "Or", "logical_not": "Not"}


def pointwise(call: Call) -> Results:
    mode = call.attribute("operation")
    kind = call.widest()
    if mode in UNARY:
        made = UNARY[mode]
        x = call.take("in_0", kind)
        value = call.emit(made, x) if isinstance(made, str) else made(call, x, kind)
    elif mode in BINARY:
        value = call.emit(BINARY[mode], call.take("in_0", kind), call.take("in_1", kind))
    elif mode == "add_square":
        square = call.emit("Mul", call.take("in_1", kind), call.take("in_1", kind))
        value = call.emit("Add", call.take("in_0", kind), square)
    elif mode in COMPARED or mode == "cmp_neq":
        kind = kind if DTYPES[kind].kind == "float" else "int64"
        operands = call.take("in_0", kind), call.take("in_1", kind)
        value = call.emit(COMPARED.get(mode, "Equal"), *operands)
        value = call.emit("Not", value) if mode == "cmp_neq" else value
        kind = "boolean"
    elif mode in LOGICAL:
        ports = ("in_0",) if mode == "logical_not" else ("in_0", "in_1")
        value = call.emit(LOGICAL[mode], *(call.take(port, "boolean") for port in ports))
        kind = "boolean"
    elif mode == "binary_select":
        condition = call.take("in_2", "boolean")
        value = call.emit("Where", condition, call.take("in_0", kind), call.take("in_1", kind))
    elif mode == "relu_bwd" and not any(call.attribute(name) for name in _CLIPS):
        dy, x, nothing = call.take("in_0", kind), call.take("in_1", kind), call.number(0.0, kind)
        value = call.emit("Where", call.emit("LessOrEqual", x, nothing), nothing, dy)
    else:
        raise refuse(call.node, f"{mode} has no form in ONNX here")
    return {"out_0": (value, kind)}


_CLIPS = ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope")


def _inverse(call: Call, variance: str, kind: str) -> str:
    """Emit 1/√(variance + ε); return the name of the result."""
    shifted = call.emit("Add", variance, call.take("epsilon", kind))
    return _rsqrt(call, shifted, kind)


def _moments(call: Call, x: str, axes: Sequence[int]) -> tuple[str, str, str]:
    """Emit x less its mean, the mean, and the biased variance; return their names."""
    over = call.axes(axes)
    average = call.emit("ReduceMean", x, over, keepdims=1)
    centred = call.emit("Sub", x, average)
    variance = call.emit("ReduceMean", call.emit("Mul", centred, centred), over, keepdims=1)
    return centred, average, variance


def batchnorm_inference(call: Call) -> Results:
    kind = _norm_type(call)
    inverse = (
        call.take("inv_variance", kind)
        if call.has("inv_variance")
        else _inverse(call, call.take("variance", kind), kind)
    )
    steps = (
        ("Sub", call.take("mean", kind)),
        ("Mul", inverse),
        ("Mul", call.take("scale", kind)),
        ("Add", call.take("bias", kind)),
    )
    return {"y": (call.chain(call.take("x", kind), *steps), kind)}


def batchnorm(call: Call) -> Results:
    """Compute the statistics of the batch; running ones get the unbiased variance."""
    kind, x = _norm_type(call), call.tensor("x")
    if call.node.input_lists.get("peer_stats"):
        raise refuse(call.node, "peer_stats need several devices")
    axes = [i for i in range(len(x.dims)) if i != 1]
    centred, average, variance = _moments(call, call.take("x", kind), axes)
    inverse = _inverse(call, variance, kind)
    scale, bias = call.take("scale", kind), call.take("bias", kind)
    results = {
        "y": call.chain(centred, ("Mul", inverse), ("Mul", scale), ("Add", bias)),
        "mean": average,
        "inv_variance": inverse,
    }
    count = math.prod(x.dims[i] for i in axes)
    unbiased = call.number(count / max(1, count - 1), kind)
    batch = {"mean": average, "variance": call.emit("Mul", variance, unbiased)}
    for name, found in batch.items():
        if call.has(f"prev_running_{name}"):
            momentum = call.take("momentum", kind)
            kept = call.emit("Sub", call.number(1.0, kind), momentum)
            old = call.emit("Mul", call.take(f"prev_running_{name}", kind), kept)
            results[f"next_running_{name}"] = call.emit(
                "Add", old, call.emit("Mul", found, momentum)
            )
    return {port: (value, kind) for port, value in results.items()}


def _norm_type(call: Call) -> str:
    """Return the type that norms compute in: float at least."""
    return "double" if call.widest() == "double" else "float"


def layernorm(call: Call) -> Results:
    kind, x = _norm_type(call), call.tensor("x")
    count = call.attribute("normalized_dim_count")
    axis = len(x.dims) - count
    row = x.dims[axis:]
    scale, bias = (call.shaped(call.take(port, kind), row) for port in ("scale", "bias"))
    epsilon = call.tensor("epsilon").value
    own, average, inverse = call.take("x", kind), "", ""
    if epsilon is not None and kind == "float":
        settings = {"axis": axis, "epsilon": float(epsilon)}
        y, average, inverse = call.emit(
            "LayerNormalization", own, scale, bias, outputs=3, **settings
        )
    else:
        centred, average, variance = _moments(call, own, range(axis, len(x.dims)))
        inverse = _inverse(call, variance, kind)
        y = call.chain(centred, ("Mul", inverse), ("Mul", scale), ("Add", bias))
    return {"y": (y, kind), "mean": (average, kind), "inv_variance": (inverse, kind)}


def rmsnorm(call: Call) -> Results:
    from bench_run.graph.operations.norms import rmsnorm_axes

    kind, x = _norm_type(call), call.tensor("x")
    kept = call.tensor("inv_rms").dims if call.has("inv_rms") else None
    axes = rmsnorm_axes(x.dims, call.tensor("scale").dims, kept)
    own = call.take("x", kind)
    square = call.emit("ReduceMean", call.emit("Mul", own, own), call.axes(axes), keepdims=1)
    inverse = _inverse(call, square, kind)
    steps = [("Mul", inverse), ("Mul", call.take("scale", kind))]
    steps += [("Add", call.take("bias", kind))] if call.has("bias") else []
    return {"y": (call.chain(own, *steps), kind), "inv_rms": (inverse, kind)}


REDUCTIONS: Mapping[str, str] = {
    "add": "ReduceSum",
    "avg": "ReduceMean",
    "mul": "ReduceProd",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "norm1": "ReduceL1",
    "norm2": "ReduceL2",
}


def reduction(call: Call) -> Results:
    mode, kind = call.attribute("mode"), call.widest()
    kind = "float" if kind in ("half", "bfloat16") else kind
    source, result = call.tensor("in"), call.tensor("out")
    value = call.take("in", kind)
    if mode == "amax":
        value, mode = call.emit("Abs", value), "max"
    if mode not in REDUCTIONS:
        raise refuse(call.node, f"{mode} has no form in ONNX here")
    axes = call.axes(reduced_axes(source.dims, result.dims))
    return {"out": (call.emit(REDUCTIONS[mode], value, axes, keepdims=1), kind)}


def resample(call: Call) -> Results:
    mode, kind = call.attribute("resample_mode"), call.widest()
    settings: dict[str, Any] = {
        "kernel_shape": list(call.attribute("window")),
        "strides": list(call.attribute("stride")),
        "pads": [*call.attribute("pre_padding"), *call.attribute("post_padding")],
    }
    x = call.take("x", kind)
    if mode == "maxpool":
        return {"y": (call.emit("MaxPool", x, **settings), kind)}
    if mode not in ("avgpool_include_padding", "avgpool_exclude_padding"):
        raise refuse(call.node, f"{mode} has no form in ONNX here")
    counted = int(mode == "avgpool_include_padding")
    return {"y": (call.emit("AveragePool", x, count_include_pad=counted, **settings), kind)}


_PLAIN_SDPA = {"q", "k", "v", "attn_mask", "scale", "o", "stats"}


def sdpa(call: Call) -> Results:
    """Compute softmax(q·kᵀ·scale + mask)·v; heads of k and v are spread over those of q."""
    extra = {*call.node.inputs, *call.node.outputs} - _PLAIN_SDPA
    if extra or call.attribute("alibi_mask") or call.attribute("dropout_probability"):
        what = ", ".join(sorted(extra)) or "alibi masks and dropout"
        raise refuse(call.node, f"{what}: no form in ONNX here")
    kind = _operand_type(call, "q", "k", "v")
    q, k = call.tensor("q").dims, call.tensor("k").dims
    keys, values = (_spread_heads(call, port, q[1], kind) for port in ("k", "v"))
    products = call.emit("MatMul", call.take("q", kind), _turned(call, keys))
    wide = "double" if kind == "double" else "float"
    scores = call.emit("Mul", call.cast((products, kind), wide), _scale(call, wide))
    if call.has("attn_mask"):
        scores = call.emit("Add", scores, call.take("attn_mask", wide))
    hidden = _hidden(call, q[2], k[2])
    if hidden is not None:
        # Not infinite: runtimes that compute in half precision would make NaN of it.
        mask = call.writer.constant(np.where(hidden, -1e30, 0.0), wide, (1, 1, *hidden.shape))
        scores = call.emit("Add", scores, mask)
    weights = call.cast((call.emit("Softmax", scores, axis=-1), wide), kind)
    results = {"o": (call.emit("MatMul", weights, values), kind)}
    if call.has("stats"):
        results["stats"] = call.emit("ReduceLogSumExp", scores, call.axes([3]), keepdims=1), wide
    return results


def _scale(call: Call, kind: str) -> str:
    if call.has("scale"):
        return call.take("scale", kind)
    value = call.attribute("attn_scale_value")
    return call.number(call.tensor("q").dims[3] ** -0.5 if value is None else value, kind)


def _turned(call: Call, value: str) -> str:
    return str(call.emit("Transpose", value, perm=[0, 1, 3, 2]))


def _spread_heads(call: Call, port: str, heads: int, kind: str) -> str:
    value, (batch, own, rows, size) = call.take(port, kind), call.tensor(port).dims
    if own == heads:
        return value
    apart = call.shaped(value, (batch, own, 1, rows, size))
    spread = call.emit("Expand", apart, call.axes((batch, own, heads // own, rows, size)))
    return call.shaped(spread, (batch, heads, rows, size))


def _hidden(call: Call, queries: int, keys: int) -> Any:
    """Return an array that is True for the pairs that the mask hides; None if it hides none."""
    seen = band(call.node.attributes)
    if seen.left is None and seen.right is None:
        return None
    shift = keys - queries if seen.bottom_right else 0
    distance = np.arange(keys)[None, :] - np.arange(queries)[:, None] - shift
    hidden = np.zeros(distance.shape, bool)
    hidden |= False if seen.right is None else distance > seen.right
    hidden |= False if seen.left is None else distance < -seen.left
    if hidden.all(axis=1).any():
        raise refuse(call.node, "rows that see no key have no form in ONNX")
    return hidden


NODES: Mapping[str, Callable[[Call], Results]] = {
    "BatchnormAttributes": batchnorm,
    "BatchnormInferenceAttributes": batchnorm_inference,
    "BatchnormInferenceAttributesVarianceExt": batchnorm_inference,
    "ConvolutionBwdAttributes": conv_bwd,
    "ConvolutionFwdAttributes": conv_fwd,
    "ConvolutionWrwAttributes": conv_wrw,
    "LayernormAttributes": layernorm,
    "MatmulAttributes": matmul,
    "PointwiseAttributes": pointwise,
    "RMSNormAttributes": rmsnorm,
    "ReductionAttributes": reduction,
    "ResampleFwdAttributes": resample,
    "SdpaAttributes": sdpa,
}
