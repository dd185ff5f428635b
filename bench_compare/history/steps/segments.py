"""Levels of one series and the steps between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench_compare.history.steps.noise import LEAST_DOCUMENTS
from bench_compare.history.steps.track import (
    FACTORS,
    HEAD,
    factor,
    normal_score,
    p_value,
    settled,
    tail,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_compare.comparison.measure import Array, Ints, Mask
    from bench_compare.history.steps.track import Track


# Where a series may step: every split of many intervals, levels compared within units.
#
# Source: Kovács, Bühlmann, Li and Munk 2023 (seeded intervals).

SHRINK = math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class Splits:
    """Documents [first, split) against [split, end)."""

    first: Ints
    split: Ints
    end: Ints
    whole: Mask
    """The interval is the whole stretch."""


@lru_cache(maxsize=4096)
def splits(count: int) -> Splits:
    """Return the splits of a stretch of `count` documents."""
    intervals: dict[tuple[int, int], None] = {}
    length = float(count)
    while length >= 2 * LEAST_DOCUMENTS:
        width = round(length)
        number = 2 * math.ceil(count / width) - 1
        for start in np.linspace(0, count - width, number).round().astype(int).tolist():
            intervals[start, start + width] = None
        length /= SHRINK
    rows = [
        (first, split, end)
        for first, end in intervals
        for split in range(first + LEAST_DOCUMENTS, end - LEAST_DOCUMENTS + 1)
    ]
    first, split, end = np.array(rows, np.int64).reshape(-1, 3).T
    return Splits(first, split, end, (first == 0) & (end == count))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Right level minus left level at each split; NaN if no unit stands on both sides."""

    shift: Array
    variance: Array
    left: Array
    """Documents that were compared."""
    right: Array

    @property
    def t(self) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.shift / np.sqrt(self.variance))


def contrasts(track: Track, first: Ints, split: Ints, end: Ints) -> Contrasts:
    """Return contrasts weighted over units, so that an effect of a unit on all of its documents
    cancels."""
    weights, totals, counts = track.sums
    left, right = weights[:, split] - weights[:, first], weights[:, end] - weights[:, split]
    with np.errstate(invalid="ignore", divide="ignore"):
        step = (totals[:, end] - totals[:, split]) / right
        step -= (totals[:, split] - totals[:, first]) / left
        shared = np.where((left > 0) & (right > 0), left * right / (left + right), 0.0)
        information = shared.sum(axis=0)
        shift = np.where(shared > 0, shared * step, 0.0).sum(axis=0) / information
        before = np.where(shared > 0, counts[:, split] - counts[:, first], 0.0).sum(axis=0)
        after = np.where(shared > 0, counts[:, end] - counts[:, split], 0.0).sum(axis=0)
        variance = inflation(before, after, track.correlation) / information
    return Contrasts(shift, variance, before, after)


def inflation(left: Array, right: Array, correlation: float) -> Array:
    """Return the variance of the difference of two means of correlated documents, relative to
    independent ones."""
    if correlation == 0:
        return np.ones_like(left)
    a, b = (np.maximum(side, 1) for side in (left, right))
    parts = _mean_factor(a, correlation) / a + _mean_factor(b, correlation) / b
    return np.asarray(parts / (1 / a + 1 / b))


def _mean_factor(count: Array, rho: float) -> Array:
    """Return the variance of a mean of k documents times k: 1 + 2 Σ (1 - j/k) ρ^j, summed up."""
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)


KINDS = tuple(FACTORS)
TRIES = 4
"""Splits that are looked at closely where the strongest ones rest on odd values."""
WORTH_A_LOOK = 0.1
"""Splits that noise gives with a larger probability are none."""
SWEEPS = 2
PIN_P = 0.01
"""An accepted step stays where it was accepted as long as there is a step at all: with a p-value up
to this."""


class SplitCandidate(NamedTuple):
    split: int
    p: float


@dataclass(frozen=True)
class LevelStep:
    """Between the documents [first, split) and [split, end) of a track."""

    first: int
    split: int
    end: int
    shift: float
    """Logarithm of new over old level."""
    variance: float
    p: float
    pinned: bool = False


def strongest(track: Track, first: int, end: int) -> SplitCandidate | None:
    """Return the split of a stretch that noise explains least, and how probable it is by noise
    alone."""
    count = end - first
    if count < 2 * LEAST_DOCUMENTS:
        return None
    every = splits(count)
    found = contrasts(track, every.first + first, every.split + first, every.end + first)
    usable = (found.left >= LEAST_DOCUMENTS) & (found.right >= LEAST_DOCUMENTS)
    usable &= track.opens_build[every.split + first] > 0
    z = np.where(usable, normal_score(np.nan_to_num(found.t), track.dof), 0.0)
    kinds = _kinds(count, end == len(track))
    score = z**2 - 2 * np.log([factor(kind, count) for kind in KINDS])[kinds]
    for _ in range(TRIES):
        place = int(np.argmax(score))
        kind, most = KINDS[kinds[place]], float(z[place])
        if p_value(most, kind, count) > WORTH_A_LOOK:
            break
        at = (int(every.first[place]), int(every.split[place]), int(every.end[place]))
        sure = supported(track, *(spot + first for spot in at))
        p = p_value(min(most, sure), kind, count)
        if p < 1:
            return SplitCandidate(at[1] + first, p)
        score[place] = -np.inf
    return None


