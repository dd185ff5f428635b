"""The worker processes of a run: one for each engine and round, replaced when they die."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bench_schema.document import Case, Outcome

from bench_run.engines import engine_module
from bench_run.engines.base import SupportsEnvironment, SupportsFork
from bench_run.errors import BenchRunError, EngineError, EngineUnavailableError, WorkerError
from bench_run.machine.affinity import thread_environment
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.worker.case_record import case_of
from bench_run.worker.messages import (
    AnswerT,
    Attempt,
    Choices,
    Evaluate,
    MeasureCeilings,
    Open,
    Opened,
    Request,
    RunCase,
    Trace,
    Variants,
)
from bench_run.worker.process import Worker
from bench_run.worker.start import Template, start_afresh

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.engines.base import EngineFacts
    from bench_run.graph.model import Graph
    from bench_run.measure.ceilings import Ceilings
    from bench_run.plan.cases import PlannedEngine
    from bench_run.worker.start import Starter


def own_environment(engine: PlannedEngine) -> Mapping[str, str]:
    """Variables that the engine's process needs from its start."""
    module = engine_module(engine.spec.name)
    threads = thread_environment(engine.options.threads)
    if not isinstance(module, SupportsEnvironment):
        return threads
    return {**module.environment(engine.spec, engine.options), **threads}


