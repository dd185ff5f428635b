"""Performance of single operators in one call, in the manner of MXNet's opperf.

from bench_run.opperf import mx, nd, run_performance_test

    results = run_performance_test(
        F=mx.nd.add,
        ctx=mx.cpu(),
        warmup=10,
        runs=50,
        inputs=[
            {
                "lhs": (1024, 1024),
                "rhs": (1024, 1024),
                "initializer": nd.normal,
                "run_backward": True,
                "dtype": "float32",
            }
        ],
    )
    print(results[0]["time_ns"], results[0]["MX_Add_Forward_Time"])

A result is a flat dictionary of plain values, so that ``pandas.DataFrame(results)`` or
``json.dumps`` takes it. Forward, backward and both in one execution are results of their own. Times
are nanoseconds of one execution: of the device if it has a clock (``series`` is ``device_ns``),
otherwise end to end; ``MX_NAME_…_Time`` says the same in seconds. ``buffer_bytes`` are the
operator's own tensors; ``peak_bytes`` is ``peak_is``: what was held on the device, or how much the
process grew.

``run_all_mxnet_operator_benchmarks()`` and ``run_all_arithmetic_operations_benchmarks()`` (any
category) print a line for each operator and return a dictionary of these times: forward and
backward together where there is a gradient. ``from bench_run.opperf import Add`` has a class for
each operator. ``profiler.get_summary()`` is JSON of all results since ``profiler.reset()``.
``mx``, ``nd`` and ``nn`` stand for MXNet's modules: they give names of operators.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.estimate import case_time, main_series
from bench_schema.summary import iterations_of, rates

from bench_run.engines import availability
from bench_run.errors import UsageError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.make.names import ours, plain, rewritten
from bench_run.graph.make.operators import OPERATORS
from bench_run.graph.make.spec import ALIASES, FAMILIES, OPS, find, gradients_of, make_graphs
from bench_run.options.context import engine_of
from bench_run.runner.call import run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_schema.document import Case

    from bench_run.graph.make.operators.row import Operator
    from bench_run.graph.make.recipes.recipe import Recipe
    from bench_run.graph.model import Graph

Inputs = Mapping[str, Any]
MOST_ROUNDS = 2
"""Rounds of one call, which share its warm-up and its runs."""
WHERE = "run_performance_test"
IMAGE_LETTERS = {3: "ncw", 4: "nchw", 5: "ncdhw"}
DIRECTIONS = {"fwd": "Forward", "bwd": "Backward", "joint": "Forward_Backward"}
PORTS = {"lhs": "x", "rhs": "b", "data": "x", "weight": "w"}
"""Names of opperf for ports of the graphs."""
FILLINGS = {"normal": "normal:0:1", "uniform": "uniform:0:1", "ones": "constant:1"}
FILLINGS |= {"randn": "normal:0:1", "random": "uniform:0:1", "zeros": "constant:0"}
"""Initializers of opperf as ``--init`` spells them."""


class Name(str):
    """A dotted name of MXNet: ``mx.nd.add`` is its own text, ``mx.gpu(0)`` is ``mx.gpu:0``."""

    __slots__ = ()

    def __getattr__(self, part: str) -> Name:
        if part.startswith("__"):
            raise AttributeError(part)
        return Name(f"{self}.{part}")

    def __call__(self, *numbers: int) -> Name:
        return Name(":".join((self, *map(str, numbers))))


mx, nd, nn = Name("mx"), Name("mx.nd"), Name("gluon.nn")
NAMES = {
    "mul": "Multiply",
    "sub": "Subtract",
    "div": "Divide",
    "mod": "Modulo",
    "pow": "Power",
    "neg": "Negative",
    "iadd": "Inplace_Add",
    "isub": "Inplace_Subtract",
    "imul": "Inplace_Multiply",
    "idiv": "Inplace_Division",
    "imod": "Inplace_Modulo",
    **{f"arg{word}": f"Arg{word.capitalize()}" for word in ("max", "min", "sort")},
    "cmp_lt": "Lesser",
    "cmp_le": "Lesser_Equal",
    "cmp_gt": "Greater",
    "cmp_eq": "Equal",
    "cmp_ge": "Greater_Equal",
    "cmp_neq": "Not_Equal",
}
"""Operators to their names in opperf's results, where these are not ours in capitals."""
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "arithmetic": (
        *("add", "mul", "sub", "div", "mod", "pow", "neg"),
        *("iadd", "isub", "imul", "idiv", "imod"),
    ),
    "inplacearithmetic": ("iadd", "isub", "imul", "idiv", "imod"),
    "conversion": ("copy", "as_in_context", "asnumpy", "asscalar", "astype"),
    "creation": ("zeros", "zeros_like", "ones", "ones_like", "full", "arange"),
    "shape": (
        *("transpose", "shape_array", "size_array", "reshape", "reshape_like", "flatten"),
        *("expand_dims", "split", "diag", "tile", "pad"),
    ),
    "reduction": ("sum", "nansum", "prod", "nanprod", "mean", "amax", "amin", "norm"),
    "sortingandsearching": ("sort", "argsort", "topk", "argmax", "argmin", "argmax_channel"),
    "comparison": ("cmp_lt", "cmp_le", "cmp_gt", "cmp_ge", "cmp_eq", "cmp_neq"),
    "indexing": (
        *("get_item", "set_item", "slice", "slice_axis", "take", "batch_take", "pick"),
        "one_hot",
    ),
    "exponentsandlogarithms": ("exp", "log"),
    "powers": ("sqrt", "square"),
    "joinandsplit": ("concat", "split", "stack"),
    "gemm": ("matmul", "syrk"),
    "randomsampling": (
        *("random_normal", "random_poisson", "random_uniform", "randint", "shuffle"),
    ),
    "basic": ("gluon.nn.Dense", "gluon.nn.Flatten", "gluon.nn.Embedding", "dropout"),
    "convolution": (
        *("gluon.nn.Conv1D", "gluon.nn.Conv2D", "gluon.nn.Conv1DTranspose"),
        "gluon.nn.Conv2DTranspose",
    ),
    "pooling": (
        *(f"gluon.nn.{kind}Pool{n}D" for kind in ("Max", "Avg") for n in (1, 2)),
        *(f"gluon.nn.Global{kind}Pool{n}D" for kind in ("Max", "Avg") for n in (1, 2)),
    ),
    "activation": ("leaky_relu", "prelu", "sigmoid", "softmax", "log_softmax", "relu", "tanh"),
    "recurrent": ("rnn_cell", "lstm_cell", "gru_cell", "sequential_rnn_cell", "bidirectional_cell"),
    "loss": (
        *("l1_loss", "l2_loss", "sigmoid_bce_loss", "softmax_cross_entropy_loss", "kl_div_loss"),
        *("huber_loss", "hinge_loss", "squared_hinge_loss", "logistic_loss", "triplet_loss"),
        "ctc_loss",
    ),
}
"""The categories of opperf's proposal, in its order."""
SQUARE = (1024, 1024)
"""Shape of opperf's operators on each element."""
HOME = "mxnet"
"""Framework that a name means here if several have it."""


