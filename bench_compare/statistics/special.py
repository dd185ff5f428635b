"""Student's t, digamma and trigamma, as far as the statistics need them.

Importing `scipy.special` takes as long as an eighth of what comparing 1,000 cases does, and 24 MiB;
what is asked for are a few functions of one or two arguments, smooth and never near a pole. The
tests hold them against SciPy's. Formula numbers are those of the NIST Digital Library of
Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from bench_schema import estimate

Array: TypeAlias = npt.NDArray[np.float64]

FEW = 16
"""Up to so many numbers are computed one by one: NumPy's calls would take longer."""
SHIFT = 8
"""Recurrence lifts the argument this far, where the asymptotic series has 13 digits."""
DEGREE = 32
"""Of the polynomial that gives many quantiles: twelve digits from one degree of freedom to a
million, and for probabilities up to 0.9999975."""


def digamma(x: Array) -> Array:
    """Logarithmic derivative of Γ for x > 0: recurrence (DLMF 5.5.2), then series (5.11.2)."""
    lifted = x + SHIFT
    square = lifted**-2
    terms = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132)))
    below = sum(1 / (x + step) for step in range(SHIFT))
    return np.asarray(np.log(lifted) - 0.5 / lifted - square * terms - below)


def trigamma(x: Array) -> Array:
    """Derivative of `digamma` for x > 0: recurrence (DLMF 5.15.5), then series (5.15.8)."""
    lifted = x + SHIFT
    square = lifted**-2
    terms = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square * (1 / 30 - square * 5 / 66)))
    above = sum((x + step) ** -2 for step in range(SHIFT))
    return np.asarray(1 / lifted + square / 2 + square / lifted * terms + above)


def inverse_trigamma(y: float) -> float:
    """x > 0 with trigamma(x) = y > 0, by Newton's method on 1/trigamma, which is nearly linear
    (Smyth 2004, Linear models and empirical Bayes methods, appendix)."""
    x = 0.5 + 1 / y
    for _ in range(60):
        near = 1e-5 * x
        low, value, high = trigamma(np.array([x - near, x, x + near])).tolist()
        step = value * (1 - value / y) / ((high - low) / (2 * near))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def t_two_sided(t: Array, dof: Array) -> Array:
    """P(|T| >= |t|) of Student's t (DLMF 8.17, I at dof / (dof + t²)); NaN where t or dof is."""
    if t.size <= FEW:
        pairs = zip(t.ravel().tolist(), dof.ravel().tolist(), strict=True)
        return np.array([_tail(*pair) for pair in pairs]).reshape(t.shape)
    known = np.isfinite(t) & np.isfinite(dof)
    degrees = np.where(known, dof, 1.0)
    square = np.clip(np.where(known, t, 1.0), -1e150, 1e150) ** 2
    half, x, rest = degrees / 2, degrees / (degrees + square), square / (degrees + square)
    log_beta = np.array([estimate.log_beta_half(one) for one in half.ravel().tolist()])
    with np.errstate(divide="ignore"):  # of 0, which stands for a tail of 0 or 1
        front = np.exp(half * np.log(x) + 0.5 * np.log(rest) - log_beta.reshape(half.shape))
    swap = x > (half + 1) / (half + 2.5)
    a, b, z = np.where(swap, 0.5, half), np.where(swap, half, 0.5), np.where(swap, rest, x)
    part = front * estimate.beta_fraction(a, b, z, np.max) / a
    found = np.where(swap, 1 - part, part)
    return np.asarray(np.where(known, found, np.where(np.isinf(t), 0.0, np.nan)))


def _tail(t: float, dof: float) -> float:
    if math.isnan(t) or not math.isfinite(dof):
        return 0.0 if math.isinf(t) else math.nan
    return estimate.tail(t, dof)


@lru_cache(maxsize=256)
def normal_quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)


def t_quantile(probability: float, dof: Array) -> Array:
    """The value that Student's t stays below with a probability of 0.5 or more; NaN where dof is
    not known."""
    start = normal_quantile(probability)

    def quantiles(degrees: Array) -> Array:
        return np.array([estimate.quantile(probability, one, start) for one in degrees.tolist()])

    degrees, place = np.unique(dof, return_inverse=True)
    known = np.isfinite(degrees)
    found = np.full(degrees.shape, np.nan)
    if known.sum() <= FEW:
        found[known] = quantiles(degrees[known])
    else:  # its logarithm is a smooth function of 1 / dof: what few of them are tells the others
        from numpy.polynomial.chebyshev import Chebyshev

        inverse = 1 / degrees[known]
        domain = [0.99 * inverse.min(), 1.01 * inverse.max()]
        logarithm = Chebyshev.interpolate(lambda x: np.log(quantiles(1 / x)), DEGREE, domain)
        found[known] = np.exp(logarithm(inverse))
    return np.asarray(found[place].reshape(dof.shape))


def f_above(ratio: Array, above: Array, below: Array) -> Array:
    """P(F >= ratio) of a ratio of variances with so many degrees of freedom."""
    from scipy import special

    return np.asarray(special.fdtrc(above, below, ratio))


def normal_scores(chance: Array) -> Array:
    """The normal quantiles that are exceeded with these probabilities."""
    from scipy import special

    return np.asarray(-special.ndtri(np.clip(chance, 1e-12, 1 - 1e-12)))
