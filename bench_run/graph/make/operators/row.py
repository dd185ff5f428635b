"""An operator beyond hipDNN's nodes: one row that says all about it.

A row gives formulas as texts. `bench_run.operators` turns them into functions: NumPy's names mean
NumPy in the reference and in the engine ``numpy``, PyTorch's mean PyTorch in the engine ``torch``.
So one text serves both where both libraries have the function, and the row loads neither.

A row makes up to three operations for ``--op``::

    sin             y = sin(x)
    sin_bwd         dx from dy and what the gradient's formula reads
    sin_fwd_bwd     y and dx in one execution: by autograd in PyTorch

Each is a graph of one custom node of hipDNN's format, whose id is ``bench_run.NAME``.
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.make.build import Value
from bench_run.graph.make.parameters import SpecParameter
from bench_run.graph.make.recipes.recipe import DTYPE, Recipe
from bench_run.graph.model import CustomOperation
from bench_run.graph.operations.base import spreads

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.graph.make.build import Builder
    from bench_run.graph.make.parameters import Kind, Params

TYPE = "CustomOpAttributes"
PREFIX = "bench_run."
"""Before the name of an operator in the id of its node."""
FORWARD, BACKWARD, JOINT = "fwd", "bwd", "joint"
CLASSES = ("common", "small", "large", "skewed")
SUFFIXES = {FORWARD: "", BACKWARD: "_bwd", JOINT: "_fwd_bwd"}
FLOATS = ("float", "half", "bfloat16", "double")
WIDE = ("float", "double")
WHOLE = ("int64", "int32")
TYPES = {
    "floats": FLOATS,
    "wide": WIDE,
    "whole": WHOLE,
    "numbers": (*FLOATS, *WHOLE),
    "wide_and_whole": (*WIDE, *WHOLE),
}
"""Groups of data types of the table; the first of a group is the default."""
_WORDS: Mapping[str, Any] = {
    "len": len,
    "prod": math.prod,
    "min_of": min,
    "along": lambda dims, axis, n: (*dims[: axis % len(dims)], n, *dims[axis % len(dims) + 1 :]),
    "spreads": spreads,
    "zip": zip,
    "widths": lambda given, dims: given or (2,) * len(dims),
    "left": lambda how, *dims: {"none": dims, "rows": dims[:1]}.get(how, (1,)),
}
"""Functions that expressions of lengths may use."""


@dataclass(frozen=True)
class Port:
    """A tensor of an operator with the lengths and the filling of one graph."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    init: str | None = None


