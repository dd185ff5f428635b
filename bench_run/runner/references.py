"""Inputs and expected outputs of a run's graphs: computed once each, kept on disk until it ends.
Rounds that are prepared side by side ask from several threads.

What computes them runs in a worker process too: a reference that crashes or needs too long costs
the validation of one graph, and the reason is in the document.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.engines import availability
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.spec import parse_spec
from bench_run.errors import (
    BenchRunError,
    EngineUnavailableError,
    OutputError,
    UnsupportedGraphError,
    UsageError,
)
from bench_run.files import Scratch
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.plan.cases import PlannedEngine, PlannedGraph, of_spec
from bench_run.runner.reference_workers import Helpers, take_fitting
from bench_run.tensors.data import Data
from bench_run.validate.settings import FORMULAS, GOLDEN, ValidationSettings
from bench_run.worker.messages import Evaluate
from bench_run.worker.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bench_run.options import Options

SPOOL_BYTES = 8 << 30
"""Most that expected outputs may take on disk, and most that inputs may; the oldest make room and
are computed again."""

OWN = (FORMULAS, GOLDEN)
"""References that need no engine, only a processor."""


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
        self._scratch = Scratch()
        self._inputs = self._scratch.folder("inputs")
        self._outputs = self._scratch.folder("outputs")
        self._known: dict[tuple[str, str], tuple[str | None, str | None]] = {}
        self._computed = 0
        self._touching = touching
        self._closed = False
        self._lock, self._input_lock = threading.Lock(), threading.Lock()
        self.problems: dict[str, None] = {}
        """What failed, beside graphs that a reference does not support, each sentence once."""
        self._upcoming: dict[tuple[str, str], PlannedGraph] = {}

    def data(self, graph: PlannedGraph) -> Data:
        """Where the inputs of a graph come from."""
        golden = self._golden(graph)
        return Data(
            seed=self._options.seed,
            init=self._options.init,
            golden=golden,
            graph_path=graph.loaded.path,
            cache=None if golden is not None else self._cache_file(graph),
        )

    def _cache_file(self, graph: PlannedGraph) -> str | None:
        """File for the graph's seeded inputs; None once the run is over."""
        name = hashlib.sha256(graph.id.path.encode()).hexdigest()[:16]
        with self._input_lock:
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
            from bench_run.tensors.golden import find_golden

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
        with self._lock_or_not() as free:
            known = free and not self._is_missing((graph.id.path, reference))
        if known or self._why_none(graph, reference) is not None:
            return self.validation_settings(graph, asked, math)
        return replace(self._settings(graph, reference, math), pending=True)

    def compute_announced(self) -> None:
        """Everything that was announced, until the run ends; for a thread of its own."""
        for (_, reference), graph in list(self._upcoming.items()):
            if self._closed:
                return
            try:
                self._expected(graph, reference)
            except (BenchRunError, OSError, RuntimeError):
                return  # the run is ending, or whoever wants the outputs meets the same error

    @contextmanager
    def _lock_or_not(self) -> Iterator[bool]:
        """Whether nothing is being computed right now."""
        free = self._lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def validation_settings(
        self, graph: PlannedGraph, asked: str, math: str | None = None
    ) -> ValidationSettings:
        """`math`: the float32 arithmetic of the engine, where it is not the run's."""
        reference = self.reference(graph, asked)
        folder, reason = self._expected(graph, reference)
        return replace(self._settings(graph, reference, math), expected=folder, reason=reason)

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

    def _expected(self, graph: PlannedGraph, reference: str) -> tuple[str | None, str | None]:
        """Folder with the expected outputs, or None and the reason."""
        reason = self._why_none(graph, reference)
        if reason is not None:
            return None, reason
        key = (graph.id.path, reference)
        with self._lock:
            if self._is_missing(key):
                self._compute([(graph, reference), *self._beside(key)])
            return self._known[key]

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
        folder, _ = self._known[key]
        return folder is not None and not Path(folder).exists()

    def _beside(self, key: tuple[str, str]) -> list[tuple[PlannedGraph, str]]:
        """What is needed next and can be computed at the same time."""
        keys = list(self._upcoming)
        if key not in self._upcoming or key[1] not in OWN:
            return []
        later = [k for k in keys[keys.index(key) + 1 :] if k[1] in OWN and self._is_missing(k)]
        several = [key, *later[: self._helpers.count - 1]]
        fitting = list(take_fitting([self._upcoming[k].loaded.graph for k in several]))
        return [(self._upcoming[k], k[1]) for k in several[1 : len(fitting)]]

    def _compute(self, asked: Sequence[tuple[PlannedGraph, str]]) -> None:
        make_room(self._outputs)
        tasks = [self._task(graph, reference) for graph, reference in asked]
        foreign = any(reference not in OWN for _, reference in asked)
        touching = self._touching() if foreign else nullcontext()
        with self._breakdown.on("reference"), touching:
            problems = self._helpers.evaluate(tasks)
        for (graph, reference), (_, request), problem in zip(asked, tasks, problems, strict=True):
            entry: tuple[str | None, str | None] = (request.folder, None)
            stored = isinstance(problem, OutputError) and Path(request.folder).exists()
            if problem is not None and not stored:
                shutil.rmtree(request.folder, ignore_errors=True)
                entry = None, f"the reference {reference} gave no outputs: {problem}"
            if problem is not None and not isinstance(problem, UnsupportedGraphError):
                self.problems[entry[1] or f"--write-golden: {problem}"] = None
            self._known[graph.id.path, reference] = entry

    def _task(self, graph: PlannedGraph, reference: str) -> tuple[PlannedEngine, Evaluate]:
        self._computed += 1
        request = Evaluate(
            graph=graph.loaded.graph,
            data=self.data(graph),
            folder=str(self._outputs / f"{self._computed}-{graph.id.fingerprint[:12]}"),
            engine=reference not in OWN,
            write_golden=self._options.write_golden,
            stem=Path(graph.id.path).stem,
        )
        return reference_engine(reference, self._engines), request

    def close(self) -> None:
        self._closed = True
        self._helpers.close()
        self._scratch.close()


