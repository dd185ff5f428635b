"""Models from ONNX files: nodes into calls of ours, dims from ONNX's shape inference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bench_run.errors import UsageError
from bench_run.models.model import Model, ModelCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.models.model import Array, Dims


# ONNX's operations: a row for each that a graph, or another view of memory, can express.


@dataclass(frozen=True)
class OnnxNode:
    """What a row of `TABLE` sees."""

    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    dims: Mapping[str, Dims]
    known: Mapping[str, Array]
    opset: int

    def get(self, name: str, default: Any) -> Any:
        return self.attributes.get(name, default)

    def input(self, place: int) -> str | None:
        return self.inputs[place] if place < len(self.inputs) else None

    def shape(self, place: int = 0) -> Dims:
        """Of an operand; none where it is not known."""
        return self.dims.get(self.input(place) or "", ())

    def axis(self, default: int) -> int | None:
        """The attribute, counted from the first; None where the first operand has no such axis."""
        return axis_of(self.get("axis", default), len(self.shape()))

    def numbers(self, attribute: str, place: int) -> tuple[int, ...] | None:
        """Of an attribute, or as newer versions have it of an operand that is known."""
        if attribute in self.attributes:
            return tuple(self.attributes[attribute])
        name = self.input(place)
        return (
            None
            if name is None or name not in self.known
            else tuple(int(number) for number in self.known[name].reshape(-1))
        )


def axis_of(axis: int, rank: int) -> int | None:
    """Counted from the first; a number without axes has one of length one."""
    rank = max(1, rank)
    return axis % rank if -rank <= axis < rank else None


Made: TypeAlias = "tuple[str, tuple[Any, ...], dict[str, Any]]"
Row: TypeAlias = "Callable[[OnnxNode], Made | None]"


def _padding(node: OnnxNode, window: Dims) -> tuple[Dims, Dims] | None:
    """Before and after each spatial axis; `window` is of the filter."""
    rank, how = len(window), node.get("auto_pad", "NOTSET")
    if any(len(node.get(k, window)) != rank for k in ("strides", "dilations")):
        return None
    if min(node.get("strides", (1,)), default=1) < 1:
        return None
    if how in ("SAME_UPPER", "SAME_LOWER"):
        upper = how == "SAME_UPPER"
        # So much padding that each axis is divided by its stride, rounded up; the odd
        # one after the axis, or before it.
        ones = (1,) * len(window)
        strides, dilations = (tuple(node.get(k, ones)) for k in ("strides", "dilations"))
        rows = zip(node.shape(0)[2:], window, strides, dilations, strict=True)
        totals = [max(0, (-(-n // s) - 1) * s + (w - 1) * d + 1 - n) for n, w, s, d in rows]
        small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        return (small, large) if upper else (large, small)
    if how == "VALID":
        return (0,) * rank, (0,) * rank
    if how != "NOTSET":
        return None
    pads = tuple(node.get("pads", (0,) * 2 * rank))
    return (pads[:rank], pads[rank:]) if len(pads) == 2 * rank else None


def conv(node: OnnxNode) -> Made | None:
    window = node.shape(1)[2:]
    padding = _padding(node, window)
    if padding is None or not window:
        return None
    return "conv", (node.input(0), node.input(1), node.input(2)), _steps(node, padding)


def conv_transpose(node: OnnxNode) -> Made | None:
    """The gradient of a convolution for its data: what it pads, this cuts off."""
    window = node.shape(1)[2:]
    padding = _padding(node, window)
    if padding is None or not window or "output_shape" in node.attributes:
        return None
    if node.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    return "conv_transpose", (node.input(0), node.input(1), node.input(2)), _steps(node, padding)


def _steps(node: OnnxNode, padding: tuple[Dims, Dims]) -> dict[str, Any]:
    rank = len(padding[0])
    return {
        "stride": tuple(node.get("strides", (1,) * rank)),
        "pad": padding[0],
        "pad_post": padding[1],
        "dilation": tuple(node.get("dilations", (1,) * rank)),
        "groups": node.get("group", 1),
    }


def batch_norm(node: OnnxNode) -> Made | None:
    trains = node.get("training_mode", 0) or (node.opset < 7 and not node.get("is_test", 0))
    if trains or len(node.outputs) > 1 or not node.get("spatial", 1) or len(node.inputs) < 5:
        return None
    return "batchnorm", node.inputs[:5], {"eps": node.get("epsilon", 1e-5)}


def _unary(kind: str) -> Row:
    return lambda node: (kind, (node.input(0),), {})


def _binary(kind: str) -> Row:
    """Before version 7 an attribute said where the second operand's axes are."""
    old = ("broadcast", "axis")
    return lambda node: (
        None if any(node.get(name, 0) for name in old) else (kind, node.inputs[:2], {})
    )


