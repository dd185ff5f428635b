"""How a run's workers start: environments and templates, for pools in several threads.

An engine's copies on several devices share both: what is imported does not depend on the device.
Templates start in a thread of their own: a process ends with the thread that started it, and
whoever asks for the first worker may be done long before the others.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

from bench_run.engines import engine_module
from bench_run.engines.base import SupportsEnvironment, SupportsFork
from bench_run.engines.spec import without_device
from bench_run.machine.affinity import thread_environment
from bench_run.worker.parent.ahead import OPENING_AT_ONCE, Ahead
from bench_run.worker.parent.start import Template, start_afresh

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.plan.cases import PlannedEngine
    from bench_run.worker.parent.ahead import Started
    from bench_run.worker.parent.start import Starter


def own_environment(engine: PlannedEngine) -> Mapping[str, str]:
    """Variables that the engine's process needs from its start."""
    module = engine_module(engine.spec.name)
    threads = thread_environment(engine.options.threads)
    if not isinstance(module, SupportsEnvironment):
        return threads
    return {**module.environment(engine.spec, engine.options), **threads}


def family(engine: PlannedEngine) -> str:
    """What copies of an engine on several devices have in common."""
    return without_device(engine.key)


def openings(engines: Sequence[PlannedEngine]) -> list[int]:
    """How many workers of each engine open it at once. Copies on several devices share, so that
    none waits until all workers of another are there."""
    copies = Counter(map(family, engines))
    return [max(1, OPENING_AT_ONCE // copies[family(engine)]) for engine in engines]


class Launcher:
    """Environments and templates by family."""

    def __init__(
        self, environments: Mapping[str, Mapping[str, str]], fresh: str, timeout_s: float
    ) -> None:
        """`timeout_s`: how long a worker may take to open its engine. `fresh`: ``exec`` starts each
        worker afresh; ``fork`` forks those of engines that allow it from a template, which is kept
        until `close`."""
        self._fresh, self._timeout_s = fresh, timeout_s
        self._environments = dict(environments)
        self._prepared: set[str] = set()
        self._templates: dict[str, Template] = {}
        self._ahead: dict[str, tuple[PlannedEngine, Ahead]] = {}
        self._lock = threading.Lock()
        self._starting = ThreadPoolExecutor(1)

    def environment(self, engine: PlannedEngine) -> Mapping[str, str]:
        """Asked for once: cache folders that it names serve every round."""
        name = family(engine)
        with self._lock:
            if name not in self._prepared:
                given = self._environments.get(engine.key, {})
                self._environments[name] = {**own_environment(engine), **given}
                self._prepared.add(name)
            return self._environments[name]

    def starter(self, engine: PlannedEngine, environment: Mapping[str, str]) -> Starter:
        """The first worker of an engine starts afresh: its template imports at the same time."""
        if self._fresh == "exec" or not isinstance(engine_module(engine.spec.name), SupportsFork):
            return start_afresh
        name = family(engine)
        with self._lock:
            if name in self._templates:
                return self._templates[name].start
            self._start_template(engine, environment)
            return start_afresh

    def _start_template(self, engine: PlannedEngine, environment: Mapping[str, str]) -> None:
        started = self._starting.submit(
            Template, engine.spec, engine.options, environment, self._timeout_s
        )
        self._templates[family(engine)] = started.result()

    def start_ahead(self, engines: Sequence[PlannedEngine], count: int) -> None:
        """Start `count` workers of each engine that may be forked; others start when asked for."""
        for engine, at_once in zip(engines, openings(engines), strict=True):
            self._start_ahead(engine, count, at_once)

    def _start_ahead(self, engine: PlannedEngine, count: int, at_once: int) -> None:
        if count < 1 or self._fresh == "exec" or engine.key in self._ahead:
            return
        if not isinstance(engine_module(engine.spec.name), SupportsFork):
            return
        name, environment = family(engine), self.environment(engine)
        if name not in self._templates:
            self._start_template(engine, environment)
        template = self._templates[name]
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
        return "fork" if any(template.fit for template in self._templates.values()) else "exec"

    def close(self) -> None:
        self.end_ahead()
        with self._lock:
            for template in self._templates.values():
                template.close()
            self._templates.clear()
