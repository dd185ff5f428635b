"""The options of one graph on the worker pool: kept plans, and visits to them in blocks.

A worker that dies takes the plans that it kept with it. The option that killed it is out; the
others are built again when they are due.
"""

from __future__ import annotations

import math
import random
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench_schema.document import Case, Outcome

from bench_run.errors import BenchRunError, WorkerError
from bench_run.measure.loop import REST_S, SamplingBudget
from bench_run.runner.case_request import request_of
from bench_run.runner.rounds import lack_of_memory
from bench_run.tune.racing.heats import Visit
from bench_run.worker.case_record import case_of
from bench_run.worker.messages import Keep, Release, Repeat
from bench_run.worker.messages import Visit as VisitRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Validation

    from bench_run.machine.device_lock import DeviceLock
    from bench_run.options import Options
    from bench_run.runner.references.store import ReferenceStore
    from bench_run.tune.candidates import Option
    from bench_run.tune.journal import TuneJournal
    from bench_run.worker.messages import RunCase, Visited
    from bench_run.worker.parent.pool import WorkerPool

WARMUP = 2
LONGEST_BLOCK_S = 0.5
"""No sample of a visit begins after so much time in samples."""
ROTATED = "buffer copies"
"""How a plan says how often it has its buffers."""


@dataclass
class Effort:
    """What the races of a tuning took, counted from several threads."""

    builds: int = 0
    executions: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, builds: int = 0, executions: int = 0) -> None:
        with self._lock:
            self.builds += builds
            self.executions += executions


@dataclass(frozen=True)
class Means:
    """What all graphs of a tuning are measured with."""

    pool: WorkerPool
    references: ReferenceStore
    settings: Options
    journal: TuneJournal
    memory_bytes: int
    """Most that plans which are kept may take together."""
    effort: Effort
    lock: DeviceLock
    """Keeps other runs of the host away from the devices."""
    twice: bool = False
    """Whether each plan is run a second time when it is built, since it has to be deterministic."""