def clip(node: OnnxNode) -> Made | None:
    """Bounds are attributes before version 11, and may be missing."""
    bounds = {}
    for place, name in ((1, "min"), (2, "max")):
        given = node.known.get(node.input(place) or "")
        if node.input(place) is not None and (given is None or given.size != 1):
            return None
        bound = node.attributes.get(name) if given is None else float(given.reshape(-1)[0])
        if bound is not None:
            bounds["low" if name == "min" else "high"] = float(bound)
    if bounds == {"low": 0.0, "high": 6.0}:
        return "relu6", (node.input(0),), {}
    return ("clip", (node.input(0),), bounds) if "low" in bounds else None


def _with(kind: str, name: str, word: str, default: float) -> Row:
    """An activation with a number of its own."""
    return lambda node: (kind, (node.input(0),), {word: float(node.get(name, default))})


def _several(kind: str) -> Row:
    """Of any number of operands two."""
    return lambda node: (kind, node.inputs, {}) if len(node.inputs) == 2 else None


def powered(node: OnnxNode) -> Made | None:
    exponent = node.known.get(node.input(1) or "")
    if exponent is None or exponent.size != 1:
        return None
    x, power = node.input(0), float(exponent.reshape(-1)[0])
    if power == 2.0:
        return "mul", (x, x), {}
    kind = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(power)
    return None if kind is None else (kind, (x,), {})


def normalized(node: OnnxNode) -> Made | None:
    """Before version 13 over all axes from the given one on."""
    axis = node.axis(-1 if node.opset >= 13 else 1)
    if axis is None:
        return None
    joined = node.opset < 13 and math.prod(node.shape()[axis + 1 :]) > 1
    return None if joined else ("softmax", (node.input(0),), {"axis": axis})


def gelu(node: OnnxNode) -> Made:
    kind = "gelu_tanh" if node.get("approximate", "none") == "tanh" else "gelu"
    return kind, (node.input(0),), {}


def gemm(node: OnnxNode) -> Made | None:
    if node.get("alpha", 1.0) != 1.0 or node.get("beta", 1.0) != 1.0 or node.get("transA", 0):
        return None
    row = node.shape(1)[0 if node.get("transB", 0) else 1 :][:1]
    if node.input(2) is not None and node.shape(2) not in (row, (1, *row)):
        return None
    kind = "linear" if node.get("transB", 0) else "matmul"
    return kind, (node.input(0), node.input(1), node.input(2)), {}


def _pool(kind: str) -> Row:
    def make(node: OnnxNode) -> Made | None:
        window = tuple(node.get("kernel_shape", ()))
        rank, padding = len(window), _padding(node, window)
        dilated = set(node.get("dilations", (1,))) != {1}
        if (
            not window
            or padding is None
            or padding[0] != padding[1]
            or node.get("ceil_mode", 0)
            or dilated
        ):
            return None
        padded = kind == "avgpool" and node.get("count_include_pad", 0)
        attributes = {
            "window": window,
            "pad": padding[0],
            "stride": tuple(node.get("strides", (1,) * rank)),
        }
        return ("avgpool_padded" if padded else kind), (node.input(0),), attributes

    return make


def _global_pool(kind: str) -> Row:
    def make(node: OnnxNode) -> Made:
        window = node.shape()[2:]
        pad = (0,) * len(window)
        return kind, (node.input(0),), {"window": window, "pad": pad, "stride": window}

    return make


