"""Steps and slopes of an archive: the best levels of each series, each change tested by itself.

1. *Levels.* The division of a series that minimises the sum of squares about the levels plus a
   penalty for each step (optimal partitioning, Jackson et al. 2005), two documents a level at
   least.
2. *Slopes.* Steps in one direction that follow each other are a slope where a line from one level
   to another explains the documents with fewer numbers, by least squares and by Theil and Sen.
3. *Tests.* Each change is tested between the levels on its two sides by Student's t, times the
   series and the places where it could be (Bonferroni). It has to exceed the threshold, its levels
   must not overlap, and as many odd documents in a row must be unlikely. The least certain change
   goes first.
4. *Events.* Steps of several series at one build are one event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from bench_schema.estimate import two_sided
from bench_schema.student import t_quantile, t_two_sided

from bench_compare.history.steps.noise import CLIP, tracks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.estimate import Flags

    from bench_compare.history.steps.noise import Array, Grid, Ints, Track

FALSE_ARCHIVES = 0.015
"""Share of archives without a change that may have an event, at most: Bonferroni's bound. Of
independent documents it is half of that."""
PENALTY, LEAST_DOCUMENTS = 8.0, 2
"""Fall of the sum of squares from which on a step is looked at, in variances: tests decide; least
number of documents of a level."""
AGREEING, SHORT = 0.66, 8
"""Share of the documents of a level that are nearer to its middle than to that of the level next to
it; up to how many of them are held against the documents of that level one by one."""
LEAST_SLOPE, TRUE_SLOPE, MOST_REST, MOST_PLACES = 4, 0.5, 2.0, 40
"""Builds between the ends of a slope; least slope by Theil and Sen, as a share of that by least
squares; largest variance about it, as a multiple of the noise; places of its ends tried."""
HEAD, HEAD_PLACES = 4, 4
"""Documents of a level that is new, and how many places it counts as: random walks of 8 to 200
documents are beyond 4 σ there 2.5 to 3 times as often as at one place."""
ALONE, ALONE_SIGMAS, ALONE_AFTER, DOUBTFUL = math.log(1.2), 20.0, 8, 0.05
"""Least size of a step that a single newest document shows, in standard deviations, and after how
many documents; chance of noise below which it stands out at all."""
PLACE, HIDDEN, MOST_NEEDED = 3.84, 0.99, 9
"""Rise of the sum of squares up to which a place is likely (95 %), in variances; confidence of the
largest step that may be hidden; most documents to ask for."""


@dataclass(frozen=True)
class Step:
    """A change of one series."""

    row: int
    column: int
    """First document of the new level; of a slope, its last document."""
    before: tuple[int, ...]
    """Documents of the level before."""
    after: tuple[int, ...]
    shift: float
    """Logarithm of new over old."""
    low: float
    high: float
    """95 % interval."""
    p: float
    """Chance of such a change in an archive without one."""
    earliest: int
    latest: int
    """Builds that may have brought it; of a slope, those where it begins and ends."""
    kind: str = "step"
    """``slope``, or ``alone`` if a single document shows it."""


@dataclass(frozen=True)
class Event:
    """Changes at one build."""

    build: int
    earliest: int
    latest: int
    members: tuple[Step, ...]
    """The most certain first."""


@dataclass(frozen=True)
class Newest:
    """A series in the newest build."""

    row: int
    shift: float
    """Change of its single newest document, against its level; 0 if it does not stand out."""
    hidden: float
    """Largest step up that may be hidden (99 %), a logarithm."""
    point: float
    """The most likely size of that step."""
    needed: int
    """Documents more of the newest build that would decide."""


@dataclass(frozen=True, eq=False)
class Findings:
    tracks: tuple[Track, ...]
    steps: tuple[tuple[Step, ...], ...]
    """Changes of each series, in order."""
    events: tuple[Event, ...]
    newest: tuple[Newest, ...]
    """Series that the newest build holds, with two documents before it on its unit."""


Found: TypeAlias = tuple[float, float, int, int, int, float]
"""Shift, its variance, how many of how many documents agree, places where it could be."""


Change: TypeAlias = tuple[int, int]
"""Documents of a track: first of a new level twice, or those where a slope begins and ends."""


def detect(grid: Grid, least: float, pins: Mapping[int, Sequence[int]], floor: float) -> Findings:
    """Return the changes of an archive.

    `least`: smallest change of interest, a logarithm. `pins`: series → documents at which a level
    begins if it changes near them, if by a single document. `floor`: least standard deviation of a
    document."""
    tracks = tracks_of(grid, floor)
    steps: list[tuple[Step, ...]] = []
    newest: list[Newest] = []
    for track in tracks:
        found: list[Step] = []
        if len(track.column) > LEAST_DOCUMENTS and math.isfinite(track.variance):
            pinned = set(np.searchsorted(track.column, list(pins.get(track.row, ()))).tolist())
            found = _changes(track, least, pinned)
            head = _newest(track, found, int(grid.build[-1]), least)
            found += [head] if isinstance(head, Step) else []
            newest += [head] if isinstance(head, Newest) else []
        steps.append(tuple(found))
    return Findings(tracks, tuple(steps), _events(steps, grid), tuple(newest))


def _changes(track: Track, least: float, pins: set[int]) -> list[Step]:
    """Return the changes that stand; the one in most doubt goes first, and its levels join."""
    changes = _slopes(track, _splits(track, pins), pins)
    while True:
        steps = [_step(track, changes, place, pins) for place in range(len(changes))]
        doubts = [
            math.inf if one is None else one.p if abs(one.shift) >= least else max(one.p, 1.0)
            for one in steps
        ]
        if max(doubts, default=0.0) <= FALSE_ARCHIVES:
            break
        del changes[int(np.argmax(doubts))]
    begun = {begin for begin, _ in changes}
    if pins <= begun:
        return [one for one in steps if one is not None]
    return _changes(track, least, pins & begun)  # nothing changed where the others are


def _splits(track: Track, pins: set[int]) -> list[int]:
    """Return the documents that begin a level, in order."""
    count = len(track.values)
    bounds = [0, *(np.flatnonzero(np.diff(track.build)) + 1).tolist(), count]
    starts = np.array(bounds[:-1])
    best, origin = np.full(count + 1, np.inf), np.zeros(count + 1, np.int64)
    best[0], first = 0.0, 0
    for end in bounds[1:]:
        fewest = np.where((starts == first) & (first > 0), 1, LEAST_DOCUMENTS)
        begin = starts[(starts >= first) & (starts <= end - fewest)]
        if begin.size:
            cost = best[begin] + track.spread(begin, end)
            origin[end] = begin[cost.argmin()]
            best[end] = cost.min() + PENALTY * track.long_run
        if end in pins and math.isfinite(best[end]):
            first = end
    found = [count]
    while origin[found[-1]]:
        found.append(int(origin[found[-1]]))
    return found[:0:-1]


def _slopes(track: Track, splits: list[int], pins: set[int]) -> list[Change]:
    """Return the steps, those of one direction as a slope where that explains more."""
    bounds = [0, *splits, len(track.values)]
    levels = [float(track.values[a:b].mean()) for a, b in pairwise(bounds)]
    is_up = [old < new for old, new in pairwise(levels)]
    found: list[Change] = []
    for _, group in groupby(
        range(len(splits)), lambda at: (is_up[at], splits[at] if splits[at] in pins else 0)
    ):
        at = list(group)
        slope = None if splits[at[0]] in pins else _slope(track, bounds[at[0] : at[-1] + 3])
        found += [(splits[n], splits[n]) for n in at] if slope is None else [slope]
    return found


def _slope(track: Track, bounds: list[int]) -> Change | None:
    """Return the best line between two levels, None if the steps at these bounds explain more."""
    first, count = bounds[0], bounds[-1] - bounds[0]
    y = track.values[first : first + count]
    if count <= LEAST_SLOPE or len(set(track.unit[first : first + count].tolist())) > 1:
        return None
    places = np.unique(np.linspace(0, count - 1, min(count, MOST_PLACES)).round().astype(int))
    a, b = (side.ravel() for side in np.meshgrid(places, places, indexing="ij"))
    a, b = a[b - a >= LEAST_SLOPE], b[b - a >= LEAST_SLOPE]
    line = np.clip((np.arange(count) - a[:, None]) / (b - a)[:, None], 0, 1)
    line -= line.mean(axis=1, keepdims=True)
    gain = (line @ y) ** 2 / (line**2).sum(axis=1)
    at = int(gain.argmax())
    rest = float(np.var(y)) * count - float(gain[at])
    stairs = float(track.spread(bounds[:-1], bounds[1:]).sum())
    more = (1.5 - (len(bounds) - 2)) * PENALTY * track.long_run
    if rest + more >= stairs or rest > MOST_REST * track.long_run * count:
        return None
    steep = track.raw[first + a[at] : first + b[at] + 1]
    old, new = np.triu_indices(len(steep), 1)
    middle = float(np.median((steep[new] - steep[old]) / (new - old))) * (b[at] - a[at])
    rise = float(line[at] @ y) / float((line[at] ** 2).sum())
    return (first + int(a[at]), first + int(b[at])) if middle / rise >= TRUE_SLOPE else None


def _step(track: Track, changes: list[Change], place: int, pins: set[int]) -> Step | None:
    """Return a change, with its levels up to the changes on either side; None if they overlap or
    have no unit in common."""
    begin, end = changes[place]
    first = changes[place - 1][1] if place else 0
    count = len(track.values)
    following = [*changes, (count, count)][place + 1]
    stop = following[0] + (following[0] < following[1])
    if begin < end:
        line = np.clip((np.arange(first, stop) - begin) / (end - begin), 0, 1)
        line -= line.mean()
        total = float(line @ line)
        old, new, ends = (
            np.arange(first, begin + 1),
            np.arange(end, stop),
            track.build[[begin, end]],
        )
        fit = float(line @ track.values[first:stop]) / total, track.long_run / total
        return _told(
            track, old, new, (*fit, end - begin, end - begin, len(line), 0.0), ends, "slope"
        )
    old, new = np.arange(first, begin), np.arange(begin, stop)
    shift, variance, agreeing, alike = _contrast(track, old, new)
    short = any(len(side) < LEAST_DOCUMENTS and side[0] not in pins for side in (old, new))
    if short or min(few / many for few, many in agreeing) < AGREEING:
        return None
    places = HEAD_PLACES if stop == count and len(new) <= HEAD else count
    ends = _place(track, first, begin, stop)
    few, many = min(agreeing)
    found = (shift, variance, few, many, places, alike)
    return _told(track, old, new, found, ends, "step")


def _told(track: Track, old: Ints, new: Ints, found: Found, builds: Ints, kind: str) -> Step:
    """Return a change. Its chance is that of noise, or of so many odd documents of half its size
    among as many."""
    shift, variance, few, count, places, alike = found
    half = two_sided(track.dof) * math.sqrt(variance)
    chance = float(t_two_sided(np.array([shift / math.sqrt(variance)]), np.array([track.dof]))[0])
    chance += (
        math.comb(count, few) * max(track.share(abs(shift) / 2), alike * (few <= SHORT)) ** few
    )
    before, after = (tuple(track.column[side].tolist()) for side in (old, new))
    about = shift, shift - half, shift + half, track.series * places * chance
    return Step(track.row, after[0], before, after, *about, int(builds[0]), int(builds[1]), kind)


def _contrast(track: Track, old: Ints, new: Ints) -> tuple[float, float, list[list[int]], float]:
    """Return the shift between documents of the same units, its variance, and for both sides how
    many of how many documents are nearer to the middle of their own side. Odd documents do not
    count for the shift. Without a unit in common, none agrees."""
    weight = shift = 0.0
    agreeing, alike = np.zeros((2, 2), np.int64), np.zeros(2)
    for unit in np.intersect1d(track.unit[old], track.unit[new]):
        both = [track.raw[side[track.unit[side] == unit]] for side in (old, new)]
        own = [np.abs(part - np.median(part)) for part in both]
        near = [a < np.abs(b - np.median(c)) for a, b, c in zip(own, both, both[::-1], strict=True)]
        agreeing += [[np.sum(one), one.size] for one in near]
        alike += _alike(both, near)
        reach = CLIP * math.sqrt(track.variance)
        both = [part[far <= reach] for part, far in zip(both, own, strict=True)]
        sizes = np.array([part.size for part in both])
        if sizes.all():
            precision = 1 / float(track.variance_of_mean(sizes).sum())
            weight += precision
            shift += precision * float(both[1].mean() - both[0].mean())
    if not weight:
        return 0.0, 1.0, [[0, 1]], 0.0
    return shift / weight, 1 / weight, agreeing.tolist(), float(alike[0] / alike[1])


def _alike(both: list[Array], near: list[Flags]) -> Array:
    """Return how many of how many documents of the longer side stand out from their own middle as
    far as every one of the shorter side does."""
    (short, mine), (long, _) = sorted(zip(both, near, strict=True), key=lambda one: len(one[0]))
    far, others = short[mine] - np.median(long), long - np.median(long)
    sign = math.copysign(1.0, float(np.median(short - np.median(long))))
    return np.array([np.sum(sign * others >= np.min(sign * far, initial=math.inf)), long.size])


def _place(track: Track, first: int, begin: int, stop: int) -> Ints:
    """Return the first and the last build at which a step may be (95 %)."""
    at = np.arange(first + 1, stop)
    at = at[track.build[at] != track.build[at - 1]]
    rest = track.spread(first, at) + track.spread(at, stop)
    likely = at[rest <= rest[at == begin] + PLACE * track.long_run]
    return np.array(track.build[likely[[0, -1]]])


def _newest(track: Track, steps: list[Step], last: int, least: float) -> Newest | Step | None:
    """Return what the newest documents may hide, or the step that a single one shows; None if the
    newest build does not hold the series."""
    begin = int(np.searchsorted(track.column, steps[-1].column)) if steps else 0
    level = begin + np.flatnonzero(track.unit[begin:] == track.unit[-1])
    count = len(level)
    if track.build[-1] != last or count < LEAST_DOCUMENTS + 1:
        return None
    y = np.r_[track.values[level[:-1]], track.raw[-1]]
    tail = np.arange(1, count - 1)
    shifts = y[::-1].cumsum()[tail - 1] / tail - y.cumsum()[count - tail - 1] / (count - tail)
    variances = track.variance_of_mean(tail) + track.variance_of_mean(count - tail)
    quantile = float(t_quantile(HIDDEN, np.array([track.dof]))[0])
    bounds = shifts + quantile * np.sqrt(variances)
    at, shift = int(bounds.argmax()), float(shifts[0])
    if track.build[level[-2]] == last or abs(shift) < least:
        shift = 0.0
    else:
        found, ends = (shift, float(variances[0])), track.build[[-1, -1]]
        step = _told(track, level[:-1], level[-1:], (*found, 1, 1, 1, 0.0), ends, "alone")
        far = max(ALONE, ALONE_SIGMAS * math.sqrt(track.variance))
        if step.p <= FALSE_ARCHIVES and abs(shift) >= far and count > ALONE_AFTER:
            return step
        if step.p - track.series * track.share(abs(shift) / 2) > DOUBTFUL:
            shift = 0.0
    more = np.arange(1, MOST_NEEDED)
    wide = track.variance_of_mean(np.array([count - 1])) + track.variance_of_mean(1 + more)
    needed = 1 + int(np.sum(quantile * np.sqrt(wide) >= ALONE))
    return Newest(track.row, shift, float(bounds[at]), float(shifts[at]), needed)


def _events(steps: Sequence[Sequence[Step]], grid: Grid) -> tuple[Event, ...]:
    """Return changes at one build as one event, and slopes that overlap."""
    waiting = sorted((one for row in steps for one in row), key=lambda one: (one.p, one.row))
    found = []
    while waiting:
        lead = waiting[0]
        build = int(grid.build[lead.column])
        slope = lead.kind == "slope"
        first, last = (lead.earliest, lead.latest) if slope else (build, build)
        mine = [
            one
            for one in waiting
            if (one.kind == "slope") == slope and one.earliest <= last and first <= one.latest
        ]
        waiting = [one for one in waiting if one not in mine]
        found.append(Event(build, lead.earliest, lead.latest, tuple(mine)))
    return tuple(sorted(found, key=lambda event: event.build))
