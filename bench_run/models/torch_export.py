"""Models of PyTorch through `torch.export`: ATen calls into calls of ours."""

from __future__ import annotations

import importlib.util
import logging
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.models.model import Call, Model
from bench_run.models.torch_table import NORM, TABLE, Arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.models.model import Array

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
    arguments = tuple(_example(dims, of) for dims, of in inputs)
    try:
        with _silenced():
            exported = torch.export.export(module, arguments)
    except Exception as error:  # foreign: whatever the model's code raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"--torch {where}: torch.export: {first}") from error
    return model_of(exported, name, data_type)


def _example(dims: tuple[int, ...], data_type: str) -> Any:
    """Zeros of a type that counts or says yes or no: each table has such a row."""
    import torch

    kind = getattr(torch, TYPES.get(data_type, data_type))
    return torch.randn(*dims).to(kind) if data_type in TYPES else torch.zeros(dims, dtype=kind)


@contextmanager
def _silenced() -> Iterator[None]:
    """PyTorch logs the trace of an error that it raises as well."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


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
        types={name: kind for node in values for name, kind in _types(node).items()},
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


def _types(node: Any) -> dict[str, str]:
    """As graphs spell them, others in PyTorch's own word."""
    names = {f"torch.{own}": ours for ours, own in TYPES.items()}
    value = node.meta["val"]
    several = isinstance(value, (list, tuple))
    parts = {f"{node.name}.{i}": part for i, part in enumerate(value)} if several else {}
    kinds = {n: str(v.dtype) for n, v in (parts or {node.name: value}).items() if _is_tensor(v)}
    return {n: names.get(kind, kind.removeprefix("torch.")) for n, kind in kinds.items()}


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


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
    if made is None or not all(map(_is_operand, made[1])):
        operands = tuple(a.name for a in node.all_input_nodes)
        why = "no operation of hipDNN does this"
        told = {"reason": why if row is None else f"{why} with its arguments"}
        return Call("unknown", name, operands, outputs, told, target)
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


def _is_operand(value: Any) -> bool:
    """A value of the graph, a number or nothing; others are complex numbers, say."""
    return value is None or isinstance(value, (int, float)) or hasattr(value, "name")


def _operand(value: Any) -> str | float | None:
    if value is None or isinstance(value, (int, float)):
        return value
    return str(value.name)
