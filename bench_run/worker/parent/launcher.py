"""How a run's workers start, for pools in several threads."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Literal

from bench_run.errors import BenchRunError
from bench_run.worker.messages import EngineOpened, Open
from bench_run.worker.parent.process import Worker
from bench_run.worker.parent.start import Template, Templates, family, start_afresh

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.start import Starter


# Workers that start before anybody asks for one.
#
# Opening a device takes half a second, a second for each of ten processes that do it at once;
# forked from a template as soon as that has imported its libraries, the workers of a run's first
# rounds do it a few at a time, while the first of them are at work already.

OPENING_AT_ONCE = 4
"""Of all engines and devices: more slow each other down (H200: 0.48 s each for five at once, 1.1 s
for ten, as long again for ten on each of two GPUs)."""
_opening = threading.BoundedSemaphore(OPENING_AT_ONCE)

Started = tuple[Worker, EngineOpened]


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
            # A worker that had to start afresh would end with this thread.
            if self._template.fit:
                with _opening:
                    if not self._closed:
                        started = self._open()
        finally:
            self._done.put(started)

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


def openings(engines: Sequence[PlannedEngine]) -> list[int]:
    """How many workers of each engine open it at once. Copies on several devices share, so that
    none waits until all workers of another are there."""
    copies = Counter(map(family, engines))
    return [max(1, OPENING_AT_ONCE // copies[family(engine)]) for engine in engines]


class Launcher:
    """How workers come to be: afresh, from a template, or ahead of time."""

    def __init__(self, templates: Templates) -> None:
        """`templates` are closed with this."""
        self._templates = templates
        self._ahead: dict[str, tuple[PlannedEngine, Ahead]] = {}

    def environment(self, engine: PlannedEngine) -> Mapping[str, str]:
        return self._templates.environment(engine)

    def starter(self, engine: PlannedEngine) -> Starter:
        """Whoever finds no template starts one, and a worker afresh: both import at once."""
        if not self._templates.are_used_by(engine):
            return start_afresh
        started = self._templates.started(engine)
        if started is not None:
            return started.start
        self._templates.start(engine)
        return start_afresh

    def start_ahead(self, engines: Sequence[PlannedEngine], count: int) -> None:
        """Start `count` workers of each engine that may be forked; others start when asked for."""
        for engine, at_once in zip(engines, openings(engines), strict=True):
            is_due = count > 0 and engine.key not in self._ahead
            if is_due and self._templates.are_used_by(engine):
                template, environment = self._templates.start(engine), self.environment(engine)
                timeout_s = self._templates.timeout_s
                ahead = Ahead(engine, template, environment, timeout_s, count, at_once)
                self._ahead[engine.key] = engine, ahead

    def take_ahead(self, engine: PlannedEngine) -> Started | None:
        """A worker that was started ahead for this engine, or its copy, and opened it; None: there
        is none."""
        for planned, ahead in list(self._ahead.values()):
            if planned == engine or planned.is_copy_of(engine):
                return ahead.take()
        return None

    def end_ahead(self) -> None:
        """End the workers that were started ahead and that nobody took."""
        ended, self._ahead = self._ahead, {}
        for _, ahead in ended.values():
            ahead.close()

    @property
    def worker_start(self) -> Literal["exec", "fork"]:
        """How most workers start; waits until it is known."""
        return "fork" if self._templates.some_fit else "exec"

    def close(self) -> None:
        self.end_ahead()
        self._templates.close()
