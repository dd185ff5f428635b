"""Models of PyTorch through `torch.export`: ATen calls into calls of ours."""

from __future__ import annotations

import importlib.util
import logging
import math
import sys
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.models.arguments import Arguments
from bench_run.models.calls import ATEN, made
from bench_run.models.model import Model, ModelCall

if TYPE_CHECKING:
    from bench_run.models.arguments import Made
    from bench_run.models.model import Array


STEPS = {
    "torch.float64": 2**-52,
    "torch.float32": 2**-23,
    "torch.float16": 2**-10,
    "torch.bfloat16": 2**-7,
}
"""Type to the distance between 1 and the next number."""
NORM = "_native_batch_norm_legit_no_training"
FILLED = ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
"""Operations that read no values of their operand."""
MOST_FOLDED_BYTES = 2**28
"""Largest result that is computed when a model is read."""
TYPES = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}
"""Types of graphs in PyTorch's spelling; others have the same names in both."""


def read_torch(where: str, inputs: tuple[tuple[tuple[int, ...], str], ...]) -> Model:
    """Return the model that ``module.py:function`` makes, for inputs of these dims and types."""
    import torch

    module, name = _make_model(where)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"--torch {where}: returned {type(module).__name__}, no torch.nn.Module")
    data_type = next((of for _, of in inputs if of in TYPES), _own_type(module))
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


def _own_type(module: Any) -> str:
    """Return the type of the model's parameters, as graphs spell it; float without parameters."""
    names = {f"torch.{own}": ours for ours, own in TYPES.items()}
    return next(
        (names[k] for k in map(str, (p.dtype for p in module.parameters())) if k in names), "float"
    )


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
    """Return the model of an ``ExportedProgram``; what depends on no input is computed here."""
    exported = _without_writes(exported)
    signature = exported.graph_signature
    tensors = {**exported.state_dict, **exported.constants}
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    reader = _ExportReader({node: tensors[target] for node, target in targets.items()})
    for node in exported.graph.nodes:
        reader.add(node)
    return Model(
        name=name,
        data_type=data_type,
        calls=tuple(reader.calls),
        dims=reader.dims,
        types=reader.types,
        inputs=tuple(map(str, signature.user_inputs)),
        outputs=tuple(map(str, signature.user_outputs)),  # writes into buffers are not results
        weights=reader.weights,
    )


def _without_writes(exported: Any) -> Any:
    """Replace calls that write into their inputs with calls that have results: the changed memory
    may be read under another name, as a view or later."""
    import torch

    targets = (node.target for node in exported.graph.nodes)
    known = (each for each in targets if isinstance(each, torch._ops.OpOverload))
    if not any(each._schema.is_mutable for each in known):
        return exported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exported.run_decompositions({})


def _is_operation(node: Any) -> bool:
    """Return True for calls that compute; others check shapes and types, or take a norm's
    result."""
    if node.op != "call_function" or str(node.target).startswith("aten._assert"):
        return False
    return not ("getitem" in str(node.target) and NORM in str(node.args[0].target))


def _outputs(node: Any) -> tuple[str, ...]:
    """Return names of the results; of a batch norm, whose statistics are empty, the first one."""
    if NORM in str(node.target):
        return tuple(user.name for user in node.users if user.args[1] == 0) or (node.name,)
    several = isinstance(node.meta.get("val"), (list, tuple))
    parts = range(len(node.meta["val"])) if several else ()
    return tuple(f"{node.name}.{i}" for i in parts) or (node.name,)


def _held_once(tensor: Any, known: dict[object, Array]) -> Array:
    """Return one array for all names of a tensor, which models may share between modules."""
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


