"""Processors that a worker and all that it started used, against those that it was given."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from bench_run.machine.surroundings import below
from bench_run.measure.clock import read_clock

if TYPE_CHECKING:
    from collections.abc import Callable

SLACK_NS = 2_000_000
SHARE = 1.05
HELPERS_SHARE = 0.05
"""Part of the samples' time that other processes may work next to a worker on one processor: its
own time between the samples is as long as theirs may be in them."""


class ProcessorWatch:
    """Processor time from its making on. Every process below the worker's guardian counts, in a
    session of its own too."""

    def __init__(
        self, threads: int | None, now: Callable[[], tuple[int, int, int]] | None = None
    ) -> None:
        """`threads`: how many the worker was held to, on as many processors; None: it was not.
        `now` gives an instant and the processor time of this process and of all others below its
        guardian, all in ns."""
        self._threads, self._now = threads, _times if now is None else now
        self._begin = None if threads is None else self._now()

    def reason(self, samples_ns: int) -> str | None:
        """Return a line on the use of more processors than it was given; None if it kept to them.
        `samples_ns`: time of all samples."""
        if self._threads is None or self._begin is None:
            return None
        wall_ns, own_ns, others_ns = (
            now - then for now, then in zip(self._now(), self._begin, strict=True)
        )
        given_ns = SHARE * self._threads * wall_ns + SLACK_NS
        if own_ns + others_ns > given_ns:
            used = (own_ns + others_ns) / wall_ns
            return f"{used:.1f} processors were used while sampled, of {self._threads} by --threads"
        if self._threads == 1 and others_ns > HELPERS_SHARE * samples_ns + SLACK_NS:
            used = 1 + others_ns / max(1, samples_ns)
            return (
                f"another process of the engine worked next to the samples: {used:.1f} processors, "
                "of 1 by --threads"
            )
        return None


def _times() -> tuple[int, int, int]:
    others = [pid for pid in below(os.getppid()) if pid not in (os.getpid(), os.getppid())]
    ended = sum(os.times()[2:4])
    return (
        read_clock(),
        time.process_time_ns(),
        round(ended * 1e9) + sum(map(_processor_ns, others)),
    )


def _processor_ns(pid: int) -> int:
    """Return the processor time of a process, to the nanosecond: the clock that
    clock_getcpuclockid(3) names. 0 if it has ended."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0
