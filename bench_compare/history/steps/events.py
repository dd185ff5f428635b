"""Steps of many series at one build are one event, with intervals for its place and its size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.steps.segments import place_support
from bench_compare.history.steps.track import normal_score
from bench_compare.statistics.special import t_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
