"""Samples in short blocks that alternate with those of other sides.

What a machine does to times is slow beside a block of two milliseconds, so it hits two blocks that
follow each other alike, and cancels in their ratio. A block begins with runs that do not count: the
other side left the caches as it wanted them.
"""

from __future__ import annotations

import os
import statistics
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from bench_run.machine.affinity import choose_cpus
from bench_run.measure.clock import read_clock
from bench_run.measure.loop import (
    MOST_SAMPLES,
    NONE,
    Measured,
    end_to_end,
    names_of,
    on_device,
    quiet,
    sampler,
    sized,
    warm_up,
    why_over,
)
from bench_run.measure.placements import OnePlace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.base import Plan
    from bench_run.measure.budget import SamplingBudget
    from bench_run.measure.checks import Checks
    from bench_run.measure.kernel_pass import KernelTimes
    from bench_run.measure.loop import Clock
    from bench_run.measure.placements import Placements
    from bench_run.streams.base import Stream

BLOCK_NS = 2_000_000
"""Duration of a block, if an execution does not take longer. Beside busy neighbours the ratio of
pairs of blocks was known to 0.5 % after a second with blocks of three executions of 0.7 ms, and to
1 % with blocks of twelve."""
LEAD_NS, LEAST_LEAD, MOST_LEAD = 200_000, 2, 8
"""Executions at the beginning of a block that do not count: those of 35 µs get 15 % faster over the
first eight after a block of another process, those of 1.5 ms by 7 % over the first two."""
MOST = 24
"""Samples of a block."""
LEAST_HOST_NS, LEAST_DEVICE_NS = 700_000_000, 250_000_000
"""A side measures for so long at least, from its first block on, those of other sides included."""
ENOUGH_BLOCKS = 400
"""More are not needed, whatever time they took."""
PLACE_BLOCKS = 8
"""Blocks at each place of the buffers."""
ONE_THREAD = 1.2
"""Processor time per wall time, below which a plan is taken to use one thread."""


class NextBlock(Protocol):
    """Waits until this side may measure."""

    def __call__(self, *, enough: bool) -> int | None:
        """Place of the block among those of all sides; None after the last one."""


@dataclass
class Blocks:
    """Blocks of one side in one round."""

    begins: dict[str, list[int]] = field(default_factory=dict)
    """Number of the first sample of each block, by series."""
    places: list[int] = field(default_factory=list)
    """Place of each block among the sides that were measured in the same turn."""
    by_records: bool = False
    """True if the device's own records timed its series."""


