"""Where a series may step: every split of many intervals, levels compared within units.

Source: Kovács, Bühlmann, Li and Munk 2023 (seeded intervals).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.steps.noise import LEAST_DOCUMENTS

if TYPE_CHECKING:
    from bench_compare.history.steps.track import Track
    from bench_compare.statistics.arrays import Array, Ints, Mask

SHRINK = math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class Splits:
    """Documents [first, split) against [split, end)."""

    first: Ints
    split: Ints
    end: Ints
    whole: Mask
    """The interval is the whole stretch."""


@lru_cache(maxsize=4096)
def splits(count: int) -> Splits:
    """Of a stretch of `count` documents."""
    rows = [
        (first, split, end)
        for first, end in _intervals(count)
        for split in range(first + LEAST_DOCUMENTS, end - LEAST_DOCUMENTS + 1)
    ]
    first, split, end = np.array(rows, np.int64).reshape(-1, 3).T
    return Splits(first, split, end, (first == 0) & (end == count))


def _intervals(count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    length = float(count)
    while length >= 2 * LEAST_DOCUMENTS:
        width = round(length)
        number = 2 * math.ceil(count / width) - 1
        starts = np.linspace(0, count - width, number).round().astype(int)
        found += [(int(start), int(start) + width) for start in starts]
        length /= SHRINK
    return list(dict.fromkeys(found))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Right level minus left level at each split; NaN where no unit stands on both sides."""

    shift: Array
    variance: Array
    left: Array
    """Documents that were compared."""
    right: Array

    @property
    def t(self) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.shift / np.sqrt(self.variance))


def contrasts(track: Track, first: Ints, split: Ints, end: Ints) -> Contrasts:
    """Weighted over units, so that what a unit does to all of its documents cancels."""
    weights, totals, counts = track.sums
    left, right = weights[:, split] - weights[:, first], weights[:, end] - weights[:, split]
    with np.errstate(invalid="ignore", divide="ignore"):
        step = (totals[:, end] - totals[:, split]) / right
        step -= (totals[:, split] - totals[:, first]) / left
        shared = np.where((left > 0) & (right > 0), left * right / (left + right), 0.0)
        information = shared.sum(axis=0)
        shift = np.where(shared > 0, shared * step, 0.0).sum(axis=0) / information
        before = np.where(shared > 0, counts[:, split] - counts[:, first], 0.0).sum(axis=0)
        after = np.where(shared > 0, counts[:, end] - counts[:, split], 0.0).sum(axis=0)
        variance = inflation(before, after, track.correlation) / information
    return Contrasts(shift, variance, before, after)


def inflation(left: Array, right: Array, correlation: float) -> Array:
    """Variance of the difference of two means of correlated documents, in terms of that of
    independent ones."""
    if correlation == 0:
        return np.ones_like(left)
    a, b = (np.maximum(side, 1) for side in (left, right))
    parts = _mean_factor(a, correlation) / a + _mean_factor(b, correlation) / b
    return np.asarray(parts / (1 / a + 1 / b))


def _mean_factor(count: Array, rho: float) -> Array:
    """Variance of a mean of k documents times k: 1 + 2 Σ (1 - j/k) ρ^j, summed up."""
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
