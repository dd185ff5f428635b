"""Operators of one's own: a Python file with a reference becomes graphs of one custom node.

The file has `INPUTS` (dims and data types by name), `reference(...)`, and if wanted `OUTPUTS`,
`SHAPES`, `DTYPES`, `TOLERANCE`, `WORK` and `in_torch(...)`; ``bench-run help kernels`` explains
each. It is read in a process of its own (`describe`), so that what it does at import costs one
message.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.usage import nearest

from bench_run.errors import EngineError, GraphError, UnsupportedGraphError
from bench_run.graph.dtypes import ALIASES, DTYPES
from bench_run.graph.layouts import packed
from bench_run.graph.make.operators import is_operator
from bench_run.graph.model import CustomOperation, Graph, Node, Tensor
from bench_run.user.limits import LIMITS, problem_of
from bench_run.user.source import load_source, user_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_run.user.source import Source

TYPE = "CustomOpAttributes"
PREFIX = "case@"
SUFFIX = ".py"
DESCRIBE_S = 120.0
"""Seconds that reading a file may take."""
REFERENCE, TORCH = "reference", "in_torch"
"""Functions of the file: what is right, and the operator as a user of PyTorch writes it."""
ENTRY = re.compile(
    r"(?:case@)?(?P<path>[^#]+?\.py)(?:#(?P<name>[^:]*))?(?::\s*(?P<items>.*))?", re.S
)

Rows = Mapping[str, Mapping[str, Any]]


def is_case(argument: str) -> bool:
    """Return True for ``case@FILE.py`` and ``FILE.py``, with ``#NAME`` or ``: KEY=VALUE`` after."""
    return argument.startswith(PREFIX) or ENTRY.fullmatch(argument) is not None


@dataclass(frozen=True)
class UserCase:
    """A graph that a file describes."""

    path: str
    """``case@FILE#NAME``, which can be given again."""
    graph: Graph
    text: bytes
    """Contents of the file."""


def graphs_of_file(argument: str) -> list[UserCase]:
    """Return the graphs of a file, one for each shape and data type.

    ``#NAME`` chooses one; ``: KEY=VALUE ...`` replaces the shapes and data types of the file.
    Raises `GraphError` that names file and line.
    """
    found = ENTRY.fullmatch(argument)
    if found is None:
        raise GraphError(argument, "expected case@FILE.py")
    path = found["path"]
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise GraphError(path, error.strerror or str(error)) from None
    rows = _described(path, found["items"] or "")
    if found["name"] is not None:
        names = [row["name"] for row in rows]
        rows = [row for row in rows if row["name"] == found["name"]]
        if not rows:
            raise GraphError(argument, f"no case {found['name']!r}{nearest(found['name'], names)}")
    return [UserCase(f"{PREFIX}{path}#{row['name']}", _graph(row), data) for row in rows]