def _reduce(kind: str) -> Row:
    """Over the axes of an attribute, or as newer versions have it of an operand."""

    def make(node: OnnxNode) -> Made | None:
        rank, axes = len(node.shape()), node.numbers("axes", 1)
        if axes is None and (node.input(1) is not None or node.get("noop_with_empty_axes", 0)):
            return None
        every = [axis_of(axis, rank) for axis in axes or range(rank)]
        known = {axis for axis in every if axis is not None}
        if len(known) < len(every):
            return None
        return kind, (node.input(0),), {"axes": tuple(sorted(known))}

    return make


def _norm(kind: str, operands: int) -> Row:
    """Over the axes from the given one on."""

    def make(node: OnnxNode) -> Made | None:
        axis = node.axis(-1)
        if axis is None:
            return None
        attributes = {"eps": node.get("epsilon", 1e-5), "last": len(node.shape()) - axis}
        return kind, tuple(node.input(place) for place in range(operands)), attributes

    return make


def transpose(node: OnnxNode) -> Made | None:
    axes = range(len(node.shape()))
    order = tuple(node.get("perm", axes[::-1]))
    return ("permute", (node.input(0),), {"order": order}) if sorted(order) == [*axes] else None


def reshape(node: OnnxNode) -> Made | None:
    """The same elements, as far as that is known."""
    counts = [math.prod(node.dims.get(name or "", ())) for name in (node.inputs[0], *node.outputs)]
    return ("reshape", (node.input(0),), {}) if len(set(counts[:2])) == 1 else None


def sliced(node: OnnxNode) -> Made | None:
    starts, ends = node.numbers("starts", 1), node.numbers("ends", 2)
    axes, steps = node.numbers("axes", 3), node.numbers("steps", 4)
    unknown = any(
        node.input(n) is not None and node.numbers(name, n) is None
        for n, name in ((3, "axes"), (4, "steps"))
    )
    if starts is None or ends is None or unknown or set(steps or (1,)) != {1}:
        return None
    dims, parts = node.shape(), []
    places = [axis_of(axis, len(dims)) for axis in axes or range(len(starts))]
    if not len(places) == len(starts) == len(ends):
        return None
    for axis, first, last in zip(places, starts, ends, strict=True):
        if axis is None:
            return None
        size = dims[axis]
        start, end = (max(0, min(size, at + size if at < 0 else at)) for at in (first, last))
        parts.append((axis, start, end - start))
    if any(length <= 0 for _, _, length in parts):
        return None
    return "slice", (node.input(0),), {"parts": tuple(parts)}


def gather(node: OnnxNode) -> Made | None:
    index = node.known.get(node.input(1) or "")
    if index is None or index.size != 1:
        return None
    axis = node.axis(0)
    at = None if axis is None else axis_of(int(index.reshape(-1)[0]), node.shape()[axis])
    if at is None:
        return None
    return "select", (node.input(0),), {"axis": axis, "start": at}


def split(node: OnnxNode) -> Made | None:
    axis = node.axis(0)
    return None if axis is None else ("split", (node.input(0),), {"axis": axis})


def quotient(a: Array, b: Array) -> Array | None:
    whole = all(np.issubdtype(each.dtype, np.integer) for each in (a, b))
    if whole and not np.all(b):
        return None
    return np.asarray(np.trunc(a / b).astype(a.dtype) if whole else a / b)


def dequantized(quantized: Array, scale: Array, zero: Array | None = None) -> Array | None:
    """By one scale for all; what has several is no weight that we know."""
    if scale.size != 1:
        return None
    shift = 0 if zero is None else zero.reshape(-1)[0].astype(np.int64)
    return np.asarray((quantized.astype(np.int64) - shift) * scale.reshape(-1)[0])


FOLDS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": quotient,
    "Pow": np.power,
    "Sqrt": np.sqrt,
    "Neg": np.negative,
    "Cast": lambda value: value,
    "Identity": lambda value: value,
    "DequantizeLinear": dequantized,
}
"""Operations on constants, as exporters leave them behind. A cast changes no value here."""

