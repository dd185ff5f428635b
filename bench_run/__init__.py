"""Run hipDNN operation graphs on a chosen engine, validate the outputs, time every iteration.

    import bench_run

    document = bench_run.run(["graphs/smoke"], engine=["numpy", "torch"], iterations=50)
    for case in document.cases:
        print(case.graph.name, case.engine, case.outcome.status, case.summary)

`run` takes the fields of `bench_run.options.Options` by name and returns a
`bench_schema.document.Document`; nothing is printed unless ``quiet=False``.

`run_performance_test` measures single operations and returns dictionaries (see
`bench_run.runner.operation_benchmark`).
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs half of what --help takes
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from bench_schema.document import Document

__all__ = ["run", "run_performance_test"]


def __getattr__(name: str) -> Any:
    """`run_performance_test`, loaded when it is first asked for."""
    if name == "run_performance_test":
        from bench_run.runner.operation_benchmark import run_performance_test

        return run_performance_test
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run(graphs: Iterable[str], *, quiet: bool = True, **options: Any) -> Document:
    """Run `graphs` (files, folders, globs, archives) and return the document.

    ``options`` are fields of `Options` (``engine``, ``iterations``, ``output`` …); lists are fine
    where it has tuples. Raises `bench_run.errors.BenchRunError` for what the command line would end
    with one line and exit code 1; what becomes of a case is its outcome.
    """
    from dataclasses import fields

    from bench_run.errors import UsageError
    from bench_run.options import Options, checked
    from bench_run.runner.benchmark import run_benchmark

    known = {field.name for field in fields(Options)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"no option {unknown[0]!r}; known are {', '.join(sorted(known))}")
    if isinstance(graphs, str):
        graphs = (graphs,)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
    }
    return run_benchmark(checked(Options(graphs=tuple(graphs), quiet=quiet, **values)))
