"""Models of PyTorch through `torch.export`: ATen calls into calls of ours."""

from __future__ import annotations

import importlib.util
import logging
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.models.calls import ATEN, Arguments, made
from bench_run.models.model import Model, ModelCall

if TYPE_CHECKING:
    from bench_run.models.model import Array


STEPS = {
    "torch.float64": 2**-52,
    "torch.float32": 2**-23,
    "torch.float16": 2**-10,
    "torch.bfloat16": 2**-7,
}
"""Type to the distance between 1 and the next number."""
NORM = "_native_batch_norm_legit_no_training"
TYPES = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}
"""Types of graphs in PyTorch's spelling; others have the same names in both."""


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
    """Names of the results; of a batch norm, whose statistics are empty, the first one."""
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
    outputs, own = _outputs(node), target.removesuffix(".default").removeprefix("aten.")
    found = made(ATEN, own, _arguments(node)) if own in ATEN else None
    if found is None or not all(map(_is_operand, found[1])):
        operands = tuple(a.name for a in node.all_input_nodes)
        why = "no operation of hipDNN does this"
        unknown = {"reason": f"{why} with its arguments" if own in ATEN else why}
        return ModelCall("unknown", name, operands, outputs, unknown, target)
    kind, operands, attributes = found
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

    values = dict(node.kwargs)
    if isinstance(node.target, torch._ops.OpOverload):
        schema = node.target._schema
        names = [argument.name for argument in schema.arguments]
        values = {argument.name: argument.default_value for argument in schema.arguments}
        values |= {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return Arguments(
        values,
        shape=lambda operand: tuple(operand.meta["val"].shape),
        known=lambda _operand: None,
        unit=lambda operand: STEPS[str(operand.meta["val"].dtype)],
    )


def _is_operand(value: Any) -> bool:
    """A value of the graph, a number or nothing; others are complex numbers, say."""
    return value is None or isinstance(value, (int, float)) or hasattr(value, "name")
