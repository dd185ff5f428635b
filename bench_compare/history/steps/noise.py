"""Noise between documents of one build: spread of each series, correlation in time, outliers.

All of it comes from differences of documents that follow each other on one unit of hardware, so
that the few real steps of an archive hardly count.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.judge import prior

if TYPE_CHECKING:
    from bench_compare.comparison.measure import Array, Ints, Mask


FLOOR_VARIANCE = 0.002**2
"""No document is known better than to 0.2 %."""
MOST_DOF = 100.0
"""Degrees of freedom that all series together add to one, at most."""


def column_median(values: Array) -> Array:
    """Return the median of the known values in each column; NaN if there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any
        return np.asarray(np.nanmedian(values, axis=0))


@dataclass(frozen=True, eq=False)
class Grid:
    """Natural logarithms of levels, series × documents, NaN if a document does not have a
    series."""

    values: Array
    variance: Array
    """Variance of each value, from its rounds; zero if unknown."""
    build: Ints
    """Number of the build of each document, rising from 0."""
    unit: Ints
    """Unit of hardware of each document: levels are compared within units only."""


# How alike documents are that follow each other, pooled over the series of an archive.
#
# A document and its neighbour differ by 2 σ² (1 - ρ), one and the third after it by 2 σ² (1 - ρ³):
# the ratio tells ρ. One series of 60 documents knows it only to ±0.2, and a step of its own
# distorts that; many series together know it well. What is of a single series, `detect` looks at
# once its steps are known.

ERROR = 1.6
"""Standard error of the estimate of one series, times the root of its documents (simulated)."""
CORRELATION_LEAST_DOCUMENTS = 4
LEAST_SERIES = 5
NORMAL_MEDIAN = 0.6745
UNLIKE = 0.1
"""Possible difference between the correlation of the common part and that of single series."""
MOST = 0.9


@dataclass(frozen=True)
class Guess:
    """Estimate of the correlation of a series, as a normal distribution."""

    mean: float
    variance: float

    def counted(self, white: float, margin: float) -> float:
        """Return the correlation to use: 0 unless it is above `white` standard deviations; then
        `margin` of them are added, as too small a correlation makes false events."""
        spread = math.sqrt(self.variance)
        return min(self.mean + margin * spread, MOST) if self.mean > white * spread else 0.0

    @property
    def correlation(self) -> float:
        """Return the correlation for a series without steps."""
        return self.counted(white=1.5, margin=0.5)


IGNORANT = Guess(0.0, 1.0)
"""Estimate for too few series."""


@dataclass(frozen=True, eq=False)
class Lagged:
    """Half the mean squares of differences, of each series; NaN if there is none."""

    near: Array
    """Value for neighbours."""
    far: Array
    """Mean of the values for documents two and three apart."""
    documents: Array

    @property
    def known(self) -> Mask:
        many = self.documents >= CORRELATION_LEAST_DOCUMENTS
        return np.asarray(many & np.isfinite(self.near) & np.isfinite(self.far) & (self.near > 0))


def pool_of(lagged: Lagged, shared: float) -> Guess:
    """Return the estimate for a series of an archive whose series share `shared` of their
    variance."""
    known = lagged.known
    count = int(known.sum())
    if count < LEAST_SERIES:
        return IGNORANT
    near, far, documents = (part[known] for part in (lagged.near, lagged.far, lagged.documents))
    scale = near + far
    mean = float(_inverted(np.atleast_1d(np.mean(far / scale) / np.mean(near / scale)))[0])
    error = ERROR**2 / documents
    of_mean = float(error.mean()) * (shared**2 + 1 / count)
    apart = float(np.median(np.abs(_inverted(far / near) - mean))) / NORMAL_MEDIAN
    return Guess(mean, max(apart**2 - float(error.mean()), 0.0) + of_mean)


