"""The program that runs under a profiler: one case, in one process, with rests between iterations.

``python -m bench_run.profilers.target FILE`` reads a pickled `Profiled` that this package wrote.
The rests let the profiler's records be told apart by iteration.
"""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path

from bench_run.engines import engine_module
from bench_run.errors import BenchRunError
from bench_run.profilers.ncu import Profiled
from bench_run.tensors.data import inputs_of

ITERATIONS = 5
REST_NS = 5_000_000
"""Far longer than any gap between the kernels of one iteration."""


def run(case: Profiled) -> None:
    """One run to load and warm up, then the iterations."""
    engine = engine_module(case.spec.name).open(case.spec, case.options)
    plan = engine.plan(engine.build(case.graph, case.variant))
    plan.upload(inputs_of(case.graph, case.data))
    plan.poison()
    for _ in range(1 + ITERATIONS):
        engine.stream.synchronize()
        time.sleep(REST_NS / 1e9)
        plan.run()
    engine.stream.synchronize()
    plan.close()
    engine.close()


def main(path: str) -> int:
    case = pickle.loads(Path(path).read_bytes())  # noqa: S301 - written by our own parent
    assert isinstance(case, Profiled)
    try:
        run(case)
    except BenchRunError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
