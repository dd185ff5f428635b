"""The gate to the devices of a run: several cases copy and run once, or one case is measured.

Rounds that are prepared at the same time take turns here. A *group* is a graph in one round. Its
cases, one for each engine, are measured one after another once all of them are prepared, so that
drift between engines is small. Prepared groups wait in a queue and go before copies, because copies
can overlap. While the measured case lets its device cool, others may copy if no group is waiting.
"""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bench_run.errors import StoppedError
from bench_run.machine.device_lock import DeviceLock, Held
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.runner.outside import OutsideClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bench_run.measure.bursts import BurstWork
    from bench_run.plan.cases import PlannedCase
    from bench_run.streams.base import Shared
    from bench_run.worker.messages import AskBurst, DeviceUse


class BlockTurns:
    """Turns of the sides of one graph in one round. Thread-safe."""

    def __init__(self, sides: Iterable[int], seed: str) -> None:
        self._changed = threading.Condition()
        self._awaited = set(sides)
        """Sides that take part, or may still come."""
        self._ready: dict[int, bool] = {}
        """Sides that wait for their block, and whether they need no further one."""
        self._order: list[int] = []
        """Sides that have no block yet in this turn; the first one measures now or next."""
        self._done = 0
        """Blocks that were given in this turn."""
        self._over = self._stopped = False
        self._draw = random.Random(seed)  # noqa: S311 - an order, not a secret

    def next(self, side: int, *, enough: bool) -> int | None:
        """Wait for a block; its place in the turn, or None after the last turn. All sides have the
        last turn together: it comes when none of them needs more. Raises `StoppedError`."""
        with self._changed:
            if self._order[:1] == [side]:
                self._order.pop(0)
                self._done += 1
            self._ready[side] = enough
            self._look()
            self._changed.wait_for(lambda: self._stopped or self._over or self._order[:1] == [side])
            if self._stopped:
                raise StoppedError
            if self._over:
                return None
            del self._ready[side]
            return self._done

    def leave(self, side: int) -> None:
        """End a side: it takes no further block."""
        with self._changed:
            self._awaited.discard(side)
            self._ready.pop(side, None)
            if side in self._order:
                self._order.remove(side)
            self._look()

    def stop(self) -> None:
        """Raise `StoppedError` in each thread that waits, and at each later request."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _look(self) -> None:
        """Draw the order of a turn once all awaited sides are ready; end the turns once all of them
        are done."""
        if not self._order and self._awaited and self._ready.keys() >= self._awaited:
            if all(self._ready.values()):
                self._over = True
            else:
                self._order = sorted(self._awaited)
                self._draw.shuffle(self._order)
                self._done = 0
        self._changed.notify_all()


State = Literal["coming", "ready", "measuring", "in blocks", "done"]
MEASURED, TOUCHED, COOLING, IDLE = "measuring", "copies, first runs", "cooling", "nothing ready"
"""Activities of the devices, in the words of their list of times."""


@dataclass(frozen=True)
class CaseRun:
    """A case in a round."""

    case: PlannedCase
    index: int
    position: int


class Group:
    """The states of cases that are measured one after another, in their order."""

    def __init__(self, cases: int, seed: str = "") -> None:
        """`seed` draws the order of the sides in each turn of blocks."""
        self.states: list[State] = ["coming"] * cases
        self.blocks = BlockTurns(range(cases), seed)
        self.held = Held()
        """Locks that other runs see, while cases of the group are measured."""

    @property
    def is_prepared(self) -> bool:
        return "coming" not in self.states

    @property
    def is_measured(self) -> bool:
        return not {"measuring", "in blocks"}.isdisjoint(self.states)

    @property
    def is_done(self) -> bool:
        return set(self.states) == {"done"}

    def is_next(self, place: int) -> bool:
        """Return True if this case is the first that waits and none is measured."""
        return "measuring" not in self.states and self.states.index("ready") == place


class DeviceGate:
    """Condition and queue of one run. `lock` keeps other runs of the host away."""

    def __init__(self, lock: DeviceLock | None = None) -> None:
        self._lock = DeviceLock(()) if lock is None else lock
        self._changed = threading.Condition()
        self._groups: list[Group] = []
        """Groups that are not done."""
        self._queue: list[Group] = []
        """Groups that are prepared; the first one is measured."""
        self._touching = 0
        self._cooling = self._stopped = False
        self.time = TimeBreakdown()
        """Seconds of the devices by activity."""
        self.time.turn(IDLE)

    @property
    def problem(self) -> str | None:
        """Reason why other runs are not kept away; None if they are."""
        return self._lock.problem

    @property
    def name(self) -> str:
        """The devices."""
        return ", ".join(self._lock.names)

    def turns(self, cases: int, seed: str = "") -> list[CaseTurn]:
        """Return a turn for each case of a new group, in the order in which they are measured."""
        group = Group(cases, seed)
        with self._change():
            self._groups.append(group)
            if self._stopped:
                group.blocks.stop()
        return [CaseTurn(self, group, place) for place in range(cases)]

    def stop(self) -> None:
        """Raise `StoppedError` in each thread that waits, and at each later request."""
        with self._change():
            self._stopped = True
            for group in self._groups:
                group.blocks.stop()

    def hold(self, *, alone: bool) -> Held:
        """Hold the locks that other runs see. Raises `StoppedError`."""
        held = self._lock.acquire(alone=alone, stopped=lambda: self._stopped)
        if self._stopped:
            held.release()
            raise StoppedError
        return held

    @contextmanager
    def touching(self) -> Iterator[None]:
        """Hold the right to copy and to run without being measured. Raises `StoppedError`."""
        self.touch()
        try:
            held = self.hold(alone=False)
            try:
                yield
            finally:
                held.release()
        finally:
            self.touched()

    def touch(self) -> None:
        """Wait until copies are allowed: nothing is measured or about to be, or the measured case
        cools and no other group is prepared. Raises `StoppedError`."""
        with self._change():
            self._wait(lambda: len(self._queue) <= self._cooling)
            self._touching += 1

    def touched(self) -> None:
        """End what `touch` began."""
        with self._change():
            self._touching -= 1

    def begin(self, group: Group, place: int) -> None:
        """Wait until this case is the one that is measured. Raises `StoppedError`."""
        with self._change():
            self._set(group, place, "ready")
            self._wait(
                lambda: self._queue[:1] == [group] and not self._touching and group.is_next(place)
            )
            group.states[place] = "measuring"

    def next_block(self, group: Group, place: int, *, enough: bool) -> int | None:
        """Wait for a block among those of the group's other cases: its place in the turn. After
        the last one None; then the case is measured alone again. Raises `StoppedError`."""
        if group.states[place] == "measuring":
            with self._change():
                group.states[place] = "in blocks"
        block = group.blocks.next(place, enough=enough)
        if block is None:
            self.begin(group, place)
        return block

    def wait_until_prepared(self, group: Group, place: int) -> None:
        """Wait until this case is ready to be measured, or ended. Raises `StoppedError`."""
        with self._change():
            self._wait(lambda: group.states[place] != "coming")

    def cool(self) -> None:
        """Let others copy until `cooled`."""
        with self._change():
            self._cooling = True

    def cooled(self) -> None:
        """Wait until all copies have ended. Raises `StoppedError`."""
        with self._change():
            self._cooling = False
            self._wait(lambda: not self._touching)

    def leave(self, group: Group, place: int) -> None:
        """End the turn of a case, whether it was measured or not."""
        group.blocks.leave(place)
        with self._change():
            if group.states[place] == "measuring" and self._cooling:
                self._cooling = False
                group.held.release()
            self._set(group, place, "done")

    def _set(self, group: Group, place: int, state: State) -> None:
        group.states[place] = state
        if group.is_done:
            group.held.release()
            if group in self._groups:
                self._groups.remove(group)
            if group in self._queue:
                self._queue.remove(group)
        elif group.is_prepared and group not in self._queue:
            self._queue.append(group)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Change the state; the waiting threads then look again."""
        with self._changed:
            try:
                yield
            finally:
                self._tell()

    def _wait(self, until: Callable[[], bool]) -> None:
        self._tell()
        self._changed.wait_for(lambda: self._stopped or until())
        if self._stopped:
            raise StoppedError

    def _tell(self) -> None:
        measured = bool(self._queue) and self._queue[0].is_measured
        activity = MEASURED if measured else TOUCHED if self._touching else IDLE
        self.time.turn(COOLING if self._cooling else activity)
        self._changed.notify_all()


