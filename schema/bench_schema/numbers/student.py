"""Student's t of a single number, in plain floats.

Most comparisons ask for a few degrees of freedom only, and importing `scipy.special` takes as long
as all else that two small documents need: with these they are compared without it. Whoever has many
numbers asks SciPy (`bench_compare.statistics.special`); a test holds the two together. Formula
numbers are those of the NIST Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from functools import lru_cache

CONFIDENCE = 0.95
NORMAL_QUANTILE = 1.959963985
TINY = 1e-300
HALF_LOG_PI = 0.5 * math.log(math.pi)


def tail(t: float, dof: float) -> float:
    """P(|T| >= |t|) (DLMF 8.17, I at dof / (dof + t²))."""
    a, square = dof / 2, t * t
    if math.isinf(square):
        return 0.0
    x, rest = dof / (dof + square), square / (dof + square)
    if x == 0 or rest == 0:  # beyond what a double tells from the end
        return 1.0 - (x == 0)
    front = math.exp(a * math.log(x) + 0.5 * math.log(rest) - _log_beta_half(a))
    if x > (a + 1) / (a + 2.5):
        return 1 - front * _fraction(0.5, a, rest) / 0.5
    return front * _fraction(a, 0.5, x) / a


def _log_beta_half(a: float) -> float:
    """log B(a, 1/2)."""
    return math.lgamma(a) + HALF_LOG_PI - math.lgamma(a + 0.5)


def _fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (DLMF 8.17.22), Lentz's algorithm."""
    c, d = 1.0, 1 / _guarded(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 400):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _guarded(1 + term * d)
            c = _guarded(1 + term / c)
            result *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return result


def _guarded(value: float) -> float:
    return TINY if abs(value) < TINY else value


@lru_cache(maxsize=4096)
def quantile(probability: float, dof: float, start: float) -> float:
    """The value that T stays below with a probability of 0.5 or more: Newton's method on the
    two-sided tail, which is convex, so that from the left it never oversteps. `start` is the normal
    quantile; the first terms in 1/dof are added (Abramowitz and Stegun 26.7.5)."""
    z, wanted = start, 2 * (1 - probability)
    scale = -_log_beta_half(dof / 2) - 0.5 * math.log(dof)
    t = z + (z**3 + z) / (4 * dof) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * dof**2)
    for _ in range(200):
        density = math.exp(scale - (dof + 1) / 2 * math.log1p(t * t / dof))
        step = (tail(t, dof) - wanted) / (2 * density)
        t = max(t + step, 0.0)
        if abs(step) <= 1e-10 * (1 + t):
            break
    return t


@lru_cache(maxsize=4096)
def two_sided(degrees: float, looks: int = 1) -> float:
    """The t within which the share 1 - 0.05 / `looks` of all values lies: of one look the 95 %
    interval's, else that of intervals of which several looks share the error. To six decimals, as
    tables have it: so documents that were written give their intervals again."""
    return round(quantile(1 - (1 - CONFIDENCE) / (2 * looks), degrees, NORMAL_QUANTILE), 6)
