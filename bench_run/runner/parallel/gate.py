"""The gate to the devices of a run: several cases copy and run once, or one case is measured.

Rounds that are prepared at the same time take turns here. A *group* is a graph in one round. Its
cases, one for each engine, are measured one after another once all of them are prepared, so that
drift between engines is small; or they alternate in blocks. Prepared groups wait in a queue and go
before copies, because copies can overlap. While the measured case lets its device cool, others may
copy if no group is waiting.
"""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bench_run.errors import StoppedError
from bench_run.machine.device_lock import DeviceLock, Held
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.worker.messages import AskBlock, Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.plan.cases import PlannedCase
    from bench_run.streams.base import DeviceUse
    from bench_run.worker.messages import Question

State = Literal["coming", "ready", "measuring", "in blocks", "done"]
MEASURED, TOUCHED, COOLING, IDLE = "measuring", "copies, first runs", "cooling", "nothing ready"
"""Activities of the devices, in the words of their list of times."""


class Waiting:
    """A state that threads wait for, until they may go on or all of them are stopped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stopped = False

    def stop(self) -> None:
        """Raise `StoppedError` in each thread that waits, and at each later request."""
        with self._change():
            self._stopped = True

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Change the state; the waiting threads then look again."""
        with self._changed:
            try:
                yield
            finally:
                self._tell()

    def _wait(self, until: Callable[[], bool]) -> None:
        """Wait, within `_change`. Raises `StoppedError`."""
        self._tell()
        self._changed.wait_for(lambda: self._stopped or until())
        if self._stopped:
            raise StoppedError

    def _tell(self) -> None:
        self._changed.notify_all()


Need = tuple[int, int]
"""Bytes of the host and of the device."""


class Room(Waiting):
    """A limit of memory: a need that does not fit waits; one above the limit is alone."""

    def __init__(self, total: Need) -> None:
        super().__init__()
        self._left = total
        self._inside = 0

    @contextmanager
    def take(self, need: Need) -> Iterator[None]:
        """Wait until there is room. Raises `StoppedError`."""
        with self._change():
            self._wait(lambda: not self._inside or self.fits(need))
            self._use(1, need)
        try:
            yield
        finally:
            with self._change():
                self._use(-1, need)

    def fits(self, need: Need) -> bool:
        """Return True if there is room for it now."""
        return all(part <= left for part, left in zip(need, self._left, strict=True))

    def _use(self, step: int, need: Need) -> None:
        self._inside += step
        self._left = (self._left[0] - step * need[0], self._left[1] - step * need[1])


@dataclass(frozen=True)
class CaseRun:
    """A case in a round."""

    case: PlannedCase
    index: int
    position: int


class Group:
    """The states of cases that are measured one after another, or in blocks, in their order."""

    def __init__(self, cases: int, seed: str = "") -> None:
        """`seed` draws the order of the cases in each turn of blocks."""
        self.states: list[State] = ["coming"] * cases
        self.held = Held()
        """Locks that other runs see, while cases of the group are measured."""
        self.waiting: dict[int, bool] = {}
        """Cases that wait for their block, and whether they need no further one."""
        self.order: list[int] = []
        """Cases that have no block yet in this turn; the first one measures now or next."""
        self.given = 0
        """Blocks that were given in this turn."""
        self.is_over = False
        """True after the last turn of blocks."""
        self._draw = random.Random(seed)  # noqa: S311 - an order, not a secret

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

    def end_block(self, place: int, *, enough: bool) -> None:
        """Note that a case waits for its next block, and so that its last one is over."""
        if self.order[:1] == [place]:
            self.order.pop(0)
            self.given += 1
        self.waiting[place] = enough
        self.draw()

    def draw(self) -> None:
        """Draw the order of a turn once all cases wait. All have the last turn together: the
        turns are over when none of them needs more."""
        self.order = [place for place in self.order if self.states[place] != "done"]
        left = {place for place, state in enumerate(self.states) if state != "done"}
        if self.order or not left or not self.waiting.keys() >= left:
            return
        self.is_over = all(self.waiting[place] for place in left)
        if not self.is_over:
            self.order = sorted(left)
            self._draw.shuffle(self.order)
            self.given = 0


class DeviceGate(Waiting):
    """Condition and queue of one run. `lock` keeps other runs of the host away."""

    def __init__(self, lock: DeviceLock | None = None) -> None:
        super().__init__()
        self._lock = DeviceLock(()) if lock is None else lock
        self._queue: list[Group] = []
        """Groups that are prepared; the first one is measured."""
        self._touching = 0
        self._cooling = False
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
        return [CaseTurn(self, group, place) for place in range(cases)]

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
        (turn,) = self.turns(1)
        try:
            turn.claim("shared")
            yield
        finally:
            turn.end()

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
        with self._change():
            group.states[place] = "in blocks"
            group.end_block(place, enough=enough)
            self._wait(lambda: group.is_over or group.order[:1] == [place])
            if not group.is_over:
                del group.waiting[place]
                return group.given
        self.begin(group, place)
        return None

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
        with self._change():
            if group.states[place] == "measuring" and self._cooling:
                self._cooling = False
                group.held.release()
            self._set(group, place, "done")

    def _set(self, group: Group, place: int, state: State) -> None:
        group.states[place] = state
        if state == "done":
            group.draw()
        if group.is_done:
            group.held.release()
            if group in self._queue:
                self._queue.remove(group)
        elif group.is_prepared and group not in self._queue:
            self._queue.append(group)

    def _tell(self) -> None:
        measured = bool(self._queue) and self._queue[0].is_measured
        activity = MEASURED if measured else TOUCHED if self._touching else IDLE
        self.time.turn(COOLING if self._cooling else activity)
        super()._tell()


class CaseTurn:
    """The use that one case makes of the gate, and what else its worker may ask. Not
    thread-safe."""

    def __init__(self, gate: DeviceGate, group: Group, place: int) -> None:
        self._gate, self._group, self._place = gate, group, place
        self._first = group, place
        self._use: DeviceUse = "free"
        self._cooling = False
        self._held = Held()
        self.sides = len(group.states)
        """Cases of the group."""
        self.answers: dict[type[Question], Callable[[int, Any], object]] = {
            Claim: lambda _, asked: self.claim(asked.use),
            AskBlock: lambda _, asked: self.next_block(enough=asked.enough),
        }
        """Functions that answer questions, by their kind."""

    def answer(self, root: int, question: Question) -> object:
        return self.answers[type(question)](root, question)

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
