"""Models from ONNX files: nodes into calls of ours, dims from ONNX's shape inference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bench_run.errors import UsageError
from bench_run.models.model import Call, Model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.models.model import Array, Dims

TYPES = {1: "float", 10: "half", 11: "double", 16: "bfloat16"}
"""ONNX's numbers of data types."""
INSTALL = 'reading ONNX needs the package onnx: pip install "dnn-bench[onnx]"'


@dataclass(frozen=True)
class Node:
    """What a row of `TABLE` sees."""

    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    dims: Mapping[str, Dims]
    known: Mapping[str, Array]

    def get(self, name: str, default: Any) -> Any:
        return self.attributes.get(name, default)

    def input(self, place: int) -> str | None:
        return self.inputs[place] if place < len(self.inputs) else None

    def shape(self, place: int = 0) -> Dims:
        """Of an operand; none where it is not known."""
        return self.dims.get(self.inputs[place] or "", ())

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


Made: TypeAlias = "tuple[str, tuple[Any, ...], dict[str, Any]]"
Row: TypeAlias = "Callable[[Node], Made | None]"


def read_onnx(path: str) -> Model:
    """Raises `UsageError` where the file is no model, or its dims are not fixed."""
    try:
        import onnx
        from onnx import numpy_helper, shape_inference
    except ImportError:
        raise UsageError(INSTALL) from None
    if not Path(path).is_file():
        raise UsageError(f"import: {path}: there is no such file")
    try:
        model = shape_inference.infer_shapes(onnx.load(path))
    except Exception as error:  # foreign: protobuf and onnx raise many kinds
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(f"import: {path}: no ONNX model: {said[0]}") from error
    graph = model.graph
    weights: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    dims = {name: array.shape for name, array in weights.items()}
    for value in (*graph.input, *graph.value_info, *graph.output):
        found = _dims(value)
        if found is not None:
            dims[value.name] = found
    inputs = tuple(value.name for value in graph.input if value.name not in weights)
    for name in inputs:
        if name not in dims:
            raise UsageError(
                f"import: {path}: the dims of {name} are not fixed; export with fixed ones"
            )
    calls = tuple(_calls(graph.node, dims, weights, onnx.helper, numpy_helper))
    kinds = [v.type.tensor_type.elem_type for v in graph.input if v.name in inputs]
    return Model(
        name=Path(path).stem,
        data_type=next((TYPES[kind] for kind in kinds if kind in TYPES), "float"),
        calls=calls,
        dims=dims,
        inputs=inputs,
        outputs=tuple(value.name for value in graph.output),
        weights=weights,
    )


def _dims(value: Any) -> Dims | None:
    shape = value.type.tensor_type.shape
    lengths = [d.dim_value if d.HasField("dim_value") else None for d in shape.dim]
    found = tuple(length for length in lengths if length is not None)
    return found if len(found) == len(lengths) else None


def _calls(
    nodes: Any, dims: dict[str, Dims], weights: dict[str, Array], helper: Any, numpy_helper: Any
) -> list[Call]:
    calls = []
    for number, node in enumerate(nodes):
        attributes = {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}
        if node.op_type == "Constant" and "value" in attributes:
            weights[node.output[0]] = numpy_helper.to_array(attributes["value"])
            dims[node.output[0]] = weights[node.output[0]].shape
            continue
        folded = _folded(node, dims, weights)
        if folded is not None:
            weights[node.output[0]], dims[node.output[0]] = folded, folded.shape
            continue
        calls.append(_call(node, number, attributes, dims, weights))
    return calls


