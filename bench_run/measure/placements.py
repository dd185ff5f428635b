"""The places in memory where the buffers of a plan lie, one after the other in a round.

Where buffers lie is a part of what differs between two processes. On an H200 rounds of one place
scattered by 1.1 % for a relu of 103 MB and by 0.5 % for products and convolutions, rounds of six
places by 0.6 and 0.4 %. What lies between two kernels differs by process (0.74 to 1.0 µs in the
same graph of PyTorch), which only further rounds show.
"""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from bench_run.errors import EngineError

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.measure.checks import Checks
    from bench_run.streams.base import Stream

GAP_UNIT, GAP_UNITS = 4096, 512
"""A gap is drawn from 1 to so many units of so many bytes."""
RECOVERY_NS, MOST_RUNS = 500_000, 50
"""Executions that bring the caches back after a move take about so long. A kernel of 33 MB took 1
to 7 % longer in fifteen executions after copies of its outputs (H200)."""
LONGEST_NS = 50_000_000
"""A plan that takes longer to move stays where it is: large buffers lie everywhere at once."""


class Placements:
    """Moves the buffers of one plan. A plan that cannot move has one place."""

    def __init__(self, plan: Plan, stream: Stream, checks: Checks, count: int, secret: str) -> None:
        """`count`: places in a round; gaps are drawn from the secret."""
        self._plan, self._stream, self._checks = plan, stream, checks
        self._draw = Random(f"{secret} places")  # noqa: S311 - repeatable
        self.count = 1 if plan.abilities.relocate is None else count
        self.estimate_ns = 0
        """Time of an execution."""

    def move(self) -> bool:
        """Move the buffers and run until the caches hold what they usually do; False if they
        stayed: then they do so from now on."""
        relocate = self._plan.abilities.relocate
        if self.count == 1 or relocate is None:
            return False
        begin = time.perf_counter_ns()
        with suppress(EngineError):  # there is not enough memory
            relocate(self._draw.randint(1, GAP_UNITS) * GAP_UNIT)
            self._checks.moved()
            for _ in range(min(MOST_RUNS, max(2, RECOVERY_NS // max(1, self.estimate_ns)))):
                self._plan.run()
            self._stream.synchronize()
            if time.perf_counter_ns() - begin > LONGEST_NS:
                self.count = 1
            return True
        self.count = 1
        return False


class OnePlace(Placements):
    """Buffers that stay where they are."""

    def __init__(self) -> None:
        self.count, self.estimate_ns = 1, 0

    def move(self) -> bool:
        return False
