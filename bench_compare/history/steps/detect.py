"""Detection of events in a grid of levels: the pure core of the history."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.steps.events import Event, added, drift, joined, member_of
from bench_compare.history.steps.noise import (
    FALSE_EVENTS,
    REACH,
    Grid,
    Guess,
    correlated,
    met,
    noise_of,
    widened,
)
from bench_compare.history.steps.segments import (
    LevelStep,
    Slope,
    slopes_of,
    step_between,
    steps_of,
    strongest,
)
from bench_compare.history.steps.track import normal_score, settled, track_of
from bench_compare.statistics.arrays import column_median
from bench_compare.statistics.discovery import false_discovery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.history.steps.noise import NoiseModel
    from bench_compare.history.steps.track import Track
    from bench_compare.statistics.arrays import Array


# What the levels of a series leave: whether neighbours are more alike than it was thought.
#
# What is pooled over an archive (`correlation`) does not know a series that is unlike the others,
# and few series do not tell it. Steps that correlation made do not outlast what their residuals
# say.

LEAST_PAIRS = 8
"""Neighbours whose likeness tells anything."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals in standard deviations, by segment and unit of hardware in order of time."""

    parts: tuple[Array, ...]

    @property
    def pairs(self) -> int:
        return sum(len(part) - 1 for part in self.parts)

    @property
    def correlation(self) -> float:
        """Return the correlation of neighbours, corrected for the fitted levels (Marriott and Pope
        1954)."""
        documents = sum(len(part) for part in self.parts)
        squares = sum(float((part**2).sum()) for part in self.parts)
        products = sum(float((part[1:] * part[:-1]).sum()) for part in self.parts)
        raw = products / self.pairs / (squares / documents) if squares > 0 else 0.0
        return min(raw + (1 + 3 * max(raw, 0.0)) * len(self.parts) / documents, 1.0)


def rethought(track: Track, bounds: Sequence[int]) -> Track:
    """Return the track, or one of more correlation; `bounds` are where its levels begin."""
    calm = settled(track, bounds)
    segment = np.searchsorted(np.asarray(bounds, int), np.arange(len(calm)), side="right")
    place = segment * (calm.unit.max(initial=0) + 1) + calm.unit
    parts = []
    for number in np.unique(place):
        at = place == number
        weight = 1 / calm.variance[at]
        level = (weight * calm.values[at]).sum() / weight.sum()
        parts.append((calm.values[at] - level) * np.sqrt(weight))
    left = Residuals(tuple(parts))
    if left.pairs < LEAST_PAIRS:
        return track
    error = 1 / left.pairs
    # A guess that the value contradicts counts less.
    apart = (left.correlation - track.guess.mean) ** 2 - error
    guess = met(Guess(track.guess.mean, max(track.guess.variance, apart)), left.correlation, error)
    rho = guess.counted(white=1.0, margin=1.0)
    if rho <= track.correlation:
        return track
    grown = correlated(track.correlation, rho)
    variance = track.variance * grown
    return replace(track, guess=guess, correlation=rho, variance=variance)


MEMBER_Q = 0.05
"""False discoveries among the series that are added to an event that is known already."""
SUITE_SERIES = 10
"""Smallest number of series for which their common part is a separate series."""
POLISHINGS = 4
SAME_SPAN = 0.5
"""Overlap, as a share of the shorter of two slopes, that makes them one event."""


@dataclass(frozen=True, eq=False)
class Findings:
    events: tuple[Event, ...]
    """Events in the order of builds."""
    tracks: tuple[Track, ...]
    """Tracks of the series; the last one is their common part if `suite` is true."""
    steps: tuple[tuple[LevelStep, ...], ...]
    slopes: tuple[tuple[Slope, ...], ...]
    noise: NoiseModel
    limit: float
    """Largest p that counts after false-discovery control."""
    suite: bool


