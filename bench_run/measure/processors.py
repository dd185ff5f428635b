"""Processors that a worker and all that it started used, against those that it was given."""

from __future__ import annotations

import os
import time

from bench_run.machine.surroundings import tree_ns
from bench_run.measure.clock import read_clock

SLACK_NS = 2_000_000
SHARE = 1.05
HELPERS_SHARE = 0.05
"""Part of the samples' time that other processes may work next to a worker on one processor: its
own time between the samples is as long as theirs may be in them."""


class ProcessorWatch:
    """Processor time from its making on. Every process below the worker's guardian counts, in a
    session of its own too."""

    def __init__(self, threads: int | None, guardian: int | None) -> None:
        """`threads`: how many the worker was held to, on as many processors; None: it was not.
        `guardian`: id of the process below which all stays that the worker starts."""
        self._threads, self._root = threads, os.getpid() if guardian is None else guardian
        self._begin = None if threads is None else self._times()

    def _times(self) -> tuple[int, int, int]:
        """Return an instant, the processor time of this process and that of the others, in ns."""
        own_ns = time.process_time_ns()
        return read_clock(), own_ns, max(0, (tree_ns(self._root) or 0) - own_ns)

    def reason(self, samples_ns: int) -> str | None:
        """Return a line on the use of more processors than it was given; None if it kept to them.
        `samples_ns`: time of all samples."""
        if self._threads is None or self._begin is None:
            return None
        wall_ns, own_ns, others_ns = (
            now - then for now, then in zip(self._times(), self._begin, strict=True)
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
