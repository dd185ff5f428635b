"""One series in the order of the builds, ready to be split: weights, units, odd values drawn in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.steps.noise import CLIP, REACH, documents_needed, neighbour_level

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_compare.comparison.measure import Array, Ints
    from bench_compare.history.steps.noise import Grid, Guess, NoiseModel


# How probable a split is by noise alone.
#
# Sources: Wallace 1959 (Student's t to normal); Siegmund 1985 (the tail of the largest of all
# splits grows with the logarithm of the number of observations).

MOST_EXPONENT = 20.0
HEAD = 8
"""Newest documents, whose splits are what a gate waits for."""
SHARES = {"head": 0.65, "whole": 0.25, "parts": 0.1}
"""Shares of the budget of false alarms: splits close to the newest document, splits of a whole
stretch of documents, splits of its parts."""


def normal_score(t: Array, dof: float) -> Array:
    """Return |t| as the normal value of the same tail (Wallace 1959)."""
    scale = (8 * dof + 1) / (8 * dof + 3)
    return np.asarray(scale * np.sqrt(dof * np.log1p(np.asarray(t, float) ** 2 / dof)))


def t_score(z: float, dof: float) -> float:
    """Return the |t| whose tail is that of the normal value: inverse of `normal_score`."""
    scale = (8 * dof + 1) / (8 * dof + 3)
    return math.sqrt(dof * math.expm1(min((z / scale) ** 2 / dof, MOST_EXPONENT)))


def tail(z: float) -> float:
    """Return the two-sided tail probability of a standard normal value."""
    return math.erfc(z / math.sqrt(2))


def whole_factor(count: int) -> float:
    """Return the tail of the largest split of white noise over that of one split, measured from 8
    to 365 documents (`tests/benchmarks/history_power.py tails`)."""
    return max(9 * (math.log(count) - 1.5), 1.0)


def parts_factor(count: int) -> float:
    """Return the `factor` of the splits of all intervals."""
    return 6.5 * count


def head_factor(count: int) -> float:
    """Return the `factor` of splits among the newest `HEAD` documents, for 12 documents or more."""
    return min(4.5, whole_factor(count))


FACTORS: dict[str, Callable[[int], float]] = {
    "head": head_factor,
    "whole": whole_factor,
    "parts": parts_factor,
}


def factor(kind: str, count: int) -> float:
    """Return the tail of the largest split of a kind over that of one split, its share of the
    budget paid."""
    return FACTORS[kind](count) / SHARES[kind]


def p_value(z: float, kind: str, count: int) -> float:
    """Return the probability that noise alone gives such a split somewhere in `count` documents."""
    return min(1.0, factor(kind, count) * tail(z))


@dataclass(frozen=True, eq=False)
class Track:
    """The documents that hold one series."""

    values: Array
    """`raw`, with odd single values drawn in to `reach` standard deviations of their neighbours."""
    raw: Array
    variance: Array
    """Variance of each document: between documents, and within its rounds."""
    build: Ints
    unit: Ints
    """Unit of hardware of each document, from 0 without gaps."""
    column: Ints
    """Column of each document in the grid."""
    dof: float
    """Degrees of freedom of the variance."""
    guess: Guess
    """Estimate of the correlation of neighbouring documents."""
    correlation: float
    reach: float
    needed: int
    """Documents that a new level needs."""

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def sums(self) -> tuple[Array, Array, Array]:
        """Running sums of weights, weighted values and documents: units × (documents + 1)."""
        mine = self.unit == np.arange(self.unit.max(initial=0) + 1)[:, None]
        weight = 1 / self.variance
        rows = (mine * weight, mine * (weight * self.values), mine * 1.0)
        weights, totals, counts = (np.pad(row.cumsum(axis=1), ((0, 0), (1, 0))) for row in rows)
        return weights, totals, counts

    @cached_property
    def opens_build(self) -> Ints:
        """1 where a document is the first of its build, and past the end."""
        new = np.diff(self.build, prepend=-1) > 0
        return np.append(new, True).astype(np.int64)


def track_of(grid: Grid, noise: NoiseModel, row: int) -> Track:
    known = np.isfinite(grid.values[row]) & np.isfinite(noise.variance[row])
    column = np.flatnonzero(known)
    raw, within = grid.values[row, column], grid.variance[row, column]
    total, dof = float(noise.variance[row]), float(noise.dof[row])
    typical = float(np.median(within)) if within.size else 0.0
    between = max(total - typical, total / 2)
    variance = between + np.minimum(within, CLIP**2 * max(typical, total))
    _, unit = np.unique(grid.unit[column], return_inverse=True)
    reach = t_score(REACH, dof)
    found = Track(
        values=raw,
        raw=raw,
        variance=variance,
        build=grid.build[column],
        unit=unit.ravel(),
        column=column,
        dof=dof,
        guess=noise.guess,
        correlation=noise.guess.correlation,
        reach=reach,
        needed=documents_needed(noise, total) if column.size else 0,
    )
    values = found.raw.copy()
    for number in np.unique(found.unit):
        at = np.flatnonzero(found.unit == number)
        level = neighbour_level(found.raw[at])
        away = found.reach * np.sqrt(found.variance[at])
        values[at] = np.clip(found.raw[at], level - away, level + away)
    return replace(found, values=values)


def settled(track: Track, bounds: Sequence[int]) -> Track:
    """Return the track with odd values drawn in to the level of their own segment; `bounds` are
    where segments begin."""
    values = track.raw.copy()
    segment = np.searchsorted(np.asarray(bounds, int), np.arange(len(track)), side="right")
    for number in np.unique(segment):
        for unit in np.unique(track.unit):
            at = np.flatnonzero((segment == number) & (track.unit == unit))
            if at.size:
                level = np.median(track.raw[at])
                reach = track.reach * np.sqrt(track.variance[at])
                values[at] = np.clip(track.raw[at], level - reach, level + reach)
    return replace(track, values=values)
