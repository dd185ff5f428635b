"""Energy of one iteration with ``--energy``, from a separate pass after all samples.

A device counts energy in steps of about 0.1 s. So iterations run back to back for at least a second
from one step of its counter to another, and the energy between the two is divided by their number.
Launch gaps of very short kernels are included, as in any use of them. The pass is never run while
samples are taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.machine.rapl import counter
from bench_run.machine.telemetry import energy_mj
from bench_run.measure.observers.base import Observer, Results

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.streams.base import Stream

WINDOW_S = 1.0
STEP_S = 1.0
"""A counter that stands still for so long under load does not count."""
BATCH_S = 0.01
"""Iterations between two readings; a step of the counter is placed as exactly as this."""
MOST_IN_BATCH = 500
"""Fits the queue: none of these waits for the host."""
NO_COUNTER = "--energy: the device has no energy counter that can be read here"

COUNTER_S = 0.1
"""A reading is at most so old."""
RESOLVED = 0.05
"""Possible error in the time of a reading, as a share of the window, above which it is reported."""

Counter = Callable[[], float | None]
"""Function that returns the millijoules until now; None if they are not counted."""
Clock = Callable[[], float]


@dataclass(frozen=True)
class Used:
    j_per_iteration: float | None = None
    window_s: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnergyStep:
    """The counter just moved: when, to what, and after how many iterations."""

    at_s: float
    mj: float
    iterations: int
    within_s: float = 0.0
    """Duration of the iterations in which it moved."""


class Energy(Observer):
    """Counts the energy of a plan's iterations, whose outputs are not checked."""

    used = Used()

    def after_round(self) -> None:
        if not self.this.energy:
            return
        prepared = self.this.prepared
        problem = counter().problem() if prepared.device == "cpu" else None
        if problem is not None:
            self.used = Used(notes=(f"--energy: not measured: {problem}",))
            return
        self.used = count_energy(prepared.plan, prepared.stream, lambda: energy_mj(prepared.device))

    def results(self) -> Results:
        used = self.used
        fields = {
            "energy_j_per_iteration": used.j_per_iteration,
            "energy_window_s": used.window_s,
        }
        return Results(fields, notes=used.notes)


def count_energy(
    plan: Plan, stream: Stream, counter: Counter, clock: Clock = time.monotonic
) -> Used:
    if counter() is None:
        return Used(notes=(NO_COUNTER,))
    steps = _steps(plan, stream, counter, clock)
    first = next(steps, None)
    if first is None:
        return Used(notes=(NO_COUNTER,))
    last = next((step for step in steps if step.at_s - first.at_s >= WINDOW_S), None)
    if last is None:
        return Used(notes=(NO_COUNTER,))
    joules = (last.mj - first.mj) / 1000
    window_s = last.at_s - first.at_s
    # Where iterations are so long that the counter's steps cannot be placed well, a note says so.
    within_s = max(first.within_s, last.within_s)
    share = min(within_s, COUNTER_S) / window_s
    notes: tuple[str, ...] = ()
    if share > RESOLVED:
        what = f"an iteration of {within_s:.2g} s in a window of {window_s:.2g} s"
        notes = (f"--energy: not resolved by the counter: {what} is known to ±{share:.0%}",)
    return Used(joules / (last.iterations - first.iterations), window_s, notes)


def _steps(plan: Plan, stream: Stream, counter: Counter, clock: Clock) -> Iterator[EnergyStep]:
    """Yield steps while running the plan; ends if the counter does not move."""
    size, iterations = 1, 0
    known, moved_s = counter(), clock()
    while True:
        begin_s = clock()
        for _ in range(size):
            plan.run()
        stream.synchronize()
        now_s, reading = clock(), counter()
        iterations += size
        size = _batch(size, now_s - begin_s)
        if reading is None or now_s - moved_s > max(STEP_S, 3 * (now_s - begin_s)):
            return
        if reading != known:
            known, moved_s = reading, now_s
            yield EnergyStep(now_s, reading, iterations, now_s - begin_s)


def _batch(size: int, took_s: float) -> int:
    """Return the number of iterations that take about `BATCH_S`."""
    if took_s <= 0:
        return MOST_IN_BATCH
    return max(1, min(MOST_IN_BATCH, 4 * size, round(size * BATCH_S / took_s)))