@dataclass
class _ExportReader:
    """The nodes of a graph, one after the other."""

    known: dict[str, Any]
    """Node to its value, if that is the same for all inputs."""
    calls: list[ModelCall] = field(default_factory=list)
    dims: dict[str, tuple[int, ...]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    """Data types as graphs spell them; others in PyTorch's own word."""
    weights: dict[str, Array] = field(default_factory=dict)
    arrays: dict[object, Array] = field(default_factory=dict)

    def add(self, node: Any) -> None:
        self._describe(node, node.name)
        if node.op == "call_function" and self._fold(node):
            pass
        elif _is_operation(node):
            self.calls.append(self._call(node))
        self._hold(node.name, self.known.get(node.name))

    def _describe(self, node: Any, name: str) -> None:
        """Store the dims and type of the node's value, or of each of its values."""
        names = {f"torch.{own}": ours for ours, own in TYPES.items()}
        for part_name, part in _parts(name, node.meta.get("val")):
            if hasattr(part, "shape"):
                self.dims[part_name] = _fixed(node, part)
                kind = str(part.dtype)
                self.types[part_name] = names.get(kind, kind.removeprefix("torch."))

    def _hold(self, name: str, value: Any) -> None:
        for part_name, part in _parts(name, value):
            if hasattr(part, "data_ptr"):
                self.weights[part_name] = _held_once(part, self.arrays)

    def _fold(self, node: Any) -> bool:
        """Return True if the node reads only known values and is computed now."""
        import torch

        name = str(node.target).removesuffix(".default").removeprefix("aten.")
        known = all(each.name in self.known for each in node.all_input_nodes)
        tags = getattr(node.target, "tags", ())
        drawn = torch.Tag.nondeterministic_seeded in tags or "empty" in name
        if drawn or not _is_small(node):
            return False
        if not known and name not in FILLED:
            return False
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self._value)
        try:
            with torch.no_grad():
                self.known[node.name] = node.target(*args, **kwargs)
        except (RuntimeError, TypeError, NotImplementedError):  # of a device that is not here, say
            return False
        return True

    def _value(self, node: Any) -> Any:
        """Return the node's value; one of its shape and type if it is not known."""
        import torch

        if node.name in self.known:
            return self.known[node.name]
        example = node.meta["val"]
        return torch.empty(example.shape, dtype=example.dtype)

    def _call(self, node: Any, prefix: str = "") -> ModelCall:
        """Return the call, or one of unknown kind with the calls that PyTorch makes of it as
        parts."""
        target, name = str(node.target), _readable(node)
        outputs = tuple(prefix + each for each in _outputs(node))
        if "getitem" in target and not target.startswith("aten"):
            whole, index = node.args
            part = f"{prefix}{whole.name}.{index}"
            return ModelCall("identity", name, (part,), outputs, {}, "getitem")
        own = target.removesuffix(".default").removeprefix("aten.")
        found: Made | str = "no operation of hipDNN does this"
        if own in ATEN:
            found = made(ATEN, own, self._arguments(node, prefix))
            if not isinstance(found, str) and not all(map(_is_operand, found[1])):
                found = "no operation of hipDNN does this with its attributes"
        if isinstance(found, str):
            operands = tuple(prefix + a.name for a in node.all_input_nodes)
            parts = () if prefix else self._taken_apart(node, name)
            why = found.replace("its attributes", "its arguments")
            unknown = {"reason": why, "flops": _flops(node)}
            return ModelCall("unknown", name, operands, outputs, unknown, target, parts)
        kind, operands, attributes = found
        read = tuple(
            value if value is None or isinstance(value, (int, float)) else prefix + str(value.name)
            for value in operands
        )
        return ModelCall(kind, name, read, outputs, attributes, target)

    def _taken_apart(self, node: Any, name: str) -> tuple[ModelCall, ...]:
        """Return the calls that PyTorch makes of one, if graphs may express all of them."""
        traced = _traced(node)
        if traced is None:
            return ()
        prefix = f"{node.name}."
        reads = dict(zip(traced.find_nodes(op="placeholder"), node.all_input_nodes, strict=True))
        inner = [each for each in traced.nodes if each.op == "call_function"]
        calls = []
        for each in (*reads, *inner):
            self._describe(each, prefix + each.name)
            if each in reads:
                source = (reads[each].name,)
                calls.append(ModelCall("identity", name, source, (prefix + each.name,)))
            else:
                calls.append(replace(self._call(each, prefix), name=name))
        if any(call.kind == "unknown" for call in calls):
            return ()
        (result,) = traced.output_node().args
        several = isinstance(result, (list, tuple))
        outputs = dict(zip(_outputs(node), result if several else (result,), strict=True))
        calls += [
            ModelCall("identity", name, (prefix + each.name,), (own,))
            for own, each in outputs.items()
            if each is not None
        ]
        return tuple(calls)

    def _arguments(self, node: Any, prefix: str) -> Arguments:
        """Return all arguments by the names of the operation's schema."""
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
            known=lambda operand: self.weights.get(prefix + operand.name),
            unit=lambda operand: STEPS[str(operand.meta["val"].dtype)],
        )


def _parts(name: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """Return (name, value) for each of a node's values; several are numbered."""
    if isinstance(value, (list, tuple)):
        return tuple((f"{name}.{i}", part) for i, part in enumerate(value))
    return ((name, value),)


def _is_small(node: Any) -> bool:
    values = [part for _, part in _parts("", node.meta.get("val")) if hasattr(part, "shape")]
    sizes = [math.prod(_fixed(node, each)) * each.element_size() for each in values]
    return bool(sizes) and sum(sizes) <= MOST_FOLDED_BYTES


def _examples(node: Any) -> tuple[Any, Any]:
    """Return the node's arguments as tensors without data."""
    import torch

    found: tuple[Any, Any] = torch.fx.node.map_arg(
        (node.args, node.kwargs), lambda each: each.meta["val"]
    )
    return found


def _traced(node: Any) -> Any:
    """Return the graph that PyTorch makes of one operation; None if that is the operation
    itself."""
    import torch
    from torch._decomp import decomposition_table
    from torch.fx.experimental.proxy_tensor import make_fx

    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    table = {
        key: rule
        for key, rule in decomposition_table.items()
        if str(key).removesuffix(".default").removeprefix("aten.") not in ATEN
    }

    def call(*tensors: Any) -> Any:
        by_node = dict(zip(node.all_input_nodes, tensors, strict=True))
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), by_node.__getitem__)
        return node.target(*args, **kwargs)

    try:
        tensors = [each.meta["val"] for each in node.all_input_nodes]
        graph = make_fx(call, decomposition_table=table)(*tensors).graph
    except Exception:  # foreign: whatever a rule of PyTorch raises
        return None
    graph.eliminate_dead_code()
    targets = [each.target for each in graph.nodes if each.op != "placeholder"]
    return None if node.target in targets or len(targets) < 2 else graph


def _flops(node: Any) -> int | None:
    """Return the floating-point operations of a call by PyTorch's count; None if it lacks one, as
    for loops, branches and unknown operators."""
    from torch.utils.flop_counter import FlopCounterMode

    try:
        args, kwargs = _examples(node)
        with FlopCounterMode(display=False) as counted:
            node.target(*args, **kwargs)
    except Exception:  # foreign: a loop or a branch of the model, or an operation without a rule
        return None
    total = int(counted.get_total_flops())
    return total if total or str(node.target).startswith(("aten.", "<built-in")) else None


def _readable(node: Any) -> str:
    """Return the innermost module's path, which is what people call the layer."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    path = paths[-1].removeprefix("L['self'].") if paths else ""
    return path or node.name


def _is_operand(value: Any) -> bool:
    """Return True for a value of the graph, a number or None; others are complex numbers, say."""
    return value is None or isinstance(value, (int, float)) or hasattr(value, "name")
