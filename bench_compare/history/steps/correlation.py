"""How alike documents are that follow each other, pooled over the series of an archive.

A document and its neighbour differ by 2 σ² (1 - ρ), one and the third after it by 2 σ² (1 - ρ³):
the ratio tells ρ. One series of 60 documents knows it only to ±0.2, and a step of its own distorts
that; many series together know it well. What is of a single series, `residuals` looks at once its
steps are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Mask

ERROR = 1.6
"""Standard error of the estimate of one series, times the root of its documents (simulated)."""
LEAST_DOCUMENTS = 4
LEAST_SERIES = 5
NORMAL_MEDIAN = 0.6745
UNLIKE = 0.1
"""What all series have in common may correlate otherwise than they do, by so much."""
MOST = 0.9


@dataclass(frozen=True)
class Guess:
    """What is known of the correlation of a series, as a normal distribution."""

    mean: float
    variance: float

    def counted(self, white: float, margin: float) -> float:
        """What to count with: nothing within `white` standard deviations of none, else with
        `margin` of them added, as too small a correlation makes false events."""
        spread = math.sqrt(self.variance)
        return min(self.mean + margin * spread, MOST) if self.mean > white * spread else 0.0

    @property
    def correlation(self) -> float:
        """Of a series that shows no step."""
        return self.counted(white=1.5, margin=0.5)


IGNORANT = Guess(0.0, 1.0)
"""Where too few series tell it."""


@dataclass(frozen=True, eq=False)
class Lagged:
    """Half the mean squares of differences, of each series; NaN where there is none."""

    near: Array
    """Of neighbours."""
    far: Array
    """Of documents two and three apart, both alike."""
    documents: Array

    @property
    def known(self) -> Mask:
        many = self.documents >= LEAST_DOCUMENTS
        return np.asarray(many & np.isfinite(self.near) & np.isfinite(self.far) & (self.near > 0))


def pool_of(lagged: Lagged, shared: float) -> Guess:
    """For a series of an archive whose series have `shared` of their variance in common."""
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
    """The guess after a measurement of this error variance (normal, conjugate)."""
    weight = guess.variance / (guess.variance + error)
    return Guess(guess.mean + weight * (value - guess.mean), weight * error)


def widened(guess: Guess) -> Guess:
    """For a series that is made of others."""
    return Guess(guess.mean, guess.variance + UNLIKE**2)


def _inverted(ratio: Array) -> Array:
    """ρ of ((1 - ρ²) + (1 - ρ³)) / (2 (1 - ρ)) = 1 + ρ + ρ² / 2."""
    return np.sqrt(np.maximum(2 * ratio - 1, 0.0)) - 1
