"""Rounds that are prepared at the same time and measured one at a time.

A lane takes one group after another, each engine in a worker process of its own: plans, inputs and
checks of several groups overlap, while `DeviceGate` lets one case be measured. A process has each
case at most once, so that every round of a case has a fresh process. With one lane everything
happens in the caller's thread.
"""

from __future__ import annotations

import queue
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_run.errors import StoppedError
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.runner.memory import case_need
from bench_run.runner.parallel.gate import CaseRun
from bench_run.worker.parent.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Set

    from bench_schema.document import Case

    from bench_run.plan.cases import PlannedCase
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.parallel.gate import CaseTurn, DeviceGate, Room

OUT_OF_MEMORY = re.compile(r"out.?of.?memory|alloc|bad_alloc|not enough memory", re.IGNORECASE)
CRASHED_WITHOUT = re.compile(r"out.?of.?memory|bad_alloc|not enough memory", re.IGNORECASE)
"""Pattern of memory errors in the output of a crashed process, which includes names of
functions."""
ALONE = "round {}: there was not enough memory next to other rounds; prepared again alone"

Run = Callable[[CaseRun, WorkerPool, "CaseTurn"], "Case | None"]
"""Runs a case in a round; None if the case has ended in another round."""
Result = tuple[CaseRun, "Case | None"]
Done: TypeAlias = "queue.SimpleQueue[Result | Future[None]]"
"""Results, and the end of each lane."""


def turn_of(case: PlannedCase) -> str:
    """Return the graph, or the graphs, whose cases are measured one directly after another."""
    return case.graph.turns_with or case.graph.id.path


def groups_of(case_runs: Sequence[CaseRun]) -> Iterator[list[CaseRun]]:
    """Yield groups of consecutive cases of one graph. An engine occurs once in a group, because its
    worker prepares one case at a time."""
    for _, several in groupby(case_runs, key=lambda case_run: turn_of(case_run.case)):
        group: list[CaseRun] = []
        for case_run in several:
            if case_run.case.engine.key in {other.case.engine.key for other in group}:
                yield group
                group = []
            group.append(case_run)
        yield group


class GroupQueue:
    """Groups that are not measured yet, round by round. Thread-safe."""

    def __init__(self, rounds: Sequence[Sequence[CaseRun]]) -> None:
        self._lock = threading.Lock()
        self._left = deque(chain.from_iterable(map(groups_of, rounds)))

    def __len__(self) -> int:
        return len(self._left)

    def take(self, had: Set[str]) -> list[CaseRun] | None:
        """Return the next group for processes that had these cases; None if each group has one of
        them."""
        with self._lock:
            for place, group in enumerate(self._left):
                if had.isdisjoint(case_run.case.id for case_run in group):
                    del self._left[place]
                    return group
        return None


