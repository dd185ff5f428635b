"""Student's t, digamma and trigamma, as far as the statistics need them.

Written out because importing `scipy.special` costs 0.15 to 0.21 s, half of what comparing two small
documents takes (0.34 s); the tests hold them against it. Formula numbers are those of the NIST
Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from bench_schema.numbers import student

Array: TypeAlias = npt.NDArray[np.float64]

_TINY = 1e-300
FEW = 16
"""Up to so many numbers are computed one by one (`student`)."""
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 8
"""Recurrence lifts the argument this far, where the asymptotic series has 13 digits."""


def digamma(x: Array) -> Array:
    """Logarithmic derivative of Γ for x > 0: recurrence (DLMF 5.5.2), then series (5.11.2)."""
    steps = np.arange(_SHIFT)
    lifted = x + _SHIFT
    inverse2 = 1 / lifted**2
    series = inverse2 * (
        1 / 12 - inverse2 * (1 / 120 - inverse2 * (1 / 252 - inverse2 * (1 / 240 - inverse2 / 132)))
    )
    below = np.sum(1 / (x[..., None] + steps), axis=-1)
    return np.asarray(np.log(lifted) - 0.5 / lifted - series - below)


def trigamma(x: Array) -> Array:
    """Derivative of `digamma` for x > 0: recurrence (DLMF 5.15.5), then series (5.15.8)."""
    steps = np.arange(_SHIFT)
    lifted = x + _SHIFT
    inverse = 1 / lifted
    inverse2 = inverse**2
    series = (
        inverse
        * inverse2
        * (
            1 / 6
            - inverse2 * (1 / 30 - inverse2 * (1 / 42 - inverse2 * (1 / 30 - inverse2 * 5 / 66)))
        )
    )
    above = np.sum(1 / (x[..., None] + steps) ** 2, axis=-1)
    return np.asarray(inverse + 0.5 * inverse2 + series + above)


def inverse_trigamma(y: float) -> float:
    """x > 0 with trigamma(x) = y > 0, by Newton's method on 1/trigamma, which is nearly linear
    (Smyth 2004, Linear models and empirical Bayes methods, appendix)."""
    x = 0.5 + 1 / y
    for _ in range(60):
        value = float(trigamma(np.array([x]))[0])
        slope = -2 * float(np.sum(1 / (x + np.arange(400)) ** 3)) - 1 / (x + 399.5) ** 2
        step = value * (1 - value / y) / slope
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    """Continued fraction of the incomplete beta function (DLMF 8.17.22), Lentz's algorithm."""
    both = a + b
    c = np.ones_like(x)
    d = 1 / _guarded(1 - both * x / (a + 1))
    result, part = d.copy(), np.empty_like(d)
    for m in range(1, 400):
        last = a + 2 * m
        even = m * (b - m) * x / ((last - 1) * last)
        odd = -(a + m) * (both + m) * x / (last * (last + 1))
        for term in (even, odd):
            np.multiply(term, d, out=d)
            np.divide(1, _guarded(np.add(1, d, out=d)), out=d)
            np.divide(term, c, out=c)
            _guarded(np.add(1, c, out=c))
            np.multiply(result, d, out=result)
            np.multiply(result, c, out=result)
        np.subtract(np.multiply(d, c, out=part), 1, out=part)
        if np.abs(part, out=part).max(initial=0.0) < 1e-14:
            break
    return result


def _guarded(values: Array) -> Array:
    """Kept from zero, in place."""
    tiny = np.abs(values) < _TINY
    if tiny.any():
        values[tiny] = _TINY
    return values


def _log_gamma(x: Array) -> Array:
    """Logarithm of Γ for x > 0: recurrence (DLMF 5.5.1), then series (5.11.1)."""
    lifted = x + _SHIFT
    below = np.log(np.prod(x[..., None] + np.arange(_SHIFT), axis=-1))
    inverse2 = 1 / lifted**2
    series = np.polynomial.polynomial.polyval(inverse2, STIRLING) / lifted
    return np.asarray((lifted - 0.5) * np.log(lifted) - lifted + HALF_LOG_2PI + series - below)


def _log_beta(a: Array, b: Array) -> Array:
    return _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)


