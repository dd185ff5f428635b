"""``--parallel measure``: devices of a host measure at the same time, where that changes nothing.

Devices share power, bus and host, so each case is watched: round 0, and every `EVERY`-th after it,
is measured while no other device measures, and the others are held against it (`trials.py`).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from bench_run.machine.device_lock import DeviceLock
from bench_run.runner.parallel.baton import Baton
from bench_run.runner.parallel.host_turn import HostTurn
from bench_run.runner.parallel.overlaps import Overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.measure.time_breakdown import TimeBreakdown
    from bench_run.runner.parallel.baton import CaseTurn, Group
    from bench_run.runner.parallel.visit import Visit

HOST = "host"
"""Name of the lock of all devices: shared by those that measure side by side."""


class DeviceBatons:
    """A baton for each device, in place of one for all of them."""

    def __init__(
        self,
        devices: Mapping[str, str],
        is_beside: Callable[[Visit], bool],
        tell: Callable[[str], object] | None = None,
    ) -> None:
        """`devices`: that of each engine, by its key; `is_beside`: whether others may measure
        while a case does; `tell` hears that another run is waited for."""
        self._devices = devices
        self._is_beside = is_beside
        self._overlaps = Overlaps()
        host = HostTurn(DeviceLock([HOST], tell=tell))
        self._batons = {
            device: Baton(DeviceLock([device], tell=tell), host)
            for device in sorted(set(devices.values()))
        }

    @property
    def problem(self) -> str | None:
        """Why other runs are not kept away; None where they are."""
        return next((b.problem for b in self._batons.values() if b.problem is not None), None)

    @property
    def times(self) -> dict[str, TimeBreakdown]:
        """What each device did."""
        return {device: baton.time for device, baton in self._batons.items()}

    def shares(self, rounds: Sequence[Sequence[Visit]]) -> list[list[list[Visit]]]:
        """The rounds of each device: none waits for what another one prepares."""
        shares = [
            [[v for v in visits if self._devices[v.case.engine.key] == device] for visits in rounds]
            for device in self._batons
        ]
        return [[visits for visits in share if visits] for share in shares if any(share)]

    def turns(self, visits: Sequence[Visit]) -> list[CaseTurn]:
        """One for each visit; those of one device follow each other."""
        places = [(self._devices[v.case.engine.key], self._is_beside(v)) for v in visits]
        groups: dict[tuple[str, bool], Group] = {}
        for place in dict.fromkeys(places):
            mine = [v.case.id for v, at in zip(visits, places, strict=True) if at == place]
            groups[place] = self._batons[place[0]].group(mine, beside=place[1])
        turns = [groups[at].turn(v.case.id) for v, at in zip(visits, places, strict=True)]
        for turn, (device, _) in zip(turns, places, strict=True):
            turn.watch(self._overlaps, device)
        return turns

    @contextmanager
    def touching(self) -> Iterator[None]:
        """While somebody who is no case of a round works on any of the devices: on all at once,
        since whoever has one and waits for another may keep the other waiting."""
        batons = list(self._batons.values())
        with batons[0].changing():  # the state of all: they share the turn of the host
            batons[0].wait(lambda: all(baton.may_touch() for baton in batons))
            for baton in batons:
                baton.begin_to_touch()
        with ExitStack() as held:
            for baton in batons:
                held.callback(baton.touched)
            for baton in batons:
                held.callback(baton.hold(alone=False).release)
            yield

    def stop(self) -> None:
        for baton in self._batons.values():
            baton.stop()
