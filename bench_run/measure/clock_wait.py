"""Cool duty: samples are taken when the device's clock is back where the work before it was not
felt.

A case that follows a long matrix product otherwise begins on a hot device: on an H200 a convolution
measured 5.5 % too long there, at 1800 MHz instead of 1980.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench_run.machine.telemetry import highest_clock_mhz

if TYPE_CHECKING:
    from bench_run.streams.base import Stream

BACK_RATIO = 0.996
"""Share of the highest clock: one step of an H200's clock is 0.8 %, and a convolution shows it."""
MOST_S = 2.0
STEP_S = 0.01
"""Between two looks at the clock; an H200's needs up to 0.05 s."""

_reachable_mhz: dict[str, float] = {}
"""Clocks that devices came to within `MOST_S` which do not come to their highest."""


def wait_for_clock(device: str, stream: Stream, rest_s: float) -> None:
    """Rest until the clock, as a kernel counts it, is back; at most `MOST_S`. Does nothing in
    sustained duty (`rest_s` 0) and if clocks are unknown."""
    end, best = time.monotonic() + MOST_S, 0.0
    while (clock := _low_clock_mhz(device, stream, rest_s)) is not None:
        best = max(best, clock)
        if time.monotonic() >= end:
            _reachable_mhz[device] = best
            return
        time.sleep(min(rest_s, STEP_S))


def clock_is_back(device: str, stream: Stream, rest_s: float) -> bool:
    """Return True if `wait_for_clock` would return at once."""
    return _low_clock_mhz(device, stream, rest_s) is None


def _low_clock_mhz(device: str, stream: Stream, rest_s: float) -> float | None:
    """Return the clock if it has to be waited for."""
    highest = _reachable_mhz.get(device) or highest_clock_mhz(device)
    probe_clock_mhz = stream.abilities.probe_clock_mhz
    if rest_s <= 0 or highest is None or probe_clock_mhz is None:
        return None
    clock = probe_clock_mhz()
    return None if clock is None or clock >= BACK_RATIO * highest else clock
