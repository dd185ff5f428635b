"""The newest documents: single ones that leave the last level are unclear and ask for a repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.steps.noise import REACH
from bench_compare.history.steps.tails import normal_score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.history.steps.segments import Step
    from bench_compare.history.steps.track import Track


@dataclass(frozen=True)
class Odd:
    """A series whose newest documents, too few for a level, leave its last level."""

    row: int
    columns: tuple[int, ...]
    """Of the grid."""
    shift: float
    """Of the newest one, a logarithm."""
    needed: int
    """Documents that would decide it."""


def odd_heads(
    tracks: Sequence[Track], steps: Sequence[Sequence[Step]], newest: int, least: float
) -> list[Odd]:
    """Of the series that the newest build (by number) holds."""
    found = [_odd(row, track, list(steps[row]), newest) for row, track in enumerate(tracks)]
    return [one for one in found if one is not None and abs(one.shift) >= least]


def _odd(row: int, track: Track, steps: list[Step], newest: int) -> Odd | None:
    first = steps[-1].split if steps else 0
    if len(track) - first < 3 or track.build[-1] != newest:
        return None
    away = 0
    while away < len(track) - first - 2 and _leaves(track, first, len(track) - 1 - away):
        away += 1
    if not away:
        return None
    level = _level(track, first, len(track) - away, int(track.unit[-1]))
    if level is None:
        return None
    columns = tuple(track.column[len(track) - away :].tolist())
    return Odd(row, columns, float(track.raw[-1]) - level, max(track.needed - away, 1))


def _leaves(track: Track, first: int, place: int) -> bool:
    level = _level(track, first, place, int(track.unit[place]))
    if level is None:
        return False
    count = place - first
    t = (track.raw[place] - level) / np.sqrt(track.variance[place] * (1 + 1 / count))
    return float(normal_score(np.array(t), track.dof)) > REACH


def _level(track: Track, first: int, end: int, unit: int) -> float | None:
    """Median of a unit's documents; None where it has none there."""
    values = track.raw[first:end][track.unit[first:end] == unit]
    return float(np.median(values)) if values.size else None
