"""What a device time may be off by, as its document says: a verdict never rests on less.

Two sides whose times were taken the same way of the same kernels are off alike, and their ratio is
not: there the bound does not count. It does between other kernels, and between other clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_compare.rounds.lazy import facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.model import CaseSide
    from bench_compare.statistics.arrays import Array

SERIES = "device_ns"


def systematic(
    base: Sequence[CaseSide | None], other: Sequence[CaseSide | None], level: Array
) -> Array:
    """Log ratio within which two device times of a case may be one and the same. `level` is the
    mean of both sides' log nanoseconds."""
    pairs = zip(base, other, strict=True)
    bounds_ns = np.array([_bound_ns(one, two) for one, two in pairs], float)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.nan_to_num(np.log1p(bounds_ns / np.exp(level)))


def _bound_ns(base: CaseSide | None, other: CaseSide | None) -> float:
    if base is None or other is None or _way(base) == _way(other):
        return 0.0
    return max(_largest(base), _largest(other))


def _way(side: CaseSide) -> tuple[frozenset[object], frozenset[object]]:
    """By which clocks the times were taken, of which kernels."""
    timings = frozenset().union(*(facts(case.rounds).timings for case in side.cases))
    kernels = frozenset(kernel.name for case in side.cases for kernel in case.kernels)
    return timings, kernels


def _largest(side: CaseSide) -> float:
    return max(facts(case.rounds).bound_ns for case in side.cases)
