"""Two sides fitted in blocks: level, spread, and what all cases of an observation share.

A *block* is what both sides were measured in: a unit of hardware, or one visit of a document that
holds both sides. Sides are compared within blocks, so that what a block does to both cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import comparable, weights

from bench_compare.statistics.arrays import Array, Ints, Mask, column_median

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_LEVERAGE = 1e-9
"""Below it an observation is fitted exactly and tells nothing of the spread."""
MOST_IN_MATRIX = 256
"""Observations that a matrix fits: it takes 10 ms, that of 2,000 of them 300 ms."""
SHARING_CASES = 10
"""An observation that has fewer cases, where others have that many, does not tell what they share:
rounds that were added for the few cases which needed them."""


@dataclass(frozen=True, eq=False)
class Fit:
    """One entry a case; NaN if it is unknown."""

    base: Array
    """Level: mean over blocks of the mean in the block."""
    other: Array
    leverage: Array
    """Variance of other - base, in units of the variance of one observation."""
    squares: Array
    """Sum of squared residuals."""
    own_squares: Array
    """The same without what all cases of an observation share."""
    side_squares: tuple[Array, Array]
    """Squares of base and of other."""
    dof: Array
    alike: float
    """Common movement that remains, in groups or by degrees: mean squared correlation of the cases'
    residuals, without the part that chance explains. 0 to 1."""
    common_variance: float
    """Variance of one observation that all cases share, such as the state of a machine during a
    document."""
    common_dof: float
    counts: tuple[Ints, Ints]
    """Observations of base and of other that the fit rests on."""


def fit(values: Array, side: Ints, block: Ints) -> Fit:
    """Fit the additive model block + side to each case. `values`: log times, cases × observations,
    NaN if missing; `side` is 0 (base) or 1 (other).

    Levels are least-squares means over blocks that both sides have; residuals are those of the
    model. The shared part of an observation is the median of its residuals over cases.
    """
    height = len(values)
    levels = np.full((2, height), np.nan)
    counts = np.zeros((2, height), np.int64)
    leverage, dof = np.full(height, np.nan), np.zeros(height)
    residual = np.full_like(values, np.nan)
    for rows, columns in _patterns(values):
        kept, blocks = comparable(columns, side[columns], block[columns])
        part = values[np.ix_(rows, kept)]
        shares = [weights(side[kept] == number, blocks) for number in (0, 1)]
        for number, share in enumerate(shares):
            counts[number, rows] = np.count_nonzero(share)
            if share.any():
                levels[number, rows] = part @ share
        if all(share.any() for share in shares):
            leverage[rows] = sum(float(share @ share) for share in shares)
        dof[rows] = len(kept) - _rank(side[kept], blocks)
        free, rest = _residuals(part, side[kept], blocks)
        residual[np.ix_(rows, kept[free])] = rest
    known = np.isfinite(residual)
    count = known.sum(axis=0)
    told = count >= min(SHARING_CASES, count.max(initial=0))
    common = np.where(told, column_median(residual), 0.0)
    common_dof = _common_dof(known & told, side, block)
    own = np.nan_to_num(residual - common)
    return Fit(
        base=levels[0],
        other=levels[1],
        leverage=leverage,
        squares=(np.nan_to_num(residual) ** 2).sum(axis=1),
        own_squares=(own**2).sum(axis=1),
        side_squares=((own[:, side == 0] ** 2).sum(axis=1), (own[:, side == 1] ** 2).sum(axis=1)),
        dof=dof,
        alike=_alike(own, dof),
        common_variance=float(np.nansum(common**2)) / common_dof if common_dof > 0 else 0.0,
        common_dof=common_dof,
        counts=(counts[0], counts[1]),
    )


def _alike(residual: Array, dof: Array) -> float:
    size = np.sqrt((residual**2).sum(axis=1))
    rows = (size > 0) & (dof > 1)  # with a single degree of freedom any two are alike
    count = int(rows.sum())
    if count < 2:
        return 0.0
    unit = residual[rows] / size[rows, None]
    together = float(((unit.T @ unit) ** 2).sum()) - count
    chance = float(np.mean(1 / dof[rows]))
    found = together / (count * (count - 1))
    return min(max((found - chance) / (1 - chance), 0.0), 1.0)


def _patterns(values: Array) -> Iterator[tuple[Ints, Ints]]:
    """Yield (rows, columns) of cases that have the same observations; at least one."""
    known = np.isfinite(values)
    if known.size and known.all():
        yield np.arange(len(values)), np.arange(values.shape[1])
        return
    seen, place = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True)
    for number in range(len(seen)):
        rows = np.flatnonzero(place.ravel() == number)
        columns = np.flatnonzero(known[rows[0]])
        if columns.size:
            yield rows, columns


def _rank(side: Ints, block: Ints) -> int:
    """Return the number of parameters of block and side."""
    return len(np.unique(block)) + int(side.min() != side.max())


def _residuals(values: Array, side: Ints, block: Ints) -> tuple[Ints, Array]:
    """Return the observations that are not fitted exactly, and their residuals from block and side.

    Many observations are reduced by block means and a regression on the remainder of the side
    (Frisch and Waugh 1933): that is linear in their number, while a matrix for all of them is
    cubic.
    """
    _, place, count = np.unique(block, return_inverse=True, return_counts=True)
    place = place.ravel()
    if len(side) <= MOST_IN_MATRIX:
        matrix = _remainder(tuple(side.tolist()), tuple(place.tolist()))
        free = np.flatnonzero(np.diag(matrix) > LEAST_LEVERAGE)
        return free, values @ matrix[:, free]
    order, first = np.argsort(place, kind="stable"), np.cumsum(count) - count

    def within(rows: Array) -> Array:
        means = np.add.reduceat(rows[:, order], first, axis=1) / count
        return np.asarray(rows - means[:, place])

    rest, leverage = within(values), 1 - 1 / count[place]
    [apart] = within(side[None].astype(float))
    size = float(apart @ apart)
    if size > LEAST_LEVERAGE:
        rest -= np.outer(rest @ apart, apart / size)
        leverage -= apart**2 / size
    free = np.flatnonzero(leverage > LEAST_LEVERAGE)
    return free, rest[:, free]


@lru_cache(maxsize=64)
def _remainder(sides: tuple[int, ...], blocks: tuple[int, ...]) -> Array:
    """Return the matrix that maps observations to their residuals from block and side."""
    side, block = np.array(sides), np.array(blocks)
    model = (block[:, None] == np.unique(block)).astype(float)
    if side.min() != side.max():
        model = np.column_stack([model, side])
    return np.asarray(np.eye(len(side)) - model @ np.linalg.pinv(model))


def _common_dof(known: Mask, side: Ints, block: Ints) -> float:
    """Return the degrees of freedom of the common part of observations: cases of a suite in pieces
    link only the observations of their piece."""
    piece = np.arange(known.shape[1])
    for row in known[:1] if known.all() else np.unique(known, axis=0):
        columns = np.flatnonzero(row)
        if columns.size:
            joined = np.isin(piece, piece[columns])
            piece[joined] = piece[columns].min()
    found = 0.0
    for number in np.unique(piece[known.any(axis=0)]):
        columns = np.flatnonzero((piece == number) & known.any(axis=0))
        kept, blocks = comparable(columns, side[columns], block[columns])
        found += max(0, len(kept) - _rank(side[kept], blocks))
    return found