TABLE: dict[str, Row] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "BatchNormalization": batch_norm,
    **{
        name: _unary(name.lower())
        for name in (
            "Relu",
            "Sigmoid",
            "Tanh",
            "Exp",
            "Sqrt",
            "Abs",
            "Neg",
            "Log",
            "Erf",
            "Softplus",
            "Reciprocal",
            "Floor",
            "Ceil",
            "Sin",
            "Tan",
        )
    },
    "Clip": clip,
    "LeakyRelu": _with("leaky_relu", "alpha", "slope", 0.01),
    "Elu": _with("elu", "alpha", "alpha", 1.0),
    "Swish": _with("swish", "alpha", "beta", 1.0),
    "Gelu": gelu,
    "Pow": powered,
    "Cast": _unary("cast"),
    **{name: _binary(name.lower()) for name in ("Add", "Sub", "Mul", "Div")},
    **{
        name: _several(kind)
        for name, kind in (("Max", "max_op"), ("Min", "min_op"), ("Sum", "add"))
    },
    "Gemm": gemm,
    "MatMul": lambda node: ("matmul", (node.input(0), node.input(1), None), {}),
    "MaxPool": _pool("maxpool"),
    "AveragePool": _pool("avgpool"),
    "GlobalAveragePool": _global_pool("avgpool"),
    "GlobalMaxPool": _global_pool("maxpool"),
    "ReduceMean": _reduce("mean"),
    **{
        f"Reduce{name}": _reduce(f"reduce_{kind}")
        for name, kind in (
            ("Sum", "add"),
            ("Max", "max"),
            ("Min", "min"),
            ("Prod", "mul"),
            ("L1", "norm1"),
            ("L2", "norm2"),
        )
    },
    "LayerNormalization": _norm("layernorm", 3),
    "RMSNormalization": _norm("rmsnorm", 2),
    "Softmax": normalized,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), reshape),
    **{name: _unary("identity") for name in ("Identity", "Dropout")},
    "Transpose": transpose,
    "Slice": sliced,
    "Gather": gather,
    "Split": split,
}
"""ONNX operations by name; those that are not here no graph expresses."""


TYPES = {"float": "float", "float16": "half", "double": "double", "bfloat16": "bfloat16"}
"""ONNX's names of data types to those of graphs."""
DOMAINS = ("", "ai.onnx")
"""Of ONNX's own operations; others may give the same names to something else."""
INSTALL = 'reading ONNX needs the package onnx: pip install "dnn-bench[onnx]"'
SMALL_BYTES = 4096
"""Of data in files of its own: as much as shapes take, which shape inference looks at."""


def read_onnx(path: str) -> Model:
    """Raises `UsageError` where the file is no model, or its dims are not fixed."""
    try:
        import onnx
        import onnx.inliner
    except ImportError:
        raise UsageError(INSTALL) from None
    if not Path(path).is_file():
        raise UsageError(f"import: {path}: there is no such file")
    try:
        # With dims, and without functions of the model's own. Large data in other files
        # comes last: inference writes the model out, which fails beyond 2 GiB.
        model = onnx.load(path, load_external_data=False)
        folder = str(Path(path).resolve().parent)
        outside = onnx.external_data_helper
        tensors = [t for t in model.graph.initializer if outside.uses_external_data(t)]
        for tensor in tensors:
            length = {e.key: e.value for e in tensor.external_data}.get("length", "")
            if length.isdecimal() and int(length) <= SMALL_BYTES:
                outside.load_external_data_for_tensor(tensor, folder)
                tensor.data_location = onnx.TensorProto.DEFAULT
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        outside.load_external_data_for_model(model, folder)
        weights = {t.name: _array(onnx, t) for t in model.graph.initializer}
    except Exception as error:  # foreign: protobuf and onnx raise many kinds
        said = str(error).strip().splitlines() or [type(error).__name__]
        if Path(path).suffix == ".json":
            said = [f"it is JSON; a graph runs as it is: bench-run {path}"]
        raise UsageError(f"import: {path}: no ONNX model: {said[0]}") from error
    return _OnnxReader(onnx, model, weights).model(path)


def _array(onnx: Any, tensor: Any) -> Array:
    """NumPy has no bfloat16 of its own: as float32."""
    found: Array = onnx.numpy_helper.to_array(tensor)
    return found.astype(np.float32) if found.dtype.name == "bfloat16" else found


