"""Who measures on a host with several devices: one alone, or several side by side.

Whoever wants to be alone closes a door behind which those wait who come later, so that nobody waits
for ever. Batons of several devices share one; it is asked and changed under its condition only.
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
        """Those who want to be alone, in the order in which they came."""

    def admits(self, who: Measuring) -> bool:
        """Whether it may measure now, as far as other devices go."""
        if who.beside:
            return not self._door and all(other.beside for other in self._measuring)
        if who not in self._door:
            self._door.append(who)
        return not self._measuring and self._door[0] is who

    def enter(self, who: Measuring) -> None:
        self._measuring.append(who)
        if who in self._door:
            self._door.remove(who)

    def leave(self, who: Measuring) -> None:
        """It has measured, or will not."""
        for names in (self._measuring, self._door):
            if who in names:
                names.remove(who)