class CaseTurn:
    """The use that one case makes of the gate. Not thread-safe."""

    def __init__(self, gate: DeviceGate, group: Group, place: int) -> None:
        self._gate, self._group, self._place = gate, group, place
        self._first = group, place
        self._use: DeviceUse = "free"
        self._cooling = False
        self._held = Held()
        self.reader: Callable[[Shared], bool] | None = None
        """Lets another process read outputs from the device."""
        self.was_read = False
        """True once it was asked to."""
        self.outside: OutsideClock | None = None
        """Time of the case's executions, if it was asked for."""
        self.sides = len(group.states)
        """Cases of the group."""

    def claim(self, use: DeviceUse) -> None:
        """Wait for a use of the device. What the case had before is given back, except the turn of
        a case that is measured after it cooled. Raises `StoppedError`."""
        if use == "cooling":
            self._cooling = True
            self._group.held.release()
            self._group.held = self._gate.hold(alone=False)
            self._gate.cool()
        elif use == "alone" and self._cooling:
            self._cooling = False
            # Copies may wait for another run, which waits for what is held here.
            self._group.held.release()
            self._gate.cooled()
            self._group.held = self._gate.hold(alone=True)
        else:
            self._give_back()
            if use == "shared":
                self._gate.touch()
                self._use = use
                self._held = self._gate.hold(alone=False)
            elif use == "alone":
                self._use = use
                self._gate.begin(self._group, self._place)
                if not self._group.held:
                    self._group.held = self._gate.hold(alone=True)

    def next_block(self, *, enough: bool) -> int | None:
        """Wait for the next block of a case that is measured; None if there is none."""
        return self._gate.next_block(self._group, self._place, enough=enough)

    def wait_until_prepared(self) -> None:
        """Wait until the case is ready to be measured, or ended. Raises `StoppedError`."""
        self._gate.wait_until_prepared(*self._first)

    def read(self, shared: Shared) -> bool:
        self.was_read = True
        return self.reader is not None and self.reader(shared)

    def next_burst(self, root: int, message: AskBurst) -> tuple[int, BurstWork]:
        self.outside = self.outside or OutsideClock()
        return self.outside.next(
            root, message.claimed_ns, message.executions, message.marked_ns, message.doubt
        )

    def end(self) -> None:
        """End the case, however it went."""
        self._give_back()
        self._gate.leave(self._group, self._place)

    def _give_back(self) -> None:
        use, self._use, self._cooling = self._use, "free", False
        if use == "shared":
            self._held.release()
            self._gate.touched()
        elif use == "alone":
            self._gate.leave(self._group, self._place)
            self._group, self._place = Group(1), 0  # if it is measured once more