def _described(path: str, items: str) -> list[dict[str, Any]]:
    """Read the file in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "bench_run.user.describe", path, items, str(answer)]
        try:
            done = subprocess.run(  # noqa: S603 - our own module
                command, capture_output=True, timeout=DESCRIBE_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise GraphError(path, f"took more than {DESCRIBE_S:.0f} s to load") from None
        try:
            found: dict[str, Any] = json.loads(answer.read_bytes())
        except (OSError, ValueError):
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            words = f": {last[0]}" if last else ""
            raise GraphError(
                path, f"its process ended with code {done.returncode}{words}"
            ) from None
    if "error" in found:
        raise GraphError(path, found["error"])
    rows: list[dict[str, Any]] = found["graphs"]
    return rows


def describe(path: str, items: str) -> dict[str, Any]:
    """Return the graphs of the file as plain values, or ``error`` with file and line."""
    try:
        source = load_source(path)
        return {"graphs": list(_rows(source, items))}
    except (EngineError, UnsupportedGraphError) as error:
        return {"error": str(error)}
    except Exception as error:  # values of an unexpected kind
        return {"error": str(user_error(error, Path(path)))}


def _rows(source: Source, items: str) -> Iterator[dict[str, Any]]:
    module = source.module
    if not callable(getattr(module, REFERENCE, None)):
        name = source.path.name
        raise EngineError(
            "it has no function reference(...), so it is not an operator; a kernel is an engine: "
            f"--engine kernel@{name}; bench-run import --torch {name}:FUNCTION reads a model"
        )
    inputs = getattr(module, "INPUTS", None)
    if not isinstance(inputs, Mapping) or not inputs:
        raise EngineError('no INPUTS, such as INPUTS = {"x": ("rows", "cols")}')
    shapes, dtypes = _shapes(module, items)
    name = str(getattr(module, "NAME", source.path.stem))
    digest = definition_digest(source)
    for shape, dtype in product(shapes, dtypes):
        given = {n: _tensor("INPUTS", n, row, shape, dtype) for n, row in inputs.items()}
        outputs = getattr(module, "OUTPUTS", None)
        if outputs is None:
            made = _inferred(source, given, shape, dtype)
        else:
            if not isinstance(outputs, Mapping) or not outputs or outputs.keys() & inputs.keys():
                raise EngineError('OUTPUTS: expected names of their own: {"y": ("rows", "cols")}')
            made = {n: _tensor("OUTPUTS", n, row, shape, dtype) for n, row in outputs.items()}
        size = "_".join(f"{k}{v}" for k, v in shape.items())
        words = {str(key): value for key, value in shape.items()}
        yield {
            "name": "_".join(filter(None, (name, size, dtype))),
            "id": name,
            "file": str(source.path),
            "data": json.dumps(
                {
                    "definition": digest,
                    "inputs": list(given),
                    "outputs": list(made),
                    "shape": words,
                },
                sort_keys=True,
            ),
            "dtype": dtype,
            "inputs": given,
            "outputs": made,
            "tolerance": _tolerance(module, made, dtype),
            **_work(module, shape, dtype),
        }


def _shapes(module: Any, items: str) -> tuple[list[Mapping[str, Any]], Sequence[str]]:
    """Return the file's shapes; items such as ``rows=4 dtype=half,float`` replace them."""
    shapes = _shapes_of_file(module)
    dtypes: Any = getattr(module, "DTYPES", ("float",))
    dtypes = (dtypes,) if isinstance(dtypes, str) else dtypes
    dtypes = [ALIASES.get(name, name) for name in dtypes]
    changed: dict[str, list[Any]] = {}
    for item in items.split():
        key, equals, values = item.partition("=")
        if not equals or not values:
            raise EngineError(f"expected KEY=VALUE after the file, got {item!r}")
        changed[key] = values.split(",")
    dtypes = [ALIASES.get(name, name) for name in changed.pop("dtype", dtypes)]
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise EngineError(f"no data type {dtype!r}{nearest(dtype, DTYPES)}")
    for key in changed:
        if not shapes or key not in shapes[0]:
            known = ", ".join((*(shapes[0] if shapes else ()), "dtype"))
            raise EngineError(f"no dimension {key!r} in SHAPES; known are {known}")
    if changed:
        rows = product(*changed.values())
        try:
            shapes = [
                {**shapes[0], **{k: int(v) for k, v in zip(changed, row, strict=True)}}
                for row in rows
            ]
        except ValueError as error:
            raise EngineError(f"expected whole numbers after the file: {error}") from None
    return shapes, dtypes


def _shapes_of_file(module: Any) -> list[Mapping[str, Any]]:
    shapes: Any = getattr(module, "SHAPES", ({},))
    if isinstance(shapes, Mapping):  # one shape, or shapes with names
        named = all(isinstance(shape, Mapping) for shape in shapes.values())
        shapes = shapes.values() if named else (shapes,)
    found = list(shapes)
    if not found or not all(isinstance(shape, Mapping) for shape in found):
        raise EngineError('SHAPES: expected dicts such as [{"rows": 1024, "cols": 512}]')
    return found


