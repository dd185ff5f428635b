"""The calls of models: a row for each kind, with ONNX's and ATen's operations that are it.

A row's function turns arguments into kind, operands and attributes. It reads both formats: each
argument is looked up by its place or name in ONNX, then by its name in ATen's schema.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bench_run.models import own_calls as ours
from bench_run.models.arguments import (
    Arguments,
    InexpressibleError,
    Made,
    Numbers,
    Word,
    many_of,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.models.model import Dims


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
        both = many_of(given, rank)
        return both, both
    return (tuple(pads[:rank]), tuple(pads[rank:])) if len(pads) == 2 * rank else refuse()


def conv(a: Arguments, *, transposed: bool = False) -> Made:
    """Make a convolution; a transposed one is the gradient of a convolution for its data."""
    w = a.get(1, "weight")
    window = a.shape(w)[2:]
    transposed = transposed or a.get("transposed", default=False)
    if not window or len(a.dims) != len(window) + 2:
        refuse()  # without an axis of images
    if not transposed and any(a.get("output_padding", default=())):
        refuse()
    stride, dilation = (
        many_of(a.get(*names, default=1), len(window))
        for names in (("strides", "stride"), ("dilations", "dilation"))
    )
    if min(stride) < 1:
        refuse()
    if transposed:
        before, after = _transposed_padding(a, window, stride, dilation)
    else:
        before, after = _padding(a, window, stride, dilation)
    attributes = {"stride": stride, "pad": before, "pad_post": after, "dilation": dilation}
    attributes["groups"] = a.get("group", "groups", default=1)
    kind = "conv_transpose" if transposed else "conv"
    return kind, (a.x, w, a.get(2, "bias")), attributes


def _transposed_padding(
    a: Arguments, window: Dims, stride: Dims, dilation: Dims
) -> tuple[Numbers, Numbers]:
    """Return the padding of a transposed convolution, which may follow from the lengths of its
    result."""
    how = a.get("auto_pad", default="NOTSET")
    shape = a.get("output_shape")
    if how in ("SAME_UPPER", "SAME_LOWER") and shape is None:
        shape = [n * s for n, s in zip(a.dims[2:], stride, strict=True)]
    if shape is None:
        return _padding(a, window, stride, dilation)
    more = many_of(a.get("output_padding", default=0), len(window))
    rows = zip(a.dims[2:], shape[-len(window) :], window, stride, dilation, more, strict=True)
    totals = [s * (n - 1) + o + (w - 1) * d + 1 - length for n, length, w, s, d, o in rows]
    if min(totals) < 0:
        refuse("an output_shape beyond what its filter reaches")
    small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (small, large) if how == "SAME_UPPER" else (large, small)


def pool(a: Arguments, kind: str) -> Made:
    window = many_of(a.get("kernel_shape", "kernel_size") or refuse(), len(a.dims) - 2)
    ones = (1,) * len(window)
    stride = many_of(a.get("strides") or a.get("stride", default=ones) or window, len(window))
    dilation = many_of(a.get("dilations", "dilation", default=1), len(window))
    before, after = _padding(a, window, stride, dilation)
    if a.get("divisor_override"):
        refuse("a divisor of its own")
    if len(a.outputs) > 1:
        refuse("the positions of its maxima, in ONNX's numbering")
    if kind == "avgpool" and a.get("count_include_pad"):
        kind = "avgpool_padded"
    if a.get("ceil_mode"):
        # The last window may end beyond the padding: more padding after the image.
        reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
        rows = list(zip(a.dims[2:], before, after, reach, stride, strict=True))
        # A window that would begin in the padding after the image is left out.
        counts = [-(-(n + p + q - r) // s) + 1 for n, p, q, r, s in rows]
        lengths = (
            y - ((y - 1) * s >= n + p) for y, (n, p, _, _, s) in zip(counts, rows, strict=True)
        )
        needed = tuple(
            max(q, (y - 1) * s + r - n - p)
            for y, (n, p, q, r, s) in zip(lengths, rows, strict=True)
        )
        if kind == "avgpool_padded" and needed != after:
            refuse("windows beyond the padding, of which it counts a part")
        after = needed
    if dilation != ones:
        words: dict[str, Any] = {"window": window, "stride": stride, "dilation": dilation}
        words |= {"pad": before, "pad_post": after, "mode": kind}
        return "dilated_pool", (a.x,), words
    return kind, (a.x,), {"window": window, "pad": before, "pad_post": after, "stride": stride}


def adaptive(a: Arguments, kind: str) -> Made:
    """Pool to lengths that divide those of the image; ONNX's global pooling makes one element."""
    dims = a.dims[2:]
    wanted = many_of(a.get("output_size", default=1), len(dims))
    if not dims or any(have % want for have, want in zip(dims, wanted, strict=True)):
        refuse()
    window = tuple(int(have // want) for have, want in zip(dims, wanted, strict=True))
    pads = dict.fromkeys(("pad", "pad_post"), (0,) * len(dims))
    return kind, (a.x,), {"window": window, "stride": window, **pads}


def batchnorm(a: Arguments) -> Made:
    """Make a batch normalization for inference; refuse training."""
    names = ((1, "weight"), (2, "bias"), (3, "running_mean"), (4, "running_var"))
    operands = tuple(a.get(*each) for each in names)
    trains = a.get("training_mode", "training") or (a.opset < 7 and not a.get("is_test"))
    if trains or len(a.outputs) > 1:
        refuse("it trains: statistics of the batch")
    if not a.get("spatial", default=1) or None in operands[2:]:
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
    if a.opset < 21:
        refuse("before version 21 its scale was one of each group")
    if len(a.dims) < 3:
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


def softmax(a: Arguments, kind: str) -> Made:
    """Make a softmax; before version 13 of ONNX over all axes from the given one on."""
    axis = a.axis(a.get("axis", "dim", default=-1 if a.opset >= 13 else 1))
    if a.opset < 13 and math.prod(a.dims[axis + 1 :]) > 1:
        return kind, (a.x,), {"axis": axis, "all": True}
    return kind, (a.x,), {"axis": axis}


def gemm(a: Arguments) -> Made:
    """Make a product; one with a number added to each column is the same as a linear layer."""
    if "mat1" in a.values:
        x, w, added, turned = a.get("mat1"), a.get("mat2"), a.get("self"), False
    else:
        x, w, added, turned = a.x, a.get(1), a.get(2), bool(a.get("transB"))
    row = a.shape(w)[0 if turned else 1 :][:1]
    alpha, beta = float(a.get("alpha", default=1)), float(a.get("beta", default=1))
    plain = alpha == beta == 1 and not a.get("transA")
    if plain and (added is None or a.shape(added) in (row, (1, *row))):
        return ("linear" if turned else "matmul"), (x, w, added), {}
    words = {"turn_a": bool(a.get("transA")), "turn_b": turned, "alpha": alpha, "beta": beta}
    return "gemm", (x, w, added), words


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
    if not (a.is_constant(1, "min") and a.is_constant(2, "max")):
        return "clip_between", (a.x, a.get(1, "min"), a.get(2, "max")), {}
    given = {"low": a.number(1, "min", "min_val"), "high": a.number(2, "max", "max_val")}
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    if bounds == {"low": 0.0, "high": 6.0}:
        return "relu6", (a.x,), {}
    if "low" not in bounds:
        return ("min_op", (a.x, bounds["high"]), {}) if bounds else refuse()
    return "clip", (a.x,), bounds


def power(a: Arguments) -> Made:
    second = a.get(1, "exponent")
    array = None if second is None or isinstance(second, (int, float)) else a.known(second)
    if isinstance(second, str) and (array is None or array.size != 1):
        return ours.own(a, "pow", operands=(a.x, second))
    exponent = a.number(1, "exponent")
    if exponent == 2.0:
        return "mul", (a.x, a.x), {}
    if exponent in range(3, 9):
        return "power", (a.x,), {"exponent": int(exponent or 0)}
    kind = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(exponent or 0.0)
    return (kind, (a.x,), {}) if kind else ours.own(a, "pow", operands=(a.x, second))


def binary(a: Arguments, kind: str) -> Made:
    """Make a binary operation; before version 7 of ONNX an attribute gave the axes of the second
    operand."""
    old = a.get("broadcast") or a.get("axis")
    if old or a.get("alpha", default=1) != 1:
        refuse()
    second = a.get(1, "other")
    return (kind, (a.x, second), {}) if second is not None else refuse()


def many(a: Arguments, kind: str) -> Made:
    """Make an operation of any number of operands, as ONNX has them."""
    if "other" in a.values or a.get("broadcast") or a.get("axis"):
        return binary(a, kind)
    operands = tuple(a.values[n] for n in range(len(a.values)) if n in a.values)
    if len(operands) == 1:
        return "identity", operands, {}
    if len(operands) == 2 and kind != "mean":
        return kind, operands, {}
    return "many", operands, {"kind": kind}


def identity(a: Arguments) -> Made:
    """Lower an identity, and a dropout that does not drop: ONNX has a third operand for that."""
    drops = (a.get("train") and a.get("p")) or a.number("training_mode", 2)
    return refuse("it drops elements") if drops else ("identity", (a.x,), {})


def expand(a: Arguments) -> Made:
    if 1 in a.values:  # ONNX: the lengths are those of the result
        return "expand", (a.x,), {}
    sizes = zip(a.dims, a.get("size"), strict=False)
    same = len(a.get("size")) == len(a.dims) and all(size in (-1, n) for n, size in sizes)
    return ("identity" if same else "expand"), (a.x,), {}


def reshape(a: Arguments) -> Made:
    """Make a reshape, if the number of the result's elements is known: the lengths follow from the
    result."""
    a.get("axis")
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
    """Make a padding with a constant; one of zero elements is the tensor itself."""
    if "pad" in a.values:  # ATen: the last axis first, before and after each
        pairs = a.get("pad")
        lengths = dict(zip(range(len(a.dims) - 1, -1, -1), _pairs(pairs), strict=False))
        value = a.get("value", default=0.0) or 0.0
    else:
        pads = a.numbers("pads", 1, "paddings") or ()
        axes = a.numbers("axes", 3) or range(len(a.dims))
        half = len(pads) // 2
        lengths = {
            a.axis(axis): (pads[n], pads[n + half]) for n, axis in enumerate(axes) if n < half
        }
        value = (a.number("value", 2, "constant_value") or 0.0) if a.get("value", 2) else 0.0
    if a.get("mode", default="constant") != "constant":
        refuse(f"it pads by {a.get('mode')}")
    around = [lengths.get(axis, (0, 0)) for axis in range(len(a.dims))]
    if not any(map(any, around)):
        return "identity", (a.x,), {}
    if min(map(min, around)) < 0:
        refuse("a padding below 0, which cuts")
    return "pad", (a.x,), {"around": tuple(around), "value": float(value)}


def _pairs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    return [(int(one), int(other)) for one, other in zip(numbers[::2], numbers[1::2], strict=True)]


def select(a: Arguments) -> Made:
    """Take indices of an axis; a single known one is a slice."""
    if not a.is_constant(1, "index"):
        return "gather", (a.x, a.get(1, "index")), {"axis": a.axis(a.get("axis", "dim", default=0))}
    axis, index = a.axis(a.get("axis", "dim", default=0)), a.numbers(1, "index") or ()
    if len(index) != 1:
        return "gather", (a.x, a.get(1, "index")), {"axis": axis}
    return "select", (a.x,), {"axis": axis, "start": a.axis(index[0], int(a.dims[axis]))}


def index(a: Arguments) -> Made:
    """Take the rows that an index of one axis names."""
    found = [(axis, each) for axis, each in enumerate(a.get("indices")) if each is not None]
    if len(found) != 1:
        refuse("indices of several axes")
    return "gather", (a.x, found[0][1]), {"axis": found[0][0]}


def embedding(a: Arguments) -> Made:
    return "gather", (a.get("weight"), a.get("indices")), {"axis": 0}


def split(a: Arguments, kind: str) -> Made:
    return kind, (a.x,), {"axis": a.axis(a.get("axis", "dim", default=0))}


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
    Row(partial(softmax, kind="softmax"), "Softmax", "softmax.int _softmax"),
    Row(partial(softmax, kind="log_softmax"), "LogSoftmax", "log_softmax.int _log_softmax"),
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
    Row(partial(unary, kind="cast"), "Cast CastLike", "to.dtype _to_copy type_as"),
    *(
        Row(partial(binary, kind=kind), names, f"{kind}*.Tensor {kind}*.Scalar")
        for kind, names in {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}.items()
    ),
    Row(partial(many, kind="add"), "Sum", ""),
    Row(partial(many, kind="mean"), "Mean", ""),
    Row(partial(many, kind="max_op"), "Max", "maximum"),
    Row(partial(many, kind="min_op"), "Min", "minimum"),
    *(Row(partial(ours.own, operator=name), onnx, aten) for name, onnx, aten in ours.PLAIN),
    *(Row(partial(ours.compare, kind=kind), onnx, aten) for kind, onnx, aten in ours.COMPARED),
    Row(partial(ours.own, operator="hard_sigmoid", words=ours.HARD_SIGMOID), "HardSigmoid", ""),
    Row(ours.selu, "Selu", "selu*"),
    Row(ours.celu, "Celu", ""),
    Row(ours.thresholded, "ThresholdedRelu", ""),
    Row(ours.is_infinite, "IsInf", "isinf"),
    Row(ours.mod, "Mod", ""),
    Row(ours.where, "Where", "where.self"),
    Row(partial(reduce, kind="log_sum"), "ReduceLogSum", ""),
    Row(partial(reduce, kind="sum_square"), "ReduceSumSquare", ""),
    Row(partial(reduce, kind="logsumexp"), "ReduceLogSumExp", "logsumexp"),
    Row(partial(ours.along, operator="argmax", select_last_index=0), "ArgMax", ""),
    Row(partial(ours.along, operator="argmin", select_last_index=0), "ArgMin", ""),
    Row(partial(ours.along, operator="cumsum", exclusive=0, reverse=0), "CumSum", "cumsum"),
    Row(partial(ours.along, operator="cumprod", exclusive=0, reverse=0), "CumProd", "cumprod"),
    Row(ours.top, "TopK", ""),
    Row(ours.concat, "Concat", "cat concat"),
    Row(partial(ours.space, operator="depth_to_space"), "DepthToSpace", ""),
    Row(partial(ours.space, operator="space_to_depth"), "SpaceToDepth", ""),
    Row(ours.triangle, "Trilu", ""),
    Row(partial(ours.own, operator="lrn", words=ours.LRN), "LRN", ""),
    Row(ours.lp_normalization, "LpNormalization", ""),
    Row(ours.instance_norm, "InstanceNormalization", ""),
    *(
        Row(partial(ours.recurrent, operator=kind), kind.upper(), "")
        for kind in ("rnn", "lstm", "gru")
    ),
    Row(partial(ours.loss, kind="cross_entropy"), "SoftmaxCrossEntropyLoss", ""),
    Row(partial(ours.loss, kind="nll"), "NegativeLogLikelihoodLoss", ""),
    Row(ours.attention, "Attention", ""),
    Row(ours.swiglu, "SwiGLU", ""),
    Row(embedding, "", "embedding"),
    Row(index, "", "index.Tensor"),
    Row(select, "", "index_select"),
    Row(ours.ordered, "", "argsort argsort.stable"),
    Row(ours.prelu, "PRelu", "prelu _prelu_kernel"),
    Row(ours.gather_elements, "GatherElements", ""),
    Row(identity, "Identity Dropout", "contiguous clone alias detach lift_fresh_copy"),
    Row(identity, "", "dropout* feature_dropout* alpha_dropout* feature_alpha_dropout*"),
    Row(expand, "Expand", "expand"),
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
    Row(pad, "Pad", "pad constant_pad_nd"),
    Row(ours.roll, "", "roll"),
    Row(ours.resize, "Resize Upsample", "upsample_nearest#d.vec"),
    Row(partial(ours.resize, mode="linear"), "", "upsample_bilinear2d.vec"),
    Row(ours.grouped_product, "", "_grouped_mm"),
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


def made(table: Mapping[str, Callable[[Arguments], Made]], name: str, a: Arguments) -> Made | str:
    """Return the call, or the reason why no graph does it with these arguments."""
    try:
        found = table[name](a)
        unread = a.unread() if a.places else []
        return f"its attribute {unread[0]}" if unread else found
    except InexpressibleError as error:
        return str(error) or "no operation of hipDNN does this with its attributes"
