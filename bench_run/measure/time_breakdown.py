"""Breakdown of a run's wall time into one activity at a time.

Everything is counted by the run, from its workers' announcements, so that the parts add up to the
whole and nothing is measured inside of a worker.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

OF_PHASE = {
    "build": "building",
    "plan": "building",
    "inputs": "inputs",
    "search": "searching",
    "first_run": "first runs",
    "validate": "checking",
    "settle": "waiting for the clock",
    "gate": "measuring",
    "wait": "waiting for the device",
    "reference": "waiting for references",
    "measure": "measuring",
}
"""Activity during a phase that a worker announces; unknown phases belong to what was asked."""

SHOWN_S = 0.05
"""Less is not worth a word."""


class TimeBreakdown:
    """Seconds by activity; whatever is not named is ``other``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._activity = "other"
        self._seconds: dict[str, float] = defaultdict(float)
        self._workers: dict[str, float] = defaultdict(float)
        """Activities of workers that ran side by side: their sum exceeds the wall time."""

    def turn(self, activity: str) -> None:
        """End the current activity and begin this one."""
        now = self._clock()
        self._seconds[self._activity] += now - self._since
        self._activity, self._since = activity, now

    @contextmanager
    def on(self, activity: str) -> Iterator[None]:
        before = self._activity
        self.turn(activity)
        try:
            yield
        finally:
            self.turn(before)

    def phase(self, name: str, checked_ns: int = 0) -> None:
        """Begin a worker's phase; `checked_ns` of the one before went into checks."""
        before = self._activity
        self.turn(OF_PHASE.get(name, before))
        if checked_ns:
            self._seconds[before] -= checked_ns / 1e9
            self._seconds["checking"] += checked_ns / 1e9

    def add_workers(self, times: Iterable[TimeBreakdown]) -> None:
        """Add activities of side-by-side workers, for which this breakdown counts a single
        activity."""
        for each in times:
            for activity, seconds in each.seconds().items():
                self._workers[activity] += seconds

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each activity until now, longest first."""
        self.turn(self._activity)
        return dict(sorted(self._seconds.items(), key=lambda row: -row[1]))

    def listed(self) -> str:
        """Return the activities that took long enough to be named, the longest first."""
        return _listed(self.seconds())

    def line(self) -> str:
        seconds = self.seconds()
        line = f"took {sum(seconds.values()):.1f} s: {_listed(seconds)}"
        busy = {what: s for what, s in self._workers.items() if what != "other"}
        return f"{line} (their workers: {_listed(busy)})" if busy else line


def _listed(seconds: Mapping[str, float]) -> str:
    longest = sorted(seconds.items(), key=lambda row: -row[1])
    return ", ".join(f"{what} {s:.1f} s" for what, s in longest if s >= SHOWN_S)