def _tensor(what: str, name: str, row: Any, shape: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Return dims, data type and filling of an entry of INPUTS or OUTPUTS."""
    init = None
    if isinstance(row, Mapping):
        init, dtype = _filling(row.get("init"), shape), row.get("dtype", dtype)
        row = row.get("dims", ())
    parts = [row] if isinstance(row, (str, int)) else list(row)
    if parts and isinstance(parts[-1], str) and ALIASES.get(parts[-1], parts[-1]) in DTYPES:
        dtype = str(parts.pop())
    kind = ALIASES.get(dtype, dtype)
    if kind not in DTYPES:
        raise EngineError(f"{what}[{name!r}]: no data type {dtype!r}{nearest(dtype, DTYPES)}")
    try:
        dims = [int(_value(part, shape)) for part in parts]
    except Exception as error:
        known = ", ".join(map(str, shape)) or "none: SHAPES is missing"
        raise EngineError(f"{what}[{name!r}]: {error}; SHAPES has {known}") from error
    if min(dims, default=1) < 1:
        raise EngineError(f"{what}[{name!r}]: dims {dims}, expected 1 or more in each")
    return {"dims": dims or [1], "dtype": kind, "init": init}


def _value(text: Any, symbols: Mapping[str, Any]) -> Any:
    """Return the value of an expression such as ``2*rows``."""
    return eval(str(text), {"__builtins__": {}}, dict(symbols))  # noqa: S307 - the user's own file


def _filling(text: str | None, shape: Mapping[str, Any]) -> str | None:
    """Evaluate ``integers:0:rows-1`` with the numbers of the shape."""
    if text is None:
        return None
    kind, *numbers = text.split(":")
    return ":".join([kind, *(str(_value(number, shape)) for number in numbers)])


def _inferred(
    source: Source, inputs: Rows, shape: Mapping[str, Any], dtype: str
) -> dict[str, dict[str, Any]]:
    """Return a row with dims and type for each output that the reference makes of ones, by name."""
    import numpy as np

    ones = {n: np.ones(row["dims"], _wide(row["dtype"])) for n, row in inputs.items()}
    found = call_reference(source, ones, shape, None)
    made = {}
    for name, array in found.items():
        kind = {"i": "int64", "u": "int64", "b": "boolean"}.get(array.dtype.kind, dtype)
        made[name] = {"dims": list(array.shape) or [1], "dtype": kind, "init": None}
    return made


def _tolerance(module: Any, outputs: Rows, dtype: str) -> dict[str, Any]:
    """Return TOLERANCE for this data type: numbers for all outputs, or by name of output."""
    found = getattr(module, "TOLERANCE", {})
    if not isinstance(found, Mapping):
        raise EngineError('TOLERANCE: expected a dict such as {"rtol": 1e-3, "atol": 1e-5}')
    for key in (dtype, *(alias for alias, name in ALIASES.items() if name == dtype)):
        found = found.get(key, found)
    known = (*LIMITS, *outputs)
    for key, value in found.items():
        if key not in known and ALIASES.get(key, key) not in DTYPES:
            raise EngineError(f"TOLERANCE: unknown {key!r}; known are {', '.join(known)}")
        if key in known:
            _check_limits(key, {key: value} if key in LIMITS else value)
    return {key: found[key] for key in known if key in found}


def _check_limits(key: str, row: object) -> None:
    if not isinstance(row, Mapping) or not set(row) <= set(LIMITS):
        raise EngineError(f"TOLERANCE: {key}: expected a dict of {', '.join(LIMITS)}, got {row!r}")
    for name, value in row.items():
        problem = problem_of(name, value)
        if problem is not None:
            raise EngineError(f"TOLERANCE: {name}: {problem}")


def _work(module: Any, shape: Mapping[str, Any], dtype: str) -> dict[str, int | None]:
    """Return the floating-point operations and moved bytes of WORK, which the file gives as
    numbers, expressions or a function."""
    found = getattr(module, "WORK", {})
    symbols = {**shape, "itemsize": DTYPES[dtype].bytes}
    try:
        if callable(found):
            found = found(**shape)
        numbers = {key: int(_value(value, symbols)) for key, value in dict(found).items()}
    except Exception as error:
        raise EngineError(f"WORK: {type(error).__name__}: {error}") from error
    for key in numbers:
        if key not in ("flops", "bytes"):
            raise EngineError(f"WORK: unknown {key!r}; known are flops, bytes")
    return {"flops": numbers.get("flops"), "bytes": numbers.get("bytes")}


def definition_digest(source: Source) -> str:
    """Return the SHA-256 of the operator's definition: the code of `reference` and of everything of
    the file that it uses, without comments. Kernels in the same file do not change it."""
    tree = ast.parse(source.path.read_bytes())
    defined: dict[str, ast.stmt] = {}
    for statement in tree.body:
        for name in _defines(statement):
            defined[name] = statement
    wanted, seen = [REFERENCE], dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name in seen or name not in defined:
            continue
        seen[name] = ast.dump(defined[name])
        wanted += [n.id for n in ast.walk(defined[name]) if isinstance(n, ast.Name)]
    files = {
        name: digest
        for name, digest in source.files.items()
        if any(re.search(rf"'{re.escape(Path(name).stem)}[.']", text) for text in seen.values())
    }
    return hashlib.sha256(repr((sorted(seen.items()), sorted(files.items()))).encode()).hexdigest()


def _defines(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in statement.names)
    else:
        yield from (
            n.id
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )


def _graph(row: Mapping[str, Any]) -> Graph:
    inputs, outputs = row["inputs"], row["outputs"]
    tensors = []
    for uid, (name, each) in enumerate((*inputs.items(), *outputs.items()), 1):
        dims = tuple(each["dims"])
        tensors.append(Tensor(uid, name, each["dtype"], dims, packed(dims)))
    custom = CustomOperation(
        file=row["file"],
        inputs=tuple(inputs),
        tolerance=row["tolerance"],
        flops=row["flops"],
        moved_bytes=row["bytes"],
        init={n: each["init"] for n, each in inputs.items() if each["init"]},
    )
    count = len(inputs)
    node = Node(
        TYPE,
        "",
        "float",
        {f"input_{i}": tensor.uid for i, tensor in enumerate(tensors[:count])},
        {f"output_{i}": tensor.uid for i, tensor in enumerate(tensors[count:])},
        {"custom_op_id": row["id"], "data": tuple(row["data"].encode())},
        custom=custom,
    )
    dtype = row["dtype"]
    return Graph(row["name"], dtype, dtype, "float", tuple(tensors), (node,))


def shape_of(node: Node) -> dict[str, Any]:
    """Return the symbols of SHAPES with their values."""
    try:
        found = json.loads(bytes(node.attributes.get("data", ())))
        shape: dict[str, Any] = found["shape"]
    except (ValueError, TypeError, KeyError):
        return {}
    return shape


def source_of(node: Node) -> Source:
    """Return the file that defines a custom operation. Raises `UnsupportedGraphError` for those of
    plugins."""
    if node.custom is None:
        name = node.attributes.get("custom_op_id")
        what = f"the meaning of custom operation {name!r} belongs to its plugin"
        raise UnsupportedGraphError(f"{node.label}: {what}")
    return load_source(node.custom.file)


def _wide(data_type: str) -> str:
    """Return the type in which the reference computes with a tensor."""
    return {"integer": "int64", "boolean": "bool"}.get(DTYPES[data_type].kind, "float64")


def call_reference(
    source: Source,
    inputs: Mapping[str, Any],
    shape: Mapping[str, Any],
    outputs: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the results of `reference` by name, as arrays.

    `inputs`: arrays by name; `shape`: the symbols of SHAPES, for keyword-only parameters;
    `outputs`: names of what is returned, None to name them here. Raises `EngineError`.
    """
    import numpy as np

    function: Callable[..., Any] = getattr(source.module, REFERENCE)
    parameters = inspect.signature(function).parameters
    given = {**shape, **inputs}
    missing = [n for n, p in parameters.items() if n not in given and p.default is p.empty]
    if missing:
        what = f"reference takes {', '.join(missing)}; INPUTS has {', '.join(inputs)}"
        raise EngineError(f"{source.path.name}: {what}")
    try:
        found = function(**{n: given[n] for n in parameters if n in given})
    except BaseException as error:
        raise user_error(error, source.path) from error
    if isinstance(found, Mapping):
        results = {str(name): np.asarray(value) for name, value in found.items()}
    else:
        values = found if isinstance(found, (tuple, list)) else (found,)
        names = outputs or (["y"] if len(values) == 1 else [f"y{i}" for i in range(len(values))])
        if len(values) != len(names):
            what = f"reference returned {len(values)} values; expected {', '.join(names)}"
            raise EngineError(f"{source.path.name}: {what}")
        results = {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
    if any(array.dtype == object for array in results.values()):
        raise EngineError(f"{source.path.name}: reference returned no array")
    return results


def evaluate_node(
    node: Node,
    arrays: Mapping[str, Any],
    outputs: Mapping[str, Tensor],
    *,
    drawn: bool = False,
) -> dict[str, Any]:
    """Return results of a custom node by port. `arrays`: inputs by port; `drawn`: random operators
    draw their values."""
    if is_operator(node):
        return _operator(node, arrays, outputs, drawn=drawn)
    source = source_of(node)
    assert node.custom is not None
    given = {name: arrays[f"input_{i}"] for i, name in enumerate(node.custom.inputs)}
    names = [tensor.name for tensor in outputs.values()]
    found = call_reference(source, given, shape_of(node), names)
    results = {}
    for port, tensor in outputs.items():
        if tensor.name not in found:
            raise EngineError(f"{source.path.name}: reference returned no {tensor.name}")
        array = found[tensor.name]
        if array.size != tensor.elements or (array.ndim and array.shape != tensor.dims):
            what = f"reference returned {tensor.name} {list(array.shape)}; OUTPUTS has"
            raise EngineError(f"{source.path.name}: {what} {list(tensor.dims)}")
        results[port] = array.reshape(tensor.dims)
    return results


def _operator(
    node: Node, arrays: Mapping[str, Any], outputs: Mapping[str, Tensor], *, drawn: bool
) -> dict[str, Any]:
    """Return results of an operator of the table by port."""
    import numpy as np

    from bench_run.operators.formulas import evaluate_operator

    assert node.custom is not None
    given = {name: arrays[f"input_{i}"] for i, name in enumerate(node.custom.inputs)}
    found = evaluate_operator(node, given, drawn=drawn).values()
    pairs = zip(outputs.items(), found, strict=True)
    return {port: np.asarray(value).reshape(tensor.dims) for (port, tensor), value in pairs}