def detect(grid: Grid, least: float, pins: Mapping[int, Sequence[int]] | None = None) -> Findings:
    """Return events of at least `least` (a logarithm). `pins`: series → documents of the grid with
    which an accepted level begins."""
    noise = noise_of(grid)
    tracks = [track_of(grid, noise, row) for row in range(len(grid.values))]
    suite = len(tracks) >= SUITE_SERIES and len(grid.build) > 0
    if suite:
        common = suite_grid(grid)
        tracks.append(track_of(common, noise_of(common, widened(noise.guess)), 0))
    tracks, steps, limit = _all_steps(tracks, least, pins or {})
    calm = [settled(t, [s.split for s in found]) for t, found in zip(tracks, steps, strict=True)]
    slopes = [slopes_of(t, found) for t, found in zip(calm, steps, strict=True)]
    stepped = []
    for found, ramps in zip(steps, slopes, strict=True):
        gone = {split for slope in ramps for split in slope.splits}
        stepped.append([step for step in found if step.split not in gone])
    events = joined(calm, stepped, noise.shared)
    events, steps = _completed(events, calm, steps, least)
    # Slopes that overlap in time are one event.
    waiting = [(row, slope) for row, found in enumerate(slopes) for slope in found]
    waiting.sort(key=lambda one: (one[1].p, one[0]))
    drifts = []
    while waiting:
        lead = waiting[0]
        group = [one for one in waiting if _overlap(one, lead, calm)]
        waiting = [one for one in waiting if one not in group]
        drifts.append(drift(group, calm, noise.shared))
    events += drifts
    events.sort(key=lambda event: event.build)
    return Findings(
        tuple(events),
        tuple(calm),
        tuple(tuple(found) for found in steps),
        tuple(tuple(found) for found in slopes),
        noise,
        limit,
        suite,
    )


def _all_steps(
    tracks: Sequence[Track], least: float, pins: Mapping[int, Sequence[int]]
) -> tuple[list[Track], list[list[LevelStep]], float]:
    """Return the tracks with their own steps removed, the steps of each, and the largest p that
    counts."""
    surest = [strongest(track, 0, len(track)) for track in tracks]
    p = np.array([1.0 if one is None else one.p for one in surest])
    # The largest p that is a discovery, over all series that could have stepped.
    limit = 0.0
    if p.size:
        called = p[false_discovery(p) <= FALSE_EVENTS]
        limit = max(float(called.max()) if called.size else 0.0, FALSE_EVENTS / len(p))
    thought, steps = list(tracks), []
    for row, track in enumerate(tracks):
        found: list[LevelStep] = []
        if p[row] <= limit or row in pins:
            # First document of the track from each column on.
            held = [int(np.searchsorted(track.column, column)) for column in pins.get(row, ())]
            found = _large(steps_of(track, limit, held), least)
            # They also have to stand when the correlation is known from what they leave.
            doubted = rethought(track, [step.split for step in found]) if found else track
            if doubted is not track:
                found = _large(steps_of(doubted, limit, held), least)
            thought[row] = doubted
        steps.append(_again(thought[row], found))
    return thought, steps, limit


def suite_grid(grid: Grid) -> Grid:
    """Return one series: the common movement of all others, by median polish (Tukey 1977)."""
    left = grid.values.copy()
    common = np.zeros(left.shape[1])
    for _ in range(POLISHINGS):
        left = left - np.nan_to_num(column_median(left.T))[:, None]
        moved = np.nan_to_num(column_median(left))
        common, left = common + moved, left - moved
    values = np.where(np.isfinite(grid.values).any(axis=0), common, np.nan)
    return Grid(values[None, :], np.zeros((1, len(values))), grid.build, grid.unit)


def _large(steps: Sequence[LevelStep], least: float) -> list[LevelStep]:
    return [step for step in steps if abs(step.shift) >= least]


