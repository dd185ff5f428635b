"""Functions of a user's file as kernels: which function fits a graph, and how it is called.

A plain function is matched by its parameters: each carries the name of a tensor of the graph or of
a port of its nodes. A parameter with the name of an output receives that output's memory.
Keyword-only parameters take attributes of the nodes, constants, and knobs. A function with
`kernel` as its decorator and one parameter ``p`` prepares: it returns the function that is timed.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.usage import nearest

from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.operations import BY_NAME, OPERATIONS, POINTWISE_MODES
from bench_run.graph.operations.sdpa import band
from bench_run.graph.work import family
from bench_run.user.cases import REFERENCE, TORCH, shape_of
from bench_run.user.compiled import WHOLE, is_compiled
from bench_run.user.compiled import framework_of as framework_of_compiled
from bench_run.user.source import user_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.user.source import Source

FRAMEWORKS = ("torch", "numpy", "cupy", "jax", "numba")
ANY = "any"
"""A file that imports no framework: PyTorch if it is installed, otherwise NumPy."""
MARK = "__bench_run_kernel__"
"""Attribute that the decorator sets."""
PREPARING = ("p", "problem")
"""Names of the only parameter of a function that prepares."""
STREAM = "stream"
"""Keyword-only parameter that receives the stream of the run."""
Function = Callable[..., Any]


@dataclass(frozen=True)
class Marks:
    """The arguments of the decorator."""

    pattern: str | None = None
    dtypes: tuple[str, ...] = ()
    where: Function | None = None
    knobs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    framework: str | None = None


def kernel(
    pattern: Any = None,
    *,
    dtypes: Sequence[str] = (),
    where: Function | None = None,
    knobs: Mapping[str, Sequence[Any]] | None = None,
    framework: str | None = None,
) -> Any:
    """Mark a function of a file as a kernel.

    `pattern`: a node type (``"SdpaAttributes"``, ``"sdpa"``), a chain of them
    (``"Matmul+Pointwise(RELU_FWD)"``), or None for every graph that its parameters fit. `dtypes`:
    data types that its inputs may have. `where`: a condition on the `Problem`. `knobs`: values to
    try, by name. `framework`: one of `FRAMEWORKS`; by default that which the file imports.

    With one parameter named ``p`` the function receives the `Problem`, prepares once for each plan
    and returns the function that is timed. Raises `ValueError` for an unknown framework.
    """
    if inspect.isfunction(pattern):
        return kernel()(pattern)
    if framework is not None and framework not in FRAMEWORKS:
        raise ValueError(f"@kernel: no framework {framework!r}{nearest(framework, FRAMEWORKS)}")
    tried = {name: tuple(values) for name, values in (knobs or {}).items()}
    marks = Marks(pattern, tuple(dtypes), where, tried, framework)

    def mark(function: Function) -> Function:
        setattr(function, MARK, marks)
        return function

    return mark


@dataclass(frozen=True)
class Operand:
    """A tensor of the graph, as a kernel that prepares sees it."""

    name: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    """Distances in elements."""
    data_type: str
    nbytes: int
    """Bytes of the elements."""


@dataclass
class Problem:
    """The argument of a kernel that prepares: a graph and its circumstances."""

    graph: Graph
    knobs: Mapping[str, Any]
    device: str
    """``cpu`` or ``cuda:N``."""
    stream: Any = None
    """Stream of the run, in the framework's own form; None on a processor."""
    allocate: Callable[[int], Any] | None = None
    workspace_bytes: int = 0
    """Total of the workspaces that were requested."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the nodes; of equal names that of the first node."""
        return attributes_of(self.graph)

    def __getitem__(self, name: str) -> Operand:
        tensors = names_of(self.graph)
        if name not in tensors:
            raise KeyError(f"no tensor {name!r} in the graph; known are {', '.join(tensors)}")
        t = tensors[name]
        return Operand(t.name, t.dims, t.strides, t.data_type, t.bytes)

    def workspace(self, nbytes: int) -> Any:
        """Return the memory of `nbytes` bytes, as an array of bytes of the framework."""
        assert self.allocate is not None, "only where the kernel prepares"
        self.workspace_bytes += int(nbytes)
        return self.allocate(int(nbytes))


class _OtherGraphError(UnsupportedGraphError):
    """The kernel is for other nodes."""


