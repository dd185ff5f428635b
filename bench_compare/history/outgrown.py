"""Whether a level went on growing right after the build whose step was accepted.

A step that follows at the next build leaves the accepted one a single document for its level, so
that both are told as one, at the accepted build.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.history.accepted import Placed
    from bench_compare.history.steps.segments import Step
    from bench_compare.history.steps.track import Track

SIGMAS = 5.0
"""Of the difference between the accepted build and the level after it."""


def outgrown(track: Track, steps: Sequence[Step], placed: Placed, least: float) -> float | None:
    """By how much (a logarithm) the level is above the last of the accepted builds that it holds;
    None where that may be noise, or is less than is of interest."""
    inside = np.flatnonzero((track.build >= placed.first) & (track.build <= placed.last))
    if not inside.size:
        return None
    bounds = [0, *(step.split for step in steps), len(track)]
    at = int(np.searchsorted(bounds, inside[-1], side="right"))
    level = np.arange(bounds[at - 1], bounds[at])
    accepted = level[track.build[level] == track.build[inside[-1]]]
    later = level[
        (track.build[level] > placed.last) & np.isin(track.unit[level], track.unit[accepted])
    ]
    if not later.size:
        return None
    means, variances = zip(*(_mean(track, rows) for rows in (accepted, later)), strict=True)
    grown = means[1] - means[0]
    return grown if grown > max(least, SIGMAS * math.sqrt(sum(variances))) else None


def _mean(track: Track, rows: np.typing.NDArray[np.int64]) -> tuple[float, float]:
    weight = 1 / track.variance[rows]
    return float(weight @ track.raw[rows] / weight.sum()), float(1 / weight.sum())
