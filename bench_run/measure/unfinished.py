"""Whether an engine is done when its stream says so: untimed, right after the samples of a round.

A sample ends with `Stream.synchronize`. Where that returns while a thread or another stream still
works, an iteration of 3 ms reads 0.5 µs, and the outputs are right once somebody has read them. So
the time until outputs can be read is measured right after an iteration, and again with nothing
pending: what the first takes longer was work. What takes long each time is computed by the reading.

A thread may also work on without anybody waiting for it. Processor time that is used after
`synchronize` tells, but honest threads use some too: OpenBLAS' spin for 30 ms after a product,
OpenMP's for up to 200 ms (libgomp a few, Intel's `KMP_BLOCKTIME`). These spin as long after one
iteration as after thirty; work grows with their number.
"""

from __future__ import annotations

import math
import os
import statistics
from time import process_time_ns, sleep
from typing import TYPE_CHECKING

from bench_run.machine.surroundings import tree_time_s
from bench_run.measure.clock import read_clock
from bench_run.text import size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HIDDEN_SHARE = 0.25
"""Of a sample: what may come after it. An engine that waits hides nothing."""
HIDDEN_NS = 30_000
"""What may come after a short sample: waiting for an idle device takes 3 to 10 µs. To both comes
the delay that others who use the processors cause: what a tenth of the samples take longer."""
COLD_NS_PER_BYTE = 0.25
"""What reading outputs that were just written may take longer than reading them again."""
READING_NS = 1_000_000
"""What reading outputs may take, beside their bytes: calls of a driver, a few for each output."""
READING_NS_PER_BYTE = 4.0
"""Copies from devices take 0.1 to 0.4, a copy that changes the layout about 1."""
CYCLES, PATIENCE_NS, REST_S = 5, 300_000_000, 0.001
"""The shortest of so many counts at least, for so long: where others use the processors, threads
that copy together wait for each other, and reading 256 KiB takes 6 ms five times in a row. A
process that rests in between is let in more readily."""
LARGE_BYTES = 16 << 20
"""Larger outputs are waited for in the first round only."""


def find_pending(
    run: Callable[[], None],
    synchronize: Callable[[], None],
    arrive: Callable[[], int],
    samples_ns: Sequence[int],
) -> str | None:
    """Why an iteration was not over when its sample was, in one line. `arrive` waits until outputs
    can be read and gives how many bytes it has read for that."""
    late_ns = again_ns = math.inf
    sample_ns = statistics.median(samples_ns)
    delay_ns = sorted(samples_ns)[len(samples_ns) * 9 // 10] - sample_ns
    hidden_ns = max(HIDDEN_NS, HIDDEN_SHARE * sample_ns) + delay_ns
    timed = f"an iteration was timed at {time_text(sample_ns)}"
    end, cycles = read_clock() + PATIENCE_NS, 0
    while cycles < CYCLES or read_clock() < end:
        cycles += 1
        run()
        synchronize()
        late_ns = min(late_ns, _duration_ns(arrive)[0])
        if late_ns <= hidden_ns:
            return None
        took_ns, read_bytes = _duration_ns(arrive)
        again_ns = min(again_ns, took_ns)
        is_done = late_ns - again_ns <= hidden_ns + COLD_NS_PER_BYTE * read_bytes
        reading_ns = READING_NS + READING_NS_PER_BYTE * read_bytes
        is_copied = again_ns <= max(reading_ns, sample_ns) + delay_ns
        if is_done and is_copied:
            return None
        sleep(REST_S)
    if is_copied:
        pending = time_text(late_ns - again_ns)
        return f"synchronize returns before the work is done: outputs came {pending} later, {timed}"
    read = f"reading {size_text(read_bytes)} of outputs took {time_text(again_ns)}"
    return f"outputs are computed when they are read: {read}, {timed}"


def _duration_ns(arrive: Callable[[], int]) -> tuple[int, int]:
    begin = read_clock()
    read_bytes = arrive()
    return read_clock() - begin, read_bytes


WINDOW_S = 0.002
"""A look at whether anything works after `synchronize`."""
QUIET_SHARE = 0.2
"""Of a window: less is the look itself."""
MOST_AT_FIRST = 64
"""Iterations before a look."""
COUNTS, BURST_NS = (32, 512), 50_000_000
"""Iterations that tell work from spinning, as far as they are over in so long: these count as work
for 0.5 to 30 ms each."""
STEP_S, LIMIT_S = 0.005, 1.0
GROWTH, LEAST_NS = 3.0, 50_000_000
"""So many times the processor time after one iteration, and so much more, is no spinning after
many: where others use the processors, spinning for 30 ms uses 5 or 30."""


def find_burning(
    run: Callable[[], None], synchronize: Callable[[], None], sample_ns: float
) -> str | None:
    """Why threads of this process worked for iterations that were over, in one line."""
    if sample_ns * COUNTS[0] > BURST_NS:
        return None
    _repeat(run, synchronize, max(1, min(MOST_AT_FIRST, int(WINDOW_S * 1e9 / sample_ns))))
    if _used_while_asleep_ns(WINDOW_S) < QUIET_SHARE * WINDOW_S * 1e9:
        return None
    one_ns = _burnt_by_one_ns(run, synchronize)
    for count in COUNTS:
        if sample_ns * count > BURST_NS:
            break
        many_ns = _burnt_ns(run, synchronize, count)
        one_ns = max(one_ns, _burnt_by_one_ns(run, synchronize))
        each_ns = (many_ns - one_ns) / (count - 1)
        if many_ns > GROWTH * one_ns + LEAST_NS and each_ns > sample_ns:
            return (
                f"threads work on after synchronize: {time_text(each_ns)} of processor time for "
                f"each iteration, which was timed at {time_text(sample_ns)}"
            )
    return None


def _repeat(run: Callable[[], None], synchronize: Callable[[], None], count: int) -> None:
    for _ in range(count):
        run()
        synchronize()


def _used_while_asleep_ns(seconds: float) -> int:
    """Processor time of all threads of this process while this one sleeps."""
    before = process_time_ns()
    sleep(seconds)
    return process_time_ns() - before


def _burnt_by_one_ns(run: Callable[[], None], synchronize: Callable[[], None]) -> int:
    """After one iteration, once what those before left is over."""
    _burnt_ns(run, synchronize, 0)
    return _burnt_ns(run, synchronize, 1)


def _burnt_ns(run: Callable[[], None], synchronize: Callable[[], None], count: int) -> int:
    """Processor time from the end of so many iterations until nothing works any more."""
    _repeat(run, synchronize, count)
    begin, end = process_time_ns(), read_clock() + round(LIMIT_S * 1e9)
    quiet_steps = 0  # others may have had the processor during one
    while quiet_steps < 2 and read_clock() < end:
        is_quiet = _used_while_asleep_ns(STEP_S) < QUIET_SHARE * STEP_S * 1e9
        quiet_steps = quiet_steps + 1 if is_quiet else 0
    return process_time_ns() - begin


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
        """How it used more processors than it was given, in one line; None where it did not."""
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