class Lanes:
    """Up to `count` simultaneous workers of an engine, started like those of `pool`."""

    def __init__(
        self, count: int, pool: WorkerPool, gate: DeviceGate, room: Room, run: Run
    ) -> None:
        self.count = count
        self._pool, self._gate, self._room, self._run = pool, gate, room, run
        self._ended: list[Future[Any]] = []
        self._pools: list[dict[str, WorkerPool]] = []
        """Workers of each lane, by engine."""

    @property
    def times(self) -> list[TimeBreakdown]:
        """Return the time breakdown of each worker that ran at the same time as others."""
        return [pool.breakdown for pools in self._pools for pool in list(pools.values())]

    def are_side_by_side(self, rounds: int) -> bool:
        """Return True if rounds of a batch of `rounds` are prepared at the same time."""
        return self.count > 1 and rounds > 1

    def results(self, rounds: Sequence[Sequence[CaseRun]]) -> Iterator[Result]:
        """Run every case and yield what it left; workers end with their round."""
        if self.are_side_by_side(len(rounds)):
            yield from self._side_by_side(rounds)
            return
        for case_runs in rounds:
            yield from self._one_by_one(case_runs)
            self._pool.close()

    def _one_by_one(self, case_runs: Sequence[CaseRun]) -> Iterator[Result]:
        pools: dict[str, WorkerPool] = {}
        for group in groups_of(case_runs):
            if len(group) == 1:
                pool = pools.get(group[0].case.engine.key, self._pool)
                yield group[0], self._one(group[0], pool, *self._turns(group))
            else:
                yield from self._in_blocks(group, pools)
        for pool in pools.values():
            pool.close()

    def _in_blocks(
        self, group: Sequence[CaseRun], pools: dict[str, WorkerPool]
    ) -> Iterator[Result]:
        """Prepare the cases one after the other, so that none disturbs what another one's phases
        take; then they alternate."""
        threads = ThreadPoolExecutor(len(group))
        if not pools:
            self._pools.append(pools)
        running = []
        with self._pool.breakdown.on("preparing"):
            for case_run, turn in zip(group, self._turns(group), strict=True):
                engine = case_run.case.engine
                is_new = engine.key not in pools
                pool = self._pool_of(engine, pools)
                if is_new:
                    self._pool.hand_over(engine, pool)
                running.append(threads.submit(self._one, case_run, pool, turn))
                self._ended.append(running[-1])
                turn.wait_until_prepared()
        threads.shutdown(wait=False)
        with self._pool.breakdown.on("rounds in turns"):
            results = [future.result() for future in running]
        yield from zip(group, results, strict=True)
        self._ended = [future for future in self._ended if not future.done()]

    def _turns(self, group: Sequence[CaseRun]) -> list[CaseTurn]:
        first = group[0]
        return self._gate.turns(len(group), f"{first.case.id}:{first.index}")

    def _side_by_side(self, rounds: Sequence[Sequence[CaseRun]]) -> Iterator[Result]:
        """Yield the cases; those that lacked memory next to others come last, alone."""
        work, done = GroupQueue(rounds), queue.SimpleQueue[Result | Future[None]]()
        threads = ThreadPoolExecutor(min(self.count, len(work)))
        own: list[dict[str, WorkerPool]] = [{} for _ in range(min(self.count, len(work)))]
        for engine in {run.case.engine.key: run.case.engine for run in chain(*rounds)}.values():
            self._pool.hand_over(engine, self._pool_of(engine, own[0]))
        self._pools += own
        self._ended = [threads.submit(self._lane, work, done, pools) for pools in own]
        for ended in self._ended:
            ended.add_done_callback(done.put)
        threads.shutdown(wait=False)
        left, again = len(own), list[CaseRun]()
        while left:
            item = done.get()
            if isinstance(item, Future):
                item.result()
                left -= 1
            elif lacks_memory(item[1]):
                again.append(item[0])
            else:
                yield item
        self._pool.close()
        by_round = sorted(again, key=lambda case_run: case_run.index)
        for index, group in groupby(by_round, key=lambda case_run: case_run.index):
            for case_run, case in self._one_by_one(list(group)):
                note = ALONE.format(index + 1)
                yield case_run, None if case is None else replace(case, notes=(*case.notes, note))
            self._pool.close()

    def _lane(self, work: GroupQueue, done: Done, pools: dict[str, WorkerPool]) -> None:
        """Take groups until none is left. When the processes have had a case of every group that is
        left, fresh ones go on."""
        had: set[str] = set()
        with suppress(StoppedError), ThreadPoolExecutor() as threads:
            while work:
                group = work.take(had)
                if group is None:
                    list(threads.map(WorkerPool.close, pools.values()))
                    had.clear()
                    continue
                had.update(case_run.case.id for case_run in group)
                case = group[0].case
                device = self._pool.facts(case.engine).device
                need = case_need(case.graph.loaded.graph, case.engine, device)
                with self._room.take((need.host, need.device or 0)):
                    running = [
                        threads.submit(
                            self._one, case_run, self._pool_of(case_run.case.engine, pools), turn
                        )
                        for case_run, turn in zip(group, self._turns(group), strict=True)
                    ]
                    for case_run, future in zip(group, running, strict=True):
                        done.put((case_run, future.result()))
            list(threads.map(WorkerPool.close, pools.values()))

    def _pool_of(self, engine: PlannedEngine, pools: dict[str, WorkerPool]) -> WorkerPool:
        if engine.key not in pools:
            pools[engine.key] = self._pool.beside(TimeBreakdown())
        return pools[engine.key]

    def _one(self, case_run: CaseRun, pool: WorkerPool, turn: CaseTurn) -> Case | None:
        try:
            return self._run(case_run, pool, turn)
        finally:
            turn.end()

    def stop(self) -> None:
        """End every lane at once."""
        self._gate.stop()
        self._room.stop()
        left = {future for future in self._ended if not future.done()}
        while left:
            for pools in self._pools:
                for pool in list(pools.values()):
                    pool.kill()
            left = wait(left, timeout=0.1).not_done  # one may have been starting its worker


def lacks_memory(case: Case | None) -> bool:
    """Return True if the case may have failed only because of other processes' memory."""
    if case is None:
        return False
    outcome = case.outcome
    if outcome.status == "crashed":
        return CRASHED_WITHOUT.search(outcome.detail or "") is not None
    return outcome.status == "failed" and OUT_OF_MEMORY.search(outcome.reason or "") is not None
