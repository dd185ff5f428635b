"""ONNX's operations: a row for each that a graph, or another view of memory, can express."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.models.model import Array, Dims


@dataclass(frozen=True)
class Node:
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
Row: TypeAlias = "Callable[[Node], Made | None]"


def _padding(node: Node, window: Dims) -> tuple[Dims, Dims] | None:
    """Before and after each spatial axis; `window` is of the filter."""
    rank, how = len(window), node.get("auto_pad", "NOTSET")
    if any(len(node.get(k, window)) != rank for k in ("strides", "dilations")):
        return None
    if min(node.get("strides", (1,)), default=1) < 1:
        return None
    if how in ("SAME_UPPER", "SAME_LOWER"):
        return _same(node, window, upper=how == "SAME_UPPER")
    if how == "VALID":
        return (0,) * rank, (0,) * rank
    if how != "NOTSET":
        return None
    pads = tuple(node.get("pads", (0,) * 2 * rank))
    return (pads[:rank], pads[rank:]) if len(pads) == 2 * rank else None


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
    padding = _padding(node, window)
    if padding is None or not window:
        return None
    return "conv", (node.input(0), node.input(1), node.input(2)), _steps(node, padding)


def _conv_transpose(node: Node) -> Made | None:
    """The gradient of a convolution for its data: what it pads, this cuts off."""
    window = node.shape(1)[2:]
    padding = _padding(node, window)
    if padding is None or not window or "output_shape" in node.attributes:
        return None
    if node.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    return "conv_transpose", (node.input(0), node.input(1), node.input(2)), _steps(node, padding)


def _steps(node: Node, padding: tuple[Dims, Dims]) -> dict[str, Any]:
    rank = len(padding[0])
    return {
        "stride": tuple(node.get("strides", (1,) * rank)),
        "pad": padding[0],
        "pad_post": padding[1],
        "dilation": tuple(node.get("dilations", (1,) * rank)),
        "groups": node.get("group", 1),
    }


def _batch_norm(node: Node) -> Made | None:
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


def _clip(node: Node) -> Made | None:
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


def _pow(node: Node) -> Made | None:
    exponent = node.known.get(node.input(1) or "")
    if exponent is None or exponent.size != 1:
        return None
    x, power = node.input(0), float(exponent.reshape(-1)[0])
    if power == 2.0:
        return "mul", (x, x), {}
    kind = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(power)
    return None if kind is None else (kind, (x,), {})


def _softmax(node: Node) -> Made | None:
    """Before version 13 over all axes from the given one on."""
    axis = node.axis(-1 if node.opset >= 13 else 1)
    if axis is None:
        return None
    joined = node.opset < 13 and math.prod(node.shape()[axis + 1 :]) > 1
    return None if joined else ("softmax", (node.input(0),), {"axis": axis})


def _gelu(node: Node) -> Made:
    kind = "gelu_tanh" if node.get("approximate", "none") == "tanh" else "gelu"
    return kind, (node.input(0),), {}


def _gemm(node: Node) -> Made | None:
    if node.get("alpha", 1.0) != 1.0 or node.get("beta", 1.0) != 1.0 or node.get("transA", 0):
        return None
    row = node.shape(1)[0 if node.get("transB", 0) else 1 :][:1]
    if node.input(2) is not None and node.shape(2) not in (row, (1, *row)):
        return None
    kind = "linear" if node.get("transB", 0) else "matmul"
    return kind, (node.input(0), node.input(1), node.input(2)), {}


def _pool(kind: str) -> Row:
    def make(node: Node) -> Made | None:
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
            "window": window, "pad": padding[0], "stride": tuple(node.get("strides", (1,) * rank)),
        }  # fmt: skip
        return ("avgpool_padded" if padded else kind), (node.input(0),), attributes

    return make


def _global_pool(kind: str) -> Row:
    def make(node: Node) -> Made:
        window = node.shape()[2:]
        pad = (0,) * len(window)
        return kind, (node.input(0),), {"window": window, "pad": pad, "stride": window}

    return make


def _reduce(kind: str) -> Row:
    """Over the axes of an attribute, or as newer versions have it of an operand."""

    def make(node: Node) -> Made | None:
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

    def make(node: Node) -> Made | None:
        axis = node.axis(-1)
        if axis is None:
            return None
        attributes = {"eps": node.get("epsilon", 1e-5), "last": len(node.shape()) - axis}
        return kind, tuple(node.input(place) for place in range(operands)), attributes

    return make


def _transpose(node: Node) -> Made | None:
    axes = range(len(node.shape()))
    order = tuple(node.get("perm", axes[::-1]))
    return ("permute", (node.input(0),), {"order": order}) if sorted(order) == [*axes] else None


def _reshape(node: Node) -> Made | None:
    """The same elements, as far as that is known."""
    counts = [math.prod(node.dims.get(name or "", ())) for name in (node.inputs[0], *node.outputs)]
    return ("reshape", (node.input(0),), {}) if len(set(counts[:2])) == 1 else None


def _slice(node: Node) -> Made | None:
    starts, ends = node.numbers("starts", 1), node.numbers("ends", 2)
    axes, steps = node.numbers("axes", 3), node.numbers("steps", 4)
    unknown = any(node.input(n) is not None and node.numbers(name, n) is None
                  for n, name in ((3, "axes"), (4, "steps")))  # fmt: skip
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


def _gather(node: Node) -> Made | None:
    index = node.known.get(node.input(1) or "")
    if index is None or index.size != 1:
        return None
    axis = node.axis(0)
    at = None if axis is None else axis_of(int(index.reshape(-1)[0]), node.shape()[axis])
    if at is None:
        return None
    return "select", (node.input(0),), {"axis": axis, "start": at}


def _split(node: Node) -> Made | None:
    axis = node.axis(0)
    return None if axis is None else ("split", (node.input(0),), {"axis": axis})


def _quotient(a: Array, b: Array) -> Array | None:
    whole = all(np.issubdtype(each.dtype, np.integer) for each in (a, b))
    if whole and not np.all(b):
        return None
    return np.asarray(np.trunc(a / b).astype(a.dtype) if whole else a / b)


def _dequantized(quantized: Array, scale: Array, zero: Array | None = None) -> Array | None:
    """By one scale for all; what has several is no weight that we know."""
    if scale.size != 1:
        return None
    shift = 0 if zero is None else zero.reshape(-1)[0].astype(np.int64)
    return np.asarray((quantized.astype(np.int64) - shift) * scale.reshape(-1)[0])


FOLDS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _quotient,
    "Pow": np.power,
    "Sqrt": np.sqrt,
    "Neg": np.negative,
    "Cast": lambda value: value,
    "Identity": lambda value: value,
    "DequantizeLinear": _dequantized,
}
"""Operations on constants, as exporters leave them behind. A cast changes no value here."""

TABLE: dict[str, Row] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _batch_norm,
    **{name: _unary(name.lower()) for name in
       ("Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Abs", "Neg", "Log", "Erf", "Softplus",
        "Reciprocal", "Floor", "Ceil", "Sin", "Tan")},
    "Clip": _clip,
    "LeakyRelu": _with("leaky_relu", "alpha", "slope", 0.01),
    "Elu": _with("elu", "alpha", "alpha", 1.0),
    "Swish": _with("swish", "alpha", "beta", 1.0),
    "Gelu": _gelu,
    "Pow": _pow,
    "Cast": _unary("cast"),
    **{name: _binary(name.lower()) for name in ("Add", "Sub", "Mul", "Div")},
    **{name: _several(kind) for name, kind in
       (("Max", "max_op"), ("Min", "min_op"), ("Sum", "add"))},
    "Gemm": _gemm,
    "MatMul": lambda node: ("matmul", (node.input(0), node.input(1), None), {}),
    "MaxPool": _pool("maxpool"),
    "AveragePool": _pool("avgpool"),
    "GlobalAveragePool": _global_pool("avgpool"),
    "GlobalMaxPool": _global_pool("maxpool"),
    "ReduceMean": _reduce("mean"),
    **{f"Reduce{name}": _reduce(f"reduce_{kind}") for name, kind in
       (("Sum", "add"), ("Max", "max"), ("Min", "min"), ("Prod", "mul"), ("L1", "norm1"),
        ("L2", "norm2"))},
    "LayerNormalization": _norm("layernorm", 3),
    "RMSNormalization": _norm("rmsnorm", 2),
    "Softmax": _softmax,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
    **{name: _unary("identity") for name in ("Identity", "Dropout")},
    "Transpose": _transpose,
    "Slice": _slice,
    "Gather": _gather,
    "Split": _split,
}  # fmt: skip
"""ONNX operations by name; those that are not here no graph expresses."""