def incomplete_beta(a: Array, b: Array, x: Array, log_beta: Array | None = None) -> Array:
    """Regularised I_x(a, b) for 0 <= x <= 1 and positive a, b, all of one shape; `log_beta` of
    these, where the caller has it."""
    if log_beta is None:
        log_beta = _log_beta(a, b)
    swap = x > (a + 1) / (a + b + 2)
    p, q = np.where(swap, b, a), np.where(swap, a, b)
    z = np.where(swap, 1 - x, x)
    inside = (z > 0) & (z < 1)
    safe = np.where(inside, z, 0.5)
    front = np.exp(p * np.log(safe) + q * np.log1p(-safe) - log_beta)
    part = np.where(inside, front * _beta_fraction(p, q, safe) / p, z)
    return np.asarray(np.where(swap, 1 - part, part))


def t_two_sided(t: Array, dof: Array) -> Array:
    """P(|T| >= |t|) of Student's t (DLMF 8.17, I at dof / (dof + t²)); NaN where t or dof is."""
    if t.size <= FEW:
        pairs = zip(t.ravel().tolist(), dof.ravel().tolist(), strict=True)
        return np.array([_tail(*pair) for pair in pairs]).reshape(t.shape)
    known = np.isfinite(t) & np.isfinite(dof)
    safe_t, safe_dof = np.where(known, t, 1.0), np.where(known, dof, 1.0)
    result = _tails(safe_t, safe_dof, _log_beta_half(safe_dof))
    return np.asarray(np.where(known, result, np.where(np.isinf(t), 0.0, np.nan)))


def _tails(t: Array, dof: Array, log_beta: Array) -> Array:
    """Of finite numbers."""
    x = dof / (dof + t**2)
    return incomplete_beta(dof / 2, np.full_like(x, 0.5), x, log_beta)


def _log_beta_half(dof: Array) -> Array:
    """log B(dof / 2, 1 / 2)."""
    return _log_beta(dof / 2, np.full_like(dof, 0.5))


def _tail(t: float, dof: float) -> float:
    if math.isnan(t) or not math.isfinite(dof):
        return 0.0 if math.isinf(t) else math.nan
    return student.tail(t, dof)


@lru_cache(maxsize=256)
def normal_quantile(probability: float) -> float:
    """Of 0.5 or more, by Newton's method on the error function, from 0."""
    z = 0.0
    for _ in range(60):
        tail = 0.5 * math.erfc(z / math.sqrt(2))
        step = (tail - (1 - probability)) * math.sqrt(2 * math.pi) * math.exp(z * z / 2)
        z += step
        if abs(step) < 1e-9:
            break
    return z


def t_quantile(probability: float, dof: Array) -> Array:
    """The value that Student's t stays below with a probability of 0.5 or more; NaN where dof is.

    Newton's method on the two-sided tail, which is convex: from the left it never oversteps. It
    starts from the normal quantile and the first terms in 1/dof (Abramowitz and Stegun 26.7.5).
    """
    degrees, place = np.unique(dof, return_inverse=True)
    if degrees.size > FEW:
        found = _t_quantile(probability, degrees)
    else:
        z = normal_quantile(probability)
        found = np.array([_quantile(probability, one, z) for one in degrees.tolist()])
    return np.asarray(found[place].reshape(dof.shape))


def _quantile(probability: float, dof: float, z: float) -> float:
    return student.quantile(probability, dof, z) if math.isfinite(dof) else math.nan


def _t_quantile(probability: float, degrees: Array) -> Array:
    """Of distinct degrees of freedom."""
    usable = np.where(np.isfinite(degrees), degrees, 1.0)
    log_beta = _log_beta_half(usable)
    scale = -log_beta - 0.5 * np.log(usable)
    z = normal_quantile(probability)
    t = z + (z**3 + z) / (4 * usable) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * usable**2)
    for _ in range(200):
        density = np.exp(scale - (usable + 1) / 2 * np.log1p(t**2 / usable))
        step = (_tails(t, usable, log_beta) - 2 * (1 - probability)) / (2 * density)
        t = np.maximum(t + step, 0.0)
        if np.all(np.abs(step) <= 1e-10 * (1 + t)):
            break
    return np.asarray(np.where(np.isfinite(degrees), t, np.nan))
