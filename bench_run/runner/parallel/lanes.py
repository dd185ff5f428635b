"""Rounds that are prepared side by side and measured one at a time.

A lane takes one round after the other, and helps with others when nothing is left of its own
(`work.py`). The engines of a lane work at the same time, each in a
thread and a worker process of its own: plans, inputs and checks of several rounds overlap, while
`Baton` lets one case measure. Each round keeps its order and its fresh processes. With one lane
everything happens one after the other, in the caller's thread.
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
from itertools import chain, cycle, groupby
from typing import TYPE_CHECKING, TypeAlias

from bench_run.errors import StoppedError
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.runner.parallel.baton import CaseRun
from bench_run.runner.parallel.beside import DeviceBatons
from bench_run.runner.parallel.sharing import need_of

if TYPE_CHECKING:
    from bench_schema.document import Case

    from bench_run.plan.cases import PlannedCase
    from bench_run.plan.engines import PlannedEngine
    from bench_run.runner.parallel.baton import Baton, CaseTurn
    from bench_run.runner.parallel.sharing import Room
    from bench_run.worker.parent.pool import WorkerPool


# What the lanes of some rounds have still to do.
#
# A lane begins with a round in fresh processes. Once nothing is left of it, it helps where most is
# left, as long as its processes have not had that case: so no lane ends long before the others, and
# still every round of a case is of a process of its own.

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Group = Sequence[CaseRun]
    """The cases of a graph in a round, one for each engine."""


class LaneWork:
    """Of `lanes` lanes; asked by their threads."""

    def __init__(self, rounds: Sequence[Sequence[CaseRun]], lanes: int) -> None:
        self._lock = threading.Lock()
        self._left: list[deque[Group]] = [deque(groups_of(case_runs)) for case_runs in rounds]
        groups = sum(len(left) for left in self._left)
        self.lanes = min(lanes, groups)
        begun = cycle(self._left)
        self._homes: deque[deque[Group]] = deque(next(begun) for _ in range(self.lanes))
        self._homes += self._left[self.lanes :]

    def also(self, case_runs: Group) -> None:
        """One more round, of these alone."""
        with self._lock:
            left: deque[Group] = deque([case_runs])
            self._left.append(left)
            self._homes.append(left)

    def begin(self) -> LaneRound | None:
        """A round for fresh processes; None where every one was begun."""
        with self._lock:
            while self._homes:
                home = self._homes.popleft()
                if home:
                    return LaneRound(self, home)
        return None

    def take(self, home: deque[Group], had: frozenset[str] | set[str]) -> Group | None:
        """The next group for processes that `had` these cases; None where there is none for
        them."""
        with self._lock:
            fullest: list[deque[Group]] = sorted(self._left, key=len, reverse=True)
            for left in (home, *fullest):
                for place, group in enumerate(left):
                    if had.isdisjoint(case_run.case.id for case_run in group):
                        del left[place]
                        return group
        return None


class LaneRound:
    """What the processes of one lane do until they end."""

    def __init__(self, work: LaneWork, home: deque[Group]) -> None:
        self._work, self._home = work, home
        self._had: set[str] = set()

    def __iter__(self) -> Iterator[Group]:
        while (group := self._work.take(self._home, self._had)) is not None:
            self._had.update(case_run.case.id for case_run in group)
            yield group


def turn_of(case: PlannedCase) -> str:
    """Cases of which this is the same are measured one right after the other."""
    return case.graph.turns_with or case.graph.id.path


def groups_of(case_runs: Sequence[CaseRun]) -> Iterator[list[CaseRun]]:
    """Cases of one graph that follow each other, no engine twice: an engine's worker prepares one
    case at a time."""
    for _, several in groupby(case_runs, key=lambda case_run: turn_of(case_run.case)):
        group: list[CaseRun] = []
        for case_run in several:
            if case_run.case.engine.key in {other.case.engine.key for other in group}:
                yield group
                group = []
            group.append(case_run)
        yield group


OUT_OF_MEMORY = re.compile(r"out.?of.?memory|alloc|bad_alloc|not enough memory", re.IGNORECASE)
CRASHED_WITHOUT = re.compile(r"out.?of.?memory|bad_alloc|not enough memory", re.IGNORECASE)
"""In what a process left that crashed; names of functions are in it, too."""
ALONE = "round {}: there was not enough memory beside other rounds; prepared again alone"


Turns: TypeAlias = "Baton | DeviceBatons"
"""One baton for all devices, or one for each."""
Run = Callable[[CaseRun, "WorkerPool", "CaseTurn"], "Case | None"]
"""Runs a case in a round; None where the case has ended meanwhile."""
Result = tuple[CaseRun, "Case | None"]


class Lanes:
    """`count` workers of an engine at a time; they start as those of `pool` do."""

    def __init__(self, count: int, pool: WorkerPool, baton: Turns, room: Room, run: Run) -> None:
        self.count = count
        self._pool = pool
        self._baton = baton
        self._apart = isinstance(baton, DeviceBatons)
        """Whether engines of several devices measure at the same time."""
        self._room = room
        self._run = run
        self._lanes: list[Lane] = []
        self._work: dict[str, LaneWork] = {}
        """By engine, what is left for its lanes."""
        self.times: list[TimeBreakdown] = []
        """Where the time of the workers went that were side by side."""

    def are_side_by_side(self, rounds: int) -> bool:
        """Whether so many rounds are prepared beside each other, or engines in one are."""
        return rounds > 0 and (self._apart or (self.count > 1 and rounds > 1))

    def results(self, rounds: Sequence[Sequence[CaseRun]]) -> Iterator[Result]:
        """Every run of a case with what it left, as they come; workers of a round end with it."""
        if not self.are_side_by_side(len(rounds)):
            for case_runs in rounds:
                yield from self._one_by_one(case_runs)
                self._pool.close()
        else:
            yield from self._side_by_side(rounds)

    def _one_by_one(self, case_runs: Sequence[CaseRun]) -> Iterator[Result]:
        for case_run in case_runs:
            (turn,) = self._baton.turns([case_run])
            try:
                result = self._run(case_run, self._pool, turn)
            finally:
                turn.end()
            yield case_run, result

    def _side_by_side(self, rounds: Sequence[Sequence[CaseRun]]) -> Iterator[Result]:
        """Those that lacked memory beside others come last, alone."""
        done: Done = queue.SimpleQueue()
        shares = self._baton.shares(rounds)
        self._work.clear()
        self._lanes = [lane for share in shares for lane in self._lanes_of(share, done)]
        for lane in self._lanes:
            lane.start()
        count = len(self._lanes)
        again: list[CaseRun] = []
        while count:
            item = done.get()
            self._pool.end_ahead()  # every lane has its workers by now
            if isinstance(item, Future):
                item.result()
                count -= 1
            elif lacks_memory(item[1]):
                again.append(item[0])
            else:
                yield item
        self._end()
        self._pool.close()
        by_round = sorted(again, key=lambda case_run: case_run.index)
        for index, group in groupby(by_round, key=lambda case_run: case_run.index):
            for case_run, case in self._one_by_one(list(group)):
                note = ALONE.format(index + 1)
                yield case_run, None if case is None else replace(case, notes=(*case.notes, note))
            self._pool.close()

    def _lanes_of(self, rounds: Sequence[Sequence[CaseRun]], done: Done) -> list[Lane]:
        """Those that share these rounds; the first one has the workers that are there already."""
        work = LaneWork(rounds, self.count)
        case_runs = list(chain.from_iterable(rounds))
        self._work.update({case_run.case.engine.key: work for case_run in case_runs})
        lanes = [
            Lane(self._pool, self._baton, self._room, self._run, work, done)
            for _ in range(work.lanes)
        ]
        for lane in lanes[:1]:
            lane.adopt(case_runs)
        return lanes

    def also(self, case_run: CaseRun) -> None:
        """One more, in fresh processes, by the first of its lanes that is done with its round; not
        at all where every one of them has ended."""
        self._work[case_run.case.engine.key].also([case_run])

    def _end(self) -> None:
        for lane in self._lanes:
            self.times += lane.times
        self._lanes = []

    def stop(self) -> None:
        """End every lane at once, whatever it does."""
        self._baton.stop()
        self._room.stop()
        left = {lane.ended for lane in self._lanes}
        while left:
            for lane in self._lanes:
                lane.kill()
            left = wait(left, timeout=0.1).not_done  # one may have been starting its worker
        self._end()


def lacks_memory(case: Case | None) -> bool:
    """Whether the case may have failed only for what was beside it."""
    if case is None:
        return False
    outcome = case.outcome
    if outcome.status == "crashed":
        return CRASHED_WITHOUT.search(outcome.detail or "") is not None
    return outcome.status == "failed" and OUT_OF_MEMORY.search(outcome.reason or "") is not None


class Seat:
    """An engine's place in a lane. It has a thread of its own: a worker ends with the thread that
    started it (PR_SET_PDEATHSIG)."""

    def __init__(self, pool: WorkerPool) -> None:
        self.time = TimeBreakdown()
        self.pool = pool.beside(self.time)
        self.thread = ThreadPoolExecutor(1)


Done: TypeAlias = "queue.SimpleQueue[Result | Future[None]]"
"""Results, and the end of each lane."""


class Lane:
    """Works until nothing is left."""

    def __init__(
        self,
        pool: WorkerPool,
        baton: Turns,
        room: Room,
        run: Run,
        work: LaneWork,
        done: Done,
    ) -> None:
        self._pool, self._baton, self._room, self._run_case = pool, baton, room, run
        self._work, self._done = work, done
        self._seats: dict[str, Seat] = {}
        self._thread = ThreadPoolExecutor(1)
        self.ended: Future[None] = Future()

    def start(self) -> None:
        self.ended = self._thread.submit(self._run)
        self.ended.add_done_callback(self._done.put)
        self._thread.shutdown(wait=False)

    @property
    def times(self) -> list[TimeBreakdown]:
        return [seat.time for seat in self._seats.values()]

    def adopt(self, case_runs: Sequence[CaseRun]) -> None:
        """Take over the workers that opened these engines and did nothing else."""
        for engine in {
            case_run.case.engine.key: case_run.case.engine for case_run in case_runs
        }.values():
            self._pool.hand_over(engine, self._seat(engine).pool)

    def _seat(self, engine: PlannedEngine) -> Seat:
        if engine.key not in self._seats:
            self._seats[engine.key] = Seat(self._pool)
        return self._seats[engine.key]

    def kill(self) -> None:
        for seat in list(self._seats.values()):
            seat.pool.kill()

    def _run(self) -> None:
        try:
            with suppress(StoppedError):
                while (groups := self._work.begin()) is not None:
                    for group in groups:
                        self._prepare(group)
                    seats = self._seats.values()
                    for ending in [seat.thread.submit(seat.pool.close) for seat in seats]:
                        ending.result()
        finally:
            for seat in self._seats.values():
                seat.thread.shutdown()

    def _prepare(self, group: Sequence[CaseRun]) -> None:
        """The cases of a graph, at the same time."""
        with self._room.take(need_of(group[0].case.graph.loaded.graph)):
            turns = self._baton.turns(group)
            running = [
                self._seat(case_run.case.engine).thread.submit(self._one, case_run, turn)
                for case_run, turn in zip(group, turns, strict=True)
            ]
            for case_run, future in zip(group, running, strict=True):
                self._done.put((case_run, future.result()))

    def _one(self, case_run: CaseRun, turn: CaseTurn) -> Case | None:
        try:
            return self._run_case(case_run, self._seat(case_run.case.engine).pool, turn)
        finally:
            turn.end()
