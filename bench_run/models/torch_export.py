"""Models of PyTorch through `torch.export`: ATen calls into calls of ours."""

from __future__ import annotations

import importlib.util
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.models.model import Model, ModelCall

if TYPE_CHECKING:
    from bench_run.models.model import Array


# ATen's operations: a row for each that a graph, or another view of memory, can express.

Arguments = Mapping[str, Any]
"""By the names of the operation's schema."""
Made = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Kind, operands, attributes."""
Numbers = tuple[int, ...]

STEPS = {
    "torch.float64": 2**-52,
    "torch.float32": 2**-23,
    "torch.float16": 2**-10,
    "torch.bfloat16": 2**-7,
}
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


def batch_norm(a: Arguments) -> Made | None:
    if a.get("training") or a["running_mean"] is None:
        return None
    operands = (a["input"], a["weight"], a["bias"], a["running_mean"], a["running_var"])
    return "batchnorm", operands, {"eps": a["eps"]}


def _unary(kind: str, **attributes: Any) -> Callable[[Arguments], Made]:
    def make(a: Arguments) -> Made:
        return kind, (a.get("self", a.get("input")),), attributes

    return make


def gelu(a: Arguments) -> Made:
    return ("gelu_tanh" if a["approximate"] == "tanh" else "gelu"), (a["self"],), {}


def _with(kind: str, **words: str) -> Callable[[Arguments], Made]:
    """An activation with numbers of its own: words of a spec by names of arguments."""
    return lambda a: (kind, (a["self"],), {key: float(a[name]) for name, key in words.items()})


def elu(a: Arguments) -> Made | None:
    plain = (a["scale"], a["input_scale"]) == (1, 1)
    return ("elu", (a["self"],), {"alpha": float(a["alpha"])}) if plain else None


def softplus(a: Arguments) -> Made | None:
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


def powered(a: Arguments) -> Made | None:
    x, power = a["self"], float(a["exponent"])
    if power == 2.0:
        return "mul", (x, x), {}
    kind = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(power)
    return None if kind is None else (kind, (x,), {})


def _reduce(kind: str) -> Callable[[Arguments], Made]:
    def make(a: Arguments) -> Made:
        rank, axes = len(a["self"].meta["val"].shape), a.get("dim")
        given = axes if isinstance(axes, (list, tuple)) else [] if axes is None else [axes]
        return (
            kind,
            (a["self"],),
            {
                "axes": tuple(sorted(axis % rank for axis in given or range(rank))),
            },
        )

    return make


def rms_norm(a: Arguments) -> Made:
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


def adaptive(a: Arguments) -> Made | None:
    dims = a["self"].meta["val"].shape[2:]
    wanted = _pair(a["output_size"], len(dims))
    if len(wanted) != len(dims):
        return None  # without an axis of images
    if any(have % want for have, want in zip(dims, wanted, strict=True)):
        return None
    window = tuple(int(have // want) for have, want in zip(dims, wanted, strict=True))
    return "avgpool", (a["self"],), {"window": window, "stride": window, "pad": (0,) * len(dims)}


def addmm(a: Arguments) -> Made | None:
    """What is added is one number for each column."""
    columns = tuple(a["mat2"].meta["val"].shape[1:])
    plain = (a["alpha"], a["beta"]) == (1, 1)
    fits = tuple(a["self"].meta["val"].shape) in (columns, (1, *columns))
    return ("matmul", (a["mat1"], a["mat2"], a["self"]), {}) if plain and fits else None


def layer_norm(a: Arguments) -> Made | None:
    last = len(a["normalized_shape"])
    return "layernorm", (a["input"], a["weight"], a["bias"]), {"eps": a["eps"], "last": last}


def sdpa(a: Arguments) -> Made | None:
    if a["dropout_p"]:
        return None
    attributes = {"causal": a["is_causal"], "scale": a["scale"]}
    masks = () if a["attn_mask"] is None else (a["attn_mask"],)
    return "sdpa", (a["query"], a["key"], a["value"], *masks), attributes


def permute(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "permute", (a["self"],), {"order": tuple(axis % rank for axis in a["dims"])}


def _transpose(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    one, other = (a.get(key, default) % rank for key, default in (("dim0", 0), ("dim1", 1)))
    order = list(range(rank))
    order[one], order[other] = order[other], order[one]
    return "permute", (a["self"],), {"order": tuple(order)}


def transpose_last(a: Arguments) -> Made | None:
    """Of matrices both axes; ``T`` of more axes turns all of them round."""
    rank = len(a["self"].meta["val"].shape)
    return _transpose({**a, "dim0": -2, "dim1": -1}) if rank == 2 else None


def transpose_matrices(a: Arguments) -> Made:
    return _transpose({**a, "dim0": -2, "dim1": -1})


def swap(a: Arguments) -> Made:
    names = (("axis0", "axis1"), ("dim0", "dim1"))
    (pair,) = (pair for pair in names if pair[0] in a)
    return _transpose({**a, "dim0": a[pair[0]], "dim1": a[pair[1]]})


def move(a: Arguments) -> Made:
    """One axis to another place, the others in their order."""
    rank = len(a["self"].meta["val"].shape)
    source, target = a["source"] % rank, a["destination"] % rank
    order = [axis for axis in range(rank) if axis != source]
    order.insert(target, source)
    return "permute", (a["self"],), {"order": tuple(order)}


def unbind(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "unbind", (a["self"],), {"axis": a["dim"] % rank}


def dropout(a: Arguments) -> Made | None:
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


def narrow(a: Arguments) -> Made | None:
    return _slice({**a, "end": a["start"] + a["length"], "step": 1}) if a["start"] >= 0 else None


def select(a: Arguments) -> Made:
    dims = a["self"].meta["val"].shape
    axis = a["dim"] % len(dims)
    return "select", (a["self"],), {"axis": axis, "start": a["index"] % int(dims[axis])}


def split(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "split", (a["self"],), {"axis": a["dim"] % rank}


def expand(a: Arguments) -> Made | None:
    dims, sizes = tuple(a["self"].meta["val"].shape), tuple(a["size"])
    same = len(sizes) == len(dims) and all(
        size in (-1, have) for have, size in zip(dims, sizes, strict=True)
    )
    return ("identity", (a["self"],), {}) if same else None


_RESHAPE = (
    "view",
    "reshape",
    "_unsafe_view",
    "flatten.using_ints",
    "unflatten.int",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze",
    "view_as",
    "reshape_as",
)
_IDENTITY = ("contiguous", "clone", "alias", "detach", "lift_fresh_copy")
_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
_ACTIVATIONS = (
    "relu",
    "sigmoid",
    "tanh",
    "exp",
    "sqrt",
    "rsqrt",
    "abs",
    "neg",
    "log",
    "erf",
    "reciprocal",
    "floor",
    "ceil",
    "sin",
    "tan",
)

TABLE: dict[str, Callable[[Arguments], Made | None]] = {
    **{f"conv{n}d{tail}": _conv for n in (1, 2, 3) for tail in ("", ".padding")},
    "convolution": lambda a: None if any(a["output_padding"]) and not a["transposed"] else _conv(a),
    "conv_transpose1d": _conv_transpose,
    **{f"conv_transpose{n}d.input": _conv_transpose for n in (2, 3)},
    **dict.fromkeys(("batch_norm", NORM), batch_norm),
    **{f"{name}{tail}": _unary(name) for name in _ACTIVATIONS for tail in ("", "_")},
    **{f"silu{tail}": _unary("swish") for tail in ("", "_")},
    **{f"relu6{tail}": _unary("relu6") for tail in ("", "_")},
    **{f"leaky_relu{t}": _with("leaky_relu", negative_slope="slope") for t in ("", "_")},
    **{f"elu{tail}": elu for tail in ("", "_")},
    "softplus": softplus,
    **{f"hardtanh{tail}": _clip("min_val", "max_val") for tail in ("", "_")},
    **{f"clamp{tail}": _clip("min", "max") for tail in ("", "_")},
    **{f"clamp_min{tail}": _clip("min", "") for tail in ("", "_")},
    **{f"clamp_max{tail}": _clip("", "max") for tail in ("", "_")},
    "pow.Tensor_Scalar": powered,
    "gelu": gelu,
    **{
        f"{n}{t}.{of}": _binary(n)
        for n in ("add", "sub", "mul", "div")
        for t in ("", "_")
        for of in ("Tensor", "Scalar")
    },
    "maximum": _binary("max_op"),
    "minimum": _binary("min_op"),
    **dict.fromkeys(("to.dtype", "_to_copy", "type_as"), _unary("cast")),
    "linear": lambda a: ("linear", (a["input"], a["weight"], a["bias"]), {}),
    "addmm": addmm,
    "mm": lambda a: ("matmul", (a["self"], a["mat2"], None), {}),
    "bmm": lambda a: ("matmul", (a["self"], a["mat2"], None), {}),
    "matmul": lambda a: ("matmul", (a["self"], a["other"], None), {}),
    **{f"max_pool{n}d": _pool("maxpool") for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _pool("avgpool") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": adaptive for n in (1, 2, 3)},
    **dict.fromkeys(("mean", "mean.dim"), _reduce("mean")),
    **dict.fromkeys(("sum", "sum.dim_IntList"), _reduce("reduce_add")),
    "amax": _reduce("reduce_max"),
    "amin": _reduce("reduce_min"),
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "scaled_dot_product_attention": sdpa,
    **dict.fromkeys(
        ("softmax.int", "_softmax"), lambda a: ("softmax", (a["self"],), {"axis": a["dim"]})
    ),
    **{name: _unary("reshape") for name in _RESHAPE},
    **{name: _unary("identity") for name in _IDENTITY},
    **{f"{name}{tail}": dropout for name in _DROPOUTS for tail in ("", "_")},
    "permute": permute,
    "transpose.int": _transpose,
    "t": _transpose,
    "numpy_T": transpose_last,
    "mT": transpose_matrices,
    **dict.fromkeys(("swapaxes", "swapdims"), swap),
    "movedim.int": move,
    "slice.Tensor": _slice,
    "narrow": narrow,
    "select.int": select,
    **dict.fromkeys(("split.Tensor", "split_with_sizes", "chunk"), split),
    "unbind.int": unbind,
    "expand": expand,
}
"""ATen's operations by name (``.default`` left out); those that are not here no graph expresses."""


