"""Noise of the series of an archive, from documents that follow each other on one unit.

Neighbours are mostly of one level, so their differences show the noise of a document, however the
levels differ. A difference far above the others is a step or an odd document; it is left out. From
the products of differences that follow each other comes the correlation ρ of neighbouring
documents: they are on average -(1 - ρ)² σ², where the squares are 2 (1 - ρ) σ².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bench_compare.comparison.judge import moderate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]

CLIP, CLIP_PAIRS, ODD = 4.0, 3.0, 5.0
"""Standard deviations beyond which a difference of neighbours is a step or an odd document; the
same for the correlation, which steps of that size would feign; and by which an odd document stands
out from both neighbours."""
DIFFERENCE_DOF = 2 / 3
"""Degrees of freedom for each difference: those that share a document are correlated."""
LEAST_PAIRS, MOST_CORRELATION = 12, 0.9
"""Pairs of differences, of all series, from which on their correlation is believed; its limit."""
COMMON, ERROR = 0.15, 0.75
"""Errors of the ratio of sums of n pairs, times √n, that are taken off it: all series, one."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Levels of series in documents."""

    values: Array
    """Logarithms, (series, documents); NaN where there is none."""
    variance: Array
    """Variance of each value, as its rounds show it."""
    build: Ints
    """Build of each document, ascending."""
    unit: Ints
    """Unit of hardware of each document."""


@dataclass(frozen=True, eq=False)
class Track:
    """One series: its documents in order, and its noise."""

    row: int
    column: Ints
    """Documents."""
    raw: Array
    values: Array
    """Values, with single odd documents drawn to their neighbours."""
    build: Ints
    unit: Ints
    variance: float
    """Variance of a document about its level; NaN without two documents of one unit."""
    dof: float
    correlation: float
    sums: Array
    """Counts, sums and sums of squares before each document, (3, units, documents + 1)."""
    series: int
    """Series of the archive."""
    known: int
    """Values of all series."""
    odd: Array
    """Logarithms by which odd documents of all series stand out, without first and last ones."""

    @property
    def long_run(self) -> float:
        """Variance of the mean of many documents, times their number."""
        return self.variance * (1 + self.correlation) / (1 - self.correlation)

    def variance_of_mean(self, count: Ints) -> Array:
        """Return the variance of the mean of so many neighbours, of an autoregressive process."""
        rho = self.correlation
        less = 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
        return np.array((self.long_run - self.variance * less) / count)

    def share(self, size: float) -> float:
        """Return the share of values of the archive that stand out at least so far."""
        return float(np.sum(self.odd >= size)) / self.known

    def spread(self, begin: Ints | Sequence[int] | int, end: Ints | Sequence[int] | int) -> Array:
        """Return the sum of squares of the documents from `begin` to before `end` about their mean
        on each unit."""
        a, b = np.atleast_1d(begin), np.atleast_1d(end)
        count, total, squares = self.sums[:, :, b] - self.sums[:, :, a]
        return np.array((squares - total**2 / np.maximum(count, 1)).sum(axis=0))


def tracks_of(grid: Grid, floor: float) -> tuple[Track, ...]:
    """Estimate the noise of each series; `floor`: least standard deviation of a document."""
    rows = len(grid.values)
    variance, dof = np.full(rows, np.nan), np.zeros(rows)
    products, squares, pairs = np.zeros((3, rows))
    for row in range(rows):
        found = [np.diff(grid.values[row, chain]) for chain in _chains(grid, row)]
        every = np.concatenate([np.zeros(0), *found])
        if not every.size:
            continue
        limit = CLIP * max(1.4826 * float(np.median(np.abs(every))), math.sqrt(2) * floor)
        every = every[np.abs(every) <= limit]
        drift, count = float(np.median(every)), len(every)
        # Of n differences, a drift takes 1 / n of one from the squares.
        own = float(np.sum((every - drift) ** 2)) / (2 * (count - 1 / count)) if count > 1 else 0.0
        rounds = float(np.median(grid.variance[row, np.isfinite(grid.values[row])]))
        variance[row], dof[row] = max(own, rounds) + floor**2, DIFFERENCE_DOF * count
        kept = [np.where(np.abs(d) <= limit * CLIP_PAIRS / CLIP, d - drift, np.nan) for d in found]
        both = np.concatenate([np.c_[one[:-1], one[1:]] for one in kept])
        both = both[np.isfinite(both).all(axis=1)]
        products[row], squares[row] = both.prod(axis=1).sum(), (both**2).sum() / 2
        pairs[row] = len(both)
    variance, dof = moderate(variance, dof)
    correlation = _correlation(products / variance, squares / variance, pairs)
    steady, odd = _drawn(grid, np.sqrt(variance))
    archive = rows, max(int(np.isfinite(grid.values).sum()), 1), odd
    tracks = []
    for row, rho in enumerate(correlation.tolist()):
        at = np.flatnonzero(np.isfinite(grid.values[row]))
        held = (at, grid.values[row, at], steady[row, at], grid.build[at], grid.unit[at])
        mine, y = held[4] == np.unique(held[4])[:, None], held[2] - held[2][:1].sum()
        sums = np.pad(np.stack([mine, mine * y, mine * y**2]), ((0, 0), (0, 0), (1, 0)))
        noise = float(variance[row]) / (1 - rho), max(float(dof[row]), 1.0), rho
        tracks.append(Track(row, *held, *noise, sums.cumsum(axis=2), *archive))
    return tuple(tracks)


def _chains(grid: Grid, row: int) -> Iterator[Ints]:
    """Yield the documents of a series on each unit of hardware, in order."""
    known = np.flatnonzero(np.isfinite(grid.values[row]))
    for unit in np.unique(grid.unit[known]):
        yield known[grid.unit[known] == unit]


def _correlation(products: Array, squares: Array, pairs: Array) -> Array:
    """Return the correlation of neighbouring documents of each series: that of all, or its own if
    it is larger by more than its error."""
    known = (pairs > 0) & (squares > 0)
    every = np.full(len(pairs), -0.5)
    if pairs.sum() >= LEAST_PAIRS and known.any():
        every += 0.5 + products[known].sum() / squares[known].sum() - COMMON / pairs.sum() ** 0.5
        own = products[known] / squares[known] - ERROR / np.sqrt(pairs[known])
        every[known] = np.maximum(every[known], own)
    return np.array(np.clip(1 + 2 * every, 0.0, MOST_CORRELATION))


def _drawn(grid: Grid, sd: Array) -> tuple[Array, Array]:
    """Return the values with odd documents drawn to the nearer neighbour, and how far each of them
    stood out."""
    steady, sizes = grid.values.copy(), []
    for row in range(len(steady)):
        for chain in (one for one in _chains(grid, row) if len(one) > 2):
            values = grid.values[row, chain]
            before = values - np.r_[values[1], values[:-1]]
            after = values - np.r_[values[1:], values[-2]]
            near = np.where(np.abs(before) < np.abs(after), before, after)
            hits = (before * after > 0) & (np.abs(near) > ODD * math.sqrt(2) * sd[row])
            # An odd document next to an end makes the end stand out, too.
            hits[0] &= not hits[1]
            hits[-1] &= not hits[-2]
            steady[row, chain[hits]] -= near[hits]
            sizes += np.abs(near[1:-1][hits[1:-1]]).tolist()
    return steady, np.array(sizes)