@dataclass
class _OnnxReader:
    """A file's graph, value by value."""

    onnx: Any
    file: Any
    weights: dict[str, Array]

    def __post_init__(self) -> None:
        graph = self.file.graph
        self.dims: dict[str, Dims] = {name: array.shape for name, array in self.weights.items()}
        self.types: dict[str, str] = {}
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if kind.elem_type:
                name = self.onnx.TensorProto.DataType.Name(kind.elem_type).lower()
                self.types[value.name] = TYPES.get(name, name)
            lengths = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
            fixed = tuple(length for length in lengths if length is not None)
            if kind.HasField("shape") and len(fixed) == len(lengths):
                self.dims[value.name] = fixed
        versions = {one.domain: one.version for one in self.file.opset_import}
        self._opset = next((versions[d] for d in DOMAINS if d in versions), 1)

    def model(self, path: str) -> Model:
        graph = self.file.graph
        inputs = tuple(value.name for value in graph.input if value.name not in self.weights)
        for name in inputs:
            if name not in self.dims:
                raise UsageError(
                    f"import: {path}: the dims of {name} are not fixed; export with fixed ones"
                )
        # Of two things of one name, who reads the value would read one.
        seen = {*inputs, *self.weights}
        for name in (name for node in graph.node for name in node.output if name):
            if name in seen:
                raise UsageError(f"import: {path}: no ONNX model: two things are called {name!r}")
            seen.add(name)
        calls = []
        read = self.onnx.helper.get_attribute_value
        for number, node in enumerate(graph.node):
            given = {attribute.name: read(attribute) for attribute in node.attribute}
            attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
            value = self._value(node, attributes)
            if value is None:
                calls.append(self._call(node, number, attributes))
            else:
                self.weights[node.output[0]], self.dims[node.output[0]] = value, value.shape
        kinds = [self.types.get(name, "") for name in inputs]
        floats = [kind for kind in kinds if kind in TYPES.values()]
        return Model(
            name=Path(path).stem,
            data_type=floats[0] if floats else "float",
            calls=tuple(calls),
            dims=self.dims,
            inputs=inputs,
            outputs=tuple(value.name for value in graph.output),
            weights=self.weights,
            types=self.types,
        )

    def _value(self, node: Any, attributes: Mapping[str, Any]) -> Array | None:
        """Of a node that only looks at known ones."""
        if node.domain not in DOMAINS or not node.output:
            return None
        if node.op_type == "Constant":
            if "value" in attributes:
                return _array(self.onnx, attributes["value"])
            plain = [v for k, v in attributes.items() if k.startswith(("value_float", "value_int"))]
            return np.array(plain[0]) if plain else None
        if node.op_type == "Shape" and not attributes and any(n in self.dims for n in node.input):
            return np.array(self.dims[node.input[0]], np.int64)
        if node.op_type not in FOLDS or not all(name in self.weights for name in node.input):
            return None
        try:
            with np.errstate(all="ignore"):  # an infinite value is one, as it is in the model
                found = FOLDS[node.op_type](*(self.weights[name] for name in node.input))
        except (ValueError, TypeError):  # NumPy's, of operands that do not go together
            return None
        return None if found is None else np.asarray(found)

    def _call(self, node: Any, number: int, attributes: dict[str, Any]) -> ModelCall:
        inputs = tuple(name or None for name in node.input)
        outputs = tuple(name for name in node.output if name)
        name = (node.name or f"{node.op_type}_{number}").strip("/").replace("/", ".")
        made = self._made(
            node, OnnxNode(inputs, outputs, attributes, self.dims, self.weights, self._opset)
        )
        if isinstance(made, str):
            return ModelCall("unknown", name, inputs, outputs, {"reason": made}, node.op_type)
        kind, operands, found = made
        return ModelCall(kind, name, operands, outputs, found, node.op_type)

    def _made(self, node: Any, seen: OnnxNode) -> tuple[str, tuple[Any, ...], dict[str, Any]] | str:
        """Or why there is none."""
        if node.domain not in DOMAINS:
            return f"an operation of {node.domain}, not of ONNX"
        row = TABLE.get(node.op_type)
        if row is None:
            return "no operation of hipDNN does this"
        if not (seen.inputs and seen.outputs):
            return "it has no operands, or no result"
        if not all(name in self.dims for name in seen.inputs if name is not None):
            return "one of its operands has no known dims"
        if not all(name in self.dims for name in seen.outputs[:1]):
            return "the dims of its result are not known"
        return row(seen) or "no operation of hipDNN does this with its attributes"
