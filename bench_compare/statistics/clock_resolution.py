"""Resolution of the clock: two values that are one tick apart may be equal.

A GPU's clock steps by 32 ns or more, which is 2 % of a short kernel: rounds then repeat one value
exactly, and another build that takes a nanosecond longer repeats the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_compare.statistics.samples import SampleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.statistics.arrays import Array, Ints

COARSE_BELOW_NS = 50_000
"""Longest time that needs the check; for longer ones half a microsecond is within any useful
threshold."""
SAMPLES = 64
"""Samples of each round to inspect; a tick shows in few."""
TIES = 4
"""Samples to a value, at least, if it is the clock that makes them alike."""
JITTER_NS = 2
"""Values this close to each other are one: conversions between clocks round up or down."""
MOST_TICK_NS = 500
"""No clock in use is coarser: CUDA states about half a microsecond for its events. A kernel that
takes either 10 or 14 µs has two values, not a tick of 4 µs."""
LEAST_TICK_NS = 16
"""Finer steps are within any threshold of use, and jitter hides them."""
MARGIN = 1.5
"""Ticks that two values must lie apart: each of them may be half a tick off, and a little more."""


def resolution(sides: Sequence[tuple[Ints, Sequence[Ints] | SampleTable]], level: Array) -> Array:
    """Return the log ratio below which two values of a case are indistinguishable; 0 for a fine
    clock.

    `sides` are the case and the samples of each round; `level` is the mean of both sides' log
    nanoseconds of each case.
    """
    with np.errstate(invalid="ignore"):
        coarse = level < np.log(COARSE_BELOW_NS)
    ticks = np.zeros(len(level))
    for case, series in sides:
        parts: dict[int, list[Ints]] = {}
        places = np.flatnonzero(coarse[case])
        samples = SampleTable.of(series).take(places)
        for row, one in zip(case[places].tolist(), samples, strict=True):
            parts.setdefault(row, []).append(one[:SAMPLES])
        for row, some in parts.items():
            ticks[row] = max(ticks[row], tick_ns(np.concatenate(some)))
    return np.log1p(MARGIN * ticks / np.exp(np.where(coarse, level, 0)))


def tick_ns(samples: Ints) -> int:
    """Return the step of the clock: the greatest common divisor of the steps between values, where
    few values occur again and again; 0 if the values are a kernel's own."""
    steps = np.asarray(np.diff(np.sort(samples)), np.int64)
    steps = steps[steps > JITTER_NS]
    if not steps.size or TIES * (steps.size + 1) > samples.size:
        return 0
    least = int(steps.min())
    if least > MOST_TICK_NS:
        return 0
    for number in range(1, max(least // LEAST_TICK_NS, 1) + 1):
        tick = least / number
        rest = np.abs(steps - np.rint(steps / tick) * tick)
        if (rest <= 2 * JITTER_NS).all():  # multiples, as well as moved values can be
            return int(tick)
    return least
