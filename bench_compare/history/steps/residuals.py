"""What the levels of a series leave: whether neighbours are more alike than it was thought.

What is pooled over an archive (`correlation`) does not know a series that is unlike the others, and
few series do not tell it. Steps that correlation made do not outlast what their residuals say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.steps.correlation import Guess, met
from bench_compare.history.steps.noise import correlated
from bench_compare.history.steps.track import settled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.history.steps.track import Track
    from bench_compare.statistics.arrays import Array

LEAST_PAIRS = 8
"""Neighbours whose likeness tells anything."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """In standard deviations, of each segment and unit of hardware in order of time."""

    parts: tuple[Array, ...]

    @property
    def pairs(self) -> int:
        return sum(len(part) - 1 for part in self.parts)

    @property
    def correlation(self) -> float:
        """Of neighbours; what the fitted levels took away is added (Marriott and Pope 1954)."""
        documents = sum(len(part) for part in self.parts)
        squares = sum(float((part**2).sum()) for part in self.parts)
        products = sum(float((part[1:] * part[:-1]).sum()) for part in self.parts)
        raw = products / self.pairs / (squares / documents) if squares > 0 else 0.0
        return min(raw + (1 + 3 * max(raw, 0.0)) * len(self.parts) / documents, 1.0)


def rethought(track: Track, bounds: Sequence[int]) -> Track:
    """The track, or one of more correlation; `bounds` are where its levels begin."""
    left = Residuals(tuple(_residuals(settled(track, bounds), bounds)))
    if left.pairs < LEAST_PAIRS:
        return track
    guess = _after(track.guess, left.correlation, 1 / left.pairs)
    rho = guess.counted(white=1.0, margin=1.0)
    if rho <= track.correlation:
        return track
    grown = correlated(track.correlation, rho)
    variance = track.variance * grown
    return replace(track, guess=guess, correlation=rho, variance=variance)


def _after(guess: Guess, value: float, error: float) -> Guess:
    """A guess that the value contradicts counts less."""
    apart = (value - guess.mean) ** 2 - error
    return met(Guess(guess.mean, max(guess.variance, apart)), value, error)


def _residuals(track: Track, bounds: Sequence[int]) -> Iterator[Array]:
    segment = np.searchsorted(np.asarray(bounds, int), np.arange(len(track)), side="right")
    place = segment * (track.unit.max(initial=0) + 1) + track.unit
    for number in np.unique(place):
        at = place == number
        weight = 1 / track.variance[at]
        level = (weight * track.values[at]).sum() / weight.sum()
        yield (track.values[at] - level) * np.sqrt(weight)
