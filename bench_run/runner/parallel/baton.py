"""Who may use the device: several who touch it (copies, first runs), or one case that is measured.

Rounds that are prepared side by side take turns here. The unit of a turn is a *group*, a graph in
one round: its cases (one per engine) are measured one after the other, in the order of the round,
once all of them stand ready, so that drift between engines is as small as it can be. Groups that
stand ready go first, since whoever only touches the device can do so together with others, and
while the device of the group whose turn it is cools.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from bench_run.errors import StoppedError
from bench_run.machine.device_lock import DeviceLock, Held
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.runner.parallel.host_turn import HostTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_run.runner.parallel.overlaps import Overlaps
    from bench_run.runner.parallel.visit import Visit
    from bench_run.validate.settings import ValidationSettings
    from bench_run.worker.messages import DeviceUse

State = Literal["coming", "ready", "measuring", "done"]
ALONE, BESIDE, OTHERS = "measuring alone", "measuring beside others", "waiting for other devices"
TOUCHED, COOLING, IDLE = "copies, first runs", "cooling", "nothing ready"
"""What a device does, as its times are listed."""


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
    def times(self) -> dict[str, TimeBreakdown]:
        """What the devices did that take turns here."""
        return {", ".join(self._lock.names): self.time}

    def shares(self, rounds: Sequence[Sequence[Visit]]) -> list[list[list[Visit]]]:
        """All rounds in one: engines take turns on each graph."""
        return [[list(visits) for visits in rounds]]

    def turns(self, visits: Sequence[Visit]) -> list[CaseTurn]:
        """The turns of visits that belong together."""
        names = [visit.case.id for visit in visits]
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
        self.time.turn(self._activity())
        self._changed.notify_all()

    def _activity(self) -> str:
        if self._cooling:
            return COOLING
        if self._active is not None:
            return BESIDE if self._active.beside else ALONE
        if self._touching:
            return TOUCHED
        return OTHERS if self._ready else IDLE

    def touch(self) -> None:
        """Waits until nobody measures or could begin to, or until the device cools."""
        with self.changing():
            self.wait(lambda: self._cooling or (self._active is None and not self._may_begin()))
            self._touching += 1

    def cool(self) -> None:
        """Whoever measures waits for the clock: others may touch the device until `cooled`."""
        with self.changing():
            self._cooling = True

    def cooled(self) -> None:
        """Waits until nobody touches it any more."""
        with self.changing():
            self.end_cooling()
            self.wait(self.is_untouched)

    def end_cooling(self) -> bool:
        """Whether it was going on. Within `changing`."""
        was, self._cooling = self._cooling, False
        return was

    def is_untouched(self) -> bool:
        return not self._touching

    def _may_begin(self) -> bool:
        """Whether a group stands ready for which other devices do not stand in the way."""
        return bool(self._ready) and self._host.admits(self._ready[0])

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
        self._ready.append(group)

    def is_turn_of(self, group: Group) -> bool:
        """Whether the group measures now; it begins where nothing stands in the way."""
        if self._active is None and self._ready[:1] == [group] and self._host.admits(group):
            if self._touching:
                return False
            self._active = self._ready.pop(0)
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
        """It measures again."""
        self.baton.cooled()
        self._held.release()
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
        self.settle: Callable[[], ValidationSettings] | None = None
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
            return self._group.cool()
        if use == "alone" and self._cooling:
            self._cooling = False
            return self._group.go_on()
        self._give_back()
        if use == "shared":
            self._group.baton.touch()
            self._use = use
            self._held = self._group.baton.hold(alone=False)
        elif use == "alone":
            self._use = use
            self._group.begin(self._case)
            if self._overlaps is not None:
                self._token = self._overlaps.begin(self._device)
        return None

    def expected(self) -> ValidationSettings:
        assert self.settle is not None, "nothing was pending"
        return self.settle()

    def end(self) -> None:
        """The case is over, however it ended."""
        self._give_back()
        self._group.leave(self._case)

    def _give_back(self) -> None:
        use, self._use, self._cooling = self._use, "free", False
        if self._overlaps is not None and self._token is not None:
            self.companions = self._overlaps.end(self._token)
            self._token = None
        if use == "shared":
            self._held.release()
            self._group.baton.touched()
        elif use == "alone":
            self._group.leave(self._case)
            again = self._group.baton.group([self._case], beside=self._group.beside)
            self._group = again  # should it measure once more
