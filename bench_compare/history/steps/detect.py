"""Detection of events in a grid of levels: the pure core of the history."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.student import t_quantile

from bench_compare.comparison.judge import false_discovery
from bench_compare.history.steps.noise import (
    FALSE_EVENTS,
    REACH,
    Grid,
    Guess,
    column_median,
    correlated,
    met,
    noise_of,
    widened,
)
from bench_compare.history.steps.segments import (
    LevelStep,
    Slope,
    place_support,
    slopes_of,
    step_between,
    steps_of,
    strongest,
)
from bench_compare.history.steps.track import normal_score, settled, track_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.comparison.measure import Array
    from bench_compare.history.steps.noise import NoiseModel
    from bench_compare.history.steps.segments import LevelStep, Slope
    from bench_compare.history.steps.track import Track

PLACE_LEVEL = 0.95
REGROUPINGS = 2
NEAR = 1
"""Builds between the most likely places of two steps that may be one event."""


@dataclass(frozen=True)
class EventMember:
    """One series that stepped in an event. Shifts are logarithms of new over old level."""

    row: int
    shift: float
    low: float
    high: float
    p: float
    split: int
    """Document of the grid with which its new level begins."""
    before: tuple[int, ...]
    """Documents of the grid that were held against each other."""
    after: tuple[int, ...]


@dataclass(frozen=True)
class Event:
    build: int
    """First build of the new level: the most likely one."""
    earliest: int
    latest: int
    """All builds that it may be, in 95 of 100."""
    shift: float
    """Mean over members."""
    low: float
    high: float
    p: float
    members: tuple[EventMember, ...]
    pinned: bool
    slope: bool = False
    """It came gradually, from `earliest` to `latest`."""


@dataclass(frozen=True, eq=False)
class _Placed:
    """A step with where it may be."""

    row: int
    step: LevelStep
    support: dict[int, float]

    @property
    def build(self) -> int:
        return max(self.support, key=lambda build: self.support[build])


def joined(
    tracks: Sequence[Track], steps: Sequence[Sequence[LevelStep]], shared: float
) -> list[Event]:
    """Return events, the surest first: each has its surest step and every other step that may have
    come in the same build. `shared`: correlation of the series of one document."""
    waiting = [
        _Placed(row, step, place_support(tracks[row], step))
        for row, found in enumerate(steps)
        for step in found
    ]
    waiting.sort(key=lambda one: (one.step.p, one.row))
    events = []
    while waiting:
        # Around the surest step, then around the place where those steps together say
        # they came.
        group = _around(waiting, waiting[0].build)
        for _ in range(REGROUPINGS):
            support = _together([one.support for one in group], shared)
            again = _around(waiting, max(support, key=lambda build: support[build]))
            group = again if waiting[0] in again else group
        waiting = [one for one in waiting if one not in group]
        support = _together([one.support for one in group], shared)
        pins = {one.step.split: one for one in group if one.step.pinned}
        if pins:
            lead = next(iter(pins.values()))
            build = int(tracks[lead.row].build[lead.step.split])
            earliest = latest = build
        else:
            build = max(support, key=lambda one: support[one])
            earliest, latest = interval(support)
        members = tuple(
            member_of(one.row, one.step, tracks[one.row])
            for one in sorted(group, key=lambda one: one.row)
        )
        shift = float(np.mean([member.shift for member in members]))
        # Of the 95 % interval of the mean shift; what series share does not average out.
        variance = float(np.mean([one.step.variance for one in group]))
        variance *= shared + (1 - shared) / len(group)
        dof = max(tracks[one.row].dof for one in group)
        half = float(t_quantile(0.975, np.array([dof]))[0]) * math.sqrt(variance)
        events.append(
            Event(
                build=build,
                earliest=min(earliest, build),
                latest=max(latest, build),
                shift=shift,
                low=shift - half,
                high=shift + half,
                p=min(one.step.p for one in group),
                members=members,
                pinned=bool(pins),
            )
        )
    return sorted(events, key=lambda event: event.build)


def _around(waiting: Sequence[_Placed], build: int) -> list[_Placed]:
    rows: set[int] = set()
    group = []
    for one in waiting:
        if one.row in rows:
            continue
        fits = abs(one.build - build) <= NEAR
        if not fits and not one.step.pinned:
            first, last = interval(one.support)
            fits = first <= build <= last
        if fits:
            rows.add(one.row)
            group.append(one)
    return group


def interval(support: Mapping[int, float]) -> tuple[int, int]:
    """Return ends of the smallest set of builds that has `PLACE_LEVEL` of the probability."""
    most = max(support.values())
    mass = {build: math.exp(value - most) for build, value in support.items()}
    wanted, held, kept = PLACE_LEVEL * sum(mass.values()), 0.0, []
    for build in sorted(mass, key=lambda one: -mass[one]):
        kept.append(build)
        held += mass[build]
        if held >= wanted:
            break
    return min(kept), max(kept)


def _together(supports: Sequence[Mapping[int, float]], shared: float) -> dict[int, float]:
    """Return the joint support; series that move together do not count as independent ones."""
    temper = 1 / (1 + (len(supports) - 1) * shared)
    builds = set().union(*supports)
    return {
        build: temper * sum(one.get(build, 0.0) for one in supports) for build in sorted(builds)
    }


def member_of(row: int, step: LevelStep, track: Track) -> EventMember:
    half = float(t_quantile(0.975, np.array([track.dof]))[0]) * math.sqrt(step.variance)
    z = float(normal_score(np.array(step.shift / math.sqrt(step.variance)), track.dof))
    return EventMember(
        row=row,
        shift=step.shift,
        low=step.shift - half,
        high=step.shift + half,
        p=max(step.p, math.erfc(z / math.sqrt(2))),
        split=int(track.column[step.split]),
        before=tuple(track.column[step.first : step.split].tolist()),
        after=tuple(track.column[step.split : step.end].tolist()),
    )


def added(event: Event, members: Sequence[EventMember]) -> Event:
    """Return the event with more members; its size is the mean over all of them."""
    every = tuple(sorted((*event.members, *members), key=lambda member: member.row))
    shift = float(np.mean([member.shift for member in every]))
    half = (event.high - event.low) / 2
    return replace(event, members=every, shift=shift, low=shift - half, high=shift + half)


def drift(slopes: Sequence[tuple[int, Slope]], tracks: Sequence[Track], shared: float) -> Event:
    """Return one event of the slopes of several series: (row, slope)."""
    members = []
    for row, slope in slopes:
        track = tracks[row]
        half = float(t_quantile(0.975, np.array([track.dof]))[0]) * math.sqrt(slope.variance)
        members.append(
            EventMember(
                row=row,
                shift=slope.shift,
                low=slope.shift - half,
                high=slope.shift + half,
                p=slope.p,
                split=int(track.column[slope.first]),
                before=tuple(track.column[: slope.first + 1].tolist()),
                after=tuple(track.column[slope.last :].tolist()),
            )
        )
    earliest = min(int(tracks[row].build[slope.first]) for row, slope in slopes)
    latest = max(int(tracks[row].build[slope.last]) for row, slope in slopes)
    shift = float(np.mean([member.shift for member in members]))
    half = float(np.mean([(member.high - member.low) / 2 for member in members]))
    half *= math.sqrt(shared + (1 - shared) / len(members))
    p = min(member.p for member in members)
    ends = (shift, shift - half, shift + half)
    return Event(earliest, earliest, latest, *ends, p, tuple(members), pinned=False, slope=True)


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
