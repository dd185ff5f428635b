"""What element-wise tolerances cannot see: an error that all elements of an output share.

Honest roundings are independent of each other. Of N of them, each with a standard deviation of at
most s, relative to the root mean square of what is expected:

spread  √(Σ(a − e)²/Σe²) is at most s·√(1 + 2√(t/N) + 2t/N), but for a probability of exp(−t):
        Laurent and Massart, Adaptive estimation of a quadratic functional by model selection, 2000,
        lemma 1. t = 20 makes that 2e-9.
bias    Σ(a − e)·e/Σe², the factor by which all elements are off, has a standard deviation of
        √(Σs²e²)/Σe². Six of them are exceeded with a probability of 2e-9. The same holds for |e|
        in place of e, which finds an error that has one sign everywhere.
mean    Σ(a − e)/√(N·Σe²), an error of one size everywhere, has one of √(Σs²)/√(N·Σe²).

To all comes the drift, the part that rounding errors may share (`roundoff/`), and what groups
of elements err alike: rows of a norm have one statistic each, whose error is one random number. For
G groups that is the same with G in place of N. Roundings of equal values are equal: where either
limit is exceeded, N is the number of different values expected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_run.tensors.difference import Array, Bound, Difference

if TYPE_CHECKING:
    from collections.abc import Callable

RARE = 20.0
"""t: false alarms have a probability of exp(−t)."""
SIGMAS = 6.0
UNEVEN = 1.5
"""Groups of unlike size, as channels with scales of their own have, average out by less."""
LOOKED_AT = 1 << 18
"""Elements among which different values are counted."""


@dataclass(frozen=True)
class SharedError:
    """Standard deviations of an element's error, and what all may share."""

    rtol: float
    """Relative to the element."""
    atol: float
    drift: float
    group: float = 0.0
    """Standard deviation of what the elements of a group err alike, relative to their rms."""
    groups: int = 1


def exceeded(found: Difference, allowed: SharedError, expected: Array) -> tuple[str, Bound] | None:
    """The criterion that fails, in a word, and a bound that at least one element is then beyond."""
    if found.outside or not 0 < found.square_expected < math.inf:
        return None
    for word, error, limit in criteria(found, allowed):
        if error > limit(found.elements) and error > limit(_different(expected)):
            size = math.sqrt(found.square_expected / found.elements)
            tight = limit(_different(expected))
            relative = word == "bias"
            return word, Bound(tight if relative else 0.0, 0.0 if relative else tight * size)
    return None


def criteria(
    found: Difference, allowed: SharedError
) -> tuple[tuple[str, float, Callable[[int], float]], ...]:
    """Name, what was found and what is allowed for so many independent errors."""
    square, count = found.square_expected, found.elements
    variance = allowed.rtol**2 + allowed.atol**2 * count / square
    common = allowed.drift + SIGMAS * UNEVEN * allowed.group / math.sqrt(allowed.groups)
    weighted = allowed.rtol**2 * found.fourth_expected + allowed.atol**2 * square

    def spread(independent: int) -> float:
        apart = _farthest(math.sqrt(variance), independent)
        return allowed.drift + apart + _farthest(allowed.group, allowed.groups)

    def bias(independent: int) -> float:
        repeated = max(1.0, count / max(1, independent))
        return common + SIGMAS * math.sqrt(weighted * repeated) / square

    def mean(independent: int) -> float:
        return common + SIGMAS * math.sqrt(variance / max(1, independent))

    both = max(abs(found.projected), abs(found.projected_up)) / square
    offset = abs(found.total) / math.sqrt(count * square)
    return ("spread", found.relative_l2, spread), ("bias", both, bias), ("mean", offset, mean)


def _farthest(deviation: float, independent: int) -> float:
    """How large the root mean square of so many random numbers may be."""
    part = RARE / max(1, independent)
    return deviation * math.sqrt(1 + 2 * math.sqrt(part) + 2 * part)


def _different(expected: Array) -> int:
    """How many different values there are; of very many elements, among some."""
    step = max(1, expected.size // LOOKED_AT)
    some = expected[::step]
    return int(np.unique(np.asarray(some, np.float64)).size * min(step, expected.size))