class WorkerPool:
    """Workers by engine key. Asking for an engine starts its worker when there is none."""

    def __init__(
        self,
        timeout_s: float,
        environments: Mapping[str, Mapping[str, str]],
        breakdown: TimeBreakdown | None = None,
        fresh: str = "exec",
    ) -> None:
        """`fresh`: ``exec`` starts every worker afresh; ``fork`` forks those of engines that allow
        it from a template, which is kept until the pool is killed."""
        self._timeout_s = timeout_s
        self._fresh_by = fresh
        self._templates: dict[str, Template] = {}
        self._environments = dict(environments)
        self._breakdown = TimeBreakdown() if breakdown is None else breakdown
        self._prepared: set[str] = set()
        self._workers: dict[str, Worker] = {}
        self._fresh: dict[str, PlannedEngine] = {}
        """Engines whose workers did nothing yet but open them."""
        self.opened: dict[str, Opened] = {}

    def facts(self, engine: PlannedEngine) -> EngineFacts:
        """What the engine said of itself when it was opened; it is opened if it never was."""
        if engine.key not in self.opened:
            self._start(engine)
        return self.opened[engine.key].facts

    def _worker(self, engine: PlannedEngine) -> Worker:
        """The engine's worker, for more than opening."""
        worker = self._workers.get(engine.key)
        if worker is None:
            worker = self._start(engine)
        self._fresh.pop(engine.key, None)
        return worker

    def _start(self, engine: PlannedEngine) -> Worker:
        with self._breakdown.on("starting workers"):
            return self._open(engine)

    def _open(self, engine: PlannedEngine) -> Worker:
        environment = self._environment(engine)
        worker = Worker(environment, self._breakdown.phase, self._starter(engine, environment))
        try:
            opened = worker.ask(Open(engine.spec, engine.options), self._timeout_s)
        except BenchRunError:
            worker.kill()
            raise
        self._workers[engine.key] = worker
        self._fresh[engine.key] = engine
        self.opened[engine.key] = opened
        return worker

    def _starter(self, engine: PlannedEngine, environment: Mapping[str, str]) -> Starter:
        """The first worker of an engine starts afresh: its template imports at the same time."""
        if self._fresh_by == "exec" or not isinstance(
            engine_module(engine.spec.name), SupportsFork
        ):
            return start_afresh
        if engine.key in self._templates:
            return self._templates[engine.key].start
        self._templates[engine.key] = Template(engine.spec, engine.options, environment)
        return start_afresh

    @property
    def worker_start(self) -> Literal["exec", "fork"]:
        """How most workers start; waits until it is known."""
        return "fork" if any(template.fit for template in self._templates.values()) else "exec"

    def _environment(self, engine: PlannedEngine) -> Mapping[str, str]:
        """Asked for once: cache folders that it names serve every round."""
        if engine.key not in self._prepared:
            self._prepared.add(engine.key)
            given = self._environments.get(engine.key, {})
            self._environments[engine.key] = {**own_environment(engine), **given}
        return self._environments[engine.key]

    def variants(self, engine: PlannedEngine, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """The engine's variants for a graph. Raises what stands in the way."""
        return self._ask(engine, Variants(graph), "listing")

    def choices(self, engine: PlannedEngine, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """What a person can choose from for a graph. Raises what stands in the way."""
        return self._ask(engine, Choices(graph), "listing")

    def attempt(self, engine: PlannedEngine, request: Attempt) -> None:
        """Raises the error for which the engine does not take the graph."""
        self._ask(engine, request, "trying")

    def evaluate(self, engine: PlannedEngine, request: Evaluate) -> str | None:
        """Have expected outputs stored; the reason where that did not work, else None."""
        return self._problem(engine, request, "reference")

    def trace(self, engine: PlannedEngine, request: Trace) -> str | None:
        """Have a case traced; the reason where that did not work, else None."""
        return self._problem(engine, request, "tracing")

    def ceilings(self, engine: PlannedEngine) -> Ceilings | None:
        """What the engine's device can do at most, measured now; None where that did not work."""
        try:
            return self._ask(engine, MeasureCeilings(), "ceilings")
        except BenchRunError:
            return None

    def _problem(self, engine: PlannedEngine, request: Request[None], activity: str) -> str | None:
        try:
            self._ask(engine, request, activity)
        except BenchRunError as error:
            return str(error)
        return None

    def _ask(self, engine: PlannedEngine, request: Request[AnswerT], activity: str) -> AnswerT:
        """The answer of the engine's worker. Raises the error that it met, and `WorkerError` where
        it is lost: the next request starts another one."""
        worker = self._worker(engine)
        try:
            with self._breakdown.on(activity):
                return worker.ask(request, self._timeout_s)
        except WorkerError:
            self._forget(engine)
            raise

    def run_case(self, engine: PlannedEngine, request: RunCase) -> Case:
        """The case with this round; whatever the worker does becomes an outcome."""
        try:
            worker = self._worker(engine)
        except WorkerError as error:
            return case_of(request, Outcome(error.status, str(error), "import", error.detail))
        except (EngineError, EngineUnavailableError) as error:
            # It opened when the run began: now the device or the library is gone.
            return case_of(request, Outcome("failed", str(error), "import", error.detail))
        try:
            with self._breakdown.on("building"):
                case = worker.ask(request, self._timeout_s, engine.build_timeout_s)
        except WorkerError as error:
            self._forget(engine)
            return case_of(request, Outcome(error.status, str(error), worker.phase, error.detail))
        except BenchRunError as error:
            return case_of(request, Outcome("failed", str(error), worker.phase, error.detail))
        if worker.is_worn or case.outcome.status in ("failed", "crashed"):
            self._replace(engine)  # an error may be sticky: the next case gets a fresh process
        return case

    def _forget(self, engine: PlannedEngine) -> None:
        worker = self._workers.pop(engine.key, None)
        if worker is not None:
            worker.kill()

    def _replace(self, engine: PlannedEngine) -> None:
        worker = self._workers.pop(engine.key, None)
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """End every worker: the next round starts afresh."""
        self.keep_fresh(())

    def keep_fresh(self, engines: Sequence[PlannedEngine]) -> None:
        """End every worker but those that only opened one of these engines: as good as new, they
        serve the first round."""
        kept = {engine.key for engine in engines if self._fresh.get(engine.key) == engine}
        with self._breakdown.on("ending workers"):
            for key in [key for key in self._workers if key not in kept]:
                self._workers.pop(key).close()

    def kill(self) -> None:
        for worker in list(self._workers.values()):
            worker.kill()
        self._workers.clear()
        for template in self._templates.values():
            template.close()
        self._templates.clear()
