"""Who may use the device: several who touch it (copies, first runs), or one case that is measured.

Rounds that are prepared side by side take turns here. The unit of a turn is a *group*, a graph in
one round: its cases (one per engine) are measured one after the other, in the order of the round,
once all of them stand ready, so that drift between engines is as small as it can be. Groups that
stand ready go first, since whoever only touches the device can do so together with others, and
while the device of the group whose turn it is cools, if nobody stands ready then: copies take
longer than most cooling does. Where several devices measure at the same
time, a group that is to be alone on the host goes before others as soon as it can (`host_turn.py`).
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from bench_run.errors import StoppedError
from bench_run.machine.device_lock import DeviceLock, Held
from bench_run.measure.time_breakdown import TimeBreakdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_run.plan.cases import PlannedCase
    from bench_run.validate.settings import ValidationSettings
    from bench_run.worker.messages import DeviceUse


# Who measures on a host with several devices: one alone, or several side by side.
#
# Whoever is to be alone first waits for a moment at which no other device measures, while its own
# device goes on with others. Where that takes long, or there is nobody else to go on with, it
# closes a door: nobody begins any more until it was its turn, so that nobody waits for ever. Batons
# of several devices share one; it is asked and changed under its condition only.


class Measuring(Protocol):
    """Whoever measures on one of the devices."""

    beside: bool
    """Others may do so meanwhile."""


class HostTurn:
    def __init__(self, lock: DeviceLock | None = None) -> None:
        """`lock`: of all devices, which other runs see: shared by those that measure side by side,
        held alone by others."""
        self.lock = DeviceLock(()) if lock is None else lock
        self.changed = threading.Condition()
        self._measuring: list[Measuring] = []
        self._door: list[Measuring] = []
        """Those who closed it, in their order."""

    def admits(self, who: Measuring) -> bool:
        """Whether it may measure now, as far as other devices go."""
        if who.beside:
            return not self._door and all(other.beside for other in self._measuring)
        return not self._measuring and self._door[:1] in ([], [who])

    def close_door(self, who: Measuring) -> None:
        if who not in self._door:
            self._door.append(who)

    def measures(self, who: Measuring) -> bool:
        return who in self._measuring

    def enter(self, who: Measuring) -> None:
        self._measuring.append(who)
        if who in self._door:
            self._door.remove(who)

    def leave(self, who: Measuring) -> None:
        """It has measured, or will not."""
        for names in (self._measuring, self._door):
            if who in names:
                names.remove(who)


State = Literal["coming", "ready", "measuring", "done"]
ALONE, BESIDE, OTHERS = "measuring alone", "measuring beside others", "waiting for other devices"
TOUCHED, COOLING, IDLE = "copies, first runs", "cooling", "nothing ready"
"""What a device does, as its times are listed."""
PATIENCE_S, IDLE_PATIENCE_S = 0.5, 0.05
"""How long a group that is to be alone on the host waits for a moment at which it is, while its
device goes on with others and without."""


class Baton:
    """The turns of one run. `lock` keeps other runs of the host away meanwhile."""

    def __init__(self, lock: DeviceLock | None = None, host: HostTurn | None = None) -> None:
        """`host`: shared by the batons of several devices."""
        self._lock = DeviceLock(()) if lock is None else lock
        self._host = HostTurn() if host is None else host
        self._changed = self._host.changed
        self.time = TimeBreakdown()
        """What the device did."""
        self.time.turn(IDLE)
        self._touching = 0
        self._ready: list[Group] = []
        self._active: Group | None = None
        self._cooling = False
        """Whether whoever measures lets others touch the device meanwhile."""
        self._stopped = False

    def group(self, cases: Sequence[str], *, beside: bool = False) -> Group:
        """The turn of these cases, which are measured in this order; `beside` other devices."""
        return Group(self, cases, beside)

    @property
    def problem(self) -> str | None:
        """Why other runs are not kept away; None where they are."""
        return self._lock.problem

    @property
    def times(self) -> dict[str, TimeBreakdown]:
        """What the devices did that take turns here."""
        return {", ".join(self._lock.names): self.time}

    def shares(self, rounds: Sequence[Sequence[CaseRun]]) -> list[list[list[CaseRun]]]:
        """All rounds in one: engines take turns on each graph."""
        return [[list(case_runs) for case_runs in rounds]]

    def turns(self, case_runs: Sequence[CaseRun]) -> list[CaseTurn]:
        """The turns of runs that belong together."""
        names = [case_run.case.id for case_run in case_runs]
        group = self.group(names)
        return [group.turn(name) for name in names]

    def stop(self) -> None:
        """Everybody who waits, or asks from now on, gets `StoppedError`."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def hold(self, *, alone: bool, beside: bool = False) -> Held:
        """The locks that other runs see; `alone` on the device. Raises `StoppedError`."""
        held = Held()
        if alone:
            held += self._host.lock.acquire(alone=not beside, stopped=lambda: self._stopped)
        held += self._lock.acquire(alone=alone, stopped=lambda: self._stopped)
        if self._stopped:
            held.release()
            raise StoppedError
        return held

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A change of state, which those who wait look at."""
        with self._changed:
            yield
            self._tell()

    def _tell(self) -> None:
        """Those who wait look at what has changed."""
        if self._cooling:
            activity = COOLING
        elif self._active is not None and self._host.measures(self._active):
            activity = BESIDE if self._active.beside else ALONE
        elif self._touching:
            activity = TOUCHED
        else:
            activity = OTHERS if self._ready or self._active is not None else IDLE
        self.time.turn(activity)
        self._changed.notify_all()

    def may_touch(self) -> bool:
        """Whether nobody measures or could begin to, or the device cools and nobody else is ready:
        who cools waits for those who touch, so they should be many at a time, and seldom."""
        if self._cooling:
            return not self._ready
        return self._active is None and self._first() is None

    def touch(self) -> None:
        """Waits until the device may be touched."""
        with self.changing():
            self.wait(self.may_touch)
            self.begin_to_touch()

    def begin_to_touch(self) -> None:
        """Within `changing`."""
        self._touching += 1

    def cool(self) -> None:
        """Whoever measures waits for the clock: others may touch the device until `cooled`, and
        measure on other devices."""
        with self.changing():
            self._cooling = True
            if self._active is not None:
                self._host.leave(self._active)

    def cooled(self) -> None:
        """Waits until nobody touches it any more, and until other devices let it measure."""
        with self.changing():
            self.end_cooling()
            self.wait(lambda: self.is_untouched() and self._may_go_on())

    def _may_go_on(self) -> bool:
        active = self._active
        if active is None or self._host.measures(active):
            return True
        if self._host.admits(active):
            self._host.enter(active)
            return True
        if not active.beside:
            self._host.close_door(active)
        return False

    def end_cooling(self) -> bool:
        """Whether it was going on. Within `changing`."""
        was, self._cooling = self._cooling, False
        return was

    def is_untouched(self) -> bool:
        return not self._touching

    def _first(self) -> Group | None:
        """The group that measures next, where other devices do not stand in the way."""
        alone = [group for group in self._ready if not group.beside]
        beside = [group for group in self._ready if group.beside]
        for group in (*alone, *beside):
            if self._host.admits(group):
                return group
        patience_s = PATIENCE_S if beside else IDLE_PATIENCE_S
        if alone and time.monotonic() > alone[0].ready_at + patience_s:
            self._host.close_door(alone[0])
        return None

    @contextmanager
    def touching(self) -> Iterator[None]:
        """While somebody who is no case of a round works on the device."""
        self.touch()
        try:
            held = self.hold(alone=False)
            try:
                yield
            finally:
                held.release()
        finally:
            self.touched()

    def touched(self) -> None:
        with self.changing():
            self._touching -= 1

    def wait(self, until: Callable[[], bool]) -> None:
        """Within `changing`. Raises `StoppedError`."""
        self._tell()
        self._changed.wait_for(lambda: self._stopped or until())
        if self._stopped:
            raise StoppedError

    def enqueue(self, group: Group) -> None:
        """All cases of the group stand ready. Within `changing`."""
        group.ready_at = time.monotonic()
        self._ready.append(group)

    def is_turn_of(self, group: Group) -> bool:
        """Whether the group measures now; it begins where nothing stands in the way."""
        if self._active is None and self._first() is group and not self._touching:
            self._active = group
            self._ready.remove(group)
            self._host.enter(group)
        return self._active is group

    def end_turn(self, group: Group) -> None:
        """Every case of the group is measured, or will not be. Within `changing`."""
        if self._active is group:
            self._active = None
        elif group in self._ready:
            self._ready.remove(group)
        self._host.leave(group)


class Group:
    """The cases of one graph in one round, in their order."""

    def __init__(self, baton: Baton, cases: Sequence[str], beside: bool = False) -> None:
        self.baton = baton
        self.beside = beside
        self.ready_at = 0.0
        """Of the monotonic clock."""
        self._states: dict[str, State] = dict.fromkeys(cases, "coming")
        self._held = Held()

    def turn(self, case: str) -> CaseTurn:
        """What the worker of this case asks for the device."""
        return CaseTurn(self, case)

    def begin(self, case: str) -> None:
        """Waits until all cases stand ready, and until this one is next."""
        with self.baton.changing():
            self._set(case, "ready")
            self.baton.wait(lambda: self.baton.is_turn_of(self) and self._next() == case)
            self.baton.wait(
                self.baton.is_untouched
            )  # the case before may have ended while it cooled
            self._set(case, "measuring")
        if not self._held:
            self._held = self.baton.hold(alone=True, beside=self.beside)

    def cool(self) -> None:
        """The case that measures keeps its turn while others touch the device."""
        self._held.release()
        self._held = self.baton.hold(alone=False)
        self.baton.cool()

    def go_on(self) -> None:
        """It measures again. It holds nothing while it waits for those who touch the device: they
        may wait behind the door of another run, which waits for what is held here."""
        self._held.release()
        self.baton.cooled()
        self._held = self.baton.hold(alone=True, beside=self.beside)

    def _next(self) -> str | None:
        if "measuring" in self._states.values():
            return None
        return next((case for case, state in self._states.items() if state == "ready"), None)

    def leave(self, case: str) -> None:
        """The case is measured, or will not be."""
        with self.baton.changing():
            if self._states[case] == "done":
                return
            if self._states[case] == "measuring" and self.baton.end_cooling():
                self._held.release()
            self._set(case, "done")

    def _set(self, case: str, state: State) -> None:
        was_coming = "coming" in self._states.values()
        self._states[case] = state
        states = set(self._states.values())
        if states == {"done"}:
            self._held.release()
            self.baton.end_turn(self)
        elif was_coming and "coming" not in states:
            self.baton.enqueue(self)


class CaseTurn:
    """One case's use of the device. Not for several threads."""

    def __init__(self, group: Group, case: str) -> None:
        self._group = group
        self._case = case
        self._use: DeviceUse = "free"
        self._cooling = False
        self.wait_for_expected: Callable[[], ValidationSettings] | None = None
        """Waits for what the outputs are compared with."""
        self._held = Held()
        self._overlaps: Overlaps | None = None
        self._device = ""
        self._token: int | None = None
        self.companions: set[str] = set()
        """Devices that measured while this case did."""

    def watch(self, overlaps: Overlaps, device: str) -> None:
        """Have it noted which devices measure meanwhile."""
        self._overlaps, self._device = overlaps, device

    def claim(self, use: DeviceUse) -> None:
        """Waits for it; what was held before is given back, but for the turn of a case that is
        measured after it cooled. Raises `StoppedError`."""
        if use == "cooling":
            self._cooling = True
            self._end_overlap()  # nothing is measured yet
            return self._group.cool()
        if use == "alone" and self._cooling:
            self._cooling = False
            self._group.go_on()
            return self._begin_overlap()
        self._give_back()
        if use == "shared":
            self._group.baton.touch()
            self._use = use
            self._held = self._group.baton.hold(alone=False)
        elif use == "alone":
            self._use = use
            self._group.begin(self._case)
            self._begin_overlap()
        return None

    def _begin_overlap(self) -> None:
        if self._overlaps is not None:
            self._token = self._overlaps.begin(self._device)

    def _end_overlap(self) -> None:
        if self._overlaps is not None and self._token is not None:
            self.companions = self._overlaps.end(self._token)
            self._token = None

    def expected(self) -> ValidationSettings:
        assert self.wait_for_expected is not None, "nothing was pending"
        return self.wait_for_expected()

    def end(self) -> None:
        """The case is over, however it ended."""
        self._give_back()
        self._group.leave(self._case)

    def _give_back(self) -> None:
        use, self._use, self._cooling = self._use, "free", False
        self._end_overlap()
        if use == "shared":
            self._held.release()
            self._group.baton.touched()
        elif use == "alone":
            self._group.leave(self._case)
            again = self._group.baton.group([self._case], beside=self._group.beside)
            self._group = again  # should it measure once more


# A case in a round, as it waits for its turn.


@dataclass(frozen=True)
class CaseRun:
    """A case in a round."""

    case: PlannedCase
    index: int
    position: int


# Which devices measured at the same time.


class Overlaps:
    """Everybody who measures says when. Of several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: dict[int, tuple[str, set[str]]] = {}
        self._next = 0

    def begin(self, device: str) -> int:
        with self._lock:
            seen = set()
            for other, beside in self._active.values():
                if other != device:
                    seen.add(other)
                    beside.add(device)
            self._next += 1
            self._active[self._next] = device, seen
            return self._next

    def end(self, token: int) -> set[str]:
        """The others that measured meanwhile."""
        with self._lock:
            return self._active.pop(token)[1]
