"""Models of PyTorch through `torch.export`: ATen calls into calls of ours."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.models.model import Call, Model

if TYPE_CHECKING:
    from bench_run.models.model import Array

Arguments = Mapping[str, Any]
Made = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Kind, operands, attributes."""

NORM = "_native_batch_norm_legit_no_training"
TYPES = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}


def read_torch(where: str, inputs: tuple[tuple[tuple[int, ...], str], ...]) -> Model:
    """The model that ``module.py:function`` makes, for inputs of these dims and types."""
    import torch

    module, name = _make_model(where)
    data_type = inputs[0][1]
    kind = getattr(torch, TYPES[data_type])
    module = module.eval().to(kind)
    arguments = tuple(torch.randn(*dims).to(getattr(torch, TYPES[of])) for dims, of in inputs)
    try:
        exported = torch.export.export(module, arguments)
    except Exception as error:  # foreign: whatever the model's code raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"--torch {where}: torch.export: {first}") from error
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
    values = [node for node in exported.graph.nodes if "val" in node.meta]
    outputs = tuple(map(str, signature.user_outputs))  # writes into buffers are no results
    return Model(
        name=name,
        data_type=data_type,
        calls=tuple(_call(node) for node in nodes),
        dims={name: dims for node in values for name, dims in _dims(node).items()},
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
        known[key] = _array(tensor)
    return known[key]


def _array(tensor: Any) -> Array:
    import torch

    plain = tensor.detach().cpu()
    found: Array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return found


def _dims(node: Any) -> dict[str, tuple[int, ...]]:
    """Of a value, and of the parts of one that is a list."""
    value = node.meta["val"]
    if isinstance(value, (list, tuple)):
        return {f"{node.name}.{i}": _fixed(node, part) for i, part in enumerate(value)}
    return {node.name: _fixed(node, value)} if hasattr(value, "shape") else {}


def _fixed(node: Any, value: Any) -> tuple[int, ...]:
    if not all(isinstance(length, int) for length in value.shape):
        shape = "x".join(map(str, value.shape))
        raise UsageError(
            f"import: the dims of {_readable(node)} ({node.target}) depend on its values: {shape}"
        )
    return tuple(value.shape)


def _call(node: Any) -> Call:
    target = str(node.target)
    name = _readable(node)
    if "getitem" in target and not target.startswith("aten"):
        whole, index = node.args
        return Call("identity", name, (f"{whole.name}.{index}",), (node.name,), {}, "getitem")
    row = TABLE.get(target.removesuffix(".default").removeprefix("aten."))
    outputs, arguments = _outputs(node), _arguments(node)
    made = None if row is None else row(arguments)
    if made is None:
        operands = tuple(a.name for a in node.all_input_nodes)
        return Call("unknown", name, operands, outputs, {}, target)
    kind, operands, attributes = made
    return Call(kind, name, tuple(map(_operand, operands)), outputs, attributes, target)


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


def _operand(value: Any) -> str | float | None:
    if value is None or isinstance(value, (int, float)):
        return value
    return str(value.name)


def _pair(value: Any, count: int) -> tuple[int, ...]:
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return found * count if len(found) == 1 else found


def _conv(a: Arguments) -> Made | None:
    if a.get("transposed") or isinstance(a["padding"], str):
        return None
    rank = len(a["weight"].meta["val"].shape) - 2
    padding = _pair(a["padding"], rank)
    attributes = {
        "stride": _pair(a["stride"], rank),
        "pad": padding,
        "pad_post": padding,
        "dilation": _pair(a["dilation"], rank),
        "groups": a["groups"],
    }
    return "conv", (a["input"], a["weight"], a["bias"]), attributes


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
    if any(have % want for have, want in zip(dims, wanted, strict=True)):
        return None
    window = tuple(int(have // want) for have, want in zip(dims, wanted, strict=True))
    return "avgpool", (a["self"],), {"window": window, "stride": window, "pad": (0,) * len(dims)}


def _mean(a: Arguments) -> Made | None:
    rank = len(a["self"].meta["val"].shape)
    axes = tuple(sorted(axis % rank for axis in a["dim"] or range(rank)))
    return "mean", (a["self"],), {"axes": axes}


def _layer_norm(a: Arguments) -> Made | None:
    last = len(a["normalized_shape"])
    return "layernorm", (a["input"], a["weight"], a["bias"]), {"eps": a["eps"], "last": last}


def _sdpa(a: Arguments) -> Made | None:
    if a["attn_mask"] is not None or a["dropout_p"]:
        return None
    attributes = {"causal": a["is_causal"], "scale": a["scale"]}
    return "sdpa", (a["query"], a["key"], a["value"]), attributes


def _permute(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "permute", (a["self"],), {"order": tuple(axis % rank for axis in a["dims"])}


def _transpose(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    one, other = (a.get(key, default) % rank for key, default in (("dim0", 0), ("dim1", 1)))
    order = list(range(rank))
    order[one], order[other] = order[other], order[one]
    return "permute", (a["self"],), {"order": tuple(order)}


def _slice(a: Arguments) -> Made | None:
    dims = a["self"].meta["val"].shape
    axis = a["dim"] % len(dims)
    start, end = a["start"] or 0, a["end"]
    length = int(dims[axis])
    begin = min(start + length if start < 0 else start, length)
    stop = length if end is None else min(end + length if end < 0 else end, length)
    if a["step"] != 1:
        return None
    return "slice", (a["self"],), {"axis": axis, "start": begin, "length": stop - begin}


def _select(a: Arguments) -> Made:
    dims = a["self"].meta["val"].shape
    axis = a["dim"] % len(dims)
    return "select", (a["self"],), {"axis": axis, "start": a["index"] % int(dims[axis])}


def _split(a: Arguments) -> Made:
    rank = len(a["self"].meta["val"].shape)
    return "split", (a["self"],), {"axis": a["dim"] % rank}


def _expand(a: Arguments) -> Made | None:
    dims = tuple(a["self"].meta["val"].shape)
    wanted = tuple(
        have if size == -1 else size for have, size in zip(dims, a["size"], strict=False)
    )
    return ("identity", (a["self"],), {}) if tuple(wanted) == dims else None


_RESHAPE = ("view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "squeeze",
            "squeeze.dim", "squeeze.dims", "unsqueeze")  # fmt: skip
_IDENTITY = ("contiguous", "clone", "dropout", "alias", "detach", "dropout_", "lift_fresh_copy")
_ACTIVATIONS = ("relu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "abs", "neg", "log", "erf")

TABLE: dict[str, Callable[[Arguments], Made | None]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _conv),
    **dict.fromkeys(("batch_norm", NORM), _batch_norm),
    **{f"{name}{tail}": _unary(name) for name in _ACTIVATIONS for tail in ("", "_")},
    **{f"silu{tail}": _unary("swish") for tail in ("", "_")},
    **{f"relu6{tail}": _unary("relu6") for tail in ("", "_")},
    "gelu": _gelu,
    **{f"{n}{t}.Tensor": _binary(n) for n in ("add", "sub", "mul", "div") for t in ("", "_")},
    "linear": lambda a: ("linear", (a["input"], a["weight"], a["bias"]), {}),
    "addmm": lambda a: ("matmul", (a["mat1"], a["mat2"], a["self"]), {}),
    "mm": lambda a: ("matmul", (a["self"], a["mat2"], None), {}),
    "bmm": lambda a: ("matmul", (a["self"], a["mat2"], None), {}),
    "matmul": lambda a: ("matmul", (a["self"], a["other"], None), {}),
    **{f"max_pool{n}d": _pool("maxpool") for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _pool("avgpool") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive for n in (1, 2, 3)},
    "mean.dim": _mean,
    "layer_norm": _layer_norm,
    "scaled_dot_product_attention": _sdpa,
    "softmax.int": lambda a: ("softmax", (a["self"],), {"axis": a["dim"]}),
    **{name: _unary("reshape") for name in _RESHAPE},
    **{name: _unary("identity") for name in _IDENTITY},
    "permute": _permute,
    "transpose.int": _transpose,
    "t": _transpose,
    "slice.Tensor": _slice,
    "select.int": _select,
    **dict.fromkeys(("split.Tensor", "split_with_sizes", "chunk"), _split),
    "unbind.int": lambda a: ("unbind", (a["self"],), {"axis": a["dim"]}),
    "expand": _expand,
}
"""ATen's operations by name (``.default`` left out); those that are not here no graph expresses."""
