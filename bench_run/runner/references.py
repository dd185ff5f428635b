"""Expected outputs of a run: the processes that compute them, and the files that keep them."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import threading
from collections import OrderedDict
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from bench_schema.document import Outcome, Validation

from bench_run.engines import PROCESSOR_ENGINES, availability
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.spec import parse_spec
from bench_run.errors import (
    BenchRunError,
    ChangedFileError,
    EngineUnavailableError,
    GraphError,
    OutputError,
    StoppedError,
    UnsupportedGraphError,
    UsageError,
    WorkerTimeoutError,
)
from bench_run.files import BoundedFolder, Scratch, cache_folder
from bench_run.machine.affinity import available_cpus
from bench_run.machine.memory import free_host_bytes
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.options.read import parse_size
from bench_run.plan.checks import golden_folder
from bench_run.plan.engines import PlannedEngine, of_spec
from bench_run.runner.memory import reference_need
from bench_run.runner.parallel.gate import Room
from bench_run.tensors.data import Data
from bench_run.tensors.seeded.roles import spelled_out
from bench_run.tensors.slots import SharedFile
from bench_run.text import size_text
from bench_run.validate.expected import sums_of
from bench_run.validate.settings import FORMULAS, GOLDEN, ValidationSettings
from bench_run.worker.life import Launcher
from bench_run.worker.main import NICE, REFERENCE_THREADS
from bench_run.worker.messages import Evaluate, Evaluated, Judge, Judged, ReadDevice
from bench_run.worker.parent.pool import WorkerPool
from bench_run.worker.reference_cache import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bench_schema.document import Case

    from bench_run.options import Validation as Settings
    from bench_run.plan.cases import PlannedGraph
    from bench_run.streams.base import Shared
    from bench_run.worker.messages import RunCase


OFF = "off"

SPOOL_BYTES = 8 << 30
"""Most that expected outputs may take on disk during a run, and most that inputs may; the oldest
make room and are computed again."""


@dataclass(frozen=True)
class Kept:
    """The folder of references that are kept across runs, and its size limit."""

    folder: str
    most_bytes: int = MOST_BYTES


def kept_references(chosen: str | None) -> Kept | None:
    """Return what ``--reference-cache`` means: ``off`` (None), a folder, or a size of the usual
    folder. Raises `UsageError` for a number without a unit."""
    if chosen == OFF:
        return None
    most_bytes = MOST_BYTES
    if chosen is not None:
        size = parse_size(chosen)
        if size is None:
            return Kept(chosen)
        if chosen.strip().replace(".", "").isdigit():
            what = (
                f"{chosen} of what? Write {chosen}GiB"
                if float(chosen)
                else "write off to keep none"
            )
            raise UsageError(f"--reference-cache {chosen}: {what}, or ./{chosen} if it is a folder")
        most_bytes = size
    base = cache_folder()
    return None if base is None else Kept(str(base / "references"), most_bytes)


def check_cache(chosen: str | None) -> None:
    """Raise `UsageError` for a chosen folder that cannot be made."""
    kept = kept_references(chosen)
    if kept is None or kept.folder != chosen:
        return
    try:
        Path(chosen).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--reference-cache {chosen}: {error.strerror or error}") from None


OWN = (FORMULAS, GOLDEN)
"""References that need no engine, only a processor."""


def reference_engine(reference: str, engines: Mapping[str, PlannedEngine]) -> PlannedEngine:
    """Return the engine whose worker computes: golden files and float64 need none of their own."""
    if reference in OWN:
        return PlannedEngine("numpy", EngineSpec("numpy", "numpy"), EngineOptions(), "none")
    if reference in engines:
        return engines[reference]
    options = replace(next(iter(engines.values())).options, timer="host")
    spec = parse_spec(reference)
    return PlannedEngine(reference, spec, of_spec(options, spec), "none")


def check_references(engines: Sequence[PlannedEngine], timeout_s: float) -> None:
    """Raise `UsageError` for a reference that is not an engine, or that cannot run here."""
    known = {engine.key: engine for engine in engines}
    for reference in dict.fromkeys(engine.reference for engine in engines):
        if reference in ("auto", "none", *OWN) or reference in known:
            continue
        try:
            engine = reference_engine(reference, known)
            if engine.spec.text != engine.spec.name:  # with an id or options of its own
                pool = WorkerPool(timeout_s)
                try:
                    pool.facts(engine)
                finally:
                    pool.close()
            elif not (available := availability(engine.spec.name)).ok:
                raise EngineUnavailableError(available.reason)
        except BenchRunError as error:
            reason = str(error).removeprefix(f"--engine {reference!r}: ")
            raise UsageError(f"--reference {reference!r}: {reason}") from None


# Workers that compute references side by side, on a machine with idle cores.
#
# On a processor they work only while the run waits for them: nothing is timed then. Beside a device
# that measures they give way to preparing and measuring.

HELPER = PROCESSOR_ENGINES[0]
"""The engine whose workers compute references: one that runs wherever this package does."""
MOST, MOST_THREADS = 8, 16
CORES_EACH = 4
"""Each helper may use all cores: one that has the last large graph should, and threads that wait
for others take no time. Several, since reading and storing use one core."""
BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

ResultT = TypeVar("ResultT")


class Helpers:
    """Threads with a pool of workers each.

    The threads last as long as the helpers: a worker dies with the thread that started it
    (PR_SET_PDEATHSIG).
    """

    def __init__(self, timeout_s: float, cores: int | None = None) -> None:
        cores = available_cpus() if cores is None else cores
        self.count = max(1, min(MOST, cores // CORES_EACH))
        behind = {**dict.fromkeys(BLAS_THREADS, "1"), NICE: "10"}
        behind[REFERENCE_THREADS] = str(min(MOST_THREADS, cores))
        self._timeout_s = timeout_s
        self._launcher = Launcher("exec", timeout_s, {HELPER: behind})
        self._own = threading.local()
        self._pools: list[WorkerPool] = []
        self.times: list[TimeBreakdown] = []
        """Times of each helper by activity."""
        self._threads = ThreadPoolExecutor(self.count, "helper", self._begin)
        self._pending: set[Future[Any]] = set()

    def open_early(self) -> None:
        """Start the first worker now, while others start as well."""
        engine = reference_engine(FORMULAS, {})
        self.submit(lambda pool: pool.facts(engine))

    def _begin(self) -> None:
        """Make the pool of a new thread."""
        self.times.append(TimeBreakdown())
        self._own.pool = WorkerPool(self._timeout_s, self._launcher, self.times[-1])
        self._pools.append(self._own.pool)

    def submit(self, work: Callable[[WorkerPool], ResultT]) -> Future[ResultT]:
        """Do the work as soon as a helper is free. Raises `RuntimeError` if they are closed."""
        future = self._threads.submit(lambda: work(self._own.pool))
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def close(self) -> None:
        """Stop all helpers at once."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        left = {future for future in list(self._pending) if not future.cancelled()}
        while True:
            for pool in list(self._pools):
                pool.kill()
            left = wait(left, timeout=0.1).not_done  # one may have been starting its worker
            if not left:
                return


