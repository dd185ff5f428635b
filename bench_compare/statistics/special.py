"""Student's t, F, digamma and trigamma, as far as the statistics need them.

SciPy has them all, but importing it takes a third of a comparison of two ordinary documents. So
digamma and trigamma are their series, and up to `FEW` values of t are computed one by one
(`bench_schema.estimate`).
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

FEW = 2_000
"""Values of t that take less time one by one (15 µs each) than the import of SciPy."""
FEW_QUANTILES = 16
"""The same for quantiles of t, which take 100 µs each."""
SHIFTED = np.arange(12)
"""Arguments are moved up by as much: there the series below are exact to 13 digits."""


def digamma(x: Array) -> Array:
    """Compute the logarithmic derivative of Γ for x > 0 (Abramowitz and Stegun 6.3.18)."""
    z = x + len(SHIFTED)
    y = 1 / z**2
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    below = (1 / (np.asarray(x)[..., None] + SHIFTED)).sum(axis=-1)
    return np.asarray(np.log(z) - 0.5 / z - series - below)


def trigamma(x: Array) -> Array:
    """Compute the derivative of `digamma` for x > 0 (Abramowitz and Stegun 6.4.12)."""
    z = x + len(SHIFTED)
    y = 1 / z**2
    series = y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * 5 / 66))))
    below = (1 / (np.asarray(x)[..., None] + SHIFTED) ** 2).sum(axis=-1)
    return np.asarray(1 / z + 0.5 * y + series / z + below)


def inverse_trigamma(y: float) -> float:
    """Find x > 0 with trigamma(x) = y > 0 by bisection: trigamma falls, between 1 / x and
    1 / x + 1 / x²."""
    low, high = math.log(1 / y), math.log(1 / y + 1 / math.sqrt(y) + 1)
    for _ in range(60):
        middle = (low + high) / 2
        above = float(trigamma(np.array([math.exp(middle)]))[0]) > y
        low, high = (middle, high) if above else (low, middle)
    return math.exp((low + high) / 2)


def t_two_sided(t: Array, dof: Array) -> Array:
    """Return P(|T| >= |t|) of Student's t; NaN if t or dof is."""
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
    """Return the value that Student's t stays below with a probability of 0.5 or more; NaN if dof
    is not known."""
    degrees, place = np.unique(dof, return_inverse=True)
    if degrees.size > FEW_QUANTILES:
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
    """Compute P(F >= ratio) of a ratio of variances with so many degrees of freedom."""
    if ratio.size > FEW:
        from scipy import special

        return np.asarray(special.fdtrc(above, below, ratio))
    columns = (ratio.tolist(), above.tolist(), below.tolist())
    return np.array([_above(*one) for one in zip(*columns, strict=True)])


def _above(ratio: float, above: float, below: float) -> float:
    if not (ratio >= 0 and above > 0 and below > 0):
        return math.nan
    total = below + above * ratio
    return estimate.incomplete_beta(below / 2, above / 2, below / total, above * ratio / total)


def normal_scores(chance: Array) -> Array:
    """Return the normal quantiles that are exceeded with these probabilities."""
    from scipy import special

    return np.asarray(-special.ndtri(np.clip(chance, 1e-12, 1 - 1e-12)))
