"""The environments of a run's engines, and the template processes that their workers come from.

An engine's copies on several devices share both: what is imported does not depend on the device.
Templates start in a thread of their own: a process ends with the thread that started it, and
whoever asks for the first worker may be done long before the others. Nothing that takes long is
imported here, so that templates can import while the run does (`runner/early.py`).
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from bench_schema.identity import without_device

from bench_run.engines import engine_module
from bench_run.machine.affinity import thread_environment
from bench_run.worker.parent.start import Template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.plan.engines import PlannedEngine


def own_environment(engine: PlannedEngine) -> Mapping[str, str]:
    """Variables that the engine's process needs from its start."""
    environment = engine_module(engine.spec.name).ABILITIES.environment
    threads = thread_environment(engine.options.threads)
    if environment is None:
        return threads
    return {**environment(engine.spec, engine.options), **threads}


def family(engine: PlannedEngine) -> str:
    """What copies of an engine on several devices have in common."""
    return without_device(engine.key)


class Templates:
    """Environments and templates by family."""

    def __init__(
        self, fresh: str, timeout_s: float, environments: Mapping[str, Mapping[str, str]]
    ) -> None:
        """`timeout_s`: how long a template may take to import, and to fork. `fresh`: ``exec``
        starts each worker afresh; ``fork`` forks those of engines that allow it from a template,
        which is kept until `close`. `environments`: more variables, by an engine's key."""
        self._fresh, self._timeout_s = fresh, timeout_s
        self._given, self._environments = environments, dict[str, "Mapping[str, str]"]()
        self._templates: dict[str, Template] = {}
        self._lock = threading.Lock()
        self._starting = ThreadPoolExecutor(1)

    def environment(self, engine: PlannedEngine) -> Mapping[str, str]:
        """Asked for once: cache folders that it names serve every round."""
        name = family(engine)
        with self._lock:
            if name not in self._environments:
                given = self._given.get(engine.key, {})
                self._environments[name] = {**own_environment(engine), **given}
            return self._environments[name]

    def are_used_by(self, engine: PlannedEngine) -> bool:
        """Whether its workers may be forked."""
        module = engine_module(engine.spec.name)
        return self._fresh == "fork" and module.ABILITIES.preload is not None

    def started(self, engine: PlannedEngine) -> Template | None:
        """The engine's template, where there is one already."""
        return self._templates.get(family(engine))

    def start(self, engine: PlannedEngine) -> Template:
        """The engine's template; it is started where there is none."""
        name, environment = family(engine), self.environment(engine)
        with self._lock:
            if name not in self._templates:
                starting = self._starting.submit(
                    Template, engine.spec.text, environment, self._timeout_s
                )
                self._templates[name] = starting.result()
            return self._templates[name]

    @property
    def some_fit(self) -> bool:
        """Waits until it is known."""
        return any(template.fit for template in self._templates.values())

    def close(self) -> None:
        with self._lock:
            for template in self._templates.values():
                template.close()
            self._templates.clear()
