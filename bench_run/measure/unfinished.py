"""Checks whether a sample is all that an iteration takes: untimed, right after the samples.

A sample ends with `Stream.synchronize`. If that returns while a thread or another stream still
works, or where an engine is fast only among the calls that surround a sample, an iteration of 3 ms
reads 0.5 µs. So the wall clock runs over a few iterations and a real wait and read, and is held
against as many samples.

What an engine leaves to a thread without a wait is found by its outputs: they are read right after
the iteration.
"""

from __future__ import annotations

import math
import os
import statistics
from time import process_time_ns, sleep
from typing import TYPE_CHECKING

from bench_run.machine.surroundings import tree_time_s
from bench_run.measure.clock import read_clock
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.streams.base import Stream

HIDDEN_SHARE = 0.25
"""Share of the samples that the wall clock may show more. An engine that waits hides nothing."""
HIDDEN_NS = 30_000
"""Time that may come to a few short samples: waiting for an idle device takes 3 to 10 µs. To both
comes the delay of a busy processor: what a tenth of the samples take longer."""
DEVICE_NS = 30_000
"""Time that a launch and a wait may take longer where nothing was waited for before: on an H200,
36 µs more were seen for a captured graph of 28 µs."""
READING_NS = 1_000_000
"""Time for reading outputs, besides their bytes: calls of a driver, a few for each output."""
READING_NS_PER_BYTE = 4.0
"""Copies from devices take 0.1 to 0.4, a copy that changes the layout about 1."""
WINDOW_NS, MOST = 2_000_000, 16
"""Time window for a batch of iterations, at least one, and their largest number."""
CYCLES, PATIENCE_NS, REST_S = 5, 300_000_000, 0.001
"""The shortest of so many counts at least, for so long: where others use the processors, threads
that copy together wait for each other, and reading 256 KiB takes 6 ms five times in a row. A
process that rests in between is let in more readily."""
LARGE_BYTES = 16 << 20
"""Larger outputs are waited for in the first round only."""


def find_hidden(
    run: Callable[[], None],
    synchronize: Callable[[], None],
    arrive: Callable[[], int],
    samples_ns: Sequence[int],
    each_ns: int = 0,
    again: Callable[[], Sequence[int]] | None = None,
) -> str | None:
    """Return the reason why samples are not the time of an iteration, in one line. `arrive` waits
    until outputs can be read and gives how many bytes it has read for that. `each_ns`: what an
    iteration may take longer than a sample (`DEVICE_NS`). `again` takes more samples: the machine
    may be slower by now, and an engine that is fast in samples only is fast in these too."""
    sample_ns = statistics.median(samples_ns)
    count = max(1, min(MOST, int(WINDOW_NS / max(1.0, sample_ns))))
    delay_ns = sorted(samples_ns)[len(samples_ns) * 9 // 10] - sample_ns
    wall_ns, reading_ns, cycles, end = math.inf, math.inf, 0, read_clock() + PATIENCE_NS
    while cycles < CYCLES or read_clock() < end:
        cycles += 1
        begin = read_clock()
        for _ in range(count):
            run()
            synchronize()
        read_bytes = arrive()
        wall_ns = min(wall_ns, read_clock() - begin)
        begin = read_clock()
        arrive()
        reading_ns = min(reading_ns, read_clock() - begin)
        most_ns = READING_NS + READING_NS_PER_BYTE * read_bytes
        hidden_ns = max(HIDDEN_NS, count * each_ns, HIDDEN_SHARE * count * sample_ns)
        allowed_ns = count * (sample_ns + delay_ns) + hidden_ns
        # What was just written is read in up to twice the time.
        if wall_ns - min(2 * reading_ns, most_ns) <= allowed_ns:
            return None
        if again is not None:
            sample_ns = max(sample_ns, statistics.median(again()))
        sleep(REST_S)
    took = f"{count} iterations and reading what they left took {time_text(wall_ns)}"
    return (
        f"{took}, the samples of as many {time_text(count * sample_ns)}: work is done outside of "
        "the samples"
    )


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
    count = max(1, min(4 * MOST, int(WINDOW_NS / max(1.0, statistics.median(e2e_ns)))))
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


OWN_SLACK_NS = 2_000_000
GROUP_SLACK_NS = 40_000_000
"""Processes below the worker are counted in steps of 10 ms."""
THREADS_SHARE = 1.05


class ThreadWatch:
    """Processor time of a worker, and of all that it started, against that of its threads."""

    def __init__(
        self, threads: int | None, now: Callable[[], tuple[int, int, float]] | None = None
    ) -> None:
        """`threads`: how many the worker was held to, on as many processors; None: it was not.
        `now` gives an instant and the processor time of this process in ns, and that of its whole
        group in s."""
        self._threads, self._now = threads, _processor_times if now is None else now
        self._begin = None if threads is None else self._now()

    def reason(self) -> str | None:
        """Return a line on the use of more processors than it was given; None if it kept to
        them."""
        if self._threads is None or self._begin is None:
            return None
        wall_ns, own_ns, group_s = (
            now - then for now, then in zip(self._now(), self._begin, strict=True)
        )
        given_ns = THREADS_SHARE * self._threads * wall_ns
        if own_ns <= given_ns + OWN_SLACK_NS and group_s * 1e9 <= given_ns + GROUP_SLACK_NS:
            return None
        used = max(own_ns, group_s * 1e9) / wall_ns
        return f"{used:.1f} processors were used while sampled, of {self._threads} by --threads"


def _processor_times() -> tuple[int, int, float]:
    # The group is led by the worker's guardian, below which all stays that it starts.
    return read_clock(), process_time_ns(), tree_time_s(os.getpgrp()) or 0.0