def _again(track: Track, steps: Sequence[LevelStep]) -> list[LevelStep]:
    """Return steps between the levels that are left when small ones are gone."""
    bounds = [0, *(step.split for step in steps), len(track)]
    calm = settled(track, bounds[1:-1])
    return [
        replace(step_between(calm, first, step.split, end), p=step.p, pinned=step.pinned)
        for first, step, end in zip(bounds, steps, bounds[2:], strict=False)
    ]


def _completed(
    events: Sequence[Event], tracks: Sequence[Track], steps: list[list[LevelStep]], least: float
) -> tuple[list[Event], list[list[LevelStep]]]:
    """Complete events with the series that stepped there too, for which one place is tested, not
    all."""
    table = [list(found) for found in steps]
    result = []
    for event in events:
        inside = {member.row for member in event.members}
        tested = []
        for row, track in enumerate(tracks):
            if row in inside:
                continue
            # Where it has documents on both sides, and no step of its own close to it.
            split = int(np.searchsorted(track.build, event.build))
            bounds = [0, *(step.split for step in table[row]), len(track)]
            place = int(np.searchsorted(bounds, split, side="right"))
            if not 0 < place < len(bounds):
                continue
            first, end = bounds[place - 1], bounds[place]
            if split - first < 2 or end - split < 2:
                continue
            step = step_between(track, first, split, end)
            if math.isfinite(step.variance):
                tested.append((row, step))
        q = false_discovery(np.array([step.p for _, step in tested]))
        members = []
        for (row, step), value in zip(tested, q, strict=True):
            if value <= MEMBER_Q and abs(step.shift) >= least:
                table[row] = sorted([*table[row], step], key=lambda one: one.split)
                members.append(member_of(row, step, tracks[row]))
        result.append(added(event, members) if members else event)
    return result, [_again(t, found) for t, found in zip(tracks, table, strict=True)]


def _overlap(one: tuple[int, Slope], lead: tuple[int, Slope], tracks: Sequence[Track]) -> bool:
    spans = [
        (int(tracks[row].build[slope.first]), int(tracks[row].build[slope.last]))
        for row, slope in (one, lead)
    ]
    common = min(end for _, end in spans) - max(first for first, _ in spans)
    return common >= SAME_SPAN * min(end - first for first, end in spans)


@dataclass(frozen=True)
class Odd:
    """A series whose newest documents, too few for a level, leave its last level."""

    row: int
    columns: tuple[int, ...]
    """Columns of the grid."""
    shift: float
    """Shift of the newest one, a logarithm."""
    needed: int
    """Documents that would decide it."""


def odd_heads(
    tracks: Sequence[Track], steps: Sequence[Sequence[LevelStep]], newest: int, least: float
) -> list[Odd]:
    """Return odd newest documents of the series that the newest build (by number) contains."""
    found = []
    for row, track in enumerate(tracks):
        first = steps[row][-1].split if steps[row] else 0
        if len(track) - first < 3 or track.build[-1] != newest:
            continue
        away = 0
        while away < len(track) - first - 2 and _leaves(track, first, len(track) - 1 - away):
            away += 1
        level = _level(track, first, len(track) - away, int(track.unit[-1]))
        if not away or level is None:
            continue
        shift = float(track.raw[-1]) - level
        if abs(shift) >= least:
            columns = tuple(track.column[len(track) - away :].tolist())
            found.append(Odd(row, columns, shift, max(track.needed - away, 1)))
    return found


def _leaves(track: Track, first: int, place: int) -> bool:
    level = _level(track, first, place, int(track.unit[place]))
    if level is None:
        return False
    count = place - first
    t = (track.raw[place] - level) / np.sqrt(track.variance[place] * (1 + 1 / count))
    return float(normal_score(np.array(t), track.dof)) > REACH


def _level(track: Track, first: int, end: int, unit: int) -> float | None:
    """Return the median of a unit's documents; None if there are none in the range."""
    values = track.raw[first:end][track.unit[first:end] == unit]
    return float(np.median(values)) if values.size else None