def run_performance_test(
    F: Any,  # noqa: N803 - the name in opperf
    inputs: Sequence[Inputs] | None = None,
    run_backward: bool = True,
    dtype: str | None = None,
    ctx: Any = None,
    warmup: int = 10,
    runs: int = 50,
    **options: Any,
) -> list[dict[str, Any]]:
    """Measure operators and return a result for each direction, input and engine.

    `F`: a name of ``--op``, of PyTorch, ONNX or MXNet, a callable with such a name, or several. A
    function in a file is measured as a kernel of its file too; a script that does so keeps its
    calls below ``if __name__ == "__main__"``, since its file is imported again.

    `inputs`: dictionaries of shapes by port (``lhs``, ``rhs``, ``data``, or the names of the
    table of operators), of parameters (``channels``, ``kernel_size``, ``axis`` …), ``dtype``,
    ``run_backward`` and ``initializer`` (a name, a distribution of ``--init``, or a callable that
    takes a shape and returns an array); without shapes an operator on each element has 1024x1024.
    `ctx`: ``cpu`` or ``gpu(0)``: PyTorch there, NumPy without PyTorch; the GPU if there is one.
    `runs`: iterations in all, `warmup` before them.

    ``options`` are those of `bench_run.run` (``engine``, ``shapes``, ``seed`` …). Raises
    `bench_run.errors.BenchRunError` as `run` does; a case that fails is a result that says why.
    """
    options.setdefault("engine", [_engine(ctx)])
    options = _limits(warmup, runs, options)
    several = isinstance(F, (list, tuple))
    results: list[dict[str, Any]] = []
    for each in F if several else (F,):
        for given in inputs or ({},):
            given = {**({} if dtype is None else {"dtype": dtype}), **given}
            backward = bool(given.pop("run_backward", run_backward))
            results += _measured(each, given, backward, dict(options))
    profiler.results += results
    return results


