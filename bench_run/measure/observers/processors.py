"""Processors that a worker and all that it started used, against those that it was given."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from bench_run.machine.surroundings import tree_ns
from bench_run.measure.clock import read_clock
from bench_run.measure.observers.base import Observer, Results

if TYPE_CHECKING:
    from bench_run.measure.loop import Measured

SLACK_NS = 2_000_000
SHARE = 1.05
HELPERS_SHARE = 0.05
"""Part of the samples' time that other processes may work next to a worker on one processor: its
own time between the samples is as long as theirs may be in them."""


class Processors(Observer):
    """Holds a worker to its threads. Every process below the worker's guardian counts, in a session
    of its own too."""

    why: str | None = None
    _begin: tuple[int, int, int] | None = None

    def before_round(self) -> None:
        self._begin = None if self.this.threads is None else self._times()

    def after_sample_block(self, measured: Measured) -> None:
        self.why = self._reason(sum(measured.series["e2e_ns"]))

    def results(self) -> Results:
        return Results(case={"implausible": self.why})

    def _times(self) -> tuple[int, int, int]:
        """Return an instant, the processor time of this process and that of the others, in ns."""
        own_ns, guardian = time.process_time_ns(), self.this.guardian
        root = os.getpid() if guardian is None else guardian
        return read_clock(), own_ns, max(0, (tree_ns(root) or 0) - own_ns)

    def _reason(self, samples_ns: int) -> str | None:
        """Return a line on the use of more processors than it was given; None if it kept to them.
        `samples_ns`: time of all samples."""
        threads = self.this.threads
        if threads is None or self._begin is None:
            return None
        wall_ns, own_ns, others_ns = (
            now - then for now, then in zip(self._times(), self._begin, strict=True)
        )
        given_ns = SHARE * threads * wall_ns + SLACK_NS
        if own_ns + others_ns > given_ns:
            used = (own_ns + others_ns) / wall_ns
            return f"{used:.1f} processors were used while sampled, of {threads} by --threads"
        if threads == 1 and others_ns > HELPERS_SHARE * samples_ns + SLACK_NS:
            used = 1 + others_ns / max(1, samples_ns)
            return (
                f"another process of the engine worked next to the samples: {used:.1f} processors, "
                "of 1 by --threads"
            )
        return None
