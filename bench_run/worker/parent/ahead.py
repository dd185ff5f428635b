"""Workers that start before anybody asks for one.

Opening a device takes half a second, a second for each of ten processes that do it at once; forked
from a template as soon as that has imported its libraries, the workers of a run's first rounds do
it a few at a time, while the first of them are at work already.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING

from bench_run.errors import BenchRunError
from bench_run.worker.messages import Open, Opened
from bench_run.worker.parent.process import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.start import Template

OPENING_AT_ONCE = 4
"""Of all engines and devices: more slow each other down (H200: 0.48 s each for five at once, 1.1 s
for ten, as long again for ten on each of two GPUs)."""
_opening = threading.BoundedSemaphore(OPENING_AT_ONCE)

Started = tuple[Worker, Opened]


class Ahead:
    """So many workers of an engine, a few of them opening it at a time; whoever comes takes one."""

    def __init__(
        self,
        engine: PlannedEngine,
        template: Template,
        environment: Mapping[str, str],
        timeout_s: float,
        count: int,
        at_once: int = OPENING_AT_ONCE,
    ) -> None:
        self._engine, self._template = engine, template
        self._environment, self._timeout_s = environment, timeout_s
        self._done: SimpleQueue[Started | None] = SimpleQueue()
        self._left, self._lock, self._closed = count, threading.Lock(), False
        threads = ThreadPoolExecutor(min(count, at_once))
        for _ in range(count):
            threads.submit(self._start_one)
        threads.shutdown(wait=False)

    def _start_one(self) -> None:
        started = None
        try:
            started = self._start()
        finally:
            self._done.put(started)

    def _start(self) -> Started | None:
        """None where workers have to start afresh: those end with the thread that starts them."""
        if not self._template.fit:
            return None
        with _opening:
            return None if self._closed else self._open()

    def _open(self) -> Started | None:
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
        """The first one that has opened the engine; None where none is left or one failed."""
        with self._lock:
            if self._left == 0:
                return None
            self._left -= 1
        started = self._done.get()
        if started is not None and not self._template.fit:  # it was lost with its template
            started[0].kill()
            return None
        return started

    def close(self) -> None:
        """End those that nobody took, once they answer; whoever waits for one still gets it."""
        with self._lock:
            self._closed = self._left > 0
        threading.Thread(target=self._end_left, daemon=True).start()

    def _end_left(self) -> None:
        while self._left:
            started = self.take()
            if started is not None:
                started[0].kill()