def _folded(node: Any, dims: Mapping[str, Dims], weights: Mapping[str, Array]) -> Array | None:
    """The value of a node that only looks at known ones."""
    if node.op_type == "Shape" and node.input[0] in dims:
        return np.array(dims[node.input[0]], np.int64)
    if node.op_type not in FOLDS or not all(name in weights for name in node.input):
        return None
    found: Array = np.asarray(FOLDS[node.op_type](*(weights[name] for name in node.input)))
    return found


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _call(
    node: Any, number: int, attributes: dict[str, Any], dims: dict[str, Dims],
    weights: dict[str, Array],
) -> Call:  # fmt: skip
    inputs = tuple(name or None for name in node.input)
    outputs = tuple(name for name in node.output if name)
    seen = Node(inputs, outputs, attributes, dims, weights)
    name = (node.name or f"{node.op_type}_{number}").strip("/").replace("/", ".")
    row = TABLE.get(node.op_type)
    made = None if row is None or not all(o in dims for o in outputs[:1]) else row(seen)
    if made is None:
        return Call("unknown", name, inputs, outputs, {}, node.op_type)
    kind, operands, found = made
    return Call(kind, name, operands, outputs, found, node.op_type)


def _padding(node: Node, window: Dims) -> tuple[Dims, Dims] | None:
    """Before and after each spatial axis; `window` is of the filter."""
    rank, how = len(window), node.get("auto_pad", "NOTSET")
    if how in ("SAME_UPPER", "SAME_LOWER"):
        return _same(node, window, upper=how == "SAME_UPPER")
    if how == "VALID":
        return (0,) * rank, (0,) * rank
    if how != "NOTSET":
        return None
    pads = tuple(node.get("pads", (0,) * 2 * rank))
    return pads[:rank], pads[rank:]


