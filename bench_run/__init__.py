"""Run hipDNN operation graphs on a chosen engine, validate the outputs, time every iteration.

    import bench_run

    document = bench_run.run(["suite:smoke"], engine=["numpy", "torch"], iterations=50)
    for case in document.cases:
        print(case.graph.name, case.engine, case.outcome.status, case.summary)

`run` takes the fields of `bench_run.options.Options` by name and returns a
`bench_schema.document.Document`; nothing is printed unless ``quiet=False``.

`run_performance_test` measures single operations and returns dictionaries (see
`bench_run.opperf`). `kernel` marks a function of a file for ``--engine kernel@FILE``
(``bench-run help kernels``).
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs half of what --help takes
if TYPE_CHECKING:
    from typing import Any

    from bench_run.opperf import run_performance_test
    from bench_run.runner.call import run
    from bench_run.user.kernels import kernel

__all__ = ["kernel", "run", "run_performance_test"]


def __getattr__(name: str) -> Any:
    """Return the functions of the package, loaded when they are first asked for: ``--help`` needs
    none."""
    if name == "run":
        from bench_run.runner.call import run

        return run
    if name == "run_performance_test":
        from bench_run.opperf import run_performance_test

        return run_performance_test
    if name == "kernel":
        from bench_run.user.kernels import kernel

        return kernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
