"""How alike documents are that follow each other: of each series, drawn towards all of an archive.

A document and its neighbour differ by 2 σ² (1 - ρ), one and the third after it by 2 σ² (1 - ρ³):
the ratio tells ρ, and steps hardly touch it. One series of 60 documents knows ρ only to ±0.2, all
series of an archive together to a fraction of that: each is drawn towards their mean as far as
they are alike (normal prior, its variance by moments).
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
NORMAL_MEDIAN = 0.6745
UNLIKE = 0.1
"""What all series have in common may correlate otherwise than they do, by so much."""
WHITE = 1.5
"""Standard deviations within which a correlation is none."""
MARGIN = 0.5
"""Standard deviations that are added to any other one: too small a one makes false events."""
MOST = 0.9


@dataclass(frozen=True)
class Guess:
    """What is known of the correlation of a series, as a normal distribution."""

    mean: float
    variance: float

    @property
    def correlation(self) -> float:
        """That is counted with: zero where it may be none."""
        spread = math.sqrt(self.variance)
        return min(self.mean + MARGIN * spread, MOST) if self.mean > WHITE * spread else 0.0


IGNORANT = Guess(0.0, 1.0)


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
    if count < 2:
        return IGNORANT
    near, far, documents = (part[known] for part in (lagged.near, lagged.far, lagged.documents))
    scale = near + far
    mean = float(_inverted(np.atleast_1d(np.mean(far / scale) / np.mean(near / scale)))[0])
    error = ERROR**2 / documents
    of_mean = float(error.mean()) * (shared**2 + 1 / count)
    apart = float(np.median(np.abs(_inverted(far / near) - mean))) / NORMAL_MEDIAN
    return Guess(mean, max(apart**2 - float(error.mean()), 0.0) + of_mean)


def guesses(lagged: Lagged, pool: Guess) -> list[Guess]:
    """Of each series, drawn towards `pool`."""
    known = lagged.known
    own = _inverted(lagged.far / np.where(known, lagged.near, 1.0))
    error = ERROR**2 / np.maximum(lagged.documents, 1)
    return [
        met(pool, float(value), float(spread)) if there else pool
        for value, spread, there in zip(own, error, known, strict=True)
    ]


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
