"""Workers that compute references side by side, on a machine with idle cores.

On a processor they work only while the run waits for them: nothing is timed then. Beside a device
that measures they give way to whoever prepares or measures.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import psutil

from bench_run.engines import PROCESSOR_ENGINES
from bench_run.worker.main import NICE
from bench_run.worker.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_run.errors import BenchRunError
    from bench_run.graph.model import Graph
    from bench_run.plan.cases import PlannedEngine
    from bench_run.worker.messages import Evaluate

HELPER = PROCESSOR_ENGINES[0]
"""The engine whose workers compute references: one that runs wherever this package does."""
MOST = 8
CORES_EACH = 2
BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ELEMENT_BYTES = 16
"""What an element takes while it is computed: float64, and another one on the way."""

Task = tuple["PlannedEngine", "Evaluate"]


class Helpers:
    """A pool for each helper, and a thread that waits for it.

    The threads last as long as the helpers: a worker dies with the thread that started it
    (PR_SET_PDEATHSIG).
    """

    def __init__(self, timeout_s: float, cores: int | None = None) -> None:
        cores = available_cores() if cores is None else cores
        self.count = max(1, min(MOST, cores // CORES_EACH))
        threads = {} if self.count == 1 else dict.fromkeys(BLAS_THREADS, str(cores // self.count))
        behind = {**threads, NICE: "10"}
        self._workers = [WorkerPool(timeout_s, {HELPER: behind}) for _ in range(self.count)]
        self._pool = ThreadPoolExecutor(self.count)
        self._pending: list[Future[BenchRunError | None]] = []

    def evaluate(self, tasks: Sequence[Task]) -> list[BenchRunError | None]:
        """For each task, at most `count` of them, why it did not work, or None."""
        assert len(tasks) <= self.count
        self._pending = [
            self._pool.submit(pool.evaluate, *task)
            for pool, task in zip(self._workers, tasks, strict=False)
        ]
        return [future.result() for future in self._pending]

    def close(self) -> None:
        """At once, whatever they are doing."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        left = set(self._pending)
        while True:
            for pool in self._workers:
                pool.kill()
            left = wait(left, timeout=0.1).not_done  # one may have been starting its worker
            if not left:
                return


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take_fitting(graphs: Sequence[Graph]) -> Iterator[Graph]:
    """The first graph, and those after it that can be computed beside it in half of the memory."""
    left = psutil.virtual_memory().available // 2
    for place, graph in enumerate(graphs):
        left -= ELEMENT_BYTES * sum(tensor.elements for tensor in graph.tensors)
        if place and left < 0:
            return
        yield graph
