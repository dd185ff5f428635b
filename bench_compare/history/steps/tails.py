"""How probable a split is by noise alone.

Sources: Wallace 1959 (Student's t to normal); Siegmund 1985 (the tail of the largest of all splits
grows with the logarithm of the number of observations).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_compare.statistics.arrays import Array

MOST_EXPONENT = 20.0
HEAD = 8
"""Newest documents, whose splits are what a gate waits for."""
SHARES = {"head": 0.65, "whole": 0.25, "parts": 0.1}
"""Of the budget of false alarms: for splits close to the newest document, for those of a whole
stretch of documents, for those of its parts."""


def normal_score(t: Array, dof: float) -> Array:
    """|t| as the normal value of the same tail (Wallace 1959)."""
    scale = (8 * dof + 1) / (8 * dof + 3)
    return np.asarray(scale * np.sqrt(dof * np.log1p(np.asarray(t, float) ** 2 / dof)))


def t_score(z: float, dof: float) -> float:
    """The |t| whose tail is that of the normal value: inverse of `normal_score`."""
    scale = (8 * dof + 1) / (8 * dof + 3)
    return math.sqrt(dof * math.expm1(min((z / scale) ** 2 / dof, MOST_EXPONENT)))


def tail(z: float) -> float:
    """Two-sided."""
    return math.erfc(z / math.sqrt(2))


def whole_factor(count: int) -> float:
    """Tail of the largest split of white noise over that of one split, measured from 8 to 365
    documents (`tests/benchmarks/history_power.py tails`)."""
    return max(9 * (math.log(count) - 1.5), 1.0)


def parts_factor(count: int) -> float:
    """The same for the splits of all intervals."""
    return 6.5 * count


def head_factor(count: int) -> float:
    """The same for the splits of the newest `HEAD` documents; from 12 documents on."""
    return min(4.5, whole_factor(count))


FACTORS: dict[str, Callable[[int], float]] = {
    "head": head_factor,
    "whole": whole_factor,
    "parts": parts_factor,
}


def factor(kind: str, count: int) -> float:
    """Tail of the largest split of a kind over that of one split, its share of the budget paid."""
    return FACTORS[kind](count) / SHARES[kind]


def p_value(z: float, kind: str, count: int) -> float:
    """Probability that noise alone gives such a split somewhere in `count` documents."""
    return min(1.0, factor(kind, count) * tail(z))
