"""Workers that start before anybody asks for one.

Opening a device takes half a second, a second where ten processes do it at once; forked from a
template as soon as that has imported its libraries, the workers of a run's first rounds do it while
the run learns from another one what the engine is.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from bench_run.errors import BenchRunError
from bench_run.worker.messages import Open, Opened
from bench_run.worker.process import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.plan.cases import PlannedEngine
    from bench_run.worker.start import Template

Started = tuple[Worker, Opened]


class Ahead:
    """So many workers of an engine, each opened in a thread of its own; whoever comes takes one."""

    def __init__(
        self,
        engine: PlannedEngine,
        template: Template,
        environment: Mapping[str, str],
        timeout_s: float,
        count: int,
    ) -> None:
        self._engine, self._template = engine, template
        self._environment, self._timeout_s = environment, timeout_s
        threads = ThreadPoolExecutor(count)
        self._coming = [threads.submit(self._start) for _ in range(count)]
        threads.shutdown(wait=False)
        self._lock = threading.Lock()

    def _start(self) -> Started | None:
        """None where workers have to start afresh: those end with the thread that starts them."""
        if not self._template.fit:
            return None
        worker = Worker(self._environment, start=self._template.start)
        try:
            opened = worker.ask(Open(self._engine.spec, self._engine.options), self._timeout_s)
        except BenchRunError:
            worker.kill()
            return None  # whoever starts one afresh meets the same error
        if not self._template.fit:  # it was lost, and this worker started afresh
            worker.kill()
            return None
        return worker, opened

    def take(self) -> Started | None:
        """The next one, once it has opened the engine; None where none is left or it failed."""
        with self._lock:
            coming = self._coming.pop(0) if self._coming else None
        return None if coming is None else coming.result()

    def close(self) -> None:
        """End those that nobody took."""
        with self._lock:
            left, self._coming = self._coming, []
        for each in left:
            each.add_done_callback(_end)


def _end(coming: Future[Started | None]) -> None:
    started = coming.result()
    if started is not None:
        started[0].kill()
