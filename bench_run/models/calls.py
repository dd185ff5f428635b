"""The calls of models: a row for each kind, with ONNX's and ATen's operations that are it.

A row's function turns arguments into kind, operands and attributes. It reads both formats: each
argument is looked up by its place or name in ONNX, then by its name in ATen's schema.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.models.model import Array, Dims

Made: TypeAlias = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Kind, operands, attributes."""
Numbers = tuple[int, ...]


class InexpressibleError(Exception):
    """No operation of hipDNN does the call with these arguments."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call."""

    values: Mapping[int | str, Any]
    """ONNX: operands by place, attributes by name. ATen: all by the names of the schema."""
    shape: Callable[[Any], Dims]
    """Dims of an operand."""
    known: Callable[[Any], Array | None]
    """The values of an operand, if they are known."""
    unit: Callable[[Any], float]
    """Distance between 1 and the next number of an operand's type."""
    outputs: tuple[str, ...] = ()
    opset: int = 99
    """Version of ONNX's operations."""

    def get(self, *keys: int | str, default: Any = None) -> Any:
        return next((self.values[key] for key in keys if key in self.values), default)

    @property
    def x(self) -> Any:
        """The first operand."""
        return self.get(0, "self", "input")

    @property
    def dims(self) -> Dims:
        """Dims of the first operand."""
        return self.shape(self.x)

    def axis(self, value: int, rank: int | None = None) -> int:
        """Return the axis counted from the first; a number without axes has one of length one."""
        rank = max(1, len(self.dims) if rank is None else rank)
        return value % rank if -rank <= value < rank else refuse()

    def numbers(self, *keys: int | str) -> Numbers | None:
        """Return the whole numbers of an attribute or of an operand whose values are known."""
        value = self.get(*keys)
        if value is None or isinstance(value, (int, list, tuple)):
            return (value,) if isinstance(value, int) else None if value is None else tuple(value)
        array = self.known(value)
        return refuse() if array is None else tuple(int(number) for number in array.reshape(-1))

    def number(self, *keys: int | str) -> float | None:
        """Return one number, from an attribute or from an operand with a known value."""
        value = self.get(*keys)
        if value is None or isinstance(value, (int, float)):
            return None if value is None else float(value)
        array = self.known(value)
        return refuse() if array is None or array.size != 1 else float(array.reshape(-1)[0])


def refuse() -> Any:
    raise InexpressibleError


def _many(value: Any, rank: int) -> Numbers:
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,) * rank
    return found if len(found) == rank else found * rank if len(found) == 1 else refuse()


# Windows.


