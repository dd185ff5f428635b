"""`--settle`: a window of temperatures and a steady clock before a case is measured.

A device that is too cold runs the plan until it is warm, one that is too hot rests. Then its clock
must stay within `STEADY_RATIO` for `STEADY_S`. The looks of earlier cases count: in a row of cases
only the first one waits for long.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench_run.machine.telemetry import snapshot
from bench_run.measure.observers.base import Observer, Results

if TYPE_CHECKING:
    from collections.abc import Callable

STEADY_S, STEADY_RATIO = 10.0, 0.01
LONGEST_S = 120.0
STEP_S = 0.1
"""Time between two readings of the device."""


@dataclass(frozen=True)
class Look:
    """One look at a device."""

    at_s: float
    temperature_c: float | None
    clock_mhz: float | None


def look_at(device: str) -> Look:
    """Return the present temperature and clock; None for unknown ones."""
    found, now = snapshot(device, at_once=True), time.monotonic()
    if found is None:
        return Look(now, None, None)
    return Look(now, found.temperature_c, found.sm_clock_mhz)


@dataclass
class Settler:
    """Waits for one device."""

    low_c: float
    high_c: float
    look: Callable[[], Look]
    sleep: Callable[[float], object] = time.sleep
    looks: list[Look] = field(default_factory=list)
    """Looks of the last `STEADY_S`, all within the window."""

    @classmethod
    def of(cls, window: str, device: str) -> Settler:
        """`window` as in ``50..60``."""
        low, _, high = window.partition("..")
        return cls(float(low), float(high), lambda: look_at(device))

    def settle(self, run: Callable[[], object]) -> str | None:
        """Wait; the reason in a line if the window or a steady clock was not reached. `run` does
        work of the case, to the end."""
        begin = now = self.look()
        while True:
            if now.temperature_c is None:
                return "--settle: the device does not tell its temperature"
            within = self.low_c <= now.temperature_c <= self.high_c
            self._keep(now, within=within)
            if within and self.is_steady():
                return None
            if now.at_s - begin.at_s >= LONGEST_S:
                return self._why(now, within=within)
            if now.temperature_c < self.low_c:
                until_s = now.at_s + STEP_S
                while now.at_s < until_s:
                    run()
                    now = self.look()
            else:
                self.sleep(STEP_S)
                now = self.look()

    def is_steady(self) -> bool:
        """Return True if the clock stayed within `STEADY_RATIO` for `STEADY_S`, or was unknown for
        as long."""
        if self.looks[-1].at_s - self.looks[0].at_s < STEADY_S:
            return False
        clocks = [one.clock_mhz for one in self.looks if one.clock_mhz]
        return not clocks or max(clocks) <= (1 + STEADY_RATIO) * min(clocks)

    def _keep(self, now: Look, *, within: bool) -> None:
        if not within:
            self.looks.clear()
            return
        self.looks.append(now)
        while len(self.looks) > 2 and now.at_s - self.looks[1].at_s >= STEADY_S:
            self.looks.pop(0)

    def _why(self, now: Look, *, within: bool) -> str:
        if not within:
            wanted = f"{self.low_c:g} to {self.high_c:g}"
            return f"--settle: {now.temperature_c:g} degrees after {LONGEST_S:.0f} s, not {wanted}"
        clocks = [one.clock_mhz for one in self.looks if one.clock_mhz]
        return (
            f"--settle: the clock moved from {min(clocks):.0f} to {max(clocks):.0f} MHz in the "
            f"last of {LONGEST_S:.0f} s"
        )


_settlers: dict[tuple[str, str], Settler] = {}
"""Looks of earlier cases of this process, by window and device."""


class Settle(Observer):
    """Waits as ``--settle`` requires; a wait in vain is a note."""

    why: str | None = None

    def before_round(self) -> None:
        window, prepared = self.this.settle, self.this.prepared
        if window is None or prepared.device == "cpu":
            return
        self.this.steps.enter("settle")
        key = window, prepared.device
        self.why = _settlers.setdefault(key, Settler.of(*key)).settle(prepared.run)

    def results(self) -> Results:
        return Results(notes=() if self.why is None else (self.why,))
