"""Inputs and expected outputs of a run's graphs: computed once each, kept on disk until it ends.
Rounds that are prepared side by side ask from several threads.

What computes them runs in a worker process too: a reference that crashes or needs too long costs
the validation of one graph, and the reason is in the document.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import threading
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil

from bench_run.errors import (
    BenchRunError,
    OutputError,
    StoppedError,
    UnsupportedGraphError,
)
from bench_run.files import Scratch
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.runner.parallel.room import Room
from bench_run.runner.references.engines import OWN, reference_engine
from bench_run.runner.references.spool import cache_folder, make_room
from bench_run.runner.references.workers import Helpers
from bench_run.tensors.data import Data
from bench_run.validate.settings import FORMULAS, GOLDEN, ValidationSettings
from bench_run.worker.messages import Evaluate, Evaluated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from bench_run.graph.model import Graph
    from bench_run.options import Options
    from bench_run.plan.cases import PlannedGraph
    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.pool import WorkerPool

ELEMENT_BYTES = 16
"""What an element takes while it is computed: float64, and another one on the way."""

Key = tuple[str, str]
"""Path of a graph, and a reference."""


@dataclass(frozen=True)
class Expected:
    """What outputs are compared with."""

    folder: str | None
    """With the outputs; None where there are none."""
    reason: str | None = None
    """Why there are none."""
    source: Literal["computed", "read"] | None = None
    """See `ValidationSettings`."""


class ReferenceStore:
    """Gives every run of a case its inputs and expected outputs."""

    def __init__(
        self,
        options: Options,
        engines: Mapping[str, PlannedEngine],
        breakdown: TimeBreakdown | None = None,
        helpers: Helpers | None = None,
        touching: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`touching`: held while an engine of a run computes, which may need the device."""
        self._options = options
        self._engines = engines
        self._breakdown = TimeBreakdown() if breakdown is None else breakdown
        self._helpers = Helpers(options.timeout_s) if helpers is None else helpers
        self._one = Helpers(options.timeout_s, cores=1)
        """For engines that compute references: each has one process."""
        self._scratch = Scratch()
        self._inputs = self._scratch.folder("inputs")
        self._outputs = self._scratch.folder("outputs")
        self._known: dict[Key, Expected] = {}
        self._pending: dict[Key, Future[Expected]] = {}
        self._numbers = itertools.count(1)
        self._touching = touching
        self._closed = self._ahead = False
        self._room = Room((psutil.virtual_memory().available // 2, 0))
        self._lock, self._spool_lock = threading.Lock(), threading.Lock()
        self.problems: dict[str, None] = {}
        """What failed, beside graphs that a reference does not support, each sentence once."""
        self.notes: dict[str, None] = {}
        """What else is to be told, each sentence once."""
        self._kept = cache_folder(options.reference_cache)
        self._upcoming: dict[Key, PlannedGraph] = {}

    @property
    def times(self) -> list[TimeBreakdown]:
        """What the helpers did while nobody waited for all of them."""
        return self._helpers.times if self._ahead else []

    def data(self, graph: PlannedGraph) -> Data:
        """Where the inputs of a graph come from."""
        golden = self._golden(graph)
        return Data(
            seed=self._options.seed,
            init=(*graph.loaded.init, *self._options.init),
            golden=golden,
            graph_path=graph.loaded.path,
            cache=None if golden is not None else self._cache_file(graph),
        )

    def _cache_file(self, graph: PlannedGraph) -> str | None:
        """File for the graph's seeded inputs; None once the run is over."""
        name = hashlib.sha256(graph.id.path.encode()).hexdigest()[:16]
        with self._spool_lock:
            if not self._inputs.is_dir():
                return None
            path = self._inputs / f"{name}-{graph.id.fingerprint[:12]}"
            if not path.exists():
                make_room(self._inputs)
        return str(path)

    def _golden(self, graph: PlannedGraph) -> str | None:
        """Folder of the graph's golden tensors: the one asked for, else the one beside it."""
        if self._options.write_golden is not None:
            return None
        if self._options.golden is not None:
            from bench_run.tensors.golden.bundles import find_golden

            asked = self._options.golden
            return asked if find_golden(graph.id.path, asked) is not None else None
        return None if graph.loaded.golden is None else str(graph.loaded.golden)

    def reference(self, graph: PlannedGraph, asked: str) -> str:
        """``auto`` is golden tensors where the graph has them, else the float64 reference."""
        if asked == "auto":
            return FORMULAS if self._golden(graph) is None else GOLDEN
        return asked

    def announce(self, asked: Iterable[tuple[PlannedGraph, str]]) -> None:
        """What the next cases will ask for, in their order: some is computed side by side."""
        keyed = [((g.id.path, self.reference(g, word)), g) for g, word in asked]
        self._upcoming = {key: g for key, g in keyed if self._why_none(g, key[1]) is None}

    def early_settings(
        self, graph: PlannedGraph, asked: str, math: str | None = None
    ) -> ValidationSettings:
        """As `validation_settings`, but nobody waits: what is not known yet is *pending*."""
        reference = self.reference(graph, asked)
        with self._lock:
            known = not self._is_missing((graph.id.path, reference))
        if known or self._why_none(graph, reference) is not None:
            return self.validation_settings(graph, asked, math)
        return replace(self._settings(graph, reference, math), pending=True)

    def compute_ahead(self) -> None:
        """Everything that was announced is computed meanwhile, until the run ends."""
        self._ahead = True
        threading.Thread(target=self._compute_announced, daemon=True).start()

    def _compute_announced(self) -> None:
        """In their order, never more than there are helpers: what somebody waits for is next."""
        free = threading.Semaphore(self._helpers.count)
        for key, graph in list(self._upcoming.items()):
            free.acquire()
            with self._lock:
                if self._closed:
                    return
                if not self._is_missing(key):
                    free.release()
                    continue
                future = self._start(key, graph)
            future.add_done_callback(lambda _: free.release())

    def validation_settings(
        self, graph: PlannedGraph, asked: str, math: str | None = None
    ) -> ValidationSettings:
        """`math`: the float32 arithmetic of the engine, where it is not the run's."""
        reference = self.reference(graph, asked)
        found = self._expected(graph, reference)
        settings = self._settings(graph, reference, math)
        return replace(settings, expected=found.folder, reason=found.reason, source=found.source)

    def _settings(
        self, graph: PlannedGraph, reference: str, math: str | None
    ) -> ValidationSettings:
        options = self._options
        return ValidationSettings(
            reference=reference,
            expected=None,
            policy=options.tolerance,
            rtol=options.rtol,
            atol=options.atol,
            mismatches=options.mismatches,
            budget_s=options.check_budget_s,
            save_outputs=options.save_outputs,
            math=options.math if math is None else math,
            sidecar=_sidecar(graph),
        )

    def _expected(self, graph: PlannedGraph, reference: str) -> Expected:
        """Waits for it; where nobody measures meanwhile also for what is computed beside it."""
        reason = self._why_none(graph, reference)
        if reason is not None:
            return Expected(None, reason)
        key = (graph.id.path, reference)
        with self._lock:
            if not self._is_missing(key):
                return self._known[key]
            if self._closed:
                raise StoppedError
            futures = [self._start(key, graph)]
            if not self._ahead:
                futures += [self._start(*other) for other in self._beside(key)]
        try:
            with nullcontext() if self._ahead else self._breakdown.on("reference"):
                for future in futures:
                    future.exception()
        except CancelledError:
            raise StoppedError from None
        return futures[0].result()

    def _why_none(self, graph: PlannedGraph, reference: str) -> str | None:
        if reference == "none":
            return "no reference was requested"
        if reference == GOLDEN and self._golden(graph) is None:
            return "the graph has no golden tensors"
        return None

    def _is_missing(self, key: tuple[str, str]) -> bool:
        """Not computed yet, or removed to make room."""
        if key not in self._known:
            return True
        folder = self._known[key].folder
        return folder is not None and not Path(folder).exists()

    def _beside(self, key: Key) -> list[tuple[Key, PlannedGraph]]:
        """What is needed next and can be computed at the same time."""
        keys = list(self._upcoming)
        if key not in self._upcoming or key[1] not in OWN:
            return []
        later = [k for k in keys[keys.index(key) + 1 :] if k[1] in OWN and self._is_missing(k)]
        return [(k, self._upcoming[k]) for k in later[: self._helpers.count - 1]]

    def _start(self, key: Key, graph: PlannedGraph) -> Future[Expected]:
        """Within the lock."""
        if key not in self._pending:
            helpers = self._helpers if key[1] in OWN else self._one
            self._pending[key] = helpers.submit(lambda pool: self._compute(key, graph, pool))
        return self._pending[key]

    def _compute(self, key: Key, graph: PlannedGraph, pool: WorkerPool) -> Expected:
        """In a helper's thread."""
        try:
            with self._room.take((_memory_bytes(graph.loaded.graph), 0)):
                found = self._evaluate(graph, key[1], pool)
            with self._lock:
                self._known[key] = found
            return found
        finally:
            with self._lock:
                del self._pending[key]

    def _evaluate(self, graph: PlannedGraph, reference: str, pool: WorkerPool) -> Expected:
        with self._spool_lock:
            make_room(self._outputs)
        engine, request = self._task(graph, reference)
        problem: BenchRunError | None = None
        answer = Evaluated()
        try:
            with nullcontext() if reference in OWN else self._touching():
                answer = pool.evaluate(engine, request)
        except BenchRunError as error:
            problem = error
        if answer.not_kept is not None:
            self.notes[f"references are not kept for later runs: {answer.not_kept}"] = None
        found = Expected(request.folder, None, answer.source)
        stored = isinstance(problem, OutputError) and Path(request.folder).exists()
        if problem is not None and not stored:
            shutil.rmtree(request.folder, ignore_errors=True)
            found = Expected(None, f"the reference {reference} gave no outputs: {problem}")
        if problem is not None and not isinstance(problem, UnsupportedGraphError):
            self.problems[found.reason or f"--write-golden: {problem}"] = None
        return found

    def _task(self, graph: PlannedGraph, reference: str) -> tuple[PlannedEngine, Evaluate]:
        request = Evaluate(
            graph=graph.loaded.graph,
            data=self.data(graph),
            folder=str(self._outputs / f"{next(self._numbers)}-{graph.id.fingerprint[:12]}"),
            engine=reference not in OWN,
            kept=self._kept,
            write_golden=self._options.write_golden,
            stem=Path(graph.id.path).stem,
        )
        return reference_engine(reference, self._engines), request

    def stop(self) -> None:
        """Whoever waits, or asks for what is not known, gets `StoppedError`."""
        with self._lock:
            self._closed = True
        self._room.stop()
        self._helpers.close()
        self._one.close()

    def close(self) -> None:
        self.stop()
        self._scratch.close()


def _memory_bytes(graph: Graph) -> int:
    return ELEMENT_BYTES * sum(tensor.elements for tensor in graph.tensors)


def _sidecar(graph: PlannedGraph) -> str | None:
    """The file with the graph's own tolerances, if there is one."""
    from bench_run.validate.tolerance import sidecar_of

    path = sidecar_of(graph.id.path)
    return str(path) if os.path.isfile(path) else None  # a pair's may be longer than any name
