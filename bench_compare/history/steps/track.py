"""One series in the order of the builds, ready to be split: weights, units, odd values drawn in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.steps.noise import CLIP, REACH, documents_needed, neighbour_level
from bench_compare.history.steps.tails import t_score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.history.steps.noise import Grid, Guess, Noise
    from bench_compare.statistics.arrays import Array, Ints


@dataclass(frozen=True, eq=False)
class Track:
    """The documents that hold one series."""

    values: Array
    """`raw`, with odd single values drawn in to `reach` standard deviations of their neighbours."""
    raw: Array
    variance: Array
    """Of each document: between documents, and within its rounds."""
    build: Ints
    unit: Ints
    """From 0 on, without gaps."""
    column: Ints
    """Where each document stands in the grid."""
    dof: float
    """Degrees of freedom of the variance."""
    guess: Guess
    """Of the correlation of neighbouring documents."""
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


def track_of(grid: Grid, noise: Noise, row: int) -> Track:
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
        reach = found.reach * np.sqrt(found.variance[at])
        values[at] = np.clip(found.raw[at], level - reach, level + reach)
    return replace(found, values=values)


def settled(track: Track, bounds: Sequence[int]) -> Track:
    """Odd values drawn in to the level of their own segment; `bounds` are where segments begin."""
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