TYPES = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}
"""Of graphs, as PyTorch spells them; others it calls as they are called here."""


def read_torch(where: str, inputs: tuple[tuple[tuple[int, ...], str], ...]) -> Model:
    """The model that ``module.py:function`` makes, for inputs of these dims and types."""
    import torch

    module, name = _make_model(where)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"--torch {where}: returned {type(module).__name__}, no torch.nn.Module")
    data_type = next((of for _, of in inputs if of in TYPES), "float")
    module = module.eval().to(getattr(torch, TYPES[data_type]))
    arguments = []
    for dims, of in inputs:  # zeros of a type that counts or says yes or no: tables have such a row
        kind = getattr(torch, TYPES.get(of, of))
        is_float = of in TYPES
        made = torch.randn(*dims).to(kind) if is_float else torch.zeros(dims, dtype=kind)
        arguments.append(made)
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # PyTorch logs the trace of an error that it raises as well
    try:
        exported = torch.export.export(module, tuple(arguments))
    except Exception as error:  # foreign: whatever the model's code raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"--torch {where}: torch.export: {first}") from error
    finally:
        logger.setLevel(before)
    return model_of(exported, name, data_type)


def _make_model(where: str) -> tuple[Any, str]:
    path, colon, function = where.rpartition(":")
    if not colon or not path.endswith(".py") or not function.isidentifier():
        raise UsageError(f"--torch {where}: expected FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UsageError(f"--torch {where}: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
        make = getattr(module, function, None)
        if make is None:
            raise UsageError(f"--torch {where}: {path} has no function {function!r}")
        return make(), function.removeprefix("make_")
    except UsageError:
        raise
    except Exception as error:  # foreign: the user's own code
        raise UsageError(f"--torch {where}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)


def model_of(exported: Any, name: str, data_type: str) -> Model:
    """A model from an `ExportedProgram`."""
    exported = _without_writes(exported)
    signature = exported.graph_signature
    tensors = {**exported.state_dict, **exported.constants}
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    arrays: dict[object, Array] = {}
    weights = {node: _held_once(tensors[target], arrays) for node, target in targets.items()}
    nodes = [node for node in exported.graph.nodes if _is_operation(node)]
    names = {f"torch.{own}": ours for ours, own in TYPES.items()}
    dims: dict[str, tuple[int, ...]] = {}
    types: dict[str, str] = {}  # as graphs spell them, others in PyTorch's own word
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        several = isinstance(value, (list, tuple))
        parts = {f"{node.name}.{i}": part for i, part in enumerate(value)} if several else {}
        for part_name, part in (parts or {node.name: value}).items():
            if hasattr(part, "shape"):
                dims[part_name] = _fixed(node, part)
                kind = str(part.dtype)
                types[part_name] = names.get(kind, kind.removeprefix("torch."))
    outputs = tuple(map(str, signature.user_outputs))  # writes into buffers are no results
    return Model(
        name=name,
        data_type=data_type,
        calls=tuple(_call(node) for node in nodes),
        dims=dims,
        types=types,
        inputs=tuple(map(str, signature.user_inputs)),
        outputs=outputs,
        weights=weights,
    )


def _without_writes(exported: Any) -> Any:
    """Calls that write into what they read as calls with results: what they change may be read
    under another name, as a view or later."""
    import torch

    targets = (node.target for node in exported.graph.nodes)
    known = (each for each in targets if isinstance(each, torch._ops.OpOverload))
    if not any(each._schema.is_mutable for each in known):
        return exported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exported.run_decompositions({})


def _is_operation(node: Any) -> bool:
    """Calls that compute something; others check shapes and types, or take a norm's result."""
    if node.op != "call_function" or str(node.target).startswith("aten._assert"):
        return False
    return not ("getitem" in str(node.target) and NORM in str(node.args[0].target))


def _outputs(node: Any) -> tuple[str, ...]:
    """Of a batch norm without its statistics, which are empty: what takes the first result."""
    if NORM in str(node.target):
        return tuple(user.name for user in node.users if user.args[1] == 0) or (node.name,)
    several = isinstance(node.meta.get("val"), (list, tuple))
    parts = range(len(node.meta["val"])) if several else ()
    return tuple(f"{node.name}.{i}" for i in parts) or (node.name,)


def _held_once(tensor: Any, known: dict[object, Array]) -> Array:
    """One array for all names of a tensor, which models may share between modules."""
    key = tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype
    if key not in known:
        import torch

        plain = tensor.detach().cpu()
        found: Array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
        known[key] = found
    return known[key]


def _fixed(node: Any, value: Any) -> tuple[int, ...]:
    if not all(isinstance(length, int) for length in value.shape):
        shape = "x".join(map(str, value.shape))
        raise UsageError(
            f"import: the dims of {_readable(node)} ({node.target}) depend on its values: {shape}"
        )
    return tuple(value.shape)


def _call(node: Any) -> ModelCall:
    target = str(node.target)
    name = _readable(node)
    if "getitem" in target and not target.startswith("aten"):
        whole, index = node.args
        return ModelCall("identity", name, (f"{whole.name}.{index}",), (node.name,), {}, "getitem")
    row = TABLE.get(target.removesuffix(".default").removeprefix("aten."))
    outputs, arguments = _outputs(node), _arguments(node)
    made = None if row is None else row(arguments)
    if made is None or not all(map(_is_operand, made[1])):
        operands = tuple(a.name for a in node.all_input_nodes)
        why = "no operation of hipDNN does this"
        unknown = {"reason": why if row is None else f"{why} with its arguments"}
        return ModelCall("unknown", name, operands, outputs, unknown, target)
    kind, operands, attributes = made
    known = tuple(
        value if value is None or isinstance(value, (int, float)) else str(value.name)
        for value in operands
    )
    return ModelCall(kind, name, known, outputs, attributes, target)


def _readable(node: Any) -> str:
    """The innermost module's path, which is what people call the layer."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    path = paths[-1].removeprefix("L['self'].") if paths else ""
    return path or node.name


def _arguments(node: Any) -> Arguments:
    """All arguments by the names of the operation's schema."""
    import torch

    if not isinstance(node.target, torch._ops.OpOverload):
        return dict(node.kwargs)
    schema = node.target._schema
    names = [argument.name for argument in schema.arguments]
    defaults = {argument.name: argument.default_value for argument in schema.arguments}
    return {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}


def _is_operand(value: Any) -> bool:
    """A value of the graph, a number or nothing; others are complex numbers, say."""
    return value is None or isinstance(value, (int, float)) or hasattr(value, "name")