def reference_engine(reference: str, engines: Mapping[str, PlannedEngine]) -> PlannedEngine:
    """The engine whose worker computes: golden files and float64 need none of their own."""
    if reference in OWN:
        return PlannedEngine("numpy", EngineSpec("numpy", "numpy"), EngineOptions(), "none")
    if reference in engines:
        return engines[reference]
    options = replace(next(iter(engines.values())).options, timer="host")
    spec = parse_spec(reference)
    return PlannedEngine(reference, spec, of_spec(options, spec), "none")


def check_references(engines: Sequence[PlannedEngine], timeout_s: float) -> None:
    """Raises `UsageError` for a reference that is no engine, or one that cannot run here."""
    known = {engine.key: engine for engine in engines}
    for reference in dict.fromkeys(engine.reference for engine in engines):
        if reference in ("auto", "none", *OWN) or reference in known:
            continue
        try:
            _try_engine(reference_engine(reference, known), timeout_s)
        except BenchRunError as error:
            reason = str(error).removeprefix(f"--engine {reference!r}: ")
            raise UsageError(f"--reference {reference!r}: {reason}") from None


def _try_engine(engine: PlannedEngine, timeout_s: float) -> None:
    """Open an engine with an id or options of its own; of others it is known beforehand."""
    spec = engine.spec
    if spec.text == spec.name:
        found = availability(spec.name)
        if not found.ok:
            raise EngineUnavailableError(found.reason)
        return
    pool = WorkerPool(timeout_s, {})
    try:
        pool.facts(engine)
    finally:
        pool.close()


def _sidecar(graph: PlannedGraph) -> str | None:
    """The file with the graph's own tolerances, if there is one."""
    from bench_run.validate.tolerance import sidecar_of

    path = sidecar_of(graph.id.path)
    return str(path) if path.is_file() else None


def make_room(folder: Path, most_bytes: int = SPOOL_BYTES) -> None:
    """Remove the oldest of what lies in the folder until the rest is small enough."""
    oldest_first = sorted(folder.iterdir(), key=_changed_at)
    sizes = {path: _bytes_of(path) for path in oldest_first}
    total = sum(sizes.values())
    for path, size in sizes.items():
        if total <= most_bytes:
            return
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        total -= size


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _bytes_of(path: Path) -> int:
    """0 for what is gone meanwhile: workers put files in their places all the time."""
    total = 0
    with suppress(FileNotFoundError):
        for file in path.iterdir() if path.is_dir() else (path,):
            total += file.stat().st_size
    return total