def met(guess: Guess, value: float, error: float) -> Guess:
    """Return the guess after a measurement of this error variance (normal, conjugate)."""
    weight = guess.variance / (guess.variance + error)
    return Guess(guess.mean + weight * (value - guess.mean), weight * error)


def widened(guess: Guess) -> Guess:
    """Return the estimate for a series that is combined from others."""
    return Guess(guess.mean, guess.variance + UNLIKE**2)


def _inverted(ratio: Array) -> Array:
    """Return ρ for a ratio of ((1 - ρ²) + (1 - ρ³)) / (2 (1 - ρ)) = 1 + ρ + ρ² / 2."""
    return np.sqrt(np.maximum(2 * ratio - 1, 0.0)) - 1


REACH = 4.0
"""Standard deviations at which a value that its neighbours contradict stops counting more."""
CLIP = 3.0
CLIPPED_SQUARE = 0.9733
"""Mean square of the normal values within `CLIP`: larger differences are steps."""
LAGS = 3
"""Documents that are held against each other are up to so many apart."""
DIFFERENCE_DOF = 0.85
"""Degrees of freedom of a variance from such differences, for each document but one."""
POOLED_SERIES = 5
"""Spreads are shrunk towards each other from this many series on."""
LEAST_DOCUMENTS = 2
"""Least number of documents of a segment."""
FALSE_EVENTS = 0.008
"""False events in an archive of identical builds, at most: the bounds of `tails` are wide, and half
of it is what comes."""
ODD_SPREAD = 0.5
"""Odd values lie anywhere in a stretch of so much, in logarithms: up to 60 % slower."""
NEIGHBOURS = 2
"""Documents on either side that say whether one between them is odd."""


@dataclass(frozen=True, eq=False)
class NoiseModel:
    variance: Array
    """Variance of one document of each series, its rounds' noise included; NaN if unknown."""
    dof: Array
    guess: Guess
    """Estimate of the correlation of neighbouring documents of a series."""
    shared: float
    """Share of the variance that all series of a document have in common."""
    odd_share: float
    """Share of values that their neighbours contradict."""
    values: int


def noise_of(grid: Grid, guess: Guess | None = None) -> NoiseModel:
    """Spread shrunk over the archive, correlation pooled over it or as guessed; odd values are left
    out."""
    rough = _median_variance(differences(grid.values, grid.unit, 1))
    # Values that the documents before and after contradict; the first and last ones may be
    # levels of their own.
    odd = np.zeros(grid.values.shape, bool)
    for row, spread in enumerate(rough):
        if not np.isfinite(spread):
            continue
        for unit in np.unique(grid.unit):
            columns = np.flatnonzero((grid.unit == unit) & np.isfinite(grid.values[row]))
            values = grid.values[row, columns]
            away = np.abs(values - neighbour_level(values)) > REACH * np.sqrt(spread)
            away[:NEIGHBOURS] = away[-NEIGHBOURS:] = False
            odd[row, columns] = away
    known = int(np.isfinite(grid.values).sum())
    calm = np.where(odd, np.nan, grid.values)
    steps = [differences(calm, grid.unit, lag) for lag in range(1, LAGS + 1)]
    spreads = [_median_variance(one) for one in steps]
    shared = _shared(steps[0], spreads[0])
    totals, counts = [], []
    for one, spread in zip(steps, spreads, strict=True):
        # Without those that only a step or an odd value makes.
        with np.errstate(invalid="ignore"):
            large = one**2 > (CLIP**2 * 2) * spread[:, None]
        squares = np.where(large, np.nan, one) ** 2 / 2 / CLIPPED_SQUARE
        totals.append(np.nansum(squares, axis=1))
        counts.append(np.isfinite(squares).sum(axis=1))
    near, *far = (
        np.where(count > 0, total / np.maximum(count, 1), np.nan)
        for total, count in zip(totals, counts, strict=True)
    )
    documents = counts[0] + 1.0
    if guess is None:
        guess = pool_of(Lagged(near, np.mean(far, axis=0), documents), shared)
    rho = guess.correlation
    weight = sum(count * (1 - rho**lag) for lag, count in enumerate(counts, start=1))
    has_some = weight > 0
    variance = np.where(has_some, sum(totals) / np.where(has_some, weight, 1.0), np.nan)
    variance = np.maximum(variance, FLOOR_VARIANCE)
    independent = (1 - rho) / (1 + rho)
    dof = np.maximum(DIFFERENCE_DOF * independent * (documents - 1), 1.0)
    # Moved towards the spread of all series, as far as their spreads are alike.
    if has_some.sum() >= POOLED_SERIES:
        d0, s0 = prior(variance[has_some], dof[has_some], MOST_DOF)
        own = dof[has_some]
        variance[has_some] = (d0 * s0 + own * variance[has_some]) / (d0 + own)
        variance = np.maximum(variance, FLOOR_VARIANCE)
        dof[has_some] += d0
    share = (int(odd.sum()) + 0.5) / (known + 1)
    return NoiseModel(variance, dof, guess, shared, share, known)


