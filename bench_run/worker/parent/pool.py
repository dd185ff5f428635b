"""The worker processes of a run: one for each engine and round, replaced when they die."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

from bench_schema.codec import encode
from bench_schema.document import Case, Outcome, Validation
from bench_schema.errors import DocumentError
from bench_schema.journal import read_value

from bench_run.errors import (
    BenchRunError,
    EngineError,
    EngineUnavailableError,
    TemplateLostError,
    WorkerError,
)
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.worker.messages import (
    AnswerT,
    Attack,
    Attacked,
    Attempt,
    BuildPlan,
    Choices,
    EngineOpened,
    Evaluate,
    Evaluated,
    Judge,
    Judged,
    KnobValues,
    MeasureCeilings,
    Open,
    PlanBuilt,
    Plans,
    PlanSamples,
    Release,
    Repeat,
    Request,
    RunCase,
    SamplePlan,
    Trace,
    Variants,
    case_of,
)
from bench_run.worker.parent.launcher import Launcher
from bench_run.worker.parent.process import Worker
from bench_run.worker.parent.start import Templates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.engines.base import EngineFacts
    from bench_run.graph.model import Graph
    from bench_run.measure.ceilings import Ceilings
    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.process import Turn


def contents(facts: EngineFacts) -> object:
    """Return the hashes of the files of an engine; rounds of one run need the same."""
    files = {n: v for n, v in facts.libraries.items() if n.endswith(".py")}
    return facts.plugin_sha256, files


class WorkerPool:
    """Workers by engine key. Asking for an engine starts its worker when there is none."""

    def __init__(
        self,
        timeout_s: float,
        environments: Mapping[str, Mapping[str, str]],
        breakdown: TimeBreakdown | None = None,
        fresh: str = "exec",
        launcher: Launcher | None = None,
    ) -> None:
        """`fresh`: how workers start, see `Templates`; `launcher` is somebody else's, who
        closes it."""
        self._timeout_s = timeout_s
        self._owns_launcher = launcher is None
        if launcher is None:
            launcher = Launcher(Templates(fresh, timeout_s, environments))
        self._launcher = launcher
        self.breakdown = TimeBreakdown() if breakdown is None else breakdown
        self._workers: dict[str, Worker] = {}
        self._fresh: dict[str, PlannedEngine] = {}
        """Engines whose workers did nothing yet but open them."""
        self.opened: dict[str, EngineOpened] = {}
        self._contents: dict[str, object] = {}
        """Hashes of the files of each engine when it was first opened; shared with pools beside."""

    def facts(self, engine: PlannedEngine) -> EngineFacts:
        """What the engine said of itself when it was opened; it is opened if it never was."""
        if engine.key not in self.opened:
            self._start(engine)
        return self.opened[engine.key].facts

    def open_side_by_side(self, engines: Sequence[PlannedEngine]) -> None:
        """Open those that are not open yet at the same time. What cannot be opened is left out:
        `facts` meets the error again."""
        closed = [engine for engine in engines if engine.key not in self.opened]
        with self.breakdown.on("starting workers"):
            # A process ends with the thread that started it: they are all started by this one.
            workers = [(self._launch(e), e) for e in closed if not self._take_ahead(e)]
            with ThreadPoolExecutor(len(workers) or 1) as threads:
                openings = [threads.submit(self._opened, *pair) for pair in workers]
            for (worker, engine), opening in zip(workers, openings, strict=True):
                if opening.exception() is None:
                    self._enter(engine, worker, opening.result())

    def rename(self, engine: PlannedEngine, copy: PlannedEngine) -> None:
        """What opened an engine serves as its copy on the same device."""
        self._workers[copy.key] = self._workers.pop(engine.key)
        self.opened[copy.key] = self.opened[engine.key]
        del self._fresh[engine.key]
        self._fresh[copy.key] = copy

    def _worker(self, engine: PlannedEngine) -> Worker:
        """The engine's worker, for more than opening."""
        worker = self._workers.get(engine.key)
        if worker is None:
            worker = self._start(engine)
        self._fresh.pop(engine.key, None)
        return worker

    def _start(self, engine: PlannedEngine) -> Worker:
        with self.breakdown.on("starting workers"):
            if not self._take_ahead(engine):
                worker = self._launch(engine)
                self._enter(engine, worker, self._opened(worker, engine))
            return self._workers[engine.key]

    def _take_ahead(self, engine: PlannedEngine) -> bool:
        """Whether a worker was there that had been started ahead."""
        started = self._launcher.take_ahead(engine)
        if started is not None:
            self._enter(engine, *started)
        return started is not None

    def _launch(self, engine: PlannedEngine) -> Worker:
        environment = self._launcher.environment(engine)
        return Worker(environment, start=self._launcher.starter(engine))

    def _opened(self, worker: Worker, engine: PlannedEngine) -> EngineOpened:
        """In any thread."""
        try:
            return worker.ask(Open(engine.spec, engine.options), self._timeout_s)
        except BenchRunError:
            worker.kill()
            raise

    def _enter(self, engine: PlannedEngine, worker: Worker, opened: EngineOpened) -> None:
        found = contents(opened.facts)
        if self._contents.setdefault(engine.key, found) != found:
            worker.kill()
            raise EngineError(
                f"{opened.facts.plugin_path}: it, or a file that it loads, changed during the run"
            )
        worker.announce = self.breakdown.phase
        self._workers[engine.key] = worker
        self._fresh[engine.key] = engine
        self.opened[engine.key] = opened

    def start_ahead(self, engines: Sequence[PlannedEngine], count: int) -> None:
        """Start so many workers of each engine that may be forked, before they are asked for."""
        self._launcher.start_ahead(engines, count)

    def end_ahead(self) -> None:
        """End those that nobody asked for."""
        self._launcher.end_ahead()

    @property
    def worker_start(self) -> Literal["exec", "fork"]:
        """How most workers start; waits until it is known."""
        return self._launcher.worker_start

    def beside(self, breakdown: TimeBreakdown) -> WorkerPool:
        """Another pool whose workers start as those of this one do; for another thread."""
        pool = WorkerPool(self._timeout_s, {}, breakdown, launcher=self._launcher)
        pool._contents = self._contents
        return pool

    def hand_over(self, engine: PlannedEngine, other: WorkerPool) -> None:
        """A worker that did nothing yet but open the engine goes to the other pool."""
        if self._fresh.pop(engine.key, None) is not None:
            worker = self._workers.pop(engine.key)
            worker.announce = other.breakdown.phase
            other._workers[engine.key] = worker

    def variants(self, engine: PlannedEngine, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """The engine's variants for a graph. Raises what stands in the way."""
        return self._ask(engine, Variants(graph), "listing")

    def plans(self, engine: PlannedEngine, graph: Graph) -> tuple[Mapping[str, str], ...] | None:
        """The engine's plans for a graph, where it runs them beside its own choice; else None."""
        return self._ask(engine, Plans(graph), "listing")

    def choices(self, engine: PlannedEngine, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """What a person can choose from for a graph. Raises what stands in the way."""
        return self._ask(engine, Choices(graph), "listing")

    def knob_values(
        self, engine: PlannedEngine, graph: Graph, variant: Mapping[str, str]
    ) -> Mapping[str, tuple[str, ...]]:
        """The values of the engine's knobs for a graph; empty where it lists none."""
        return self._ask(engine, KnobValues(graph, variant), "listing")

    def keep(self, engine: PlannedEngine, request: BuildPlan) -> PlanBuilt:
        """Have a plan built and kept. Raises `WorkerError` where the worker is lost with it, and
        with all that it kept."""
        return self._ask(engine, request, "building", engine.build_timeout_s)

    def repeat(self, engine: PlannedEngine, request: Repeat) -> Validation:
        """What all checked runs of a kept plan come to, one more among them. Raises as `keep`
        does."""
        return self._ask(engine, request, "racing")

    def sample(self, engine: PlannedEngine, request: SamplePlan) -> PlanSamples:
        """Samples of a plan that is kept. Raises as `keep` does."""
        return self._ask(engine, request, "racing")

    def release(self, engine: PlannedEngine, request: Release) -> None:
        """Close plans that are kept, where the worker is still there."""
        if engine.key in self._workers:
            self._ask(engine, request, "racing")

    def attempt(self, engine: PlannedEngine, request: Attempt) -> None:
        """Raises the error for which the engine does not take the graph."""
        self._ask(engine, request, "trying")

    def evaluate(self, engine: PlannedEngine, request: Evaluate) -> Evaluated:
        """Have expected outputs stored. Raises what stands in the way."""
        return self._ask(engine, request, "reference")

    def judge(self, engine: PlannedEngine, request: Judge) -> Judged:
        """What outputs are, compared by a worker of this engine, which did not compute them. Raises
        what stands in the way."""
        return self._ask(engine, request, "validating")

    def trace(self, engine: PlannedEngine, request: Trace) -> BenchRunError | None:
        """Have a case traced; why that did not work, else None."""
        try:
            self._ask(engine, request, "tracing")
        except BenchRunError as error:
            return error
        return None

    def attack(self, engine: PlannedEngine, request: Attack) -> Attacked:
        """Outputs on adversarial inputs. Raises what stands in the way."""
        return self._ask(engine, request, "adversarial inputs")

    def ceilings(self, engine: PlannedEngine) -> Ceilings | None:
        """What the engine's device can do at most, measured now; None where that did not work."""
        try:
            return self._ask(engine, MeasureCeilings(), "ceilings")
        except BenchRunError:
            return None

    def _ask(
        self,
        engine: PlannedEngine,
        request: Request[AnswerT],
        activity: str,
        build_timeout_s: float | None = None,
    ) -> AnswerT:
        """The answer of the engine's worker. Raises the error that it met, and `WorkerError` where
        it is lost: the next request starts another one."""
        worker = self._worker(engine)
        try:
            with self.breakdown.on(activity):
                return worker.ask(request, self._timeout_s, build_timeout_s)
        except WorkerError:
            self._forget(engine)
            raise

    def run_case(self, engine: PlannedEngine, request: RunCase, turn: Turn | None = None) -> Case:
        """The case with this round; whatever the worker does becomes an outcome. `turn` is how it
        comes to a device that it shares. A worker that was lost with its template costs nothing:
        another one, started afresh, runs the case."""
        try:
            return self._run_case(engine, request, turn)
        except TemplateLostError:
            return self._run_case(engine, request, turn)

    def _run_case(self, engine: PlannedEngine, request: RunCase, turn: Turn | None) -> Case:
        """Raises `TemplateLostError`."""
        try:
            worker = self._worker(engine)
        except TemplateLostError:
            raise
        except WorkerError as error:
            return case_of(request, Outcome(error.status, str(error), "import", error.detail))
        except (EngineError, EngineUnavailableError) as error:
            # It opened when the run began: now the device or the library is gone.
            return case_of(request, Outcome("failed", str(error), "import", error.detail))
        try:
            with self.breakdown.on("building"):
                case = worker.ask(request, self._timeout_s, engine.build_timeout_s, turn)
        except TemplateLostError:
            self._forget(engine)
            raise
        except WorkerError as error:
            self._forget(engine)
            return case_of(request, Outcome(error.status, str(error), worker.phase, error.detail))
        except BenchRunError as error:
            # Memory, say, is gone: what this process holds would be missing for the next case, too.
            self._workers.pop(engine.key, worker).close()
            return case_of(request, Outcome("failed", str(error), worker.phase, error.detail))
        try:
            read_value("case", encode(case), f"engine {engine.key}")
        except DocumentError as error:  # of what was measured something has no place in a document
            case = case_of(request, Outcome("failed", str(error), worker.phase))
        if worker.is_worn or case.outcome.status in ("failed", "crashed"):
            # An error may be sticky: the next case gets a fresh process.
            self._workers.pop(engine.key, worker).close()
        return case

    def _forget(self, engine: PlannedEngine) -> None:
        worker = self._workers.pop(engine.key, None)
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """End every worker: the next round starts afresh."""
        self.keep_fresh(())

    def keep_fresh(self, engines: Sequence[PlannedEngine]) -> None:
        """End every worker but those that only opened one of these engines: as good as new, they
        serve the first round."""
        kept = {engine.key for engine in engines if self._fresh.get(engine.key) == engine}
        with self.breakdown.on("ending workers"):
            for key in [key for key in self._workers if key not in kept]:
                self._workers.pop(key).close()

    def kill(self) -> None:
        for worker in list(self._workers.values()):
            worker.kill()
        self._workers.clear()
        if self._owns_launcher:
            self._launcher.close()
