"""Candidates are built, stay built and are measured; those of several graphs at a time."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from bench_schema.document import Case, Outcome

from bench_run.errors import BenchRunError, WorkerError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.loop import BUSY_BLOCK_NS, REST_S
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.options import Sampling, grouped
from bench_run.runner.memory import case_need, free_memory, lack_of_memory
from bench_run.runner.parallel.sharing import likely_lanes
from bench_run.runner.rounds import request_of
from bench_run.tune.racing import BlockSample, Fate
from bench_run.worker.messages import BuildPlan, Release, Repeat, SamplePlan, case_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_schema.tuning import Limits

    from bench_run.machine.device_lock import DeviceLock
    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.references import ReferenceStore
    from bench_run.tune.journal import TuneJournal
    from bench_run.tune.racing import Option
    from bench_run.worker.messages import RunCase
    from bench_run.worker.parent.pool import WorkerPool


def fates_of(
    options: Sequence[Option], session: Session, limits: Limits, is_over: Callable[[], bool]
) -> list[Fate]:
    """Return the fates. The default is the first option: it is measured whatever limits it breaks,
    as the reference of the others, and since nothing else is sure to run."""
    fates: list[Fate] = []
    seen: dict[tuple[str, str, str, str], str] = {}
    for index, option in enumerate(options):
        if option.problem is not None:
            fates.append(Fate(option.status, option.problem))
            continue
        if index > 0 and is_over():
            fates.append(Fate("not tried", "the budget was gone before it was built"))
            continue
        fate = _fate(session.build(index))
        limited = within_limits(fate, limits) if fate.status == "ok" else fate
        fate = limited if index > 0 else replace(fate, beyond=beyond_of(fate, limited))
        plan = fate.plan.get("plan")
        if fate.status == "ok" and plan:  # a duplicate where its engine chose it before
            engine, variant = option.case.engine, option.case.variant
            knobs = sorted((k, v) for k, v in variant.items() if k.startswith("knob:"))
            arithmetic = f"{engine.spec.name} {engine.options.math}"
            key = (option.case.graph.id.fingerprint, arithmetic, plan, str(knobs))
            if key in seen:
                fate = replace(fate, status="duplicate", reason=f"the same plan as {seen[key]}")
            else:
                seen[key] = option.key or "the default"
        if fate.status != "ok":
            session.release(index)
        fates.append(fate)
    return fates


def beyond_of(fate: Fate, limited: Fate) -> str | None:
    return None if fate.status == limited.status else limited.reason


def repeated(fate: Fate, case: Case) -> Fate:
    """Return the fate after one more run of the option: now it is known whether it is
    deterministic."""
    again = _fate(case)
    if fate.status != "ok" or again.status not in ("ok", "wrong"):
        return fate
    return replace(
        fate, status=again.status, reason=again.reason, deterministic=again.deterministic
    )


def _fate(case: Case) -> Fate:
    """Return the fate of a case that was built, or was not."""
    outcome, checked = case.outcome, case.validation
    if outcome.status != "completed":
        status = "failed" if outcome.status == "skipped" else outcome.status
        return Fate(status, outcome.reason)
    error, deterministic = None, None
    if checked is not None:
        deterministic = checked.deterministic
        error = largest_error(case)
    workspace = None if case.memory is None else case.memory.workspace_bytes
    known = (True, error, deterministic, workspace, case.plan)
    if checked is not None and checked.status == "failed":
        return Fate("wrong", checked.reason or "its outputs differ from the reference", *known)
    return Fate("ok", None, *known)


def largest_error(case: Case) -> float | None:
    """Return the largest relative L2 error of an output; None if nothing was compared, or if the
    largest is not finite."""
    if case.validation is None or not case.validation.outputs:
        return None
    errors = [float(output.relative_l2) for output in case.validation.outputs]
    worst = max(errors, key=lambda e: (e != e, e))
    return worst if worst == worst and worst != float("inf") else None


def within_limits(fate: Fate, limits: Limits) -> Fate:
    """Return the same, or out, where it breaks a limit. What is not known breaks it too."""
    problem = None
    if limits.error is not None and (fate.error is None or fate.error > limits.error):
        error = "not known" if fate.error is None else f"{fate.error:.3g}"
        problem = f"error {error}, at most {limits.error:g} is allowed"
    most = limits.workspace_bytes
    size = fate.workspace_bytes
    if most is not None and (size is None or size > most):
        problem = f"workspace {size} bytes, at most {most} are allowed"
        if size is None:
            problem = f"its workspace is not known, at most {most} bytes are allowed"
    if limits.deterministic and fate.deterministic is not True:
        problem = "not deterministic: two runs gave other bytes"
        if fate.deterministic is None:
            problem = "not known to be deterministic: its outputs were not compared"
    return fate if problem is None else replace(fate, status="over a limit", reason=problem)


# The options of one graph on the worker pool: kept plans, measured in blocks.
#
# A worker that dies takes the plans that it kept with it. The option that killed it is out; the
# others are built again when they are due.

WARMUP = 2
LONGEST_BLOCK_S = 0.5
"""Time in a block after which no sample of a candidate begins, rests left out."""
ROTATED = "buffer copies"
"""Key in a plan for the number of its buffer copies."""


@dataclass
class Effort:
    """Effort of a tuning's races, counted from several threads."""

    builds: int = 0
    executions: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, builds: int = 0, executions: int = 0) -> None:
        with self._lock:
            self.builds += builds
            self.executions += executions


