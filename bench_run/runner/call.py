"""A run as one call from Python: `bench_run.run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.estimate import case_time, main_series
from bench_schema.summary import rates

from bench_run.errors import UsageError
from bench_run.graph.make.spec import find, make_graphs
from bench_run.options import Options, checked
from bench_run.runner.benchmark import run_benchmark
from bench_run.user.source import LOADING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_schema.document import Case, Document

    from bench_run.graph.make.recipes.recipe import Recipe


def run(graphs: Iterable[str], *, quiet: bool = True, **options: Any) -> Document:
    """Run `graphs` (files, folders, globs, archives) and return the document.

    ``options`` are fields of `Options` (``engine``, ``iterations``, ``output`` …); lists are fine
    where it has tuples. Raises `bench_run.errors.BenchRunError` for what the command line would end
    with one line and exit code 1; what becomes of a case is its outcome.
    """
    if LOADING:
        what = 'it begins a run while it is imported: move that below if __name__ == "__main__":'
        raise UsageError(f"{LOADING[-1]}: {what}")
    known = {field.name for field in fields(Options)} - {"config"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"no option {unknown[0]!r}; known are {', '.join(sorted(known))}")
    if options.get("ray") is not None:
        raise UsageError("ray: only the command line runs on a cluster (bench-run --ray)")
    if isinstance(graphs, str):
        graphs = (graphs,)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
    }
    values["hold_threads"] = values.get("threads") is not None
    return run_benchmark(checked(Options(graphs=tuple(graphs), quiet=quiet, **values)))


# Performance of one operation in one call, in the manner of opperf; a thin layer over `run`.
#
#     from bench_run import run_performance_test
#
#     rows = run_performance_test(
#         "add",
#         inputs=[{"lhs": (1024, 1024), "rhs": (1024, 1024), "dtype": "float32"}],
#         warmup=10,
#         runs=50,
#     )
#     print(rows[0]["time_ns"], rows[0]["peak_bytes"])
#
# A row is a flat dictionary of plain values, so that ``pandas.DataFrame(rows)`` or ``json.dumps``
# takes it as it is. Forward and backward are rows of their own. Times are nanoseconds of one
# execution: of the device where it has a clock (``series`` is ``device_ns``), else end to end.


Inputs = Mapping[str, Any]
Function = Callable[..., Any]
MOST_ROUNDS = 5
IMAGE_LETTERS = {3: "ncw", 4: "nchw", 5: "ncdhw"}


def run_performance_test(
    ops: str | Function | Sequence[str | Function],
    inputs: Sequence[Inputs] | None = None,
    run_backward: bool = True,
    warmup: int = 10,
    runs: int = 50,
    **options: Any,
) -> list[dict[str, Any]]:
    """Measure operations (names of op specs) and return a row for each of them, its gradients,
    inputs and engines.

    A function stands for the operation of its name, and is measured as a kernel of its file
    (``engine`` names others to measure with it). A script that does so keeps its calls below
    ``if __name__ == "__main__"``, since its file is imported again.

    Each of `inputs` holds shapes by name, ``lhs`` and ``rhs`` or ``data``, or parameters of op
    specs (``n=32, c=64``), and ``dtype``; without `inputs` the default shapes are taken.
    ``options`` are those of `bench_run.run` (``engine``, ``shapes``, ``seed`` …). Raises
    `bench_run.errors.BenchRunError` as `run` does; a case that fails is a row that says why.
    """
    rows = []
    for each in (ops,) if isinstance(ops, str) or callable(ops) else ops:
        name = each if isinstance(each, str) else each.__name__
        if callable(each):
            own = f"kernel:{name}@{_file_of(each)}"
            options = {**options, "engine": (*options.get("engine", ()), own)}
            run_backward = False
        for given in inputs or ({},):
            spec, named = op_spec(name, given), find(name, "run_performance_test")
            direction: str | None = None
            if named.direction != "bwd":
                direction = "both" if run_backward and named.backward else "fwd"
            usual = {"rounds": min(MOST_ROUNDS, runs), "direction": direction}
            document = run(
                (), op=(spec,), **{"warmup": warmup, "iterations": runs, **usual, **options}
            )
            directions = _directions(spec, named, str(options.get("shapes", "common")))
            for case in document.cases:
                memory = {} if case.memory is None else asdict(case.memory)
                sizes = ("peak_bytes", "workspace_bytes", "buffer_bytes")
                rows.append(
                    {
                        "operator": name,
                        "direction": directions.get(case.graph.name, "forward"),
                        "graph": case.graph.name,
                        "inputs": dict(given),
                        "engine": case.engine,
                        "outcome": case.outcome.status,
                        "reason": case.outcome.reason,
                        "validation": None if case.validation is None else case.validation.status,
                        **_times(case),
                        **{key: memory.get(key) for key in sizes},
                    }
                )
    return rows


def _directions(spec: str, recipe: Recipe, shapes: str) -> dict[str, str]:
    """Name of graph → direction."""
    words = {"fwd": "forward", "bwd": "backward", "joint": "forward_backward"}
    has = {"bwd": recipe.backward, "joint": recipe.joint}
    return {
        graph.name: word
        for key, word in words.items()
        if key == "fwd" or has[key]
        for graph in make_graphs(spec, shapes, None if key == "fwd" else key)
    }


def _file_of(function: Function) -> str:
    """Path of the file that defines a function. Raises `UsageError` if there is none."""
    import inspect

    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        path = None
    if path is None or not Path(path).is_file():
        name = getattr(function, "__name__", function)
        raise UsageError(f"run_performance_test: {name} has no file; define it in a module")
    return path


def op_spec(name: str, given: Inputs) -> str:
    """``add`` and ``{"lhs": (4, 8), "dtype": "half"}`` as ``add: dims=4x8 dtype=half``."""
    recipe = find(name, "run_performance_test")
    items: dict[str, str] = {}
    shapes = {key: given[key] for key in ("lhs", "data", "rhs") if key in given}
    if shapes:
        items |= _shape_items(recipe, shapes)
    items |= {key: _text(value) for key, value in given.items() if key not in shapes}
    return f"{recipe.name}: " + " ".join(f"{key}={value}" for key, value in items.items())


def _shape_items(recipe: Recipe, shapes: Inputs) -> dict[str, str]:
    known = recipe.by_key
    first = tuple(shapes.get("lhs", shapes.get("data", ())))
    second = tuple(shapes["rhs"]) if "rhs" in shapes else None
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
    """Rows, columns and inner length of a product, in front of them the batch."""
    if len(first) not in (2, 3) or first[:-2] != second[:-2] or first[-1:] != second[-2:-1]:
        raise UsageError(f"{name}: lhs {first} and rhs {second} do not make a product")
    lengths = {"m": first[-2], "n": second[-1], "k": first[-1]}
    batch = {"b": first[0]} if len(first) == 3 else {}
    return {key: str(length) for key, length in {**batch, **lengths}.items()}


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "x".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


def _times(case: Case) -> dict[str, Any]:
    """The case's time and rates, and statistics of the samples of its main series, all rounds
    pooled; names end in the unit."""
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
        "count": summary.count,
        **{f"pooled_{name}_ns": getattr(summary, name) for name in shown},
        "tflops": tflops,
        "gbps": gbps,
    }
