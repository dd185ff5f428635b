"""Workers that compute references side by side, on a machine with idle cores.

On a processor they work only while the run waits for them: nothing is timed then. Beside a device
that measures they give way to whoever prepares or measures.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

from bench_run.engines import PROCESSOR_ENGINES
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.worker.main import NICE, REFERENCE_THREADS
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable

HELPER = PROCESSOR_ENGINES[0]
"""The engine whose workers compute references: one that runs wherever this package does."""
MOST, MOST_THREADS = 8, 16
CORES_EACH = 4
"""Each helper may use all cores: one that has the last large graph should, and threads that wait
for others take no time. Several, since reading and storing use one core."""
BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

ResultT = TypeVar("ResultT")


class Helpers:
    """Threads with a pool of workers each.

    The threads last as long as the helpers: a worker dies with the thread that started it
    (PR_SET_PDEATHSIG).
    """

    def __init__(self, timeout_s: float, cores: int | None = None) -> None:
        cores = available_cores() if cores is None else cores
        self.count = max(1, min(MOST, cores // CORES_EACH))
        behind = {**dict.fromkeys(BLAS_THREADS, "1"), NICE: "10"}
        behind[REFERENCE_THREADS] = str(min(MOST_THREADS, cores))
        self._timeout_s, self._environment = timeout_s, {HELPER: behind}
        self._own = threading.local()
        self._pools: list[WorkerPool] = []
        self.times: list[TimeBreakdown] = []
        """What each of them did."""
        self._threads = ThreadPoolExecutor(self.count, "helper", self._begin)
        self._pending: set[Future[Any]] = set()

    def _begin(self) -> None:
        """In a new thread."""
        self.times.append(TimeBreakdown())
        self._own.pool = WorkerPool(self._timeout_s, self._environment, self.times[-1])
        self._pools.append(self._own.pool)

    def submit(self, work: Callable[[WorkerPool], ResultT]) -> Future[ResultT]:
        """As soon as a helper is free. Raises `RuntimeError` once they are closed."""
        future = self._threads.submit(lambda: work(self._own.pool))
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def close(self) -> None:
        """At once, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        left = {future for future in list(self._pending) if not future.cancelled()}
        while True:
            for pool in list(self._pools):
                pool.kill()
            left = wait(left, timeout=0.1).not_done  # one may have been starting its worker
            if not left:
                return


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