@dataclass(frozen=True)
class Kernel:
    """A function of a file that may run graphs."""

    name: str
    function: Function
    source: Source
    marks: Marks | None = None

    @property
    def prepares(self) -> bool:
        names = tuple(parameters_of(self.function))
        return self.marks is not None and len(names) == 1 and names[0] in PREPARING

    @property
    def signature(self) -> str:
        return f"{self.name}{inspect.signature(self.function)}"

    @property
    def framework(self) -> str:
        own = None if self.marks is None else self.marks.framework
        return own or framework_of(self.source)

    def knobs(self, graph: Graph) -> dict[str, tuple[Any, ...]]:
        """Return values to try, by name. Keyword-only parameters with a default have that one
        value, unless the graph has a tensor or an attribute of the name."""
        found = {} if self.marks is None else dict(self.marks.knobs)
        if not self.prepares:
            taken = {STREAM, *names_of(graph), *attributes_of(graph)}
            for name, parameter in parameters_of(self.function).items():
                is_knob = parameter.kind is parameter.KEYWORD_ONLY and name not in taken
                if is_knob and parameter.default is not parameter.empty:
                    found.setdefault(name, (parameter.default,))
        return found

    def fits(self, graph: Graph, knobs: Mapping[str, str]) -> None:
        """Raise `UnsupportedGraphError` with the reason if it does not run the graph."""
        marks = self.marks or Marks()
        if marks.pattern is not None and not matches(marks.pattern, graph):
            raise _OtherGraphError(f"{self.name} is for {marks.pattern}")
        types = {t.data_type for t in graph.inputs}
        if marks.dtypes and not types <= set(marks.dtypes):
            raise UnsupportedGraphError(f"{self.name} takes {', '.join(marks.dtypes)} only")
        if marks.where is not None:
            try:
                is_for = marks.where(Problem(graph, self.typed(graph, knobs), "unknown"))
            except BaseException as error:
                raise user_error(error, self.source.path) from error
            if not is_for:
                raise UnsupportedGraphError(f"{self.name}: its condition `where` is not met")
        if not self.prepares:
            bind(
                self.function, graph, self.typed(graph, knobs), by_place=self.is_named_after(graph)
            )

    @property
    def is_of_an_operation(self) -> bool:
        """True if the function has the name of an operation, so that it runs no other."""
        return (
            self.name in BY_NAME
            or {self.name, f"{self.name}_fwd"} & POINTWISE_MODES.keys() != set()
        )

    def is_named_after(self, graph: Graph) -> bool:
        return self.name in operation_names(graph)

    def typed(self, graph: Graph, knobs: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of knobs: those given as text, otherwise the first of those to try."""
        known = self.knobs(graph)
        found = {name: values[0] for name, values in known.items() if values}
        for name, text in knobs.items():
            if name not in known:
                names = ", ".join(known) or "none"
                raise UnsupportedGraphError(f"{self.name} has no knob {name!r}; known are {names}")
            found[name] = _typed(text, known[name])
        return found

    def prepare(self, problem: Problem) -> Call:
        """Return the call that runs the graph. A kernel that prepares does so now."""
        function = self.function
        if self.prepares:
            try:
                function = function(problem)
            except BaseException as error:
                raise user_error(error, self.source.path) from error
            if not callable(function):
                kind = type(function).__name__
                raise EngineError(
                    f"{self.place}: {self.name} prepares and returned a {kind}; "
                    "return the function that runs"
                )
        graph, knobs = problem.graph, {} if self.prepares else problem.knobs
        if hasattr(function, WHOLE):
            return Call(self, graph, function, bind_whole(graph))
        bound = bind(function, graph, knobs, by_place=True, stream=problem.stream)
        return Call(self, graph, function, bound)

    @property
    def place(self) -> str:
        """``my.py:12``."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        line = "" if code is None else f":{code.co_firstlineno}"
        return f"{self.source.path.name}{line}"


def _typed(text: str, values: Sequence[Any]) -> Any:
    """Return the value of a text: one of `values` if it reads like one, otherwise a literal."""
    for value in values:
        if str(value) == text:
            return value
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def names_of(graph: Graph) -> dict[str, Tensor]:
    """Return tensors in memory and constants by name; ports of the nodes if only one tensor has
    it."""
    seen = (*graph.inputs, *graph.outputs, *graph.constants)
    found = {tensor.name: tensor for tensor in seen if tensor.name}
    ports: dict[str, set[int]] = {}
    for node in graph.nodes:
        for port, uid in (*node.inputs.items(), *node.outputs.items()):
            ports.setdefault(port, set()).add(uid)
    known = {tensor.uid: tensor for tensor in seen}
    for port, uids in ports.items():
        if len(uids) == 1 and (tensor := known.get(next(iter(uids)))) is not None:
            found.setdefault(port, tensor)
    return found


def attributes_of(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in graph.nodes:
        for name, value in node.attributes.items():
            found.setdefault(name, value)
    for node in graph.nodes:
        if node.custom is not None:
            found |= shape_of(node)
        if node.type.startswith("Sdpa"):
            found |= {"attn_scale": _scale(graph, node)} if "scale" not in node.inputs else {}
            found |= _causal(graph, node)
    return found


def _scale(graph: Graph, node: Node) -> float:
    """Return the factor of the scores; 1/√(head size) where the graph stores none."""
    stored = node.attributes.get("attn_scale_value")
    return float(graph.by_uid[node.inputs["q"]].dims[-1] ** -0.5 if stored is None else stored)


def _causal(graph: Graph, node: Node) -> dict[str, bool]:
    """Return ``causal`` as a keyword: True for causal masks, False for absent ones; empty for other
    masks, which do not have such a name."""
    mask = band(node.attributes)
    q, k = (graph.by_uid[node.inputs[port]].dims[2] for port in "qk")
    if mask.left is None and mask.right is None:
        return {"causal": False}
    is_causal = mask.left is None and mask.right == 0 and (q == k or not mask.bottom_right)
    return {"causal": True} if is_causal else {}


def operation_names(graph: Graph) -> frozenset[str]:
    """Return the names that a function for this graph may have, such as ``relu``, ``conv_fwd``,
    ``conv``, ``rope``."""
    words = [list(_words(node)) for node in graph.nodes]
    names = {"_".join(each) for each in product(*words)} if len(words) <= 4 else set()
    return frozenset((*names, graph.name))


def _words(node: Node) -> Iterator[str]:
    names = [OPERATIONS[node.type].name]
    names += [
        str(node.attributes[key])
        for key in ("operation", "custom_op_id", "mode")
        if isinstance(node.attributes.get(key), str)
    ]
    for name in names:
        yield name
        if name.endswith("_fwd"):
            yield name.removesuffix("_fwd")


def matches(pattern: str, graph: Graph) -> bool:
    """Return True if the nodes of the graph, in order, are those of the pattern."""
    parts = pattern.split("+")
    return len(parts) == len(graph.nodes) and all(
        _is(part.strip(), node) for part, node in zip(parts, graph.nodes, strict=True)
    )


def _is(part: str, node: Node) -> bool:
    name, has_mode, mode = part.removesuffix(")").partition("(")
    words = {word.lower() for word in _words(node)}
    kind = node.type.lower()
    is_type = name.lower() in (kind, kind.removesuffix("attributes"), *words)
    return is_type and (not has_mode or mode.strip().lower() in words)


@dataclass(frozen=True)
class Bound:
    """Sources of the arguments of a call: places among inputs, then outputs; or values."""

    places: tuple[int, ...]
    keywords: Mapping[str, int]
    values: Mapping[str, Any]
    written: frozenset[int]
    """Indices of outputs whose memory the function receives."""


def parameters_of(function: Function) -> Mapping[str, inspect.Parameter]:
    """Return parameters by name, without ``*args`` and ``**kwargs``. Raises `EngineError` for a
    callable without a signature."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise EngineError(f"{function!r} has no signature to match") from error
    return {
        name: each
        for name, each in found.items()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }


def bind(
    function: Function,
    graph: Graph,
    knobs: Mapping[str, Any],
    *,
    by_place: bool,
    stream: Any = None,
) -> Bound:
    """Match the parameters with the graph.

    `by_place`: if no parameter has a name of the graph, its inputs go to the parameters in order.
    Raises `UnsupportedGraphError` with what does not fit.
    """
    tensors, attributes = names_of(graph), attributes_of(graph)
    ends = [t.uid for t in (*graph.inputs, *graph.outputs)]
    parameters = parameters_of(function)
    plain = [n for n, each in parameters.items() if each.kind is not each.KEYWORD_ONLY]
    if by_place and not any(name in tensors for name in plain) and len(plain) >= len(graph.inputs):
        tensors = {**tensors, **dict(zip(plain, graph.inputs, strict=False))}
    places: list[int] = []
    keywords: dict[str, int] = {}
    values: dict[str, Any] = {}
    given = {STREAM: stream, **attributes}
    skipped = False
    for name, each in parameters.items():
        tensor = tensors.get(name)
        only = each.kind is each.KEYWORD_ONLY
        if name in knobs:
            values[name] = knobs[name]
        elif tensor is not None and tensor.value is not None:
            values[name] = tensor.value
        elif tensor is not None and (only or skipped):
            keywords[name] = ends.index(tensor.uid)
        elif tensor is not None:
            places.append(ends.index(tensor.uid))
            continue
        elif only and name in given:
            values[name] = given[name]
        elif each.default is each.empty:
            raise UnsupportedGraphError(f"the graph has no {name}")
        skipped = True
    taken = {*places, *keywords.values()}
    missing = [t.name or f"tensor {t.uid}" for i, t in enumerate(graph.inputs) if i not in taken]
    if missing:
        raise UnsupportedGraphError(f"the function does not take {', '.join(missing)}")
    first = len(graph.inputs)
    written = frozenset(place - first for place in taken if place >= first)
    return Bound(tuple(places), keywords, values, written)


def bind_whole(graph: Graph) -> Bound:
    """Bind every input, then the memory of every output."""
    made = len(graph.outputs)
    return Bound(tuple(range(len(graph.inputs) + made)), {}, {}, frozenset(range(made)))


class Call:
    """One execution: arguments in, results out, errors with file and line."""

    def __init__(self, owner: Kernel, graph: Graph, function: Function, bound: Bound) -> None:
        self.kernel, self.bound = owner, bound
        self._function, self._path = function, owner.source.path
        self._names = [t.name or f"tensor {t.uid}" for t in graph.outputs]
        self._returned = [i for i in range(len(self._names)) if i not in bound.written]

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Return the results by place in `Graph.outputs`; those that were written are `outputs`."""
        bound = self.bound
        given = [*inputs, *outputs]
        named = {name: given[place] for name, place in bound.keywords.items()}
        try:
            value = self._function(*[given[i] for i in bound.places], **named, **bound.values)
        except BaseException as error:
            raise user_error(error, self._path) from error
        if not self._returned:
            return list(outputs)
        found = list(outputs)
        if len(self._returned) == 1 and not isinstance(value, (tuple, list, dict)):
            if value is None:
                raise self.refusal("returned nothing")
            found[self._returned[0]] = value
            return found
        for place, part in zip(self._returned, self._parts(value), strict=True):
            found[place] = part
        return found

    def _parts(self, value: Any) -> Sequence[Any]:
        names = [self._names[i] for i in self._returned]
        if isinstance(value, dict):
            missing = [name for name in names if name not in value]
            if missing:
                raise self.refusal(f"returned no {', '.join(missing)}")
            return [value[name] for name in names]
        if not isinstance(value, (tuple, list)):
            raise self.refusal("returned nothing" if value is None else "returned 1 value")
        if len(value) != len(names):
            raise self.refusal(f"returned {len(value)} values")
        return value

    def refusal(self, what: str) -> EngineError:
        names = ", ".join(self._names[i] for i in self._returned)
        return EngineError(f"{self.kernel.place}: {self.kernel.name} {what}; expected {names}")

    def check(self, name: str, have: tuple[Any, Any], want: tuple[Any, Any]) -> None:
        """Raise `EngineError` if shape and data type of a result differ from the graph's."""
        if have != want:
            shape, kind = (f"{list(dims)} {of}" for dims, of in (have, want))
            raise EngineError(
                f"{self.kernel.place}: {self.kernel.name} returned {name} {shape}; expected {kind}"
            )


class KernelFile:
    """The kernels of a file, those of a name only if the specification has an id."""

    def __init__(self, source: Source, name: str | None = None) -> None:
        self.source = source
        every = list(_kernels(source))
        chosen = [each for each in every if name in (None, each.name)]
        if name is not None and not chosen:
            function = getattr(source.module, name, None)
            if callable(function):
                chosen = [Kernel(name, function, source)]
        if not chosen:
            known = [each.name for each in every]
            what = "it defines no function"
            if name is not None and known:
                what = f"no function {name!r}{nearest(name, known)}"
            raise EngineError(f"{source.path.name}: {what}")
        self.kernels, self._is_named = chosen, name is not None

    def fitting(self, graph: Graph, knobs: Mapping[str, str]) -> list[Kernel]:
        """Return the kernels that run the graph, in the order of the file. Raises
        `UnsupportedGraphError` that shows the signatures of both sides."""
        kernels = self.kernels
        if not self._is_named:
            marked = [each for each in kernels if each.marks not in (None, Marks())]
            named = [each for each in kernels if each.is_named_after(graph)]
            kernels = marked or named or [k for k in kernels if not k.is_of_an_operation]
        found, reasons, others = [], [], []
        for each in kernels:
            try:
                each.fits(graph, knobs)
            except _OtherGraphError:
                others.append(each.name)
            except UnsupportedGraphError as error:
                reasons.append(f"{each.signature}: {error}")
            else:
                found.append(each)
        if not found:
            names = ", ".join(others or (each.name for each in self.kernels))
            why = "; ".join(reasons) or f"no function for it, only {names}"
            tensors = ", ".join(t.name or f"in_{n}" for n, t in enumerate(graph.inputs))
            written = ", ".join(t.name or f"out_{n}" for n, t in enumerate(graph.outputs))
            raise UnsupportedGraphError(
                f"{self.source.path.name}: {why}; the graph is {signature_of(graph)}: name the "
                f"parameters {tensors}, and {written} to write to its memory"
            )
        return found

    def choose(self, graph: Graph, knobs: Mapping[str, str], name: str | None) -> Kernel:
        """Return the kernel of a name, or the first that runs the graph."""
        found = self.fitting(graph, knobs)
        return next((each for each in found if each.name == name), found[0])


def _kernels(source: Source) -> Iterator[Kernel]:
    """Yield the functions that the file itself defines, without those that begin with ``_``."""
    for name, value in vars(source.module).items():
        if name.startswith("_") or not callable(value) or inspect.isclass(value):
            continue
        if name in (REFERENCE, TORCH) and hasattr(source.module, "INPUTS"):
            continue  # parts of an operator
        marks = getattr(value, MARK, None)
        if not isinstance(marks, Marks):
            marks = Marks() if is_compiled(source.path) else None  # all of these prepare
        if marks is not None or _is_defined_in(source.module.__name__, value):
            yield Kernel(name, value, source, marks)


def _is_defined_in(module: str, value: Any) -> bool:
    """Return True for functions and for what compilers make of them, False for device code."""
    if type(value).__module__.split(".")[0] == "triton" or "cuda" in type(value).__module__:
        return False
    inner = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None) or value
    return inspect.isfunction(inner) and inner.__module__ == module


def signature_of(graph: Graph) -> str:
    """Return the signature of a graph, such as ``matmul(a [64, 64] half, b [64, 64] half) -> c [64,
    64] half``."""

    def words(tensors: Sequence[Tensor]) -> str:
        return ", ".join(f"{t.name or t.uid} {list(t.dims)} {t.data_type}" for t in tensors)

    name = family(graph).replace("+", "_")
    return f"{name}({words(graph.inputs)}) -> {words(graph.outputs)}"


def framework_of(source: Source) -> str:
    """Return ``FRAMEWORK`` of the file, otherwise the imported framework, otherwise `ANY`."""
    own = getattr(source.module, "FRAMEWORK", None)
    if own is not None:
        if own not in FRAMEWORKS:
            raise EngineError(
                f"{source.path.name}: FRAMEWORK is {own!r}; choose from {', '.join(FRAMEWORKS)}"
            )
        return str(own)
    imported = set(_imports(source.path))
    if "triton" in imported:
        return "torch"
    for name in ("torch", "cupy", "jax", "numba.cuda", "numba", "numpy"):
        if name in imported:
            return {"numba.cuda": "numba", "numba": "numpy"}.get(name, name)
    return ANY


def imported_frameworks(path: str) -> frozenset[str]:
    """Return the frameworks that a file imports, read from its text; empty if it cannot be read."""
    try:
        if is_compiled(Path(path)):
            return frozenset((framework_of_compiled(Path(path)),))
        return frozenset(FRAMEWORKS) & frozenset(_imports(Path(path)))
    except (OSError, SyntaxError, ValueError):
        return frozenset()


OF_THE_OPERATOR = ("reference", "in_torch")
"""Functions of a case, whose imports say nothing of its kernels."""


def _imports(path: Path) -> Iterator[str]:
    nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
    for node in nodes:  # grows
        nodes += (
            child
            for child in ast.iter_child_nodes(node)
            if not (isinstance(child, ast.FunctionDef) and child.name in OF_THE_OPERATOR)
        )
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            yield from (name, name.split(".")[0])


def base_of(source: Source, *, has_torch: bool) -> str:
    """Return the engine whose buffers the file's functions use: ``torch`` or ``numpy``.

    JAX runs on NumPy's arrays if PyTorch is not installed.
    """
    frameworks = {each.framework for each in _kernels(source)} or {framework_of(source)}
    alone = {"numpy", ANY} if has_torch else {"numpy", ANY, "jax"}
    if frameworks == {"numpy"} or (not has_torch and frameworks <= alone):
        return "numpy"
    return "torch"
