"""A ramp is a slope, not a row of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.history.steps.segments import Step
    from bench_compare.history.steps.track import Track
    from bench_compare.statistics.arrays import Array

LEAST_DOCUMENTS = 6
"""A ramp over fewer documents cannot be told from a step."""
KNOTS = 16
"""Places where a ramp may begin or end, over the documents that are looked at."""
SURER = 6.0
"""By so much the information criterion has to prefer a slope to a single step."""


@dataclass(frozen=True)
class Slope:
    """From the document `first` to the document `last` of a track."""

    first: int
    last: int
    shift: float
    variance: float
    p: float
    splits: tuple[int, ...]
    """Of the steps that it replaces."""


def slopes_of(track: Track, steps: Sequence[Step]) -> list[Slope]:
    return [slope for run in _runs(steps) for slope in _in_run(track, run)]


def _in_run(track: Track, run: Sequence[Step]) -> list[Slope]:
    """The longest part of a run that is a slope, and those on either side of it."""
    for length in range(len(run), 0, -1):
        for first in range(len(run) - length + 1):
            found = _slope(track, run[first : first + length])
            if found is not None:
                before, after = run[:first], run[first + length :]
                return [*_in_run(track, before), found, *_in_run(track, after)]
    return []


def _runs(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Neighbouring steps in one direction that were not accepted as such."""
    run: list[Step] = []
    for step in steps:
        if step.pinned or (run and (step.shift > 0) != (run[-1].shift > 0)):
            if run:
                yield run
            run = []
        if not step.pinned:
            run.append(step)
    if run:
        yield run


def _slope(track: Track, run: Sequence[Step]) -> Slope | None:
    first, end = run[0].first, run[-1].end
    values = track.values[first:end] - _unit_levels(track, run)
    weight = 1 / track.variance[first:end]
    bounds = [first, *(step.split for step in run), end]
    stepped = sum(
        _spread(values[a - first : b - first], weight[a - first : b - first])
        for a, b in pairwise(bounds)
    )
    ramp = _ramp(values, weight)
    if ramp is None:
        return None
    begin, last, lost = ramp
    count = math.log(len(values))
    criterion_steps = _criterion(stepped, 2 * len(run) + 1, count)
    margin = SURER if len(run) == 1 else 0.0
    if _criterion(lost, 4, count) + margin >= criterion_steps:
        return None
    shift = sum(step.shift for step in run)
    return Slope(
        first + begin,
        first + last,
        shift,
        run[0].variance + run[-1].variance,
        min(step.p for step in run),
        tuple(step.split for step in run),
    )


def _criterion(lost: float, parameters: int, count: float) -> float:
    return lost + parameters * count


def _unit_levels(track: Track, run: Sequence[Step]) -> Array:
    """What each unit of hardware adds: the mean of its residuals from the segments."""
    first, end = run[0].first, run[-1].end
    segment = np.searchsorted([step.split for step in run], np.arange(first, end), side="right")
    values, unit = track.values[first:end], track.unit[first:end]
    offsets = np.zeros(end - first)
    for number in np.unique(segment):
        here = segment == number
        level = float(np.median(values[here]))
        for one in np.unique(unit[here]):
            offsets[here & (unit == one)] = np.median(values[here & (unit == one)]) - level
    return offsets


def _spread(values: Array, weight: Array) -> float:
    mean = float((weight * values).sum() / weight.sum())
    return float((weight * (values - mean) ** 2).sum())


def _ramp(values: Array, weight: Array) -> tuple[int, int, float] | None:
    """(begin, last, weighted squares left) of the best flat, rising and flat line."""
    count = len(values)
    if count < LEAST_DOCUMENTS + 2:
        return None
    knots = np.unique(np.linspace(0, count - 1, min(KNOTS, count)).round().astype(int))
    best: tuple[int, int, float] | None = None
    at = np.arange(count)
    for begin, last in product(knots, knots):
        if last - begin < LEAST_DOCUMENTS:
            continue
        rise = np.clip((at - begin) / (last - begin), 0, 1)
        # Of the line a + b · rise, by weighted least squares.
        total = weight.sum()
        x, y = rise - (weight * rise).sum() / total, values - (weight * values).sum() / total
        along = float((weight * x * x).sum())
        slope = float((weight * x * y).sum()) / along if along > 0 else 0.0
        lost = float((weight * (y - slope * x) ** 2).sum())
        if best is None or lost < best[2]:
            best = (int(begin), int(last), lost)
    return best