class Session:
    """Builds, visits and closes the options of one graph. What the journal knows is not done
    again."""

    def __init__(self, name: str, options: Sequence[Option], means: Means) -> None:
        """`name` tells the graph from others of the tuning, in the journal."""
        self._name, self._options = name, options
        self._pool, self._references, self._settings = means.pool, means.references, means.settings
        self._journal, self._effort = means.journal, means.effort
        self._lock = means.lock
        self._room_bytes, self._twice = means.memory_bytes, means.twice
        self._sizes: dict[int, int] = {}
        """Bytes of the plans that are kept, the one used last at the end."""
        self._built: dict[int, Case] = {}
        self._blocks = 0
        self.failed: dict[int, Outcome] = {}
        """Options that came to an end in the race."""

    def build(self, index: int) -> Case:
        """What becomes of an option when it is built and run once."""
        if index in self._built:
            return self._built[index]
        case = self._journal.recall_case(self._name, self._options[index].key)
        if case is None:
            self._request(index)  # waits for the reference while it holds nothing
            with self._held(alone=False):
                case = self._keep(index)
            self._journal.keep_case(self._name, self._options[index].key, case)
        self._built[index] = case
        return case

    @contextmanager
    def _held(self, *, alone: bool) -> Iterator[None]:
        """The devices, as rounds hold them: with others who only touch them, or alone."""
        held = self._lock.acquire(alone=alone, stopped=lambda: self._journal.is_stopped)
        try:
            yield
        finally:
            held.release()

    def _keep(self, index: int) -> Case:
        option, request = self._options[index], self._request(index)
        problem = lack_of_memory(option.case.graph.loaded.graph)
        if problem is not None:
            return case_of(request, Outcome("skipped", problem, "plan"))
        engine = option.case.engine
        self._effort.add(builds=1)
        try:
            case = self._pool.keep(engine, Keep(option.key, request, self._twice)).case
        except WorkerError as error:
            self._lost(index)
            return case_of(request, Outcome(error.status, str(error), "plan", error.detail))
        except BenchRunError as error:
            return case_of(request, Outcome("failed", str(error), "plan", error.detail))
        if case.outcome.status == "completed":
            self._make_room(index, _kept_bytes(case))
        return case

    def _request(self, index: int) -> RunCase:
        case, references = self._options[index].case, self._references
        engine = case.engine
        checked = references.validation_settings(case.graph, engine.reference, engine.options.math)
        return request_of(
            case,
            references,
            replace(checked, save_outputs=None),
            self._budget(self._settings.iterations),
            (0, index),
        )

    def _budget(self, samples: int) -> SamplingBudget:
        rest_s = REST_S if self._settings.duty == "cool" else 0.0
        return SamplingBudget(WARMUP, samples, 0, round(LONGEST_BLOCK_S * 1e9), 1, rest_s)

    def repeat(self, index: int) -> Case:
        """The case of an option that was built, after one more run; as it was where that does not
        come about."""
        before, key = self._built[index], f"{self._options[index].key} again"
        known = self._journal.recall_case(self._name, key)
        if known is not None:
            return known
        with self._held(alone=False):
            checked = self._again(index)
        if checked is None:
            return before
        case = replace(before, validation=checked)
        self._journal.keep_case(self._name, key, case)
        return case

    def _again(self, index: int) -> Validation | None:
        if index not in self._sizes and self._keep(index).outcome.status != "completed":
            return None
        option = self._options[index]
        try:
            return self._pool.repeat(option.case.engine, Repeat(option.key))
        except BenchRunError as error:
            if isinstance(error, WorkerError):
                self._lost(index)
            return None

    def measure(
        self, indices: Sequence[int], samples: int, objective: str = "time"
    ) -> Mapping[int, Visit]:
        """One block: each of these once, in an order drawn anew. Another objective than time takes
        its place in the visits; who has none is out."""
        block, self._blocks = self._blocks, self._blocks + 1
        keys = {index: self._options[index].key for index in indices}
        known = self._journal.recall_block(self._name, block, keys)
        if known is not None:
            self.failed.update(known[1])
            return known[0]
        order = sorted(indices)
        random.Random(f"{self._settings.seed} {self._name} {block}").shuffle(order)  # noqa: S311
        found = ((index, self._visit(index, samples, objective)) for index in order)
        with self._held(alone=True):
            visits = {index: visit for index, visit in found if visit is not None}
        self._journal.keep_block(self._name, block, keys, visits, self.failed)
        return visits

    def _visit(self, index: int, samples: int, objective: str) -> Visit | None:
        """None where it is out: its worker died, or it does not build a second time."""
        option = self._options[index]
        if index not in self._sizes:
            case = self._keep(index)
            if case.outcome.status != "completed":
                self.failed[index] = case.outcome
                return None
        self._sizes[index] = self._sizes.pop(index)
        request = VisitRequest(option.key, self._budget(samples), objective != "time")
        try:
            answer = self._pool.visit(option.case.engine, request)
        except WorkerError as error:
            self._lost(index)
            self.failed[index] = Outcome(error.status, str(error), "measure", error.detail)
            return None
        except BenchRunError as error:
            self.failed[index] = Outcome("failed", str(error), "measure", error.detail)
            return None
        self._effort.add(executions=answer.samples + WARMUP)
        found = _logarithm(answer, objective)
        if found is None:
            self.failed[index] = Outcome("failed", no_energy(answer.notes), "measure")
            return None
        return Visit(found, answer.deviation, answer.cost)

    def _lost(self, index: int) -> None:
        """The engine's worker is gone, and with it all that it kept."""
        key = self._options[index].case.engine.key
        for other in [i for i in self._sizes if self._options[i].case.engine.key == key]:
            del self._sizes[other]

    def _make_room(self, index: int, size: int) -> None:
        """Close what was used longest ago until the new plan fits beside the rest."""
        self._sizes[index] = size
        for oldest in list(self._sizes)[:-1]:
            if sum(self._sizes.values()) <= self._room_bytes:
                return
            self.release(oldest)

    def release(self, index: int) -> None:
        """Close the plan of an option that is out."""
        if self._sizes.pop(index, None) is not None:
            option = self._options[index]
            try:
                self._pool.release(option.case.engine, Release((option.key,)))
            except BenchRunError:
                self._lost(index)

    def close(self) -> None:
        for index in list(self._sizes):
            self.release(index)


def _logarithm(answer: Visited, objective: str) -> float | None:
    """Of what is to be made small."""
    if objective == "time":
        return answer.log_time
    if answer.joules is None or answer.joules <= 0:
        return None
    energy = math.log(answer.joules)
    return energy if objective == "energy" else energy + answer.log_time


def no_energy(notes: Sequence[str]) -> str:
    return "; ".join(notes) or "the device told no energy"


def _kept_bytes(case: Case) -> int:
    memory = case.memory
    buffers = 0 if memory is None else memory.buffer_bytes or 0
    workspace = 0 if memory is None else memory.workspace_bytes or 0
    return buffers * int(case.plan.get(ROTATED, "1")) + workspace