def _padding(a: Arguments, window: Dims, stride: Dims, dilation: Dims) -> tuple[Numbers, Numbers]:
    """Return the padding before and after each spatial axis."""
    rank, given = len(window), a.get("padding", default=0)
    names = {"same": "SAME_UPPER", "valid": "VALID"}
    how = a.get("auto_pad", default=names[given] if isinstance(given, str) else "NOTSET")
    if how in ("SAME_UPPER", "SAME_LOWER"):
        # Each axis is divided by its stride, rounded up; the odd element is after, or before.
        rows = zip(a.dims[2:], window, stride, dilation, strict=True)
        totals = [max(0, (-(-n // s) - 1) * s + (w - 1) * d + 1 - n) for n, w, s, d in rows]
        small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        return (small, large) if how == "SAME_UPPER" else (large, small)
    if how == "VALID":
        return (0,) * rank, (0,) * rank
    if how != "NOTSET":
        refuse()
    pads = a.get("pads")
    if pads is None:
        both = _many(given, rank)
        return both, both
    return (tuple(pads[:rank]), tuple(pads[rank:])) if len(pads) == 2 * rank else refuse()


def conv(a: Arguments, *, transposed: bool = False) -> Made:
    """Make a convolution; a transposed one is the gradient of a convolution for its data."""
    w = a.get(1, "weight")
    window = a.shape(w)[2:]
    transposed = transposed or a.get("transposed", default=False)
    if not window or len(a.dims) != len(window) + 2:
        refuse()  # without an axis of images
    if transposed and (
        "output_shape" in a.values or a.get("auto_pad", default="NOTSET") != "NOTSET"
    ):
        refuse()
    if not transposed and any(a.get("output_padding", default=())):
        refuse()
    stride, dilation = (
        _many(a.get(*names, default=1), len(window))
        for names in (("strides", "stride"), ("dilations", "dilation"))
    )
    if min(stride) < 1:
        refuse()
    before, after = _padding(a, window, stride, dilation)
    attributes = {"stride": stride, "pad": before, "pad_post": after, "dilation": dilation}
    attributes["groups"] = a.get("group", "groups", default=1)
    kind = "conv_transpose" if transposed else "conv"
    return kind, (a.x, w, a.get(2, "bias")), attributes


def pool(a: Arguments, kind: str) -> Made:
    window = _many(a.get("kernel_shape", "kernel_size") or refuse(), len(a.dims) - 2)
    ones = (1,) * len(window)
    stride = _many(a.get("strides") or a.get("stride", default=ones) or window, len(window))
    dilation = _many(a.get("dilations", "dilation", default=1), len(window))
    before, after = _padding(a, window, stride, dilation)
    if before != after or dilation != ones or a.get("divisor_override"):
        refuse()
    rows = zip(a.dims[2:], before, window, stride, strict=True)
    if a.get("ceil_mode") and any((n + 2 * p - w) % s for n, p, w, s in rows):
        refuse()  # its last window would end beyond the padding
    if kind == "avgpool" and a.get("count_include_pad"):
        kind = "avgpool_padded"
    return kind, (a.x,), {"window": window, "pad": before, "stride": stride}


def adaptive(a: Arguments, kind: str) -> Made:
    """Pool to lengths that divide those of the image; ONNX's global pooling makes one element."""
    dims = a.dims[2:]
    wanted = _many(a.get("output_size", default=1), len(dims))
    if not dims or any(have % want for have, want in zip(dims, wanted, strict=True)):
        refuse()
    window = tuple(int(have // want) for have, want in zip(dims, wanted, strict=True))
    return kind, (a.x,), {"window": window, "stride": window, "pad": (0,) * len(dims)}


# Norms, sums, products.


def batchnorm(a: Arguments) -> Made:
    """Make a batch normalization for inference; refuse training."""
    names = ((1, "weight"), (2, "bias"), (3, "running_mean"), (4, "running_var"))
    operands = tuple(a.get(*each) for each in names)
    trains = a.get("training_mode", "training") or (a.opset < 7 and not a.get("is_test"))
    if trains or len(a.outputs) > 1 or not a.get("spatial", default=1) or None in operands[2:]:
        refuse()
    return "batchnorm", (a.x, *operands), {"eps": a.get("epsilon", "eps", default=1e-5)}


def norm(a: Arguments, kind: str, operands: int) -> Made:
    """Make a norm over the last axes. PyTorch's RMS norm without an epsilon adds the step of the
    type."""
    shape = a.get("normalized_shape")
    last = len(a.dims) - a.axis(a.get("axis", default=-1)) if shape is None else len(shape)
    eps = a.get("epsilon", "eps", default=1e-5)
    given = (a.x, a.get(1, "weight"), a.get(2, "bias"))[:operands]
    return kind, given, {"eps": a.unit(a.x) if eps is None else float(eps), "last": last}


def group_norm(a: Arguments) -> Made:
    """Lower a group norm: ONNX scales each channel since version 21, before that each group."""
    groups = a.get("num_groups")
    if a.opset < 21 or len(a.dims) < 3:
        refuse()
    eps = a.get("epsilon", "eps", default=1e-5)
    operands = (a.x, a.get(1, "weight"), a.get(2, "bias"))
    return "group_norm", operands, {"groups": int(groups), "eps": float(eps)}


def reduce(a: Arguments, kind: str) -> Made:
    axes = a.numbers("axes", 1, "dim")
    if not axes and a.get("noop_with_empty_axes"):
        refuse()
    every = {a.axis(axis) for axis in axes or range(len(a.dims))}
    return kind, (a.x,), {"axes": tuple(sorted(every))}


def softmax(a: Arguments) -> Made:
    """Make a softmax; before version 13 of ONNX over all axes from the given one on."""
    axis = a.axis(a.get("axis", "dim", default=-1 if a.opset >= 13 else 1))
    if a.opset < 13 and math.prod(a.dims[axis + 1 :]) > 1:
        refuse()
    return "softmax", (a.x,), {"axis": axis}


def gemm(a: Arguments) -> Made:
    """Make a product; the addend has one number for each column."""
    if "mat1" in a.values:
        x, w, added, turned = a.get("mat1"), a.get("mat2"), a.get("self"), False
    else:
        x, w, added, turned = a.x, a.get(1), a.get(2), bool(a.get("transB"))
    row = a.shape(w)[0 if turned else 1 :][:1]
    scaled = a.get("alpha", default=1) != 1 or a.get("beta", default=1) != 1
    if scaled or a.get("transA") or (added is not None and a.shape(added) not in (row, (1, *row))):
        refuse()
    return ("linear" if turned else "matmul"), (x, w, added), {}


def linear(a: Arguments) -> Made:
    return "linear", (a.x, a.get("weight"), a.get("bias")), {}


def matmul(a: Arguments) -> Made:
    return "matmul", (a.x, a.get(1, "mat2", "other"), None), {}


def sdpa(a: Arguments) -> Made:
    if a.get("dropout_p"):
        refuse()
    mask = a.get("attn_mask")
    operands = (a.get("query"), a.get("key"), a.get("value"))
    attributes = {"causal": a.get("is_causal"), "scale": a.get("scale")}
    return "sdpa", operands if mask is None else (*operands, mask), attributes


# Elementwise.

Word: TypeAlias = tuple[str, str, float | None]
"""Names of a number in ONNX and ATen, and what its absence means."""


def unary(a: Arguments, kind: str, words: Mapping[str, Word] | None = None) -> Made:
    """Make a unary operation; numbers become words of the op spec."""
    given = {word: a.get(*names, default=usual) for word, (*names, usual) in (words or {}).items()}
    return kind, (a.x,), {word: float(value) for word, value in given.items() if value is not None}


def elu(a: Arguments) -> Made:
    plain = a.get("scale", default=1) == a.get("input_scale", default=1) == 1
    return unary(a, "elu", {"alpha": ("alpha", "alpha", 1.0)}) if plain else refuse()


def softplus(a: Arguments) -> Made:
    """Make a softplus; beyond the threshold PyTorch takes the argument itself, which is the same in
    float32."""
    if a.get("threshold", default=20) < 20:
        refuse()
    return unary(a, "softplus", {"beta": ("beta", "beta", None)})


def gelu(a: Arguments) -> Made:
    return ("gelu_tanh" if a.get("approximate") == "tanh" else "gelu"), (a.x,), {}


def clip(a: Arguments) -> Made:
    given = {"low": a.number(1, "min", "min_val"), "high": a.number(2, "max", "max_val")}
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    if bounds == {"low": 0.0, "high": 6.0}:
        return "relu6", (a.x,), {}
    if "low" not in bounds:
        return ("min_op", (a.x, bounds["high"]), {}) if bounds else refuse()
    return "clip", (a.x,), bounds


def power(a: Arguments) -> Made:
    exponent = a.number(1, "exponent")
    if exponent == 2.0:
        return "mul", (a.x, a.x), {}
    if exponent in range(3, 9):
        return "power", (a.x,), {"exponent": int(exponent or 0)}
    kind = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(exponent or 0.0)
    return (kind, (a.x,), {}) if kind else refuse()


def binary(a: Arguments, kind: str) -> Made:
    """Make a binary operation; before version 7 of ONNX an attribute gave the axes of the second
    operand."""
    old = a.get("broadcast") or a.get("axis")
    if old or a.get("alpha", default=1) != 1 or a.get(2) is not None:
        refuse()
    second = a.get(1, "other")
    return (kind, (a.x, second), {}) if second is not None else refuse()


# Views.


def identity(a: Arguments) -> Made:
    """Lower an identity, and a dropout that does not drop: ONNX has a third operand for that."""
    drops = (a.get("train") and a.get("p")) or a.number(2)
    return refuse() if drops else ("identity", (a.x,), {})


def expand(a: Arguments) -> Made:
    sizes = zip(a.dims, a.get("size"), strict=False)
    same = len(a.get("size")) == len(a.dims) and all(size in (-1, n) for n, size in sizes)
    return ("identity" if same else "expand"), (a.x,), {}


def reshape(a: Arguments) -> Made:
    """Make a reshape, if the number of the result's elements is known."""
    counts = {math.prod(a.shape(name)) for name in (a.x, *a.outputs[:1])}
    return ("reshape", (a.x,), {}) if len(counts) == 1 else refuse()


def permute(a: Arguments) -> Made:
    axes = tuple(range(len(a.dims)))
    order = tuple(a.axis(axis) for axis in a.get("perm", "dims", default=axes[::-1]))
    return ("permute", (a.x,), {"order": order}) if sorted(order) == [*axes] else refuse()


def transpose(a: Arguments) -> Made:
    """Swap two axes: the named ones, or the first two."""
    one, other = (
        a.axis(a.get(f"dim{n}", f"axis{n}", default=n)) if len(a.dims) > 1 else 0 for n in (0, 1)
    )
    order = list(range(len(a.dims)))
    if order:
        order[one], order[other] = order[other], order[one]
    return "permute", (a.x,), {"order": tuple(order)}


def transpose_last(a: Arguments, *, of_matrices: bool) -> Made:
    """Swap the last axes; refuse ``T`` of other than two axes, as it reverses all of them."""
    if of_matrices and len(a.dims) != 2:
        refuse()
    *order, one, other = range(len(a.dims))
    return "permute", (a.x,), {"order": (*order, other, one)}


def move(a: Arguments) -> Made:
    """Move one axis to another place, with the others in their order."""
    source, target = a.axis(a.get("source")), a.axis(a.get("destination"))
    order = [axis for axis in range(len(a.dims)) if axis != source]
    order.insert(target, source)
    return "permute", (a.x,), {"order": tuple(order)}


def part(a: Arguments) -> Made:
    """Make a slice of some axes."""
    if "dim" in a.values:
        return narrow(a)
    starts, ends = a.numbers("starts", 1) or (), a.numbers("ends", 2) or ()
    axes = a.numbers("axes", 3) or range(len(starts))
    steps = a.numbers("steps", 4) or (1,) * len(starts)
    if not len(axes) == len(starts) == len(ends) == len(steps) > 0:
        refuse()
    rows = zip(axes, starts, ends, steps, strict=True)
    return "slice", (a.x,), {"parts": tuple(_span(a, a.axis(axis), *ends) for axis, *ends in rows)}


def narrow(a: Arguments) -> Made:
    """Take a slice of one axis, as in ATen, by end or by length."""
    axis, start, end = a.axis(a.get("dim")), a.get("start") or 0, a.get("end")
    if "length" in a.values:
        end = start + a.get("length") if start >= 0 else refuse()
    last = int(a.dims[axis]) if end is None else end
    return "slice", (a.x,), {"parts": (_span(a, axis, start, last, a.get("step", default=1)),)}


def _span(
    a: Arguments, axis: int, first: int, last: int, step: int = 1
) -> tuple[int, int, int, int]:
    """Return axis, start, number of elements, step."""
    size = int(a.dims[axis])
    start, end = (max(0, min(size, at + size if at < 0 else at)) for at in (first, last))
    return (axis, start, -(-(end - start) // step), step) if end > start and step > 0 else refuse()


def pad(a: Arguments) -> Made:
    """Accept only padding of zero elements."""
    return refuse() if any(a.get("pad", default=(1,))) else ("identity", (a.x,), {})


def select(a: Arguments) -> Made:
    """Take one index of an axis; ONNX's Gather of one."""
    index = a.numbers(1, "index") or ()
    if len(index) != 1:
        refuse()
    axis = a.axis(a.get("axis", "dim", default=0))
    return "select", (a.x,), {"axis": axis, "start": a.axis(index[0], int(a.dims[axis]))}


def split(a: Arguments, kind: str) -> Made:
    return kind, (a.x,), {"axis": a.axis(a.get("axis", "dim", default=0))}


# The table.


@dataclass(frozen=True)
class Row:
    make: Callable[[Arguments], Made]
    onnx: str
    """Names, with blanks between."""
    aten: str
    """Names without ``.default``; ``#`` stands for 1, 2 and 3, ``*`` for nothing and for the ``_``
    of a call that writes into its operand."""


_PLAIN = (
    *("relu", "sigmoid", "tanh", "exp", "sqrt", "abs", "neg"),
    *("log", "erf", "reciprocal", "floor", "ceil", "sin", "tan"),
)
_REDUCTIONS = {
    "mean": ("ReduceMean", "mean mean.dim"),
    "reduce_add": ("ReduceSum", "sum sum.dim_IntList"),
    "reduce_max": ("ReduceMax", "amax"),
    "reduce_min": ("ReduceMin", "amin"),
    "reduce_mul": ("ReduceProd", ""),
    "reduce_norm1": ("ReduceL1", ""),
    "reduce_norm2": ("ReduceL2", ""),
}
_SLOPE = {"slope": ("alpha", "negative_slope", 0.01)}

ROWS = (
    Row(conv, "Conv", "conv#d conv#d.padding convolution"),
    Row(
        partial(conv, transposed=True),
        "ConvTranspose",
        "conv_transpose1d conv_transpose2d.input conv_transpose3d.input",
    ),
    Row(partial(pool, kind="maxpool"), "MaxPool", "max_pool#d"),
    Row(partial(pool, kind="avgpool"), "AveragePool", "avg_pool#d"),
    Row(partial(adaptive, kind="maxpool"), "GlobalMaxPool", ""),
    Row(partial(adaptive, kind="avgpool"), "GlobalAveragePool", "adaptive_avg_pool#d"),
    Row(batchnorm, "BatchNormalization", "batch_norm _native_batch_norm_legit_no_training"),
    Row(partial(norm, kind="layernorm", operands=3), "LayerNormalization", "layer_norm"),
    Row(partial(norm, kind="rmsnorm", operands=2), "RMSNormalization", "rms_norm"),
    Row(group_norm, "GroupNormalization", "group_norm"),
    Row(softmax, "Softmax", "softmax.int _softmax"),
    *(Row(partial(reduce, kind=kind), *names) for kind, names in _REDUCTIONS.items()),
    Row(gemm, "Gemm", "addmm"),
    Row(linear, "", "linear"),
    Row(matmul, "MatMul", "mm bmm matmul"),
    Row(sdpa, "", "scaled_dot_product_attention"),
    *(Row(partial(unary, kind=kind), kind.capitalize(), f"{kind}*") for kind in _PLAIN),
    Row(partial(unary, kind="rsqrt"), "", "rsqrt*"),
    Row(partial(unary, kind="relu6"), "", "relu6*"),
    Row(partial(unary, kind="leaky_relu", words=_SLOPE), "LeakyRelu", "leaky_relu*"),
    Row(partial(unary, kind="swish", words={"beta": ("alpha", "beta", None)}), "Swish", "silu*"),
    Row(elu, "Elu", "elu*"),
    Row(softplus, "Softplus", "softplus"),
    Row(gelu, "Gelu", "gelu"),
    Row(clip, "Clip", "hardtanh* clamp* clamp_min* clamp_max*"),
    Row(power, "Pow", "pow.Tensor_Scalar"),
    Row(partial(unary, kind="cast"), "Cast", "to.dtype _to_copy type_as"),
    *(
        Row(partial(binary, kind=kind), names, f"{kind}*.Tensor {kind}*.Scalar")
        for kind, names in {"add": "Add Sum", "sub": "Sub", "mul": "Mul", "div": "Div"}.items()
    ),
    Row(partial(binary, kind="max_op"), "Max", "maximum"),
    Row(partial(binary, kind="min_op"), "Min", "minimum"),
    Row(identity, "Identity Dropout", "contiguous clone alias detach lift_fresh_copy"),
    Row(identity, "", "dropout* feature_dropout* alpha_dropout* feature_alpha_dropout*"),
    Row(expand, "", "expand"),
    Row(
        reshape,
        "Reshape Flatten Squeeze Unsqueeze",
        "view reshape _unsafe_view flatten.using_ints unflatten.int squeeze squeeze.dim"
        " squeeze.dims unsqueeze view_as reshape_as",
    ),
    Row(permute, "Transpose", "permute"),
    Row(transpose, "", "transpose.int t swapaxes swapdims"),
    Row(partial(transpose_last, of_matrices=True), "", "numpy_T"),
    Row(partial(transpose_last, of_matrices=False), "", "mT"),
    Row(move, "", "movedim.int"),
    Row(part, "Slice", "slice.Tensor narrow"),
    Row(pad, "", "pad constant_pad_nd"),
    Row(select, "Gather", "select.int"),
    Row(partial(split, kind="split"), "Split", "split.Tensor split_with_sizes chunk"),
    Row(partial(split, kind="unbind"), "", "unbind.int"),
)


def _spelled(name: str) -> list[str]:
    numbered = [name.replace("#", n) for n in "123"] if "#" in name else [name]
    tails = ("", "_") if "*" in name else ("",)
    return [each.replace("*", tail) for each in numbered for tail in tails]


ONNX = {name: row.make for row in ROWS for name in row.onnx.split()}
ATEN = {name: row.make for row in ROWS for word in row.aten.split() for name in _spelled(word)}


def made(table: Mapping[str, Callable[[Arguments], Made]], name: str, a: Arguments) -> Made | None:
    """Return the call; None if no operation of hipDNN does it with these arguments."""
    try:
        return table[name](a)
    except InexpressibleError:
        return None
