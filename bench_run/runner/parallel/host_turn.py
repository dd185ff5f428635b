"""Who measures on a host with several devices: one alone, or several side by side.

Whoever is to be alone first waits for a moment at which no other device measures, while its own
device goes on with others. Where that takes long, or there is nobody else to go on with, it closes
a door: nobody begins any more until it was its turn, so that nobody waits for ever. Batons of
several devices share one; it is asked and changed under its condition only.
"""

from __future__ import annotations

import threading
from typing import Protocol

from bench_run.machine.device_lock import DeviceLock


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
