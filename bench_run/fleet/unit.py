"""One unit of a fleet: a GPU, or the processors of a host. It runs blocks of cases as an ordinary
run does, and keeps each result until its receipt is confirmed. It knows nothing of what connects it
with the run.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psutil

from bench_run.errors import BenchRunError, StoppedError
from bench_run.fleet.join import CHOICE_OF_DEVICES
from bench_run.machine.host import machine
from bench_run.progress import Progress
from bench_run.runner.benchmark import VERSION, describe_engines
from bench_run.runner.parallel.sharing import ALONE
from bench_run.runner.planning import list_variants
from bench_run.runner.rounds import Rounds, engines_of
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case, Machine

    from bench_run.fleet.dispatch import UnitBlock
    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.benchmark import OpenedEngines
    from bench_run.runner.planning import Outline, Variants

POLL_S = 2.0
"""How long a question for news waits for some."""
CLOSE_S = 4.0
"""How long a unit may take to end its processes and remove what it keeps on its host."""


@dataclass(frozen=True)
class UnitFacts:
    """What a unit says of itself."""

    version: str
    machine: Machine
    opened: OpenedEngines

    @property
    def kind(self) -> tuple[object, ...]:
        """Units of one kind can stand in for each other."""
        return tuple(
            (e.key, e.device_kind, tuple(sorted(e.libraries.items()))) for e in self.opened.engines
        )

    @property
    def identity(self) -> tuple[str, ...]:
        """The very hardware."""
        return (self.machine.host, *(e.device for e in self.opened.engines))


@dataclass(frozen=True)
class News:
    """What happened since the last question. `results` are numbered from `first`."""

    first: int
    results: tuple[Case, ...]
    finished: int | None = None
    """Number of the block that has ended."""
    problem: str | None = None
    """Why it ended before its time, or what it could not do."""
    at: tuple[str, str] = ("", "")
    """Graph and engine that are being measured."""


class UnitProgress(Progress):
    """Remembers what is being measured."""

    at = ("", "")

    def start_case(self, name: str, engine: str) -> None:
        self.at = (name, engine)


class Unit:
    """Lives in a process of its own on the unit's host."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, output=None, resume=False, quiet=True)
        self._changed = threading.Condition()
        self._results: list[Case] = []
        self._confirmed = 0
        self._finished: int | None = None
        self._problem: str | None = None
        self._progress = UnitProgress(0, quiet=True)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._sharing = ALONE
        undo_inherited_limits()

    def open(self, engines: Sequence[PlannedEngine]) -> UnitFacts:
        """Open the engines once. Raises `EngineUnavailableError`, and what else stands in the
        way."""
        pool = self._pool()
        try:
            opened = describe_engines(engines, self._options, pool)
        finally:
            pool.close()
            pool.kill()
        self._sharing = opened.sharing
        described = machine((), opened.devices)
        # Without the variables that gave this unit its device: they differ in a fleet.
        kept = {
            name: value
            for name, value in described.environment.items()
            if not name.endswith(CHOICE_OF_DEVICES)
        }
        return UnitFacts(VERSION, replace(described, environment=kept), opened)

    def variants(self, outline: Outline) -> Variants:
        """The variants of engines of which every one is asked for."""
        pool = self._pool()
        try:
            return list_variants(outline, outline.engines, pool)
        finally:
            pool.close()
            pool.kill()

    def _pool(self) -> WorkerPool:
        return WorkerPool(self._options.timeout_s, {}, fresh=self._options.worker_start)

    def start(self, block: UnitBlock) -> None:
        """Begin a block; `poll` tells what comes of it."""
        self._thread = threading.Thread(target=self._measure, args=(block,), daemon=True)
        self._thread.start()

    def _measure(self, block: UnitBlock) -> None:
        problem = "the unit's process met an error that was not expected"
        try:
            problem = "; ".join(self._run(block))
        except StoppedError:
            problem = "the unit was ended"
        except BenchRunError as error:
            problem = str(error)
        finally:
            with self._changed:
                self._finished, self._problem = block.number, problem or None
                self._changed.notify_all()

    def _run(self, block: UnitBlock) -> tuple[str, ...]:
        pool = self._pool()
        try:
            if self._sharing.lanes > 1:
                pool.start_ahead(engines_of(block.cases), self._sharing.lanes)
            rounds = Rounds(
                self._options,
                block.cases,
                self._keep,
                self._progress,
                pool,
                self._sharing,
            )
            rounds.resume(block.done)
            rounds.run()
            return rounds.problems
        finally:
            pool.kill()

    def close(self) -> None:
        """End the block, whatever it does, with its processes and what it keeps on this host."""
        with self._changed:
            self._closed = True
        until = time.monotonic() + CLOSE_S
        while self._thread is not None and self._thread.is_alive() and time.monotonic() < until:
            for child in psutil.Process().children():
                with suppress(psutil.Error):
                    child.terminate()  # what it measures ends as a result, which is not kept
            self._thread.join(0.1)

    def _keep(self, part: Case) -> None:
        with self._changed:
            if self._closed:
                raise StoppedError
            self._results.append(part)
            self._changed.notify_all()

    def poll(self, received: int, block: int) -> News:
        """News of a block, after the first `received` results, which need not be kept any longer.
        The same question gets the same results again. It may arrive before the block does."""
        with self._changed:
            del self._results[: received - self._confirmed]
            self._confirmed = max(self._confirmed, received)
            self._changed.wait_for(lambda: self._results or self._finished == block, POLL_S)
            ended = self._finished == block
            return News(
                self._confirmed,
                tuple(self._results),
                block if ended else None,
                self._problem if ended else None,
                self._progress.at,
            )


def undo_inherited_limits() -> None:
    """Give this process, and so its workers, the processors and threads that the host allows: what
    starts it may have bound itself to some, and sets OMP_NUM_THREADS for tasks that do not."""
    parent = psutil.Process().parent()
    try:
        inherited = {} if parent is None else parent.environ()
    except psutil.Error:
        inherited = {}
    if "OMP_NUM_THREADS" not in inherited:
        os.environ.pop("OMP_NUM_THREADS", None)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