@lru_cache(maxsize=1024)
def _kinds(count: int, newest: bool) -> Ints:
    """Return the kind of each split of a stretch: an index into `KINDS`."""
    every = splits(count)
    head = every.whole & (count - every.split <= HEAD) & newest
    return np.where(head, 0, np.where(every.whole, 1, 2))


def supported(track: Track, first: int, split: int, end: int) -> float:
    """Return the normal score of a step with limited outliers, 0 if too few documents agree.

    The shorter side is compared with the levels of the longer one, unit by unit; a document
    contributes at most `Track.reach` squared (bounded loss, Fearnhead and Rigaill 2019).
    """
    before, after = np.arange(first, split), np.arange(split, end)
    test, rest = (before, after) if len(before) < len(after) else (after, before)
    # How far documents are from the level of the other side, and their standard deviations;
    # for units that both sides have.
    apart, scales = [np.empty(0)], [np.empty(0)]
    for unit in np.unique(track.unit[test]):
        others = rest[track.unit[rest] == unit]
        if others.size:
            mine = test[track.unit[test] == unit]
            level = _centre(track.raw[others], np.sqrt(track.variance[others]), track.reach)
            apart.append(track.raw[mine] - level)
            scales.append(np.sqrt(track.variance[mine]))
    moved, scale = np.concatenate(apart), np.concatenate(scales)
    if not moved.size:
        return 0.0
    away = moved / scale
    near = (moved - _centre(moved, scale, track.reach)) / scale
    if (np.abs(near) <= track.reach).sum() < track.needed:
        return 0.0
    most = track.reach**2
    gain = float((np.minimum(away**2, most) - np.minimum(near**2, most)).sum())
    counts = np.array([len(rest)]), np.array([moved.size])
    gain *= len(rest) / (len(rest) + moved.size) / float(inflation(*counts, track.correlation)[0])
    return float(normal_score(np.array(math.sqrt(max(gain, 0.0))), track.dof))


def _centre(values: Array, scale: Array, reach: float) -> float:
    """Return the mean of the values that agree with the median."""
    median = float(np.median(values))
    near = values[np.abs(values - median) <= reach * scale]
    return float(near.mean()) if near.size else median


def steps_of(track: Track, limit: float, pins: Iterable[int] = ()) -> list[LevelStep]:
    """Return the steps that noise gives with a probability of at most `limit`. Documents of `pins`
    begin a level if that is tenable; no other step moves them."""
    held = set()
    for pin in pins:
        if 0 < pin < len(track):
            whole = contrasts(track, *(np.array([at]) for at in (0, pin, len(track))))
            held |= {pin} if np.isfinite(whole.t[0]) else set()
    ranges = sorted({0, len(track), *held})
    found = set(held)
    for first, end in pairwise(ranges):
        found |= _search(track, first, end, limit)
    calm = settled(track, sorted(found))
    places = sorted(found)
    # Each step where it explains most between its neighbours.
    for _ in range(SWEEPS):
        for number, split in enumerate(places):
            if split in held:
                continue
            first, _, end = [0, *places, len(track)][number : number + 3]
            spots = np.arange(first + LEAST_DOCUMENTS, end - LEAST_DOCUMENTS + 1)
            spots = spots[track.opens_build[spots] > 0]
            if spots.size:
                ends = np.full_like(spots, first), np.full_like(spots, end)
                gain = np.nan_to_num(contrasts(calm, ends[0], spots, ends[1]).t) ** 2
                places[number] = int(spots[np.argmax(gain)])
    return _pruned(settled(track, places), places, held, limit)


def _search(track: Track, first: int, end: int, limit: float) -> set[int]:
    found = strongest(track, first, end)
    if found is None or found.p > limit:
        return set()
    return {
        found.split,
        *_search(track, first, found.split, limit),
        *_search(track, found.split, end, limit),
    }


def _pruned(track: Track, places: Sequence[int], held: set[int], limit: float) -> list[LevelStep]:
    """Return the steps that differ from their neighbours; the weakest others are removed one by
    one."""
    left = list(places)
    while True:
        bounds, found = [0, *left, len(track)], []
        for first, split, end in zip(bounds, left, bounds[2:], strict=False):
            step = step_between(track, first, split, end)
            # One that is not accepted has to stand out of all splits there.
            newest = end == len(track) and end - split <= HEAD
            tried = factor("head" if newest else "whole", end - first)
            pinned = split in held
            p = step.p if pinned else min(1.0, tried * step.p)
            found.append(replace(step, p=p, pinned=pinned))
        weak = [s for s in found if s.p > (PIN_P if s.pinned else limit)]
        if not weak:
            return found
        left.remove(max(weak, key=lambda step: step.p).split)


