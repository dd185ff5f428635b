"""The worker processes of a run: one for each engine and round, replaced when they die."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.document import Case, Outcome

from bench_run.engines import engine_module
from bench_run.errors import (
    BenchRunError,
    EngineError,
    EngineUnavailableError,
    GraphError,
    OutputError,
    UnsupportedGraphError,
    UsageError,
    WorkerError,
)
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.worker.case_record import case_of
from bench_run.worker.messages import (
    Attempt,
    CaseResult,
    Choices,
    Evaluate,
    MeasureCeilings,
    MeasuredCeilings,
    Open,
    Opened,
    Refused,
    RunCase,
    Trace,
    Variants,
)
from bench_run.worker.process import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.engines.base import EngineFacts
    from bench_run.graph.model import Graph
    from bench_run.measure.ceilings import Ceilings
    from bench_run.plan.cases import PlannedEngine
    from bench_run.worker.messages import Answer, Request

ERRORS: Mapping[str, type[BenchRunError]] = {
    error.__name__: error
    for error in (
        EngineError, EngineUnavailableError, GraphError, OutputError,
        UnsupportedGraphError, UsageError,
    )
}  # fmt: skip


def raise_refusal(refused: Refused) -> None:
    """The refusal of a worker as the error it was there."""
    error = ERRORS[refused.kind]
    if error is GraphError:
        where, _, what = refused.message.partition(": ")
        raise GraphError(where, what)
    if error is EngineError:
        raise EngineError(refused.message, detail=refused.detail)
    raise error(refused.message)


def own_environment(engine: PlannedEngine) -> Mapping[str, str]:
    """Variables that the engine's process needs from its start (`environment` of its module)."""
    hook = getattr(engine_module(engine.spec.name), "environment", None)
    found: Mapping[str, str] = {} if hook is None else hook(engine.spec, engine.options)
    return found


class WorkerPool:
    """Workers by engine key. Asking for an engine starts its worker when there is none."""

    def __init__(
        self,
        timeout_s: float,
        environments: Mapping[str, Mapping[str, str]],
        breakdown: TimeBreakdown | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._environments = dict(environments)
        self._breakdown = TimeBreakdown() if breakdown is None else breakdown
        self._prepared: set[str] = set()
        self._workers: dict[str, Worker] = {}
        self._fresh: dict[str, PlannedEngine] = {}
        """Engines whose workers did nothing yet but open them."""
        self.opened: dict[str, Opened] = {}

    def facts(self, engine: PlannedEngine) -> EngineFacts:
        if engine.key not in self._workers:
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
            return self._opened(engine)

    def _opened(self, engine: PlannedEngine) -> Worker:
        worker = Worker(self._environment(engine), self._breakdown.phase)
        try:
            answer = worker.ask(Open(engine.spec, engine.options), self._timeout_s)
        except WorkerError:
            worker.kill()
            raise
        if isinstance(answer, Refused):
            worker.close()
            raise_refusal(answer)
        assert isinstance(answer, Opened)
        self._workers[engine.key] = worker
        self._fresh[engine.key] = engine
        self.opened[engine.key] = answer
        return worker

    def _environment(self, engine: PlannedEngine) -> Mapping[str, str]:
        """Asked for once: cache folders that it names serve every round."""
        if engine.key not in self._prepared:
            self._prepared.add(engine.key)
            given = self._environments.get(engine.key, {})
            self._environments[engine.key] = {**own_environment(engine), **given}
        return self._environments[engine.key]

    def variants(
        self, engine: PlannedEngine, graph: Graph, *, in_full: bool = False
    ) -> tuple[Mapping[str, str], ...]:
        """The engine's variants for a graph; one unnamed where it refuses: the visit says why, and
        with `in_full` this row does."""
        try:
            answer = self._worker(engine).ask(Variants(graph, in_full), self._timeout_s)
        except WorkerError as error:
            self._forget(engine)
            answer = Refused("EngineError", str(error))
        if isinstance(answer, Choices):
            return answer.variants
        assert isinstance(answer, Refused)
        return ({"refused:": answer.message},) if in_full else ({},)

    def refusal(self, engine: PlannedEngine, request: Attempt) -> str | None:
        """Why the engine does not take a graph, its own loss included; None where it does."""
        try:
            answer = self._worker(engine).ask(request, self._timeout_s)
        except WorkerError as error:
            self._forget(engine)
            return f"{error.status}: {error}"
        return _problem(answer)

    def run_case(self, engine: PlannedEngine, request: RunCase) -> Case:
        """The case with this visit's round; whatever the worker does becomes an outcome."""
        try:
            worker = self._worker(engine)
            with self._breakdown.on("building"):
                answer = worker.ask(request, self._timeout_s, engine.build_timeout_s)
        except WorkerError as error:
            return case_of(request, self._loss(engine, error))
        except (EngineError, EngineUnavailableError) as error:
            # It opened when the run began: now the device or the library is gone.
            return case_of(request, Outcome("failed", str(error), "import"))
        if isinstance(answer, Refused):
            return case_of(request, Outcome("failed", answer.message, worker.phase, answer.detail))
        assert isinstance(answer, CaseResult)
        if answer.case.outcome.status in ("failed", "crashed"):
            self._replace(engine)  # an error may be sticky: the next case gets a fresh process
        return answer.case

    def _loss(self, engine: PlannedEngine, error: WorkerError) -> Outcome:
        worker = self._workers.get(engine.key)
        phase = "import" if worker is None else worker.phase
        self._forget(engine)
        return Outcome(error.status, str(error), phase, error.detail)

    def evaluate(self, engine: PlannedEngine, request: Evaluate) -> str | None:
        """Have expected outputs stored; the reason where that did not work, else None."""
        return _problem(self._asked(engine, request, "reference"))

    def trace(self, engine: PlannedEngine, request: Trace) -> str | None:
        """Have a case traced; the reason where that did not work, else None."""
        return _problem(self._asked(engine, request, "tracing"))

    def ceilings(self, engine: PlannedEngine) -> Ceilings | None:
        """What the engine's device can do at most, measured now; None where that did not work."""
        answer = self._asked(engine, MeasureCeilings(), "ceilings")
        return answer.ceilings if isinstance(answer, MeasuredCeilings) else None

    def _asked(self, engine: PlannedEngine, request: Request, activity: str) -> Answer:
        """The worker's answer; `Refused` as well where it is lost or does not open."""
        try:
            worker = self._worker(engine)
            with self._breakdown.on(activity):
                return worker.ask(request, self._timeout_s)
        except WorkerError as error:
            self._forget(engine)
            return Refused("WorkerError", str(error))
        except (EngineError, EngineUnavailableError, UsageError) as error:
            return Refused(type(error).__name__, str(error))

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


def _problem(answer: Answer) -> str | None:
    return answer.message if isinstance(answer, Refused) else None
