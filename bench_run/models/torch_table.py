"""ATen's operations: a row for each that a graph, or another view of memory, can express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Arguments = Mapping[str, Any]
"""By the names of the operation's schema."""
Made = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Kind, operands, attributes."""
Numbers = tuple[int, ...]

STEPS = {"torch.float64": 2**-52, "torch.float32": 2**-23,
         "torch.float16": 2**-10, "torch.bfloat16": 2**-7}  # fmt: skip
"""Type to the distance between 1 and the next number."""
NORM = "_native_batch_norm_legit_no_training"


def _pair(value: Any, count: int) -> tuple[int, ...]:
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return found * count if len(found) == 1 else found


def _conv(a: Arguments) -> Made | None:
    window = tuple(a["weight"].meta["val"].shape[2:])
    dilation = _pair(a["dilation"], len(window))
    before, after = _padding(a["padding"], window, dilation)
    if not window or len(a["input"].meta["val"].shape) != len(window) + 2:
        return None  # without an axis of images
    attributes = {
        "stride": _pair(a["stride"], len(window)),
        "pad": before,
        "pad_post": after,
        "dilation": dilation,
        "groups": a["groups"],
    }
    kind = "conv_transpose" if a.get("transposed", False) else "conv"
    return kind, (a["input"], a["weight"], a["bias"]), attributes


def _padding(given: Any, window: Numbers, dilation: Numbers) -> tuple[Numbers, Numbers]:
    """Before and after each axis; of ``same`` the odd one is after."""
    if not isinstance(given, str):
        return _pair(given, len(window)), _pair(given, len(window))
    totals = [d * (w - 1) if given == "same" else 0 for w, d in zip(window, dilation, strict=True)]
    return tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)


def _conv_transpose(a: Arguments) -> Made | None:
    return _conv({**a, "transposed": True})


def _batch_norm(a: Arguments) -> Made | None:
    if a.get("training") or a["running_mean"] is None:
        return None
    operands = (a["input"], a["weight"], a["bias"], a["running_mean"], a["running_var"])
    return "batchnorm", operands, {"eps": a["eps"]}


def _unary(kind: str, **attributes: Any) -> Callable[[Arguments], Made]:
    def make(a: Arguments) -> Made:
        return kind, (a.get("self", a.get("input")),), attributes

    return make


def _gelu(a: Arguments) -> Made:
    return ("gelu_tanh" if a["approximate"] == "tanh" else "gelu"), (a["self"],), {}


def _with(kind: str, **words: str) -> Callable[[Arguments], Made]:
    """An activation with numbers of its own: words of a spec by names of arguments."""
    return lambda a: (kind, (a["self"],), {key: float(a[name]) for name, key in words.items()})


def _elu(a: Arguments) -> Made | None:
    plain = (a["scale"], a["input_scale"]) == (1, 1)
    return ("elu", (a["self"],), {"alpha": float(a["alpha"])}) if plain else None


def _softplus(a: Arguments) -> Made | None:
    """Beyond the threshold PyTorch takes the argument itself, which is the same in float32."""
    return ("softplus", (a["self"],), {"beta": float(a["beta"])}) if a["threshold"] >= 20 else None


def _clip(low: str, high: str) -> Callable[[Arguments], Made | None]:
    def make(a: Arguments) -> Made | None:
        given = {"low": a.get(low), "high": a.get(high)}
        bounds = {name: float(bound) for name, bound in given.items() if bound is not None}
        if bounds == {"low": 0.0, "high": 6.0}:
            return "relu6", (a["self"],), {}
        if "low" not in bounds:
            return ("min_op", (a["self"], bounds["high"]), {}) if bounds else None
        return "clip", (a["self"],), bounds

    return make


def _pow(a: Arguments) -> Made | None:
    x, power = a["self"], float(a["exponent"])
    if power == 2.0:
        return "mul", (x, x), {}
    kind = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(power)
    return None if kind is None else (kind, (x,), {})


def _reduce(kind: str) -> Callable[[Arguments], Made]:
    def make(a: Arguments) -> Made:
        rank, axes = len(a["self"].meta["val"].shape), a.get("dim")
        given = axes if isinstance(axes, (list, tuple)) else [] if axes is None else [axes]
        return kind, (a["self"],), {
            "axes": tuple(sorted(axis % rank for axis in given or range(rank))),
        }  # fmt: skip

    return make


def _rms_norm(a: Arguments) -> Made:
    """Without one, the smallest step of the type is what is added."""
    eps = STEPS[str(a["input"].meta["val"].dtype)] if a["eps"] is None else a["eps"]
    last = len(a["normalized_shape"])
    return "rmsnorm", (a["input"], a["weight"]), {"eps": float(eps), "last": last}


def _binary(kind: str) -> Callable[[Arguments], Made | None]:
    def make(a: Arguments) -> Made | None:
        return None if a.get("alpha", 1) != 1 else (kind, (a["self"], a["other"]), {})

    return make


def _pool(kind: str) -> Callable[[Arguments], Made | None]:
    def make(a: Arguments) -> Made | None:
        rank = len(a["self"].meta["val"].shape) - 2
        window = _pair(a["kernel_size"], rank)
        dilated = set(_pair(a.get("dilation", 1), rank)) != {1}
        if dilated or a["ceil_mode"] or a.get("divisor_override"):
            return None
        padded = kind == "avgpool" and a.get("count_include_pad", True)
        attributes = {
            "window": window,
            "stride": _pair(a["stride"], rank) if a["stride"] else window,
            "pad": _pair(a["padding"], rank),
        }
        return ("avgpool_padded" if padded else kind), (a["self"],), attributes

    return make


def _adaptive(a: Arguments) -> Made | None:
    dims = a["self"].meta["val"].shape[2:]
    wanted = _pair(a["output_size"], len(dims))
    if len(wanted) != len(dims):
        return None  # without an axis of images
    if any(have % want for have, want in zip(dims, wanted, strict=True)):
        return None
    window = tuple(int(have // want) for have, want in zip(dims, wanted, strict=True))
    return "avgpool", (a["self"],), {"window": window, "stride": window, "pad": (0,) * len(dims)}


def _addmm(a: Arguments) -> Made | None:
    """What is added is one number for each column."""
    columns = tuple(a["mat2"].meta["val"].shape[1:])
    plain = (a["alpha"], a["beta"]) == (1, 1)
    fits = tuple(a["self"].meta["val"].shape) in (columns, (1, *columns))
    return ("matmul", (a["mat1"], a["mat2"], a["self"]), {}) if plain and fits else None


def _layer_norm(a: Arguments) -> Made | None:
    last = len(a["normalized_shape"])
    return "layernorm", (a["input"], a["weight"], a["bias"]), {"eps": a["eps"], "last": last}


def _sdpa(a: Arguments) -> Made | None:
    if a["dropout_p"]:
        return None
    attributes = {"causal": a["is_causal"], "scale": a["scale"]}
    masks = () if a["attn_mask"] is None else (a["attn_mask"],)
    return "sdpa", (a["query"], a["key"], a["value"], *masks), attributes


def _permute(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "permute", (a["self"],), {"order": tuple(axis % rank for axis in a["dims"])}


def _transpose(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    one, other = (a.get(key, default) % rank for key, default in (("dim0", 0), ("dim1", 1)))
    order = list(range(rank))
    order[one], order[other] = order[other], order[one]
    return "permute", (a["self"],), {"order": tuple(order)}


def _transpose_last(a: Arguments) -> Made | None:
    """Of matrices both axes; ``T`` of more axes turns all of them round."""
    rank = len(a["self"].meta["val"].shape)
    return _transpose({**a, "dim0": -2, "dim1": -1}) if rank == 2 else None


def _transpose_matrices(a: Arguments) -> Made:
    return _transpose({**a, "dim0": -2, "dim1": -1})


def _swap(a: Arguments) -> Made:
    names = (("axis0", "axis1"), ("dim0", "dim1"))
    (pair,) = (pair for pair in names if pair[0] in a)
    return _transpose({**a, "dim0": a[pair[0]], "dim1": a[pair[1]]})


def _move(a: Arguments) -> Made:
    """One axis to another place, the others in their order."""
    rank = len(a["self"].meta["val"].shape)
    source, target = a["source"] % rank, a["destination"] % rank
    order = [axis for axis in range(rank) if axis != source]
    order.insert(target, source)
    return "permute", (a["self"],), {"order": tuple(order)}


def _unbind(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "unbind", (a["self"],), {"axis": a["dim"] % rank}


def _dropout(a: Arguments) -> Made | None:
    """At random, unless it is asked to let everything pass."""
    drops = a["train"] and a["p"]
    return None if drops else ("identity", (a["input"] if "input" in a else a["self"],), {})


def _slice(a: Arguments) -> Made | None:
    dims = a["self"].meta["val"].shape
    axis = a["dim"] % len(dims)
    start, end = a["start"] or 0, a["end"]
    length = int(dims[axis])
    begin = min(start + length if start < 0 else start, length)
    stop = length if end is None else min(end + length if end < 0 else end, length)
    if a["step"] != 1 or stop <= begin:
        return None
    return "slice", (a["self"],), {"parts": ((axis, begin, stop - begin),)}


def _narrow(a: Arguments) -> Made | None:
    return _slice({**a, "end": a["start"] + a["length"], "step": 1}) if a["start"] >= 0 else None


def _select(a: Arguments) -> Made:
    dims = a["self"].meta["val"].shape
    axis = a["dim"] % len(dims)
    return "select", (a["self"],), {"axis": axis, "start": a["index"] % int(dims[axis])}


def _split(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "split", (a["self"],), {"axis": a["dim"] % rank}


def _expand(a: Arguments) -> Made | None:
    dims, sizes = tuple(a["self"].meta["val"].shape), tuple(a["size"])
    same = len(sizes) == len(dims) and all(
        size in (-1, have) for have, size in zip(dims, sizes, strict=True)
    )
    return ("identity", (a["self"],), {}) if same else None


_RESHAPE = ("view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "squeeze",
            "squeeze.dim", "squeeze.dims", "unsqueeze", "view_as", "reshape_as")  # fmt: skip
_IDENTITY = ("contiguous", "clone", "alias", "detach", "lift_fresh_copy")
_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
_ACTIVATIONS = ("relu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "abs", "neg", "log", "erf",
                "reciprocal", "floor", "ceil", "sin", "tan")  # fmt: skip

TABLE: dict[str, Callable[[Arguments], Made | None]] = {
    **{f"conv{n}d{tail}": _conv for n in (1, 2, 3) for tail in ("", ".padding")},
    "convolution": lambda a: None if any(a["output_padding"]) and not a["transposed"] else _conv(a),
    "conv_transpose1d": _conv_transpose,
    **{f"conv_transpose{n}d.input": _conv_transpose for n in (2, 3)},
    **dict.fromkeys(("batch_norm", NORM), _batch_norm),
    **{f"{name}{tail}": _unary(name) for name in _ACTIVATIONS for tail in ("", "_")},
    **{f"silu{tail}": _unary("swish") for tail in ("", "_")},
    **{f"relu6{tail}": _unary("relu6") for tail in ("", "_")},
    **{f"leaky_relu{t}": _with("leaky_relu", negative_slope="slope") for t in ("", "_")},
    **{f"elu{tail}": _elu for tail in ("", "_")},
    "softplus": _softplus,
    **{f"hardtanh{tail}": _clip("min_val", "max_val") for tail in ("", "_")},
    **{f"clamp{tail}": _clip("min", "max") for tail in ("", "_")},
    **{f"clamp_min{tail}": _clip("min", "") for tail in ("", "_")},
    **{f"clamp_max{tail}": _clip("", "max") for tail in ("", "_")},
    "pow.Tensor_Scalar": _pow,
    "gelu": _gelu,
    **{f"{n}{t}.{of}": _binary(n) for n in ("add", "sub", "mul", "div")
       for t in ("", "_") for of in ("Tensor", "Scalar")},
    "maximum": _binary("max_op"),
    "minimum": _binary("min_op"),
    **dict.fromkeys(("to.dtype", "_to_copy", "type_as"), _unary("cast")),
    "linear": lambda a: ("linear", (a["input"], a["weight"], a["bias"]), {}),
    "addmm": _addmm,
    "mm": lambda a: ("matmul", (a["self"], a["mat2"], None), {}),
    "bmm": lambda a: ("matmul", (a["self"], a["mat2"], None), {}),
    "matmul": lambda a: ("matmul", (a["self"], a["other"], None), {}),
    **{f"max_pool{n}d": _pool("maxpool") for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _pool("avgpool") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive for n in (1, 2, 3)},
    **dict.fromkeys(("mean", "mean.dim"), _reduce("mean")),
    **dict.fromkeys(("sum", "sum.dim_IntList"), _reduce("reduce_add")),
    "amax": _reduce("reduce_max"),
    "amin": _reduce("reduce_min"),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "scaled_dot_product_attention": _sdpa,
    **dict.fromkeys(
        ("softmax.int", "_softmax"), lambda a: ("softmax", (a["self"],), {"axis": a["dim"]})
    ),
    **{name: _unary("reshape") for name in _RESHAPE},
    **{name: _unary("identity") for name in _IDENTITY},
    **{f"{name}{tail}": _dropout for name in _DROPOUTS for tail in ("", "_")},
    "permute": _permute,
    "transpose.int": _transpose,
    "t": _transpose,
    "numpy_T": _transpose_last,
    "mT": _transpose_matrices,
    **dict.fromkeys(("swapaxes", "swapdims"), _swap),
    "movedim.int": _move,
    "slice.Tensor": _slice,
    "narrow": _narrow,
    "select.int": _select,
    **dict.fromkeys(("split.Tensor", "split_with_sizes", "chunk"), _split),
    "unbind.int": _unbind,
    "expand": _expand,
}  # fmt: skip
"""ATen's operations by name (``.default`` left out); those that are not here no graph expresses."""
