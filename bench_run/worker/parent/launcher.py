"""How a run's workers start: environments and templates, for pools in several threads.

An engine's copies on several devices share both: what is imported does not depend on the device.
Templates start in a thread of their own: a process ends with the thread that started it, and
whoever asks for the first worker may be done long before the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from bench_run.worker.parent.ahead import OPENING_AT_ONCE, Ahead
from bench_run.worker.parent.start import start_afresh
from bench_run.worker.parent.templates import family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.ahead import Started
    from bench_run.worker.parent.start import Starter
    from bench_run.worker.parent.templates import Templates


def openings(engines: Sequence[PlannedEngine]) -> list[int]:
    """How many workers of each engine open it at once. Copies on several devices share, so that
    none waits until all workers of another are there."""
    copies = Counter(map(family, engines))
    return [max(1, OPENING_AT_ONCE // copies[family(engine)]) for engine in engines]


class Launcher:
    """How workers come to be: afresh, from a template, or ahead of time."""

    def __init__(self, templates: Templates, timeout_s: float) -> None:
        """`timeout_s`: how long a worker may take to open its engine. `templates` are closed with
        this."""
        self._templates, self._timeout_s = templates, timeout_s
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
            self._start_ahead(engine, count, at_once)

    def _start_ahead(self, engine: PlannedEngine, count: int, at_once: int) -> None:
        if count < 1 or engine.key in self._ahead or not self._templates.are_used_by(engine):
            return
        template, environment = self._templates.start(engine), self.environment(engine)
        ahead = Ahead(engine, template, environment, self._timeout_s, count, at_once)
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
