"""Student's t, digamma and trigamma, as far as the statistics need them: SciPy's.

Importing `scipy.special` takes as long as half of what comparing two small documents does, so it is
imported by those who ask for many numbers; a few are computed one by one (`bench_schema.estimate`).
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
"""Up to so many numbers are computed one by one."""


def digamma(x: Array) -> Array:
    """Logarithmic derivative of Γ for x > 0."""
    from scipy import special

    return np.asarray(special.digamma(x))


def trigamma(x: Array) -> Array:
    """Derivative of `digamma` for x > 0."""
    from scipy import special

    return np.asarray(special.polygamma(1, x))


def inverse_trigamma(y: float) -> float:
    """x > 0 with trigamma(x) = y > 0, by Newton's method on 1/trigamma, which is nearly linear
    (Smyth 2004, Linear models and empirical Bayes methods, appendix)."""
    from scipy import special

    x = 0.5 + 1 / y
    for _ in range(60):
        value = float(special.polygamma(1, x))
        step = value * (1 - value / y) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def t_two_sided(t: Array, dof: Array) -> Array:
    """P(|T| >= |t|) of Student's t; NaN where t or dof is."""
    if t.size <= FEW:
        pairs = zip(t.ravel().tolist(), dof.ravel().tolist(), strict=True)
        return np.array([_tail(*pair) for pair in pairs]).reshape(t.shape)
    from scipy import special

    known = np.isfinite(t) & np.isfinite(dof)
    found = 2 * special.stdtr(np.where(known, dof, 1.0), -np.abs(np.where(known, t, 1.0)))
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
    degrees, place = np.unique(dof, return_inverse=True)
    if degrees.size > FEW:
        from scipy import special

        known = np.isfinite(degrees)
        found = special.stdtrit(np.where(known, degrees, 1.0), probability)
        found = np.where(known, found, np.nan)
    else:
        start = normal_quantile(probability)
        quantiles = [
            estimate.quantile(probability, one, start) if math.isfinite(one) else math.nan
            for one in degrees.tolist()
        ]
        found = np.array(quantiles)
    return np.asarray(found[place].reshape(dof.shape))


def f_above(ratio: Array, above: Array, below: Array) -> Array:
    """P(F >= ratio) of a ratio of variances with so many degrees of freedom."""
    from scipy import special

    return np.asarray(special.fdtrc(above, below, ratio))


def normal_scores(chance: Array) -> Array:
    """The normal quantiles that are exceeded with these probabilities."""
    from scipy import special

    return np.asarray(-special.ndtri(np.clip(chance, 1e-12, 1 - 1e-12)))