def _same(node: Node, window: Dims, *, upper: bool) -> tuple[Dims, Dims]:
    """So much padding that each axis is divided by its stride, rounded up; the odd one after the
    axis, or before it."""
    ones = (1,) * len(window)
    strides, dilations = (tuple(node.get(k, ones)) for k in ("strides", "dilations"))
    rows = zip(node.shape(0)[2:], window, strides, dilations, strict=True)
    totals = [max(0, (-(-n // s) - 1) * s + (w - 1) * d + 1 - n) for n, w, s, d in rows]
    small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (small, large) if upper else (large, small)


def _conv(node: Node) -> Made | None:
    window = node.shape(1)[2:]
    rank, padding = len(window), _padding(node, window)
    if padding is None:
        return None
    attributes = {
        "stride": tuple(node.get("strides", (1,) * rank)),
        "pad": padding[0],
        "pad_post": padding[1],
        "dilation": tuple(node.get("dilations", (1,) * rank)),
        "groups": node.get("group", 1),
    }
    return "conv", (node.input(0), node.input(1), node.input(2)), attributes


def _batch_norm(node: Node) -> Made | None:
    if node.get("training_mode", 0):
        return None
    return "batchnorm", node.inputs[:5], {"eps": node.get("epsilon", 1e-5)}


def _unary(kind: str) -> Row:
    return lambda node: (kind, (node.input(0),), {})


def _binary(kind: str) -> Row:
    return lambda node: (kind, (node.input(0), node.input(1)), {})


def _clip(node: Node) -> Made | None:
    low, high = (node.known.get(node.input(place) or "") for place in (1, 2))
    if low is None or high is None or (float(low), float(high)) != (0.0, 6.0):
        return None
    return "relu6", (node.input(0),), {}


def _gelu(node: Node) -> Made:
    kind = "gelu_tanh" if node.get("approximate", "none") == "tanh" else "gelu"
    return kind, (node.input(0),), {}


def _gemm(node: Node) -> Made | None:
    if node.get("alpha", 1.0) != 1.0 or node.get("beta", 1.0) != 1.0 or node.get("transA", 0):
        return None
    kind = "linear" if node.get("transB", 0) else "matmul"
    return kind, (node.input(0), node.input(1), node.input(2)), {}


def _pool(kind: str) -> Row:
    def make(node: Node) -> Made | None:
        window = tuple(node.get("kernel_shape", ()))
        rank, padding = len(window), _padding(node, window)
        dilated = set(node.get("dilations", (1,))) != {1}
        if padding is None or padding[0] != padding[1] or node.get("ceil_mode", 0) or dilated:
            return None
        padded = kind == "avgpool" and node.get("count_include_pad", 0)
        attributes = {
            "window": window, "pad": padding[0], "stride": tuple(node.get("strides", (1,) * rank)),
        }  # fmt: skip
        return ("avgpool_padded" if padded else kind), (node.input(0),), attributes

    return make


def _global_pool(node: Node) -> Made:
    window = node.shape()[2:]
    pad = (0,) * len(window)
    return "avgpool", (node.input(0),), {"window": window, "pad": pad, "stride": window}


def _mean(node: Node) -> Made:
    rank = len(node.shape())
    axes = node.numbers("axes", 1) or tuple(range(rank))
    return "mean", (node.input(0),), {"axes": tuple(sorted(axis % rank for axis in axes))}


def _layer_norm(node: Node) -> Made:
    rank = len(node.shape())
    last = rank - node.get("axis", -1) % rank
    operands = node.input(0), node.input(1), node.input(2)
    return "layernorm", operands, {"eps": node.get("epsilon", 1e-5), "last": last}


def _transpose(node: Node) -> Made:
    rank = len(node.shape())
    return "permute", (node.input(0),), {"order": tuple(node.get("perm", range(rank)[::-1]))}


def _slice(node: Node) -> Made | None:
    starts, ends = node.numbers("starts", 1), node.numbers("ends", 2)
    axes, steps = node.numbers("axes", 3), node.numbers("steps", 4)
    if starts is None or ends is None or len(starts) != 1 or (steps or (1,)) != (1,):
        return None
    dims = node.shape()
    axis = (axes or (0,))[0] % len(dims)
    start, end = (
        max(0, min(dims[axis], at + dims[axis] if at < 0 else at)) for at in (starts[0], ends[0])
    )
    return "slice", (node.input(0),), {"axis": axis, "start": start, "length": end - start}


def _gather(node: Node) -> Made | None:
    index = node.known.get(node.input(1) or "")
    if index is None or index.size != 1:
        return None
    dims = node.shape()
    axis = node.get("axis", 0) % len(dims)
    at = int(index.reshape(-1)[0]) % dims[axis]
    return "select", (node.input(0),), {"axis": axis, "start": at}


def _split(node: Node) -> Made:
    return "split", (node.input(0),), {"axis": node.get("axis", 0) % len(node.shape())}


FOLDS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Sqrt": np.sqrt,
    "Neg": np.negative,
    "Cast": lambda value: value,
    "Identity": lambda value: value,
}
"""Operations on constants, as exporters leave them behind. A cast changes no value here."""

TABLE: dict[str, Row] = {
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    **{name: _unary(name.lower()) for name in
       ("Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Abs", "Neg", "Log", "Erf")},
    "Clip": _clip,
    "Gelu": _gelu,
    **{name: _binary(name.lower()) for name in ("Add", "Sub", "Mul", "Div")},
    "Gemm": _gemm,
    "MatMul": lambda node: ("matmul", (node.input(0), node.input(1), None), {}),
    "MaxPool": _pool("maxpool"),
    "AveragePool": _pool("avgpool"),
    "GlobalAveragePool": _global_pool,
    "ReduceMean": _mean,
    "LayerNormalization": _layer_norm,
    "Softmax": lambda node: ("softmax", (node.input(0),), {"axis": node.get("axis", -1)}),
    **{name: _unary("reshape") for name in ("Reshape", "Flatten", "Squeeze", "Unsqueeze")},
    **{name: _unary("identity") for name in ("Identity", "Dropout")},
    "Transpose": _transpose,
    "Slice": _slice,
    "Gather": _gather,
    "Split": _split,
}  # fmt: skip
"""ONNX operations by name; those that are not here no graph expresses."""
