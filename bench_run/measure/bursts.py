"""Iterations that another process times: as many as it asks for, each on inputs of its own.

On a processor an iteration is an execution and the wait for it. On a device enqueueing takes longer
than a short kernel, so an iteration is a captured graph of many executions. Where a plan cannot be
captured the marks around all iterations are what can be compared with the other process's clock.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Protocol

from bench_run.errors import BenchRunError, message_of
from bench_run.measure.loop import quiet
from bench_run.measure.marks import repeat
from bench_run.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.engines.base import Engine, Plan
    from bench_run.measure.checks import SampleChecks

GRAPH_NS, MOST_EXECUTIONS = 200_000, 256
"""Time of a captured graph, and the largest number of executions in it."""
BUSY_SHARE = 0.5
"""Part of the device's time of an execution up to which enqueueing it does not matter."""


class NextBurst(Protocol):
    """Waits for the next request."""

    def __call__(
        self, claimed_ns: float, executions: int, marked_ns: int | None, doubt: str | None
    ) -> tuple[int, bool]:
        """Return the number of iterations to run, 0 if that was all, and whether their executions
        are to be left out. `claimed_ns`: time of an execution by the samples; `executions`: of an
        iteration; `marked_ns`: time between the marks around the last request's iterations;
        `doubt`: why these do not tell how long an execution takes."""


def run_bursts(
    engine: Engine,
    plan: Plan,
    checks: SampleChecks,
    series: Mapping[str, Sequence[int]],
    next_burst: NextBurst,
    slot: int | None,
) -> None:
    """Run iterations while more are asked for, then read the outputs of the last one. `series`:
    the samples in nanoseconds; `slot`: number of the one for these outputs."""
    stream, inputs = engine.stream, checks.inputs
    on_device = stream.clock != "host"
    claimed_ns = statistics.median(series["device_ns" if on_device else "e2e_ns"])
    with ExitStack() as stack:
        run, executions, doubt = plan.run, 1, None
        if on_device:
            try:
                run, executions = _captured(engine, plan, claimed_ns, stack)
            except BenchRunError as error:
                doubt = f"it cannot be captured ({one_line(message_of(error))})"
                if statistics.median(series["submit_ns"]) < BUSY_SHARE * claimed_ns:
                    doubt = None
        marked_ns: int | None = None
        total = 0
        while True:
            count, is_empty = next_burst(claimed_ns, executions, marked_ns, doubt)
            if not count:
                break
            total += count
            with quiet():
                first = stream.mark() if on_device else None
                for _ in range(count):
                    inputs.find()
                    inputs.change()
                    if not is_empty:
                        run()
                    if not on_device:
                        stream.synchronize()
                last = stream.mark() if on_device else None
                stream.synchronize()
            marked_ns = stream.elapsed_ns(first, last) if on_device else None
        if slot is not None and (total < inputs.fewest or not inputs.uids):
            checks.read_last(slot)


def _captured(
    engine: Engine, plan: Plan, claimed_ns: float, stack: ExitStack
) -> tuple[Callable[[], None], int]:
    """Return what launches a graph of some executions, and their number. Raises `BenchRunError`."""
    capture = engine.abilities.capture
    if capture is None:
        engine.stream.synchronize()
        raise BenchRunError("the engine has no way to")
    run = plan.run
    uncaptured = plan.abilities.uncaptured
    if uncaptured is not None:
        run = stack.enter_context(uncaptured())
    executions = max(1, min(MOST_EXECUTIONS, int(GRAPH_NS / max(1.0, claimed_ns))))
    graph = stack.enter_context(closing(capture(lambda: repeat(run, executions))))
    graph.launch()
    engine.stream.synchronize()
    return graph.launch, executions
