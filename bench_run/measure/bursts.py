"""Iterations that another process times: as many as it asks for, on inputs that change.

On a processor an iteration is an execution and the wait for it. On a device enqueueing takes longer
than a short kernel, so an iteration is a captured graph of many executions. Where a plan cannot be
captured the marks around all iterations are what can be compared with the other process's clock.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from bench_run.errors import BenchRunError, EngineError, message_of
from bench_run.measure import loop
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.clock import read_clock
from bench_run.measure.marks import is_ours, repeat
from bench_run.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.engines.base import Engine, Plan
    from bench_run.measure.checks import SampleChecks

GRAPH_NS, MOST_EXECUTIONS = 200_000, 256
"""Time of a captured graph, and the largest number of executions in it."""
MOST_SAMPLES, QUANTILE = 60, 0.8
"""Samples that count, of those that were requested, and the part of them that is below the time
they stand for: what neighbours do to a processor differs from one moment to the next, and is in
the mean of many iterations."""
SHORT_NS, FEW_CHANGES = 20_000, 4
"""Executions on a processor so short that a change takes as long: there every fourth has one."""
BUSY_SHARE = 0.5
"""Part of the device's time of an execution up to which enqueueing it does not matter."""

BurstWork: TypeAlias = Literal["executions", "changes", "samples", "nothing"]
"""Kind of a request: executions on changed inputs, the changes alone, samples, or the end."""


class NextBurst(Protocol):
    """Waits for the next request."""

    def __call__(
        self, claimed_ns: float, executions: int, marked_ns: int | None, doubt: str | None
    ) -> tuple[int, BurstWork]:
        """Return a number of iterations and what they are. `claimed_ns`: time of an execution by
        the last samples; `executions`: of an iteration; `marked_ns`: time between the marks around
        the last request's iterations; `doubt`: why executions are not comparable with samples."""


class Bursts:
    """Iterations of one plan."""

    def __init__(
        self,
        engine: Engine,
        plan: Plan,
        checks: SampleChecks,
        series: Mapping[str, Sequence[int]],
        stack: ExitStack,
    ) -> None:
        """Capture the plan on a device. `series`: its samples so far, in nanoseconds; `stack`:
        closed when no further iteration is needed."""
        self._stream, self._checks = engine.stream, checks
        self._on_device = engine.stream.clock != "host"
        self.claimed_ns = statistics.median(series["device_ns" if self._on_device else "e2e_ns"])
        self._plan, self._run, self.executions = plan, plan.run, 1
        self.doubt = OWN if self._on_device and not is_ours(self._stream) else None
        is_short = not self._on_device and self.claimed_ns < SHORT_NS
        self._every = FEW_CHANGES if is_short else 1
        self._samples: list[int] = []
        if self._on_device and self.doubt is None:
            try:
                self._run, self.executions = _captured(engine, plan, self.claimed_ns, stack)
            except BenchRunError as error:
                submit_ns = statistics.median(series["submit_ns"])
                if submit_ns > BUSY_SHARE * self.claimed_ns:
                    self.doubt = f"it cannot be captured: {one_line(message_of(error))}"

    def run(self, count: int, work: BurstWork) -> int | None:
        """Run iterations; return the time between the marks around them on a device."""
        if work == "samples":
            self._take(count)
            return None
        stream, inputs = self._stream, self._checks.inputs
        first = stream.mark() if self._on_device else None
        for number in range(count):
            if number % self._every == 0:
                inputs.find()
                inputs.change()
            if work == "executions":
                self._run()
            if not self._on_device:
                stream.synchronize()
        last = stream.mark() if self._on_device else None
        stream.synchronize()
        return stream.elapsed_ns(first, last) if self._on_device else None

    def _take(self, count: int) -> None:
        """Take samples by the very function that takes a round's. Those by a device's clock do not
        depend on its host."""
        if count and not self._on_device:
            few = SamplingBudget(warmup=0, iterations=count)
            self._samples += loop.end_to_end(
                self._plan, self._stream, few, read_clock, self._checks, None
            )
            last = sorted(self._samples[-MOST_SAMPLES:])
            self.claimed_ns = last[int(QUANTILE * len(last))]


OWN = "its stream has a clock of its own"


def run_bursts(
    engine: Engine,
    plan: Plan,
    checks: SampleChecks,
    series: Mapping[str, Sequence[int]],
    next_burst: NextBurst,
    slot: int | None,
) -> None:
    """Run iterations while more are requested, then read the outputs of the last one. `series`:
    the samples in nanoseconds; `slot`: number of the one for these outputs."""
    total = 0
    marked_ns: int | None = None
    with ExitStack() as stack, loop.quiet():
        bursts = Bursts(engine, plan, checks, series, stack)
        while True:
            count, work = next_burst(bursts.claimed_ns, bursts.executions, marked_ns, bursts.doubt)
            if work == "nothing":
                break
            total += count
            marked_ns = bursts.run(count, work)
        # After as many changes as an input has elements, these have few values.
        if slot is not None and (total < checks.inputs.fewest or not checks.inputs.uids):
            checks.read_last(slot)


def _captured(
    engine: Engine, plan: Plan, claimed_ns: float, stack: ExitStack
) -> tuple[Callable[[], None], int]:
    """Return what launches a graph of some executions, and their number. Raises `BenchRunError`."""
    capture = engine.abilities.capture
    if capture is None:
        raise EngineError("the engine has no way to")
    run = plan.run
    uncaptured = plan.abilities.uncaptured
    if uncaptured is not None:
        run = stack.enter_context(uncaptured())
    executions = max(1, min(MOST_EXECUTIONS, int(GRAPH_NS / max(1.0, claimed_ns))))
    graph = stack.enter_context(closing(capture(lambda: repeat(run, executions))))
    graph.launch()
    engine.stream.synchronize()
    return graph.launch, executions
