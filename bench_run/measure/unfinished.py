"""Checks whether the clock of a stream that is the engine's own is that of the host: untimed, right
after the samples.
"""

from __future__ import annotations

import statistics
from time import sleep
from typing import TYPE_CHECKING

from bench_run.measure.clock import read_clock
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.streams.base import Stream

WINDOW_NS, MOST = 2_000_000, 64
"""Time window for a batch of iterations, at least one, and their largest number."""
CYCLES, PATIENCE_NS, REST_S = 5, 300_000_000, 0.001
"""The shortest of so many counts at least, for so long. A process that rests in between is let in
more readily."""
CLOCK_SHARE = 0.75
"""Share of the time between two marks, by the host, that the device's clock has to show."""
CLOCK_SLACK_NS = 50_000
"""Time that enqueueing a mark and waiting take in addition."""
CLOCK_EXCESS = 1.25
"""Share of that time that the device's clock may show at most: it counts from a little earlier, and
a count in which another process ran next to a mark is repeated."""
SHORTEST_NS = 50
"""Time that no launch is shorter than: an empty kernel takes 1000."""


def find_false_clock(
    run: Callable[[], None], stream: Stream, device_ns: Sequence[int], e2e_ns: Sequence[int]
) -> str | None:
    """Return the reason why the clock of a stream that is the engine's own is not believed, in one
    line: over the same iterations, without a gate, it has to show what the host measures between
    its marks."""
    if statistics.median(device_ns) < SHORTEST_NS:
        return "the device's times are not longer than two marks around nothing"
    count = max(1, min(MOST, int(WINDOW_NS / max(1.0, statistics.median(e2e_ns)))))
    cycles, end = 0, read_clock() + PATIENCE_NS
    while cycles < CYCLES or read_clock() < end:
        cycles += 1
        stream.synchronize()
        first = stream.mark()
        begin = read_clock()
        for _ in range(count):
            run()
        stream.synchronize()
        between_ns = read_clock() - begin
        last = stream.mark()
        stream.synchronize()
        marked_ns = stream.elapsed_ns(first, last)
        least_ns = CLOCK_SHARE * between_ns - CLOCK_SLACK_NS
        if least_ns <= marked_ns <= CLOCK_EXCESS * between_ns + CLOCK_SLACK_NS:
            return None
        sleep(REST_S)
    return _false(marked_ns, between_ns)


def _false(marked_ns: float, wall_ns: float) -> str:
    took = f"{time_text(marked_ns)} of what took {time_text(wall_ns)} by the host's"
    return f"the device's clock is not the host's: it shows {took}"
