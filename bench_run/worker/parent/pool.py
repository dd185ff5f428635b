"""The worker processes of a run: one for each engine and round, replaced when they die."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Literal

from bench_schema.codec import encode
from bench_schema.document import Case, Outcome
from bench_schema.errors import DocumentError
from bench_schema.journal import read_value

from bench_run.errors import (
    BenchRunError,
    EngineError,
    EngineUnavailableError,
    TemplateLostError,
    WorkerError,
)
from bench_run.machine.affinity import available_cpus
from bench_run.machine.memory import free_host_bytes
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.worker.life import Launcher
from bench_run.worker.messages import (
    AnswerT,
    EngineOpened,
    Open,
    Request,
    RunCase,
    case_of,
)
from bench_run.worker.parent.process import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.engines.base import EngineFacts
    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.process import Turn

    Start = Callable[[PlannedEngine], tuple[Worker, EngineOpened]]


def contents(facts: EngineFacts) -> object:
    """Return the hashes of the files of an engine; rounds of one run need the same."""
    files = {n: v for n, v in facts.libraries.items() if n.endswith(".py")}
    return facts.plugin_sha256, files


MOST_AHEAD = 4
BYTES_EACH = 2 << 30
"""Memory of a worker with PyTorch on a processor, with room."""


class Ahead:
    """Workers on a processor that were opened before their round, several at the same time, on a
    core each: no case is measured then. They wait for their round without work. Shared by a pool
    and those beside it."""

    def __init__(self) -> None:
        self.rounds = 1
        """Rounds to come: as many workers of each engine will be needed."""
        self.on_host: set[str] = set()
        """Keys of engines that turned out to work on a processor."""
        self._waiting: dict[str, list[tuple[Worker, EngineOpened]]] = {}

    def take(self, engine: PlannedEngine, start: Start) -> tuple[Worker, EngineOpened]:
        """Return an opened worker. Raises what opening raises."""
        waiting = self._waiting.setdefault(engine.key, [])
        while waiting:
            worker, opened = waiting.pop(0)
            if worker.is_alive:
                return worker, opened
            worker.kill()
        room = int(min(MOST_AHEAD, available_cpus(), free_host_bytes() // BYTES_EACH))
        count = max(1, min(self.rounds, room))
        if count == 1 or engine.key not in self.on_host:
            return start(engine)
        with ThreadPoolExecutor(count) as threads:  # on the list at once, so that `kill` ends them
            opening = [threads.submit(lambda: waiting.append(start(engine))) for _ in range(count)]
        if not waiting:
            opening[0].result()
        return waiting.pop(0)

    def kill(self) -> bool:
        """End the waiting workers; return False if there was none."""
        ended = False
        for waiting in self._waiting.values():
            while waiting:
                waiting.pop()[0].kill()
                ended = True
        return ended


class WorkerPool:
    """Workers by engine key. Asking for an engine starts its worker when there is none."""

    def __init__(
        self,
        timeout_s: float,
        launcher: Launcher | None = None,
        breakdown: TimeBreakdown | None = None,
    ) -> None:
        """`launcher` starts the workers and is closed by its owner; by default each worker starts
        from nothing."""
        self._timeout_s = timeout_s
        self._launcher = Launcher("exec", timeout_s) if launcher is None else launcher
        self.breakdown = TimeBreakdown() if breakdown is None else breakdown
        self._workers: dict[str, Worker] = {}
        self._fresh: dict[str, PlannedEngine] = {}
        """Engines whose workers did nothing yet but open them."""
        self.opened: dict[str, EngineOpened] = {}
        self._contents: dict[str, object] = {}
        """Hashes of the files of each engine when it was first opened; shared with pools beside."""
        self.ahead = Ahead()
        self.endings: dict[str, str] = {}
        """The signal by which an engine's process ended after its results were in; shared too."""

    def ending_notes(self) -> list[str]:
        """Return sentences on libraries that ended their process when they were closed."""
        return [
            f"{key}: its process ended by {ended_by} after its results were in"
            for key, ended_by in self.endings.items()
        ]

    def facts(self, engine: PlannedEngine) -> EngineFacts:
        """Return the facts that the engine reported when it was opened; open it if needed."""
        if engine.key not in self.opened:
            self._start(engine)
        return self.opened[engine.key].facts

    def open_side_by_side(self, engines: Sequence[PlannedEngine]) -> None:
        """Open those that are not open yet at the same time. An engine that cannot be opened is
        left out: `facts` meets the error again."""
        closed = [engine for engine in engines if engine.key not in self.opened]
        with self.breakdown.on("starting workers"), ThreadPoolExecutor() as threads:
            for engine, opening in [(each, threads.submit(self._open, each)) for each in closed]:
                if opening.exception() is None:
                    self._enter(engine, *opening.result())

    def rename(self, engine: PlannedEngine, copy: PlannedEngine) -> None:
        """Let the worker of an engine serve its copy on the same device."""
        self._workers[copy.key] = self._workers.pop(engine.key)
        self.opened[copy.key] = self.opened[engine.key]
        del self._fresh[engine.key]
        self._fresh[copy.key] = copy

    def _worker(self, engine: PlannedEngine) -> Worker:
        """Return the engine's worker, for more than opening."""
        worker = self._workers.get(engine.key)
        if worker is None:
            worker = self._start(engine)
        self._fresh.pop(engine.key, None)
        return worker

    def _start(self, engine: PlannedEngine) -> Worker:
        with self.breakdown.on("starting workers"):
            self._enter(engine, *self.ahead.take(engine, self._open))
            return self._workers[engine.key]

    def _open(self, engine: PlannedEngine) -> tuple[Worker, EngineOpened]:
        """Start a worker that opens the engine; return the worker and its answer. Thread-safe."""
        worker = Worker(partial(self._launcher.start, engine))
        try:
            return worker, worker.ask(Open(engine.spec, engine.options), self._timeout_s)
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
        if opened.facts.device == "cpu":
            self.ahead.on_host.add(engine.key)
        worker.announce = self.breakdown.phase
        self._workers[engine.key] = worker
        self._fresh[engine.key] = engine
        self.opened[engine.key] = opened

    @property
    def worker_start(self) -> Literal["exec", "fork"]:
        """The way in which most workers start; waits for the templates."""
        return self._launcher.worker_start

    def beside(self, breakdown: TimeBreakdown) -> WorkerPool:
        """Return another pool whose workers start as those of this one do; for another thread."""
        pool = WorkerPool(self._timeout_s, self._launcher, breakdown)
        pool._contents, pool.endings, pool.ahead = self._contents, self.endings, self.ahead
        return pool

    def hand_over(self, engine: PlannedEngine, other: WorkerPool) -> None:
        """Move a worker that has only opened the engine to the other pool."""
        if self._fresh.pop(engine.key, None) is not None:
            worker = self._workers.pop(engine.key)
            worker.announce = other.breakdown.phase
            other._workers[engine.key] = worker
            other.opened[engine.key] = self.opened[engine.key]

    def ask(self, engine: PlannedEngine, request: Request[AnswerT]) -> AnswerT:
        """Return the answer of the engine's worker. Raises the error that the worker met, and
        `WorkerError` if the worker is lost: the next request starts another one."""
        worker = self._worker(engine)
        try:
            with self.breakdown.on(request.activity):
                return worker.ask(request, self._timeout_s, engine.build_timeout_s)
        except WorkerError:
            self._forget(engine)
            raise

    def run_case(self, engine: PlannedEngine, request: RunCase, turn: Turn | None = None) -> Case:
        """Return the case with this round; whatever the worker does becomes an outcome. `turn` is
        how it comes to a device that it shares. A worker that was lost with its template costs
        nothing: another one, started afresh, runs the case."""
        try:
            return self._run_case(engine, request, turn)
        except TemplateLostError:
            return self._run_case(engine, request, turn)

    def _run_case(self, engine: PlannedEngine, request: RunCase, turn: Turn | None) -> Case:
        """Run a case. Raises `TemplateLostError`."""
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
            with self.breakdown.on(request.activity):
                case = worker.ask(request, self._timeout_s, engine.build_timeout_s, turn)
        except TemplateLostError:
            self._forget(engine)
            raise
        except WorkerError as error:
            self._forget(engine)
            return case_of(request, Outcome(error.status, str(error), worker.phase, error.detail))
        except BenchRunError as error:
            # Memory, say, is gone: what this process holds would be missing for the next case, too.
            self._close(engine.key)
            return case_of(request, Outcome("failed", str(error), worker.phase, error.detail))
        try:
            read_value("case", encode(case), f"engine {engine.key}")
        except DocumentError as error:  # of what was measured something has no place in a document
            case = case_of(request, Outcome("failed", str(error), worker.phase))
        if worker.is_worn or case.outcome.status in ("failed", "crashed"):
            # An error may be sticky: the next case gets a fresh process.
            self._close(engine.key)
        return case

    def _close(self, key: str) -> None:
        self._fresh.pop(key, None)
        ended_by = self._workers.pop(key).close()
        if ended_by is not None:
            self.endings[key] = ended_by

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
                self._close(key)

    def kill(self) -> None:
        self.ahead.kill()
        for worker in list(self._workers.values()):
            worker.kill()
        self._workers.clear()
        self._fresh.clear()
