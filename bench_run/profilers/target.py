"""The program that runs under a profiler: one case, in one process, with rests between iterations.

``python -m bench_run.profilers.target FILE`` reads a pickled `Task` that this package wrote. The
rests let the profiler's records be told apart by iteration.
"""

from __future__ import annotations

import pickle
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.engines import engine_module
from bench_run.errors import BenchRunError
from bench_run.evaluate import inputs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import EngineOptions, EngineSpec
    from bench_run.graph.model import Graph
    from bench_run.messages import Data

REST_NS = 5_000_000
"""Far longer than any gap between the kernels of one iteration."""


@dataclass(frozen=True)
class Task:
    spec: EngineSpec
    options: EngineOptions
    graph: Graph
    variant: Mapping[str, str]
    data: Data
    iterations: int


def run(task: Task) -> None:
    """One run to load and warm up, then the iterations."""
    engine = engine_module(task.spec.name).open(task.spec, task.options)
    plan = engine.plan(engine.build(task.graph, task.variant))
    plan.upload(inputs_of(task.graph, task.data))
    plan.poison()
    for _ in range(1 + task.iterations):
        engine.stream.synchronize()
        time.sleep(REST_NS / 1e9)
        plan.run()
    engine.stream.synchronize()
    plan.close()
    engine.close()


def main(path: str) -> int:
    with Path(path).open("rb") as file:
        task = pickle.load(file)  # noqa: S301 - written by the run that started this process
    try:
        run(task)
    except BenchRunError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