# Inputs and expected outputs of a run's graphs: computed once each, kept on disk until it ends.
# Rounds that are prepared side by side ask from several threads.
#
# What computes them runs in a worker process too: a reference that crashes or needs too long costs
# the validation of one graph, and the reason is in the document.


ELEMENT_BYTES = 16
"""Upper limit of the bytes on disk of an element of an input or an expected output, doubled."""
ENTRY_BYTES = 4096
"""Bytes on disk of names and shapes."""

Key = tuple[str, str]
"""Path of a graph, and a reference."""


def most_bytes_of(graph: PlannedGraph) -> int:
    """Return the upper limit of its inputs' bytes on disk, or of its expected outputs'."""
    return ENTRY_BYTES + ELEMENT_BYTES * sum(t.elements for t in graph.loaded.graph.tensors)


@dataclass(frozen=True)
class Expected:
    """Expected outputs of a graph."""

    folder: str | None
    """Folder with the outputs; None without outputs."""
    reason: str | None = None
    """Why there are none."""
    source: Literal["computed", "read"] | None = None
    """See `ValidationSettings`."""
    sums: Mapping[str, str] = field(default_factory=dict)
    """See `ValidationSettings`."""


def _is_there(made: Future[Expected]) -> bool:
    """Return True for what is under way, and for outputs that were not removed to make room."""
    if not made.done():
        return True
    if made.cancelled() or made.exception() is not None:
        return False
    folder = made.result().folder
    return folder is None or Path(folder).exists()


