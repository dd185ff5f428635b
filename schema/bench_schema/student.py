"""Student's t, F, and the digamma function and its derivative, for arrays.

SciPy has them too, and its import takes longer than most comparisons.

Sources: Abramowitz and Stegun 1964, 26.5.8 (incomplete beta function as a continued fraction),
6.3.18 and 6.4.12 (asymptotic series). Errors are below 1e-7 for degrees of freedom from 0.5 to
1e6.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

STEPS = 300
"""Most terms of the continued fraction; tens are usual."""
MOST_DOF = 1e6
"""More degrees of freedom make no difference."""
SERIES_FROM = 8.0
"""The asymptotic series are exact to 1e-10 from here on."""

_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])


def beta_share(a: Array, b: Array, x: Array) -> Array:
    """Return the regularised incomplete beta function I_x(a, b) for 0 <= x <= 1."""
    a, b, x = np.broadcast_arrays(*(np.asarray(one, np.float64) for one in (a, b, x)))
    turned = x > (a + 1) / (a + b + 2)
    p, q, y = np.where(turned, b, a), np.where(turned, a, b), np.where(turned, 1 - x, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        front = np.exp(
            _lgamma(p + q) - _lgamma(p) - _lgamma(q) + p * np.log(y) + q * np.log1p(-y)
        ) / np.where(p > 0, p, np.nan)
    found = front * _fraction(p, q, y)
    return np.asarray(np.clip(np.where(turned, 1 - found, found), 0.0, 1.0))


def _fraction(a: Array, b: Array, x: Array) -> Array:
    """Evaluate the continued fraction by Lentz's method."""
    tiny = 1e-300
    c = np.ones_like(x)
    d = 1 / np.where(np.abs(1 - (a + b) * x / (a + 1)) < tiny, tiny, 1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / np.where(np.abs(d) < tiny, tiny, d)
            c = 1 + term / c
            c = np.where(np.abs(c) < tiny, tiny, c)
            value = value * d * c
        if np.all(np.abs(d * c - 1) < 1e-13):
            break
    return value


def t_two_sided(t: Array, dof: Array) -> Array:
    """Return P(|T| >= |t|) of Student's t; NaN if t or dof is."""
    t, dof = np.broadcast_arrays(np.asarray(t, np.float64), np.minimum(dof, MOST_DOF))
    found = np.full(t.shape, np.nan)
    known = ~np.isnan(t) & (dof > 0)
    square = np.minimum(t[known] ** 2, 1e300)
    found[known] = beta_share(
        dof[known] / 2, np.full(square.shape, 0.5), dof[known] / (dof[known] + square)
    )
    return found


def t_quantile(probability: float, dof: Array) -> Array:
    """Return the value that Student's t stays below with a probability of 0.5 or more; NaN if dof
    is not known. Degrees of freedom count to one decimal, below five to two."""
    dof = np.minimum(np.asarray(dof, np.float64), MOST_DOF)
    rounded = np.where(dof < 5, dof.round(2), dof.round(1))
    every, place = np.unique(np.where(dof > 0, rounded, np.nan).ravel(), return_inverse=True)
    known = np.isfinite(every)
    found = np.full(every.shape, np.nan)
    tail, nu = 2 * (1 - probability), every[known]
    value = np.zeros(nu.shape)
    if tail < 1 and nu.size:
        value = _first_quantile(tail, nu)
        for _ in range(4):  # Newton's method on logarithms of both, where heavy tails are lines
            now = t_two_sided(value, nu)
            slope = value * 2 * _density(value, nu) / now
            value = value * np.exp(np.clip(np.log(now / tail) / slope, -3, 3))
    found[known] = value
    return found[place].reshape(dof.shape)


def _first_quantile(tail: float, dof: Array) -> Array:
    """Return Student's t with this probability beyond it on both sides, to four digits or so (Hill
    1970, Algorithm 396)."""
    n = np.maximum(dof, 1.0)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * np.sqrt(a * math.pi / 2) * n
    y = (d * tail) ** (2 / n)
    x = NormalDist().inv_cdf(tail / 2)
    far = c + np.where(n < 5, 0.3 * (n - 4.5) * (x + 0.6), 0.0)
    far = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + far
    z = x * x
    near = (((((0.4 * z + 6.3) * z + 36) * z + 94.5) / far - z - 3) / b + 1) * x
    near = np.expm1(np.minimum(a * near**2, 100.0))
    heavy = 1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)
    heavy = (heavy * y - 1) * (n + 1) / (n + 2) + 1 / y
    return np.asarray(np.sqrt(n * np.maximum(np.where(y > 0.05 + a, near, heavy), 1e-12)))


def _density(t: Array, dof: Array) -> Array:
    """Return the density of Student's t."""
    log = _lgamma((dof + 1) / 2) - _lgamma(dof / 2) - 0.5 * np.log(dof * math.pi)
    return np.asarray(np.exp(log - (dof + 1) / 2 * np.log1p(t * t / dof)))


def f_above(ratio: Array, above: Array, below: Array) -> Array:
    """Return P(F >= ratio) of a ratio of variances with so many degrees of freedom."""
    above, below = np.asarray(above, np.float64), np.asarray(below, np.float64)
    share = below / (below + above * np.asarray(ratio, np.float64))
    return beta_share(below / 2, above / 2, share)


def digamma(x: Array) -> Array:
    """Return the derivative of the logarithm of the gamma function, for x > 0."""
    shifted, found = _shifted(x, lambda y: -1 / y)
    inverse = 1 / shifted**2
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
    return np.asarray(found + np.log(shifted) - 0.5 / shifted - series)


def trigamma(x: Array) -> Array:
    """Return the derivative of the digamma function, for x > 0."""
    shifted, found = _shifted(x, lambda y: 1 / y**2)
    inverse = 1 / shifted**2
    series = inverse * (1 / 6 - inverse * (1 / 30 - inverse * (1 / 42 - inverse / 30)))
    return np.asarray(found + 1 / shifted + inverse / 2 + series / shifted)


def _shifted(x: Array, term: object) -> tuple[Array, Array]:
    """Return x raised to `SERIES_FROM` in steps of one, and the sum of the terms of these steps."""
    shifted, found = np.asarray(x, np.float64).copy(), np.zeros(np.shape(x))
    for _ in range(int(SERIES_FROM)):
        low = shifted < SERIES_FROM
        found = np.where(low, found + term(shifted), found)  # type: ignore[operator]
        shifted = np.where(low, shifted + 1, shifted)
    return shifted, found


def inverse_trigamma(y: float) -> float:
    """Return x > 0 with trigamma(x) = y > 0 by bisection: trigamma falls, between 1 / x and
    1 / x + 1 / x²."""
    low, high = math.log(1 / y), math.log(1 / y + 1 / math.sqrt(y) + 1)
    for _ in range(60):
        middle = (low + high) / 2
        above = float(trigamma(np.array(math.exp(middle)))) > y
        low, high = (middle, high) if above else (low, middle)
    return math.exp((low + high) / 2)