def _engine(context: Any) -> str:
    """Return the engine of a context: of none the GPU, if there is one."""
    if context is None:
        context = "gpu" if availability("torch:cuda").ok else "cpu"
    return engine_of(str(context), f"{WHERE}: ctx=")


def _limits(warmup: int, runs: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run: rounds share its iterations and its warm-up, and no limit of
    time cuts them."""
    rounds = max(1, min(int(options.get("rounds", MOST_ROUNDS)), runs))
    made = {"warmup": -(-warmup // rounds), "iterations": runs, "max_time_s": None}
    return {**made, **options, "rounds": rounds}


NO_SHAPES = {"dtype", "run_backward", "initializer"}
"""Inputs that say nothing about shapes."""


def _default_shapes(name: str) -> Inputs:
    """Return opperf's default shapes, of an operator on each element; none for others."""
    row = OPERATORS.get(ours(name.partition(":")[0], {**ALIASES, **OPS}, HOME))
    if ":" in name or row is None or not all("dims" in rule for rule in row.inputs.values()):
        return {}
    names = ("lhs", "rhs") if len(row.inputs) == 2 else ("data",)
    return dict.fromkeys(names[: len(row.inputs)], SQUARE)


def _measured(
    F: Any,  # noqa: N803
    given: dict[str, Any],
    backward: bool,
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    name = F if isinstance(F, str) else str(F.__name__)
    if not options.get("shapes") and set(given) <= NO_SHAPES:
        given.update(_default_shapes(name))
    file = None if isinstance(F, str) else _file_of(F)
    if file is not None:
        options["engine"] = [*options.get("engine", ()), f"kernel:{name}@{file}"]
    shown = {key: getattr(v, "__name__", v) for key, v in given.items()}
    fillings = {k: given.pop(k) for k in list(given) if k.endswith("initializer")}
    spec = op_spec(name, given)
    shapes = str(options.get("shapes", "common"))
    words, labels = _directions(spec, shapes, backward and file is None)
    with tempfile.TemporaryDirectory() as folder:
        (graph, *_) = make_graphs(spec, shapes)
        init = [t for key, v in fillings.items() for t in _filling(key, v, graph, Path(folder))]
        init += options.pop("init", ())
        document = run((), op=(words,), init=init, **options)
    on_host = {engine.key: engine.device == "cpu" for engine in document.engines}
    return [
        _result(name, labels, shown, case, on_host.get(case.engine, True))
        for case in document.cases
    ]


def _directions(spec: str, shapes: str, backward: bool) -> tuple[str, Mapping[str, str]]:
    """Return the spec with its directions, and the direction of each graph by its name."""
    (recipe, *others) = (find(op, WHERE) for op in spec.partition(":")[0].split("+"))
    wanted = ["fwd"]
    gradients = gradients_of((recipe, *others)) if recipe.direction == "fwd" else ()
    if backward and gradients:
        wanted += ["bwd"] + ["joint"] * (recipe.joint is not None and not others)
    if recipe.direction != "fwd" or not (gradients or not others):
        return spec, {}
    labels: dict[str, str] = {}
    for key in wanted:
        labels |= {graph.name: key for graph in make_graphs(spec, shapes, key)}
    return f"{spec} direction={','.join(wanted)}", labels


def _result(
    name: str, labels: Mapping[str, str], given: Inputs, case: Case, on_host: bool
) -> dict[str, Any]:
    times, direction = _times(case), DIRECTIONS[labels.get(case.graph.name, "fwd")]
    memory = {} if case.memory is None else asdict(case.memory)
    seconds = None if times["series"] is None else times["time_ns"] / 1e9
    return {
        "operator": name,
        "direction": direction.lower(),
        "graph": case.graph.name,
        "inputs": given,
        "engine": case.engine,
        "outcome": case.outcome.status,
        "reason": case.outcome.reason,
        "validation": None if case.validation is None else case.validation.status,
        f"MX_{camel(name)}_{direction}_Time": seconds,
        **times,
        **{key: memory.get(key) for key in ("peak_bytes", "workspace_bytes", "buffer_bytes")},
        "peak_is": "growth of the process" if on_host else "on the device",
    }


def camel(name: str) -> str:
    """Return the operator's name as opperf's results have it: ``Add`` for ``mx.nd.add``,
    ``Zeros_Like`` for ``zeros_like``, ``Gluon_Imperative_Conv2D`` for ``gluon.nn.Conv2D``."""
    head, _, short = name.rpartition(".")
    if not head and short in NAMES:
        return NAMES[short]
    layer = "Gluon_Imperative_" if "gluon" in head else ""
    return layer + "_".join(part[:1].upper() + part[1:] for part in short.split("_"))


def _file_of(function: Callable[..., Any]) -> str | None:
    """Return the path of the file that defines a function; None for functions of installed
    packages, which stand for an operator by their name."""
    import inspect

    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return None
    if path is None or not Path(path).is_file() or "site-packages" in path:
        return None
    return path


def _filling(key: str, value: Any, graph: Graph, folder: Path) -> Iterator[str]:
    """Yield the texts of ``--init`` for ``initializer`` (all inputs) or ``PORT_initializer``."""
    port = key.removesuffix("initializer").rstrip("_")
    name = PORTS.get(port, port)
    if isinstance(value, str):
        short = plain(value)
        yield (f"{name}=" if name else "") + FILLINGS.get(short, value)
        return
    for tensor in graph.inputs:
        if name in ("", tensor.name) and DTYPES[tensor.data_type].kind == "float":
            path = folder / f"{tensor.name}.npy"
            np.save(path, _made(value, tensor.dims))
            yield f"{tensor.name}=file:{path}"


def _made(initializer: Callable[..., Any], dims: tuple[int, ...]) -> Any:
    """Return the array of a callable for these lengths: ``f(shape=…)``, ``f(size=…)`` or
    ``f(lengths)``."""
    for arguments, keywords in (((), {"shape": dims}), ((), {"size": dims}), ((dims,), {})):
        try:
            found = np.asarray(initializer(*arguments, **keywords))
        except TypeError:
            continue
        if found.shape == dims:
            return found
    name = getattr(initializer, "__name__", initializer)
    raise UsageError(f"{WHERE}: initializer {name} made no array of {dims}")


def op_spec(name: str, given: Inputs) -> str:
    """Return ``add: dims=4x8 dtype=half`` for ``add`` and ``{"lhs": (4, 8), "dtype": "half"}``."""
    if "," in name.partition(":")[0]:
        raise UsageError(f"{WHERE}: {name}: one operator at a time, or a list of names")
    given = dict(given)
    activation = given.pop("activation", None)
    name = f"{name}+{activation}" if activation else name
    first, _, rest = name.partition(":")
    known = {**ALIASES, **OPS}
    recipe = find(re.split(r"[:+]", ours(first.split("+")[0].strip(), known, HOME))[0], WHERE)
    row = OPERATORS.get(recipe.name.removesuffix("_bwd").removesuffix("_fwd"))
    own = () if row is None else row.inputs
    ports = [k for k in given if k in ("lhs", "rhs", "data") or (k in own and _is_shape(given[k]))]
    shapes = {key: tuple(given.pop(key)) for key in ports}
    for key, dims in shapes.items():
        if min(dims, default=0) < 1:
            raise UsageError(f"{recipe.name}: {key} is {dims}: expected lengths from 1")
    items: dict[str, str] = {}
    if shapes and row is not None and not row.hipdnn:
        items |= row.lengths_of({_port(key, row): dims for key, dims in shapes.items()})
    elif shapes:
        items |= _shape_items(recipe, shapes)
    items |= {key: _text(value) for key, value in given.items() if value is not None}
    text = " ".join((rest, *(f"{key}={value}" for key, value in items.items())))
    (spec,) = rewritten(f"{first}: {text.strip()}".removesuffix(": "), OPS, ALIASES, HOME)
    head, _, text = spec.partition(":")
    parts = [ALIASES.get(part.strip(), part.strip()) for part in head.split("+")]
    return f"{'+'.join(parts)}: {text.strip()}"


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def _port(key: str, row: Operator) -> str:
    names = list(row.inputs)
    if key in names:
        return key
    if not names:
        raise UsageError(
            f"{row.name}: it reads no tensor; give its parameters: {', '.join(row.params)}"
        )
    return names[1] if key == "rhs" and len(names) > 1 else names[0]


def _shape_items(recipe: Recipe, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Return parameters of a node of hipDNN for the shapes of its ports."""
    known = recipe.by_key
    first, second = shapes.get("lhs", shapes.get("data", ())), shapes.get("rhs")
    if "dims" in known:
        items = {"dims": _text(first)}
        if second is not None and second != first:
            items["rhs_dims"] = _text(second)
        return items
    if recipe.family == "gemm" and second is not None:
        return _product_items(recipe.name, first, second)
    letters = IMAGE_LETTERS.get(len(first), "")
    if second is None and letters and set(letters) <= set(known):
        return {letter: str(length) for letter, length in zip(letters, first, strict=True)}
    words = ", ".join(known)
    raise UsageError(f"{recipe.name}: these shapes do not fit it; give its parameters: {words}")


def _product_items(name: str, first: tuple[int, ...], second: tuple[int, ...]) -> dict[str, str]:
    """Return rows, columns and inner length of a product, in front of them the batch."""
    if len(first) < 2 or first[:-2] != second[:-2] or first[-1:] != second[-2:-1]:
        raise UsageError(f"{name}: lhs {first} and rhs {second} do not make a product")
    lengths = {"m": first[-2], "n": second[-1], "k": first[-1]}
    batch = {"batch": _text(first[:-2])} if len(first) > 2 else {}
    return {**batch, **{key: str(length) for key, length in lengths.items()}}


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "x".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


def _times(case: Case) -> dict[str, Any]:
    """Return the case's time and rates, and statistics of the samples of its main series, all
    rounds pooled; names end in the unit."""
    series, time = main_series(case.summary), case_time(case)
    if series is None or time is None:
        return {"series": None}
    summary = case.summary[series]
    tflops, gbps = rates(case.work, time.ns)
    shown = ("mean", "median", "p90", "p99", "min", "max", "std")
    return {
        "series": series,
        "time_ns": time.ns,
        "time_low_ns": time.low_ns,
        "time_high_ns": time.high_ns,
        "iterations": iterations_of(case),
        "stopped_by": case.stopped_by,
        "count": summary.count,
        **{f"pooled_{name}_ns": getattr(summary, name) for name in shown},
        "tflops": tflops,
        "gbps": gbps,
    }


def _seconds(results: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the seconds of the first engine by ``MX_NAME_…_Time``. Gradients of one operator add
    up."""
    found: dict[str, float] = {}
    measured = list(results)
    for each in measured:
        if each["engine"] == measured[0]["engine"]:
            for key, value in each.items():
                if key.startswith("MX_") and value is not None:
                    found[key] = found.get(key, 0.0) + value
    return found


def run_all_mxnet_operator_benchmarks(**options: Any) -> dict[str, float]:
    """Measure every operator with its default inputs: seconds by ``MX_NAME_…_Time``."""
    names = [name for family in FAMILIES.values() for name in family]
    return _run_all([name for name in names if OPS[name].direction == "fwd"], options)


def _run_all(names: Sequence[str], options: dict[str, Any]) -> dict[str, float]:
    """Measure these operators in one run, print a line for each, and return their seconds."""
    options = dict(options)
    context, dtype = options.pop("ctx", None), options.pop("dtype", None)
    backward = bool(options.pop("run_backward", True))
    options.setdefault("engine", [_engine(context)])
    options = _limits(options.pop("warmup", 10), options.pop("runs", 50), options)
    shapes = str(options.get("shapes", "common"))
    named: dict[str, list[tuple[str, Mapping[str, str], Inputs]]] = {}
    for name in names:
        given: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
        if not options.get("shapes"):
            given.update(_default_shapes(name))
        words, labels = _directions(op_spec(name, given), shapes, backward)
        named.setdefault(words, []).append((name, labels, given))
    document = run((), op=list(named), **options)
    on_host = {engine.key: engine.device == "cpu" for engine in document.engines}
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for case in document.cases:
        for name, labels, shown in named.get(case.graph.op or "", ()):
            grown = on_host.get(case.engine, True)
            results[name].append(_result(name, labels, shown, case, grown))
    found: dict[str, float] = {}
    for each in results.values():
        profiler.results += each
        found |= _whole(_seconds(each))
    _print(found)
    return found


def _whole(times: Mapping[str, float]) -> dict[str, float]:
    """Return forward and backward as one time, where both were measured."""
    by_name: dict[str, dict[str, float]] = {}
    for key, seconds in times.items():
        for words in reversed(DIRECTIONS.values()):  # the longest first
            if key.endswith(f"_{words}_Time"):
                by_name.setdefault(key.removesuffix(f"_{words}_Time"), {})[words] = seconds
                break
    whole: dict[str, float] = {}
    for name, parts in by_name.items():
        both = {"Forward", "Backward"} <= parts.keys()
        summed = parts["Forward"] + parts["Backward"] if both else None
        joint = parts.get("Forward_Backward", summed)
        if joint is None:
            whole |= {f"{name}_{words}_Time": seconds for words, seconds in parts.items()}
        else:
            whole[f"{name}_Forward_Backward_Time"] = joint
    return whole


def _print(times: Mapping[str, float]) -> None:
    for name, seconds in times.items():
        sys.stdout.write(f"{name} - {seconds:.6g} seconds\n")
    sys.stdout.flush()


class Profiler:
    """All results of this process, as MXNet's profiler sums them up."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []

    def get_summary(self, reset: bool = False) -> str:
        """Return JSON: ``Time`` and ``Memory`` by ``MX_NAME_…``, times in seconds, memory in
        bytes. `reset`: forget the results."""
        times: dict[str, Any] = {}
        memory: dict[str, Any] = {}
        for each in self.results:
            if each["series"] is None:
                continue
            name = next(key for key in each if key.startswith("MX_"))
            times[name] = {
                "Count": each["iterations"],
                "Avg": each["time_ns"] / 1e9,
                **{
                    word.capitalize(): each[f"pooled_{word}_ns"] / 1e9
                    for word in ("min", "max", "median", "p90", "p99")
                },
            }
            keys = ("buffer_bytes", "peak_bytes", "peak_is")
            memory[name.removesuffix("_Time")] = {key: each[key] for key in keys}
        if reset:
            self.reset()
        return json.dumps({"Time": times, "Memory": memory}, indent=4)

    def reset(self) -> None:
        """Forget the results."""
        self.results.clear()


profiler = Profiler()


class OperatorBenchmark:
    """A benchmark of one operator, as MXNet's classes of opperf are used."""

    operator = ""

    def __init__(self, inputs: Inputs | None = None, **options: Any) -> None:
        shapes = _default_shapes(self.operator)
        self.inputs = {
            **shapes,
            **({"initializer": nd.normal} if shapes else {}),
            "run_backward": True,
            "dtype": "float32",
        }
        self.inputs |= inputs or {}
        self.results: dict[str, float] = {}
        self._options = options

    def run_benchmark(self) -> None:
        times = _seconds(run_performance_test(self.operator, [self.inputs], **self._options))
        self.results = _whole(times)

    def print_benchmark_results(self) -> None:
        _print(self.results)


def __getattr__(name: str) -> Any:
    """Return ``run_all_CATEGORY_operations_benchmarks`` or the class of an operator."""
    if name.startswith("run_all_"):
        short = plain(name.removeprefix("run_all_").partition("_op")[0]).replace("_", "")
        families = {plain(family).replace("-", ""): FAMILIES[family] for family in FAMILIES}
        known = {**families, **CATEGORIES}
        names = known.get(short) or known.get(f"{short}s")
        if names is not None:
            wanted = [each for each in names if each not in OPS or OPS[each].direction == "fwd"]
            return lambda **options: _run_all(wanted, options)
    elif name[:1].isupper():
        found = ours(name, {**ALIASES, **OPS}, HOME)
        if re.split(r"[:+]", found)[0] in OPS:
            return type(name, (OperatorBenchmark,), {"operator": name})
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