@dataclass(frozen=True)
class Operator:
    """A row. Texts of lengths and formulas may use the parameters by name."""

    name: str
    family: str
    text: str
    """The forward formula; several outputs are a tuple."""
    inputs: Mapping[str, str]
    """Name → ``LENGTHS [| TYPE] [| FILLING]``; without a type that of the graph."""
    outputs: Mapping[str, str]
    params: Mapping[str, Any]
    """Parameter → default, of the common shape."""
    choices: Mapping[str, tuple[str, ...]]
    """Parameter → the words that it takes."""
    shapes: tuple[str, ...]
    """The items of the common, small, large and skewed shape; those missing are the common one."""
    dtypes: tuple[str, ...]
    summary: str = ""
    torch: str | None = None
    """PyTorch's text where it differs."""
    numpy: str | None = None
    """NumPy's text where that of the reference differs: random operators."""
    grads: Mapping[str, str] = field(default_factory=dict)
    """Input → formula of its gradient, of inputs, outputs and ``dy``; one text under ``*`` gives
    all as a tuple, by inputs of `differentiable`."""
    differentiable: tuple[str, ...] = ()
    torch_grads: Mapping[str, str] = field(default_factory=dict)
    kept: str = "uniform:0.1:0.9"
    """Filling of an output that the gradient's formula reads."""
    hipdnn: bool = False
    """True if a node of hipDNN does the forward operation; its recipe then makes the graph."""
    axes: int | None = None
    """Number of lengths in ``dims``; None: any."""
    check: Sequence[str] = ()
    """A condition of the parameters, and what to say if it does not hold."""
    flops: str | int = 1
    """Number for each element of the largest tensor, or a text: the steps of the formula as
    `graph/operations/pointwise.py` counts them, work on a reduced tensor left out. Moving data
    and truth values is none."""
    grad_flops: str | int | None = None
    """The same of all gradients."""
    bytes: str | None = None
    """Bytes that the forward operation moves, where not every tensor is moved as a whole; ``size``
    is that of an element, ``position`` that of an index."""
    terms: str = "1"
    """Numbers that one result sums up."""
    tolerance: Mapping[str, str] = field(default_factory=dict)
    """``rtol`` and ``atol``, where that of the reference's rounding errors does not fit; ``u`` is
    one rounding of the type."""
    drawn: Sequence[str] = ()
    """Mean and standard deviation of the values, of random operators, and the kurtosis where it is
    above that of a normal distribution."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """``numpy``, or PyTorch's ``cpu`` or ``cuda`` → why it does not run the operator."""
    aliases: tuple[str, ...] = ()

    @cached_property
    def gradients(self) -> tuple[str, ...]:
        """Inputs that have a gradient."""
        return self.differentiable or tuple(self.grads)

    @property
    def float_types(self) -> tuple[str, ...]:
        return tuple(name for name in self.dtypes if name in FLOATS)

    @property
    def directions(self) -> tuple[str, ...]:
        given = (BACKWARD, JOINT) if self.gradients else ()
        return given if self.hipdnn else (FORWARD, *given)

    def names(self, direction: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return names of the tensors that the operation reads and of those that it writes."""
        made = tuple(f"d{name}" for name in self.gradients)
        if direction == FORWARD:
            return tuple(self.inputs), tuple(self.outputs)
        if direction == JOINT:
            return (*self.inputs, "dy"), (*self.outputs, *made)
        words = set(re.findall(r"[A-Za-z_]\w*", " ".join(self.grads.values())))
        read = (name for name in (*self.inputs, *self.outputs) if name in words)
        return (*read, "dy"), made

    def ports(self, direction: str, params: Params) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """Return the tensors of one graph. Raises `UsageError` if the parameters do not fit."""
        try:
            said = self._misfit(params)
            if said:
                raise UsageError(f"{self.name}: {said}")
            reads, writes = self.names(direction)
            return (
                tuple(self._port(name, params) for name in reads),
                tuple(self._port(name, params) for name in writes),
            )
        except IndexError:
            what = f"dims={_shown(params['dims'])}: too few lengths"
            raise UsageError(f"{self.name}: {what}") from None

    def _misfit(self, params: Params) -> str:
        axes, axis = len(params.get("dims") or ()), int(params.get("axis") or 0)
        if axes and not -axes <= axis < axes:
            return f"axis={axis}: dims={_shown(params['dims'])} has {axes} axes"
        if self.axes not in (None, axes):
            return f"dims={_shown(params['dims'])}: expected {self.axes} lengths"
        if self.check and not _value(self.check[0], params):
            return self.check[1].format(**{key: _shown(value) for key, value in params.items()})
        return ""

    def _port(self, name: str, params: Params) -> Port:
        text = self.inputs.get(name, self.outputs.get(name))
        init: str | None = self.kept if name in self.outputs else None
        if text is None:  # dy is like the first output, dNAME like NAME
            like = next(iter(self.outputs.values())) if name == "dy" else self.inputs[name[1:]]
            text, init = like.split("|")[0], None
        lengths, *rest = (part.strip() for part in text.split("|"))
        dims = _value(lengths, params)
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        if min(dims, default=1) < 1:
            raise UsageError(f"{self.name}: {name} would have dims {_shown(dims)}")
        dtype = params["dtype"]
        for part in rest:
            kind, *numbers = part.split(":")
            if numbers:
                init = ":".join((kind, *(str(_value(number, params)) for number in numbers)))
            else:
                dtype = params.get(part, part)
        return Port(name, dims or (1,), dtype, init if name in self.inputs or init else None)

    def lengths_of(
        self, shapes: Mapping[str, tuple[int, ...]], given: Params | None = None
    ) -> dict[str, str]:
        """Return parameters, as texts, for the shapes of some inputs. `given`: further parameters,
        for which these have to fit.

        Raises `UsageError` if a shape does not fit, with the port and its rule.
        """
        found: dict[str, tuple[int, ...]] = {}
        for port, dims in shapes.items():
            rule = self.inputs[port].split("|")[0].strip()
            names = [rule] if rule == "dims" else [part.strip() for part in rule.split(",")]
            if not all(name in self.params for name in names):
                continue  # follows from the others
            if rule == "dims":
                parts: list[tuple[int, ...]] = [dims]
            else:
                parts = [(length,) for length in dims]
            pairs = dict(zip(names, parts, strict=False))
            if len(parts) != len(names) or any(found.get(k, v) != v for k, v in pairs.items()):
                known = ", ".join(f"{k}={_shown(v)}" for k, v in found.items()) or "any lengths"
                what = f"{port} has {_shown(dims)}, expected ({rule}) with {known}"
                raise UsageError(f"{self.name}: {what}")
            found |= pairs
        params = {**self.params, **{k: v if k == "dims" else v[0] for k, v in found.items()}}
        params |= given or {}
        self.ports(FORWARD, {"dtype": self.dtypes[0], **params})
        for port, dims in shapes.items():
            want = self._port(port, {"dtype": self.dtypes[0], **params}).dims
            if "rhs_dims" not in self.inputs[port] and want != dims:
                rule = self.inputs[port].split("|")[0].strip()
                what = f"{port} has {_shown(dims)}, expected {_shown(want)}: {rule}"
                raise UsageError(f"{self.name}: {what}")
        texts = {key: _shown(value) for key, value in found.items()}
        second = next((d for p, d in shapes.items() if "rhs_dims" in self.inputs[p]), None)
        return (
            texts if second in (None, found.get("dims")) else {**texts, "rhs_dims": _shown(second)}
        )

    def custom(self, direction: str, params: Params) -> CustomOperation:
        """Return the meaning of the node, which hipDNN's format does not hold."""
        reads, _ = self.ports(direction, params)
        kind = DTYPES[params["dtype"]]
        known = {**params, "u": kind.unit_roundoff, "size": kind.bytes}
        tolerance: dict[str, Any] = {
            key: float(_value(text, known)) for key, text in self.tolerance.items()
        }
        if self.drawn:
            tolerance["drawn"] = tuple(float(_value(text, known)) for text in self.drawn)
        known["position"] = DTYPES[params.get("index", "int64")].bytes
        moved = self.bytes if direction == FORWARD else None
        return CustomOperation(
            file="",
            inputs=tuple(port.name for port in reads),
            tolerance=tolerance,
            flops=self._count(direction, params),
            moved_bytes=None if moved is None else int(_value(moved, known)),
            terms=int(_value(self.terms, params)),
            init={port.name: port.init for port in reads if port.init is not None},
        )

    def _count(self, direction: str, params: Params) -> int | None:
        """Return the floating-point operations of one execution; None if the row does not say."""
        texts = {FORWARD: (self.flops,), BACKWARD: (self.grad_flops,)}
        ports = (port for ports in self.ports(FORWARD, params) for port in ports)
        largest = max(math.prod(port.dims) for port in ports)
        total = 0
        for text in texts.get(direction, (self.flops, self.grad_flops)):
            if text is None:
                return None
            total += text * largest if isinstance(text, int) else int(_value(text, params))
        return total

    def recipe(self, direction: str) -> Recipe:
        """Return the recipe of the row for ``--op``."""
        name = self.name + SUFFIXES[direction]
        words = {BACKWARD: f"gradient of {self.name}", JOINT: f"{self.name} and its gradient"}
        common = self.shapes[:1] * len(CLASSES)
        texts = (*self.shapes, *common)[: len(CLASSES)]
        shapes = {key: (text,) for key, text in zip(CLASSES, texts, strict=True)}
        types = self.dtypes if direction == FORWARD else self.float_types
        has = self.gradients and direction == FORWARD
        return Recipe(
            name,
            self.family,
            words.get(direction, self.summary or self.text),
            partial(self._build, direction, name),
            (*map(self._parameter, self.params), DTYPE),
            shapes,
            aliases=self.aliases if direction == FORWARD else (),
            direction=direction,
            backward=(self.name + SUFFIXES[BACKWARD],) if has else (),
            joint=self.name + SUFFIXES[JOINT] if has else None,
            dtypes=types,
            complete=partial(self._complete, direction),
            defaults={"dtype": types[0]},
        )

    def _parameter(self, key: str) -> SpecParameter:
        value = self.params[key]
        kind: Kind = "float" if isinstance(value, float) else "int"
        if value is None or isinstance(value, tuple):
            kind = "dims"
        if isinstance(value, bool):
            kind = "flag"
        if key in self.choices:
            kind = "choice"
        elif value in DTYPES:
            kind = "dtype"
        is_shape = isinstance(value, tuple) or (kind == "int" and len(key) == 1)
        code = "" if key == "dims" else key
        choices = WHOLE if kind == "dtype" else self.choices.get(key, ())
        words = self.words.get(key, "")
        least = 1 if is_shape else -(10**9)
        return SpecParameter(
            key, value, words, kind, code, choices, least, shape=is_shape, always=is_shape
        )

    @property
    def words(self) -> Mapping[str, str]:
        return {"dims": "lengths", "axis": "axis", "index": "type of the positions"}

    def _complete(self, direction: str, params: Params) -> Params:
        self.ports(direction, params)
        return params

    def _build(
        self, direction: str, name: str, builder: Builder, params: Params, _: Value | None
    ) -> Value:
        reads, writes = self.ports(direction, params)
        uids = [
            builder.tensor(port.name, port.dims, data_type=port.dtype) for port in (*reads, *writes)
        ]
        kept = {key: value for key, value in params.items() if key in self.params}
        data = json.dumps({"shape": kept}, sort_keys=True)
        count = len(reads)
        builder.node(
            TYPE,
            "",
            {f"input_{i}": uid for i, uid in enumerate(uids[:count])},
            {f"output_{i}": uid for i, uid in enumerate(uids[count:])},
            {"custom_op_id": f"{PREFIX}{name}", "data": tuple(data.encode())},
            self.custom(direction, params),
        )
        first = writes[0]
        return Value(uids[count], first.dims, tuple(range(len(first.dims))), len(first.dims) - 1)


def _value(text: str, params: Params) -> Any:
    """Return the value of an expression of the table."""
    return eval(text, {"__builtins__": {}, **_WORDS, **params})  # noqa: S307 - a text of the table


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def read_table(data: bytes) -> dict[str, Operator]:
    """Return the rows of the table. ``usual`` of a category holds for its rows that say nothing
    else."""
    table = tomllib.loads(data.decode())
    shapes = table.pop("shapes")
    return {
        name: _row(name, family, {**rows.get("usual", {}), **entry}, shapes)
        for family, rows in table.items()
        for name, entry in rows.items()
        if name != "usual"
    }


def _row(name: str, family: str, entry: dict[str, Any], named: Mapping[str, list[str]]) -> Operator:
    usual = "nodes" if "hipdnn" in entry else "square"
    shapes, types = entry.pop("shapes", usual), entry.pop("types", "floats")
    shapes = named[shapes] if isinstance(shapes, str) else shapes
    lengths = (item.split("=") for item in shapes[0].split())
    params: dict[str, Any] = {
        key: tuple(map(int, text.split("x"))) if key == "dims" else int(text)
        for key, text in lengths
    }
    options = {key: None if v == "" else v for key, v in entry.pop("options", {}).items()}
    choices = {key: tuple(v) for key, v in options.items() if isinstance(v, list)}
    options |= {key: words[0] for key, words in choices.items()}
    x, y = {"x": entry.pop("x", "dims")}, {"y": entry.pop("y", "dims")}
    for short in ("grad", "torch_grad"):
        if short in entry:
            entry[f"{short}s"] = {"x": entry.pop(short)}
    within = entry.pop("within", None)
    if within is not None:  # of random values
        entry["tolerance"] = {"rtol": "0", "atol": within}
        words = f"random; each value is checked to lie within {within} of {entry['text']}"
        entry.setdefault("summary", words)
    return Operator(
        name,
        family,
        entry.pop("text"),
        entry.pop("inputs", x),
        entry.pop("outputs", y),
        {**params, **options},
        choices,
        tuple(shapes),
        TYPES[types] if isinstance(types, str) else tuple(types),
        **entry,
    )
