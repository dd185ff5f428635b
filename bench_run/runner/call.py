"""A run as one call from Python: `bench_run.run`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError
from bench_run.options import Options, checked
from bench_run.options.read import with_derived
from bench_run.runner.benchmark import run_benchmark
from bench_run.user.source import LOADING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_schema.document import Document


def run(graphs: Iterable[str], *, quiet: bool = True, **options: Any) -> Document:
    """Run `graphs` (files, folders, globs, archives) and return the document.

    ``options`` are fields of `Options` (``engine``, ``iterations``, ``output`` …); lists are fine
    if it has tuples. Raises `bench_run.errors.BenchRunError` for what the command line would end
    with one line and exit code 1; what becomes of a case is its outcome.
    """
    if LOADING:
        what = 'it begins a run while it is imported: move that below if __name__ == "__main__":'
        raise UsageError(f"{LOADING[-1]}: {what}")
    known = {field.name for field in fields(Options)} - {"config"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"no option {unknown[0]!r}; known are {', '.join(sorted(known))}")
    if options.get("device", 0) is None:
        raise UsageError("device: only the command line shares graphs (bench-run --device all)")
    if options.get("ray") is not None:
        raise UsageError("ray: only the command line runs on a cluster (bench-run --ray)")
    if isinstance(graphs, str):
        graphs = (graphs,)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
    }
    values = with_derived(values)
    return run_benchmark(checked(Options(graphs=tuple(graphs), quiet=quiet, **values)))