@dataclass(frozen=True)
class Means:
    """Resources that all graphs of a tuning share for measuring."""

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
    """True if each plan runs a second time when it is built, as it has to be deterministic."""


class Session:
    """Builds, measures and closes the options of one graph. What the journal knows is not done
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
        """Build an option and run it once; return its case."""
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
        """Hold the devices as rounds do: shared, or alone."""
        held = self._lock.acquire(alone=alone, stopped=lambda: self._journal.is_stopped)
        try:
            yield
        finally:
            held.release()

    def _keep(self, index: int) -> Case:
        option, request = self._options[index], self._request(index)
        engine = option.case.engine
        device = self._pool.facts(engine).device
        need = case_need(option.case.graph.loaded.graph, engine, device)
        problem = lack_of_memory(need, free_memory(device))
        if problem is not None:
            return case_of(request, Outcome("skipped", problem, "plan"))
        self._effort.add(builds=1)
        try:
            case = self._pool.ask(engine, BuildPlan(option.key, request, self._twice)).case
        except WorkerError as error:
            self._lost(index)
            return case_of(request, Outcome(error.status, str(error), "plan", error.detail))
        except BenchRunError as error:
            return case_of(request, Outcome("failed", str(error), "plan", error.detail))
        if case.outcome.status == "completed":
            memory = case.memory
            buffers = 0 if memory is None else memory.buffer_bytes or 0
            workspace = 0 if memory is None else memory.workspace_bytes or 0
            self._sizes[index] = buffers * int(case.plan.get(ROTATED, "1")) + workspace
            # What was used longest ago is closed until the new plan fits beside the rest.
            for oldest in list(self._sizes)[:-1]:
                if sum(self._sizes.values()) > self._room_bytes:
                    self.release(oldest)
        return case

    def _request(self, index: int) -> RunCase:
        case, references = self._options[index].case, self._references
        engine = case.engine
        checked = references.validation_settings(case.graph, engine.reference, engine.options.math)
        return request_of(
            case,
            references,
            replace(checked, save_outputs=None),
            self._budget(0),
            (0, index),
        )

    def _budget(self, samples: int) -> SamplingBudget:
        rest_s = REST_S if self._settings.duty == "cool" else 0.0
        longest_ns = round(LONGEST_BLOCK_S * 1e9 * (1 + rest_s * 1e9 / BUSY_BLOCK_NS))
        return SamplingBudget(WARMUP, samples, 0, longest_ns, 1, rest_s)

    def repeat(self, index: int) -> Case:
        """Return the case of a built option after one more run; unchanged if that fails."""
        before, key = self._built[index], f"{self._options[index].key} again"
        known = self._journal.recall_case(self._name, key)
        if known is not None:
            return known
        option, checked = self._options[index], None
        with self._held(alone=False):
            if index in self._sizes or self._keep(index).outcome.status == "completed":
                try:
                    checked = self._pool.ask(option.case.engine, Repeat(option.key))
                except BenchRunError as error:
                    if isinstance(error, WorkerError):
                        self._lost(index)
        if checked is None:
            return before
        case = replace(before, validation=checked)
        self._journal.keep_case(self._name, key, case)
        return case

    def measure(self, indices: Sequence[int], samples: int) -> Mapping[int, BlockSample]:
        """Measure one block: each candidate once, in a newly drawn order."""
        block, self._blocks = self._blocks, self._blocks + 1
        keys = {index: self._options[index].key for index in indices}
        known = self._journal.recall_block(self._name, block, keys)
        if known is not None:
            self.failed.update(known[1])
            return known[0]
        order = sorted(indices)
        random.Random(f"{self._settings.seed} {self._name} {block}").shuffle(order)  # noqa: S311
        taken = ((index, self._sample(index, samples)) for index in order)
        with self._held(alone=True):
            measured = {index: sample for index, sample in taken if sample is not None}
        self._journal.keep_block(self._name, block, keys, measured, self.failed)
        return measured

    def _sample(self, index: int, samples: int) -> BlockSample | None:
        """Return a sample; None if the candidate is out: its worker died, or it does not build a
        second time."""
        option = self._options[index]
        if index not in self._sizes:
            case = self._keep(index)
            if case.outcome.status != "completed":
                self.failed[index] = case.outcome
                return None
        self._sizes[index] = self._sizes.pop(index)
        request = SamplePlan(option.key, self._budget(samples))
        try:
            answer = self._pool.ask(option.case.engine, request)
        except WorkerError as error:
            self._lost(index)
            self.failed[index] = Outcome(error.status, str(error), "measure", error.detail)
            return None
        except BenchRunError as error:
            self.failed[index] = Outcome("failed", str(error), "measure", error.detail)
            return None
        self._effort.add(executions=answer.samples + WARMUP)
        return BlockSample(answer.log_time, answer.deviation, answer.cost)

    def _lost(self, index: int) -> None:
        """Note that the engine's worker is gone, with everything that it kept."""
        key = self._options[index].case.engine.key
        for other in [i for i in self._sizes if self._options[i].case.engine.key == key]:
            del self._sizes[other]

    def release(self, index: int) -> None:
        """Close the plan of an option that is out."""
        if self._sizes.pop(index, None) is not None:
            option = self._options[index]
            try:
                if self._pool.runs(option.case.engine):
                    self._pool.ask(option.case.engine, Release((option.key,)))
            except BenchRunError:
                self._lost(index)

    def close(self) -> None:
        for index in list(self._sizes):
            self.release(index)