def step_between(track: Track, first: int, split: int, end: int) -> LevelStep:
    """Return a step with the probability that noise alone gives this very split."""
    found = contrasts(track, *(np.array([at]) for at in (first, split, end)))
    shift, variance = float(found.shift[0]), float(found.variance[0])
    if not math.isfinite(shift):
        return LevelStep(first, split, end, 0.0, math.inf, 1.0)
    z = float(normal_score(np.array(shift / math.sqrt(variance)), track.dof))
    return LevelStep(first, split, end, shift, variance, tail(z))


def place_support(track: Track, step: LevelStep) -> dict[int, float]:
    """Build in which the step may have come → logarithm of its likelihood, up to a constant."""
    spots = np.arange(step.first + 1, step.end)
    spots = spots[track.opens_build[spots] > 0]
    found = contrasts(track, np.full_like(spots, step.first), spots, np.full_like(spots, step.end))
    gain = np.nan_to_num(found.t) ** 2 / 2
    return dict(zip(track.build[spots].tolist(), gain.tolist(), strict=True))


LEAST_RAMP = 6
"""Fewest documents of a ramp; a shorter one cannot be separated from a step."""
KNOTS = 16
"""Places where a ramp may begin or end, over the documents that are looked at."""
SURER = 6.0
"""Margin by which the information criterion must prefer a slope to a single step."""


@dataclass(frozen=True)
class Slope:
    """A slope from the document `first` to the document `last` of a track."""

    first: int
    last: int
    shift: float
    variance: float
    p: float
    splits: tuple[int, ...]
    """Splits of the steps that it replaces."""


def slopes_of(track: Track, steps: Sequence[LevelStep]) -> list[Slope]:
    """Return slopes that replace neighbouring steps in one direction which were not accepted."""
    runs = groupby(steps, key=lambda step: (step.pinned, step.shift > 0))
    return [slope for (pinned, _), run in runs if not pinned for slope in _in_run(track, [*run])]


def _in_run(track: Track, run: Sequence[LevelStep]) -> list[Slope]:
    """Return the longest part of a run that is a slope, and those on either side of it."""
    for length in range(len(run), 0, -1):
        for first in range(len(run) - length + 1):
            found = _slope(track, run[first : first + length])
            if found is not None:
                before, after = run[:first], run[first + length :]
                return [*_in_run(track, before), found, *_in_run(track, after)]
    return []


def _slope(track: Track, run: Sequence[LevelStep]) -> Slope | None:
    first, end = run[0].first, run[-1].end
    values = track.values[first:end] - _unit_levels(track, run)
    weight, count = 1 / track.variance[first:end], end - first
    # Weighted squares that the levels leave, and those of the best flat, rising and flat line.
    stepped = 0.0
    for a, b in pairwise([first, *(step.split for step in run), end]):
        part, its_weight = values[a - first : b - first], weight[a - first : b - first]
        mean = float((its_weight * part).sum() / its_weight.sum())
        stepped += float((its_weight * (part - mean) ** 2).sum())
    ramped, begin, last = math.inf, 0, 0
    knots = np.unique(np.linspace(0, count - 1, min(KNOTS, count)).round().astype(int))
    at, total = np.arange(count), weight.sum()
    for start, stop in product(knots, knots):
        if stop - start < LEAST_RAMP or count < LEAST_RAMP + 2:
            continue
        rise = np.clip((at - start) / (stop - start), 0, 1)
        # Of the line a + b · rise, by weighted least squares.
        x, y = rise - (weight * rise).sum() / total, values - (weight * values).sum() / total
        along = float((weight * x * x).sum())
        slope = float((weight * x * y).sum()) / along if along > 0 else 0.0
        left = float((weight * (y - slope * x) ** 2).sum())
        if left < ramped:
            ramped, begin, last = left, int(start), int(stop)
    margin = SURER if len(run) == 1 else 0.0
    levels = _criterion(stepped, 2 * len(run) + 1, math.log(count))
    if _criterion(ramped, 4, math.log(count)) + margin >= levels:
        return None
    return Slope(
        first + begin,
        first + last,
        sum(step.shift for step in run),
        run[0].variance + run[-1].variance,
        min(step.p for step in run),
        tuple(step.split for step in run),
    )


def _criterion(lost: float, parameters: int, count: float) -> float:
    return lost + parameters * count


def _unit_levels(track: Track, run: Sequence[LevelStep]) -> Array:
    """Return each unit of hardware's offset: the mean of its residuals from the segments."""
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