class BlockLoop:
    """Takes the samples of one plan, block by block."""

    def __init__(
        self,
        plan: Plan,
        stream: Stream,
        budget: SamplingBudget,
        checks: Checks = NONE,
        clock: Clock = read_clock,
        records: KernelTimes | None = None,
        placements: Placements | None = None,
    ) -> None:
        """Set up blocks. `records` times short kernels by the device's own records."""
        self._plan, self._stream, self._budget = plan, stream, budget
        self._checks, self._clock = checks, clock
        self._records, self._placements = records, placements or OnePlace()
        self._sample = sampler(plan, stream, budget.executions, clock)
        self._names = names_of(stream)
        self._series: dict[str, list[int]] = {name: [] for name in self._names}
        self._least_ns = LEAST_HOST_NS if stream.clock == "host" else LEAST_DEVICE_NS
        self._taken = Blocks({name: [] for name in self._names})
        self._moves: dict[str, list[int]] = {name: [] for name in self._names}
        self._costs: list[float] = []

    def measure(self, next_block: NextBlock) -> tuple[Measured, Blocks]:
        """Warm up, then measure a block whenever it is this side's turn."""
        clock, series = self._clock, self._series
        with quiet():
            cpu_ns, wall_ns = time.process_time_ns(), clock()
            warmup = warm_up(self._plan, self._stream, self._budget, clock, self._checks)
            used_ns, passed_ns = time.process_time_ns() - cpu_ns, clock() - wall_ns
            is_single = self._stream.clock == "host" and used_ns < ONE_THREAD * passed_ns
            each_ns = self._placements.estimate_ns = (
                min(warmup) if warmup else self._budget.first_run_ns
            )
            self._budget = sized(self._budget, each_ns)
            wanted = self._budget.iterations
            self._checks.plan(each_ns, wanted, wanted)
            with same_core() if is_single else nullcontext():
                began, enough = 0, False
                while (place := next_block(enough=enough)) is not None:
                    began = began or clock()
                    self._block(place, each_ns)
                    enough = self._is_enough(clock() - began)
        ended = "blocks" if self._budget.by_time else why_over(self._budget, series["e2e_ns"])
        cost_ns = statistics.median(self._costs) if self._costs else None
        wanted = len(series["e2e_ns"])
        measured = Measured({"e2e_ns": warmup}, series, ended, self._moves, cost_ns, wanted)
        return measured, self._taken

    def _block(self, place: int, each_ns: int) -> None:
        plan, stream, series, taken = self._plan, self._stream, self._series, self._taken
        if taken.places and len(taken.places) % PLACE_BLOCKS == 0 and self._placements.move():
            for name in self._names:
                self._moves[name].append(len(series[name]))
        taken.places.append(place)
        lead, count = block_shape(each_ns * self._budget.executions)
        if not self._budget.by_time:
            count = held_block(self._budget.iterations, len(series["e2e_ns"]))
        for _ in range(lead):
            self._sample(self._checks.before, self._checks.touch)
            self._checks.after(None)
        block = replace(
            self._budget,
            iterations=count,
            min_time_ns=0,
            max_time_ns=None,
        )
        for name in self._names:
            taken.begins[name].append(len(series[name]))
        if "device_ns" in series:
            series["device_ns"] += self._on_device(block, each_ns)
        first = len(series["e2e_ns"])
        series["e2e_ns"] += end_to_end(
            plan, stream, block, self._clock, self._checks, first, series.get("submit_ns")
        )

    def _on_device(self, block: SamplingBudget, each_ns: int) -> list[int]:
        is_first = not self._series["device_ns"]
        if self._records is not None and (is_first or self._taken.by_records):
            found = self._records.sample(block, each_ns)
            if found:
                self._taken.by_records = True
                return found
            if not is_first:
                return []  # one series has one clock
        return on_device(
            self._plan, self._stream, block, each_ns, self._checks, self._clock, self._costs
        )

    def _is_enough(self, passed_ns: int) -> bool:
        budget = self._budget
        if budget.max_time_ns is not None and passed_ns >= budget.max_time_ns:
            return True
        samples, blocks = len(self._series["e2e_ns"]), len(self._taken.places)
        wanted = samples >= budget.iterations and passed_ns >= budget.min_time_ns
        if not budget.by_time:
            return wanted
        return samples >= MOST_SAMPLES or (
            wanted and (passed_ns >= self._least_ns or blocks >= ENOUGH_BLOCKS)
        )


def block_shape(execution_ns: int) -> tuple[int, int]:
    """Return the number of executions of a block that do not count, and of those that do, for this
    execution time."""
    each_ns = max(1, execution_ns)
    if each_ns >= BLOCK_NS:
        return 1, 1
    lead = max(LEAST_LEAD, min(MOST_LEAD, LEAD_NS // each_ns))
    return lead, max(1, min(MOST, BLOCK_NS // each_ns - lead))


HELD = 3
"""Samples of a block where the number of all is held: as few as have a median that one spike does
not move, because a block is the shorter the better (`BLOCK_NS`)."""


def held_block(iterations: int, taken: int) -> int:
    """Return the number of samples of the next block of a round that holds so many iterations. It
    does not depend on how long they take, so that all sides have as many blocks."""
    size = max(HELD, -(-iterations // ENOUGH_BLOCKS))
    left = iterations - taken
    return size if left <= 0 or left >= 2 * size else left


@contextmanager
def same_core() -> Iterator[None]:
    """Hold this thread to one processor, the same for all processes that may use the same ones."""
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, choose_cpus(allowed, 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