# Graphs whose candidates are built at the same time, each by workers of its own.
#
# Building takes most of what comes before the rounds, and nearly all of it is work of the host. So
# on an accelerator the candidates of a few graphs are built side by side; then these graphs race,
# one after the other, while nothing is built: the timed plan has the device to itself.

MOST = 4
"""Graphs at a time; more would wait for the device's memory and for each other."""

PlaceT = TypeVar("PlaceT")
GivenT = TypeVar("GivenT")
MadeT = TypeVar("MadeT")


def side_by_side(options: Options, devices: Sequence[str], engines: int, graphs: int) -> int:
    """Return the number of graphs to build at a time. On a processor it is one."""
    if "cpu" in devices or not devices:
        return 1
    return max(
        1, min(MOST, graphs, likely_lanes(grouped(Sampling, options), devices[0], max(1, engines)))
    )


class Bench(Generic[PlaceT]):
    """Builds and races one graph at a time. It has a thread of its own: a worker ends with the
    thread that started it."""

    def __init__(self, pool: WorkerPool, furnish: Callable[[WorkerPool], PlaceT]) -> None:
        self.time = TimeBreakdown()
        self.pool = pool.beside(self.time)
        self.place = furnish(self.pool)
        self.thread = ThreadPoolExecutor(1)


Job: TypeAlias = "tuple[Bench[PlaceT], Callable[..., MadeT], tuple[object, ...]]"


class Benches(Generic[PlaceT]):
    """`count` of them; `furnish` makes what each works with out of its pool."""

    def __init__(
        self, pool: WorkerPool, count: int, furnish: Callable[[WorkerPool], PlaceT]
    ) -> None:
        self._pool = pool
        self._benches = [Bench(pool, furnish) for _ in range(count)]
        self._running: set[Future[Any]] = set()

    def open(self, engines: Sequence[PlannedEngine]) -> None:
        """Open the engines on all benches at the same time; the first one takes over what is open
        already. What cannot be opened is met again when it is asked for a graph."""

        def open_all(pool: WorkerPool) -> None:
            for engine in engines:
                with suppress(BenchRunError):
                    pool.facts(engine)

        for engine in engines:
            self._pool.hand_over(engine, self._benches[0].pool)
        self._all([(bench, open_all, (bench.pool,)) for bench in self._benches[1:]])

    def at_once(
        self, work: Callable[[PlaceT, GivenT], MadeT], given: Sequence[GivenT]
    ) -> list[MadeT]:
        """Return the results for the given values, all made at the same time, each on one bench; at
        most as many as there are benches."""
        return self._all(
            [(b, work, (b.place, g)) for b, g in zip(self._benches, given, strict=False)]
        )

    def in_turn(
        self, work: Callable[[PlaceT, GivenT], MadeT], given: Sequence[GivenT]
    ) -> Iterator[MadeT]:
        """Yield the results of `work` for the given items, one after the other, each on the bench
        that `at_once` gave it to."""
        for bench, each in zip(self._benches, given, strict=False):
            yield from self._all([(bench, work, (bench.place, each))])

    def _all(self, jobs: Sequence[Job[PlaceT, MadeT]]) -> list[MadeT]:
        futures = [bench.thread.submit(work, *given) for bench, work, given in jobs]
        self._running = set(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """End their workers."""
        self._all([(bench, bench.pool.close, ()) for bench in self._benches])
        self._end()

    def stop(self) -> None:
        """End everything at once, whatever it does."""
        left = self._running
        while left:
            for bench in self._benches:
                bench.pool.kill()
            left = wait(left, timeout=0.1).not_done  # one may have been starting its worker
        for bench in self._benches:
            bench.pool.kill()
        self._end()

    def _end(self) -> None:
        for bench in self._benches:
            bench.thread.shutdown()
        self._pool.breakdown.add_workers([bench.time for bench in self._benches])
