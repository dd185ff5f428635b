"""Student's t at any level, for intervals of which several looks share the error.

The distribution is a finite sum for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and
26.7.4); its quantile is found by bisection.
"""

from __future__ import annotations

import functools
import math

from bench_schema.summary import CONFIDENCE, t_quantile

HALVINGS = 60


@functools.cache
def two_sided(degrees: int, looks: int = 1) -> float:
    """The t within which the share 1 - 0.05 / `looks` of all values lies."""
    if looks == 1:
        return t_quantile(degrees)
    wanted = 1 - (1 - CONFIDENCE) / looks
    low, high = 0.0, 1.0
    while central_share(high, degrees) < wanted:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if central_share(middle, degrees) < wanted else (low, middle)
    return high


def central_share(t: float, degrees: int) -> float:
    """Of the values of Student's t that lie between `-t` and `t`."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for step in range(2 + odd, degrees - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