def _is_of(made: Future[Expected], folder: str | None) -> bool:
    return made.done() and _is_there(made) and made.result().folder == folder


class ReferenceStore:
    """Gives every run of a case its inputs and expected outputs."""

    def __init__(
        self,
        settings: Settings,
        engines: Mapping[str, PlannedEngine],
        breakdown: TimeBreakdown | None = None,
        helpers: Helpers | None = None,
        touching: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`touching`: held while an engine of a run computes, which may need the device."""
        self._chosen, self._engines = settings, engines
        self._breakdown = TimeBreakdown() if breakdown is None else breakdown
        self._helpers = Helpers(settings.timeout_s) if helpers is None else helpers
        self._one = Helpers(settings.timeout_s, cores=1)
        """Helper processes for engines that compute references, one each."""
        self._scratch = Scratch()
        self._inputs = BoundedFolder(self._scratch.folder("inputs"), SPOOL_BYTES)
        self._outputs = BoundedFolder(self._scratch.folder("outputs"), SPOOL_BYTES)
        self._left = self._scratch.folder("left")
        """Folder for systems whose memory cannot be shared without a file."""
        self._made: dict[Key, Future[Expected]] = {}
        self._upcoming: OrderedDict[Key, PlannedGraph] = OrderedDict()
        """References of the next cases that nothing has asked for yet, in order."""
        self._numbers = itertools.count(1)
        self._touching = touching
        self._closed = self._ahead = False
        self._room = Room((free_host_bytes() // 2, 0))
        self._lock = threading.Lock()
        self.problems: dict[str, None] = {}
        """Failures other than graphs that a reference does not support, each sentence once."""
        self.notes: dict[str, None] = {}
        """Further remarks, each sentence once."""
        self._kept = kept_references(settings.reference_cache)
        self._is_new = self._kept is not None and not Path(self._kept.folder).exists()

    @property
    def times(self) -> list[TimeBreakdown]:
        """Times of the helpers while the run did not wait for all of them."""
        return self._helpers.times if self._ahead else []

    @property
    def is_strict(self) -> bool:
        """True if outputs on a device are read by another process where it allows that."""
        return self._chosen.strict

    def data(self, graph: PlannedGraph) -> Data:
        """Return the source of the inputs of a graph."""
        golden = self._golden(graph)
        init: tuple[str, ...] = (*graph.loaded.init, *self._chosen.init)
        if graph.exact is not None:  # an approximation reads what the graph itself would
            init = (*init, *spelled_out(graph.exact, init))
        return Data(
            seed=self._chosen.seed,
            init=init,
            golden=golden,
            graph_path=graph.loaded.path,
            cache=None if golden is not None else self._cache_file(graph),
        )

    def _cache_file(self, graph: PlannedGraph) -> str | None:
        """Return the file for the graph's seeded inputs; None once the run is over."""
        name = hashlib.sha256(os.fsencode(graph.id.path)).hexdigest()[:16]
        if not self._inputs.folder.is_dir():
            return None
        path = self._inputs.folder / f"{name}-{graph.id.fingerprint[:12]}"
        if not path.exists():
            self._inputs.make_room(most_bytes_of(graph))
        return str(path)

    def _golden(self, graph: PlannedGraph) -> str | None:
        return golden_folder(graph.loaded, self._chosen.golden, self._chosen.write_golden)

    def reference(self, graph: PlannedGraph, named: str) -> str:
        """Return the reference: ``auto`` is golden tensors if the graph has them, otherwise the
        float64 reference."""
        if named == "auto":
            return FORMULAS if self._golden(graph) is None else GOLDEN
        return named

    def announce(self, upcoming: Iterable[tuple[PlannedGraph, str]]) -> None:
        """Name the references of the next cases in order; some are computed at the same time."""
        keyed = [((g.id.path, self.reference(g, word)), g) for g, word in upcoming]
        wanted = ((key, g) for key, g in keyed if self._why_none(g, key[1]) is None)
        self._upcoming = OrderedDict(wanted)

    def compute_ahead(self) -> None:
        """Compute everything that was announced in the background, in order, until the run ends: at
        most one for each helper, so that what a case needs is next."""
        self._ahead = True
        for _ in range(self._helpers.count):
            self._start_next()

    def _start_next(self, _ended: object = None) -> None:
        future: Future[Expected] | None = None
        with self._lock:
            while future is None or future.done():
                if self._closed or not self._upcoming:
                    return
                future = self._start(*self._upcoming.popitem(last=False))
        future.add_done_callback(self._start_next)

    def early_settings(
        self, graph: PlannedGraph, named: str, math: str | None = None
    ) -> ValidationSettings:
        """Return the same as `validation_settings` without waiting: a missing reference is
        *pending*."""
        reference = self.reference(graph, named)
        made = self._made.get((graph.id.path, reference))
        is_known = made is not None and made.done() and _is_there(made)
        if is_known or self._why_none(graph, reference) is not None:
            return self.validation_settings(graph, named, math)
        return replace(self._settings(graph, reference, math), pending=True)

    def validation_settings(
        self, graph: PlannedGraph, named: str, math: str | None = None
    ) -> ValidationSettings:
        """Return the settings for the validation of a graph. `math`: the float32 arithmetic of the
        engine, if it is not the run's."""
        reference = self.reference(graph, named)
        expected = self._expected(graph, reference)
        return replace(
            self._settings(graph, reference, math),
            expected=expected.folder,
            sums=expected.sums,
            reason=expected.reason,
            source=expected.source,
        )

    def _settings(
        self, graph: PlannedGraph, reference: str, math: str | None
    ) -> ValidationSettings:
        chosen = self._chosen
        from bench_run.validate.tolerance import sidecar_of

        sidecar = sidecar_of(graph.id.path)
        return ValidationSettings(
            reference=reference,
            expected=None,
            policy=chosen.tolerance,
            rtol=chosen.rtol,
            atol=chosen.atol,
            matched=chosen.matched,
            cosine=chosen.cosine,
            mismatches=chosen.mismatches,
            budget_s=chosen.check_budget_s,
            save_outputs=chosen.save_outputs,
            math=chosen.math if math is None else math,
            # a pair's path may be longer than any name: `Path.is_file` would raise
            sidecar=str(sidecar) if os.path.isfile(sidecar) else None,
        )

    def _why_none(self, graph: PlannedGraph, reference: str) -> str | None:
        if reference == "none":
            return "no reference was requested"
        if reference == GOLDEN and self._golden(graph) is None:
            return "the graph has no golden tensors"
        return None

    def _expected(self, graph: PlannedGraph, reference: str) -> Expected:
        """Wait for the expected outputs; if nothing is being measured, also for those computed
        alongside."""
        reason = self._why_none(graph, reference)
        if reason is not None:
            return Expected(None, reason)
        key = (graph.id.path, reference)
        with self._lock:
            was_announced = key in self._upcoming
            if self._ahead:
                self._upcoming.pop(key, None)
            elif was_announced:  # those before it are not asked for any more
                while self._upcoming.popitem(last=False)[0] != key:
                    pass
            is_new = key not in self._made or not _is_there(self._made[key])
            futures = [self._start(key, graph)]
            if is_new and was_announced and not self._ahead and reference in OWN:
                # What is needed next can be computed at the same time.
                later = ((k, g) for k, g in self._upcoming.items() if k[1] in OWN)
                beside = itertools.islice(later, self._helpers.count - 1)
                futures += [self._start(other, its_graph) for other, its_graph in beside]
        for future in futures[1:]:
            self._wait(future, "reference")
        return self._result(futures[0], "reference")

    def _start(self, key: Key, graph: PlannedGraph) -> Future[Expected]:
        """Return what computes a reference, or has; the caller holds the lock."""
        made = self._made.get(key)
        if made is None or not _is_there(made):
            if self._closed:
                raise StoppedError
            helpers = self._helpers if key[1] in OWN else self._one
            made = helpers.submit(lambda pool: self._compute(key[1], graph, pool))
            self._made[key] = made
        return made

    def _helped(
        self, helpers: Helpers, activity: str, work: Callable[[WorkerPool], ResultT]
    ) -> ResultT:
        """Return what a helper makes. Raises its errors, and `StoppedError`."""
        with self._lock:
            if self._closed:
                raise StoppedError
            future = helpers.submit(work)
        return self._result(future, activity)

    def _result(self, future: Future[ResultT], activity: str) -> ResultT:
        self._wait(future, activity)
        return future.result()

    def _wait(self, future: Future[Any], activity: str) -> None:
        try:
            with nullcontext() if self._ahead else self._breakdown.on(activity):
                future.exception()
        except CancelledError:
            raise StoppedError from None

    def outputs_file(self) -> SharedFile:
        """Return memory for what a round leaves in its outputs, see `judge`."""
        return SharedFile(self._left)

    def judge(
        self, case: Case, request: RunCase, settings: Callable[[], ValidationSettings]
    ) -> Case:
        """Return a round's case with the judgement of its outputs: compared now, by a process that
        has not loaded its engine. `settings` waits for the expected outputs; where these were
        changed on disk they are computed again, and that is noted."""
        if not case.rounds or request.outputs_file is None:
            return case
        known = settings()
        try:
            try:
                found = self._judged(request, known)
            except ChangedFileError as error:
                self.notes[f"{error}: they were computed again"] = None
                with self._lock:
                    self._made = {
                        key: made
                        for key, made in self._made.items()
                        if not _is_of(made, known.expected)
                    }
                found = self._judged(request, settings())
            except WorkerTimeoutError:  # the reference takes too long to be computed once more
                found = self._judged(request, known, samples=False)
        except (GraphError, OutputError, UsageError) as error:  # tolerances, files of the user
            return replace(case, outcome=Outcome("failed", str(error), "validate"))
        except BenchRunError as error:
            reason = f"the outputs could not be compared: {error}"
            failed = Validation("failed", known.reference, reason, (), 0, 0, None)
            found = Judged(failed, None, None)
        rounds = tuple(
            replace(each, checks=found.checks, checksum=found.checksum) for each in case.rounds
        )
        return replace(case, validation=found.validation, rounds=rounds)

    def _judged(
        self, request: RunCase, settings: ValidationSettings, *, samples: bool = True
    ) -> Judged:
        """Ask a process for the judgement. Raises its errors, `ChangedFileError` where the expected
        outputs are not what they were, and `StoppedError`."""
        assert request.outputs_file is not None
        by_engine = settings.expected is not None and settings.reference not in OWN
        asked = Judge(
            case_id=request.case_id,
            graph=request.graph,
            fingerprint=request.graph_id.fingerprint,
            data=request.data,
            settings=settings,
            secret=request.secret,
            outputs_file=request.outputs_file,
            slots=request.slots,
            engine=by_engine,
            samples=samples,
            round_index=request.round_index,
        )
        if settings.expected is None and settings.save_outputs is None:
            from bench_run.worker.judge import judge  # only what was seen with the samples

            return judge(None, asked)
        engine = reference_engine(settings.reference if by_engine else FORMULAS, self._engines)
        touching = self._touching if by_engine else nullcontext

        def ask(pool: WorkerPool) -> Judged:
            with self._room.take((reference_need(request.graph), 0)), touching():
                return pool.ask(engine, asked)

        return self._helped(self._one if by_engine else self._helpers, "validating", ask)

    def read_device(self, request: RunCase, device: str, shared: Shared) -> bool:
        """Let a process that has not loaded the engine copy outputs from the device; False, which
        is noted, if it cannot."""
        assert request.outputs_file is not None
        asked = ReadDevice(request.graph, device, shared, request.outputs_file, request.slots)
        engine = reference_engine(FORMULAS, self._engines)
        try:
            self._helped(self._helpers, "validating", lambda pool: pool.ask(engine, asked))
        except StoppedError:
            raise
        except BenchRunError as error:
            self.notes[f"--strict: outputs were copied by the engine's process: {error}"] = None
            return False
        return True

    def _compute(self, reference: str, graph: PlannedGraph, pool: WorkerPool) -> Expected:
        """Compute a reference, in a helper's thread."""
        with self._room.take((reference_need(graph.loaded.graph), 0)):
            return self._evaluate(graph, reference, pool)

    def _evaluate(self, graph: PlannedGraph, reference: str, pool: WorkerPool) -> Expected:
        self._outputs.make_room(most_bytes_of(graph))
        kept = self._kept
        request = Evaluate(
            graph=graph.loaded.graph,
            data=self.data(graph),
            folder=str(self._outputs.folder / f"{next(self._numbers)}-{graph.id.fingerprint[:12]}"),
            engine=reference not in OWN,
            kept=None if kept is None else kept.folder,
            kept_bytes=0 if kept is None else kept.most_bytes,
            write_golden=self._chosen.write_golden,
            stem=Path(graph.id.path).stem,
            exact=graph.exact,
            math=self._chosen.math,
        )
        problem: BenchRunError | None = None
        answer = Evaluated()
        try:
            with nullcontext() if reference in OWN else self._touching():
                answer = pool.ask(reference_engine(reference, self._engines), request)
        except BenchRunError as error:
            problem = error
        self._note_kept(answer)
        if problem is None:
            return Expected(request.folder, None, answer.source, answer.sums)
        if isinstance(problem, OutputError) and Path(request.folder).exists():
            self.problems[f"--write-golden: {problem}"] = None  # and not about these outputs
            return Expected(request.folder, sums=sums_of(Path(request.folder)))
        shutil.rmtree(request.folder, ignore_errors=True)
        reason = f"the reference {reference} gave no outputs: {problem}"
        if not isinstance(problem, UnsupportedGraphError):
            self.problems[reason] = None
        return Expected(None, reason)

    def _note_kept(self, answer: Evaluated) -> None:
        """Note what became of a reference that is kept for later runs."""
        if answer.damaged:
            self.notes["a kept reference was damaged: it was computed again"] = None
        if answer.not_kept is not None:
            self.notes[f"references are not kept for later runs: {answer.not_kept}"] = None
        if self._is_new and self._kept is not None and Path(self._kept.folder).exists():
            size = size_text(self._kept.most_bytes)
            how = "another size or folder, or none: --reference-cache SIZE, DIR, off"
            self.notes[f"references are kept in {self._kept.folder}, at most {size}; {how}"] = None

    def stop(self) -> None:
        """Raise `StoppedError` in each thread that waits, and at later requests."""
        with self._lock:
            self._closed = True
        self._room.stop()
        for helpers in (self._helpers, self._one):
            helpers.close()

    def close(self) -> None:
        self.stop()
        self._scratch.close()
