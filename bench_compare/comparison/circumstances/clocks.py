"""The smallest change that a clock can show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.circumstances.facts import facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Samples

    from bench_compare.model import CaseSide

SAMPLES = 64
"""Samples of each round to inspect; a tick shows in few."""
TIES = 4
"""Samples to a value, at least, if it is the clock that makes them alike."""
JITTER_NS = 2
"""Values this close to each other are one: conversions between clocks round up or down."""
LEAST_TICK_NS, MOST_TICK_NS = 16, 500
"""Steps of the clocks in use: finer ones are hidden by jitter, and CUDA states about half a
microsecond for its events."""


def tick_ns(rounds: Sequence[Samples]) -> float:
    """Return the step of the clock: the greatest common divisor of the steps between values, where
    few values occur again and again; 0 if the values are a kernel's own."""
    samples = np.concatenate([one[:SAMPLES] for one in rounds]) if rounds else np.zeros(0)
    steps = np.diff(np.sort(samples))
    steps = steps[steps > JITTER_NS]
    if not steps.size or TIES * (steps.size + 1) > samples.size or steps.min() > MOST_TICK_NS:
        return 0.0
    least = float(steps.min())
    for number in range(1, max(int(least) // LEAST_TICK_NS, 1) + 1):
        tick = least / number
        if (np.abs(steps - np.rint(steps / tick) * tick) <= 2 * JITTER_NS).all():
            return tick
    return least


def systematic(base: CaseSide, other: CaseSide, level: float) -> float:
    """Return the logarithm of the ratio within which two device times of a case may be one and the
    same; `level`: log nanoseconds. Times that were taken the same way of the same kernels are off
    alike, so that nothing needs to be allowed for."""
    if not math.isfinite(level) or _way(base) == _way(other):
        return 0.0
    bounds = (facts(case.rounds).bound_ns for side in (base, other) for case in side.cases)
    return math.log1p(max(bounds) / math.exp(level))


def _way(side: CaseSide) -> tuple[frozenset[object], frozenset[object]]:
    """Return the clocks and the kernels of a side's times. Events that were corrected in another
    way have another bound."""
    found = [facts(case.rounds) for case in side.cases]
    clocks = {
        (one.timings, one.bound_ns if "gated events" in one.timings else None) for one in found
    }
    return frozenset(clocks), frozenset(k.name for case in side.cases for k in case.kernels)
