"""Student's t, F, and the inverse of trigamma, by SciPy."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

Array: TypeAlias = npt.NDArray[np.float64]


def trigamma(x: Array) -> Array:
    """Compute the derivative of the digamma function for x > 0."""
    return np.asarray(special.polygamma(1, x))


def inverse_trigamma(y: float) -> float:
    """Find x > 0 with trigamma(x) = y > 0 by bisection: trigamma falls, between 1 / x and
    1 / x + 1 / x²."""
    low, high = math.log(1 / y), math.log(1 / y + 1 / math.sqrt(y) + 1)
    for _ in range(60):
        middle = (low + high) / 2
        above = float(special.polygamma(1, math.exp(middle))) > y
        low, high = (middle, high) if above else (low, middle)
    return math.exp((low + high) / 2)


def t_two_sided(t: Array, dof: Array) -> Array:
    """Return P(|T| >= |t|) of Student's t; NaN if t or dof is."""
    found = 2 * special.stdtr(np.where(np.isfinite(dof), dof, 1.0), -np.abs(t))
    return np.asarray(np.where(np.isfinite(dof) | np.isinf(t), found, np.nan))


def t_quantile(probability: float, dof: Array) -> Array:
    """Return the value that Student's t stays below with a probability of 0.5 or more; NaN if dof
    is not known."""
    found = special.stdtrit(np.where(np.isfinite(dof), dof, 1.0), probability)
    return np.asarray(np.where(np.isfinite(dof), found, np.nan))


def f_above(ratio: Array, above: Array, below: Array) -> Array:
    """Compute P(F >= ratio) of a ratio of variances with so many degrees of freedom."""
    return np.asarray(special.fdtrc(above, below, ratio))


def normal_scores(chance: Array) -> Array:
    """Return the normal quantiles that are exceeded with these probabilities."""
    return np.asarray(-special.ndtri(np.clip(chance, 1e-12, 1 - 1e-12)))