def correlated(old: float, new: float) -> float:
    """Return the factor on a variance from differences if the correlation changes from `old` to
    `new`."""
    lags = np.arange(1, LAGS + 1)
    return float((1 - old**lags).sum() / (1 - new**lags).sum())


def differences(values: Array, unit: Ints, lag: int) -> Array:
    """Return each value minus that of `lag` documents before on the same unit; NaN if there is
    none."""
    parts = [np.empty((len(values), 0))]
    for number in np.unique(unit):
        mine = values[:, unit == number]
        # Missing documents are passed over.
        order = np.argsort(np.isnan(mine), axis=1, kind="stable")
        packed = np.take_along_axis(mine, order, axis=1)
        if mine.shape[1] > lag:
            parts.append(packed[:, lag:] - packed[:, :-lag])
    return np.concatenate(parts, axis=1)


def _median_variance(first: Array) -> Array:
    """Return the variance of one document, from the median of absolute differences."""
    median = column_median(np.abs(first).T) if first.size else np.full(len(first), np.nan)
    return np.maximum((median / NORMAL_MEDIAN) ** 2 / 2, FLOOR_VARIANCE)


def _shared(first: Array, spread: Array) -> float:
    """Return mean correlation of two series of one document."""
    scaled = np.clip(first / np.sqrt(2 * spread[:, None]), -CLIP, CLIP)
    known = np.isfinite(scaled)
    rows = known.sum(axis=0)
    values = np.where(known, scaled, 0.0)
    squares = float((values**2).sum(axis=0)[rows >= 2].sum())
    products = float((values.sum(axis=0) ** 2)[rows >= 2].sum()) - squares
    pairs = float((rows * (rows - 1)).sum())
    return min(max(products / pairs, 0.0), 1.0) if pairs else 0.0


def neighbour_level(values: Array) -> Array:
    """Return the median of the window around each document, which at the ends is as long as
    within."""
    width = 2 * NEIGHBOURS + 1
    if len(values) <= width:
        return np.full(len(values), np.median(values) if len(values) else np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    middle = np.median(windows, axis=1)
    return np.concatenate(
        [np.repeat(middle[0], NEIGHBOURS), middle, np.repeat(middle[-1], NEIGHBOURS)]
    )


def documents_needed(noise: NoiseModel, variance: float) -> int:
    """Return the number of documents of a new level that must agree, so that outliers alone rarely
    do (`FALSE_EVENTS` for the whole archive)."""
    agree = min(2 * REACH * math.sqrt(variance) / ODD_SPREAD, 1.0) * noise.odd_share
    expected = noise.values * noise.odd_share
    if expected <= FALSE_EVENTS:
        return LEAST_DOCUMENTS
    more = math.log(expected / FALSE_EVENTS) / -math.log(min(agree, 0.5))
    return max(LEAST_DOCUMENTS, 1 + math.ceil(more))
