"""Each series for people: its points, its levels, its state in the newest build."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bench_compare.history.model import HistoryPoint, Level, SeriesInfo
from bench_compare.history.steps.segments import inflation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.history.accepted import Placed
    from bench_compare.history.archive import Archive
    from bench_compare.history.steps.detect import Findings
    from bench_compare.history.steps.segments import LevelStep
    from bench_compare.history.steps.track import Track


# Whether a level went on growing right after the build whose step was accepted.
#
# A step that follows at the next build leaves the accepted one a single document for its level, so
# that both are reported as one, at the accepted build.

SIGMAS = 5.0
"""Threshold, in standard deviations of the difference between the accepted build and the level
after it."""


def outgrown(
    track: Track, steps: Sequence[LevelStep], placed: Placed, least: float
) -> float | None:
    """Return how much (a logarithm) the level exceeds the last accepted build; None if that may be
    noise or is below the threshold of interest."""
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
    weight = 1 / track.variance
    old, new = (
        float(weight[rows] @ track.raw[rows] / weight[rows].sum()) for rows in (accepted, later)
    )
    variance = sum(float(1 / weight[rows].sum()) for rows in (accepted, later))
    grown = new - old
    return grown if grown > max(least, SIGMAS * math.sqrt(variance)) else None


Z95 = 1.959964
ABSENT = "absent"
"""The newest build does not hold it."""
UNTIMED, LOST = "not measured", "lost"
"""Completed, without a time that it never had, or had before."""


class JudgedSeries(Protocol):
    """Properties of an archive that judging needs."""

    @property
    def archive(self) -> Archive: ...
    @property
    def findings(self) -> Findings: ...
    @property
    def accepted(self) -> tuple[Placed, ...]: ...
    @property
    def least(self) -> float: ...


def identifier(row: int) -> str:
    return f"s{row + 1:04d}"


def infos(context: JudgedSeries, odd: Sequence[int]) -> list[SeriesInfo]:
    """Return the state of each series; `odd`: rows whose newest documents leave their level."""
    archive, grid = context.archive, context.archive.grid
    newest: dict[int, int] = {}
    for row, at in archive.outcomes:
        newest[row] = max(newest.get(row, at), at)
    found = []
    for row, series in enumerate(archive.series):
        track, column = context.findings.tracks[row], newest.get(row)
        outcome = None if column is None else archive.outcomes[row, column]
        state = "gone" if outcome is None else outcome.status
        if state == "completed" and row in odd:
            state = "unclear"
        timed = column is not None and bool(np.isfinite(grid.values[row, column]))
        if state == "completed" and not timed:
            state = LOST if len(track) else UNTIMED
        accepted = _accepted(context, row) if len(track) else None
        verdict = state
        if column is None or archive.columns[column].build < len(archive.builds) - 1:
            verdict = ABSENT
        elif state == "completed":
            moved, least = math.log(accepted or 1.0), context.least
            verdict = "slower" if moved >= least else "faster" if moved <= -least else "same"
        points = [
            HistoryPoint(
                build=int(grid.build[at]),
                value=math.exp(grid.values[row, at]),
                half=Z95 * math.sqrt(grid.variance[row, at]),
                unit=int(grid.unit[at]),
            )
            for at in np.flatnonzero(np.isfinite(grid.values[row])).tolist()
        ]
        found.append(
            SeriesInfo(
                id=identifier(row),
                name=series.name,
                engine=series.engine,
                variant=" ".join(f"{k}={v}" for k, v in series.variant.items()),
                family=series.family,
                data_type=series.data_type,
                fingerprint=series.fingerprint,
                path="" if outcome is None else outcome.path,
                settings=", ".join(f"{k} {v}" for k, v in series.settings.items()),
                metric=series.metric,
                state=state,
                verdict=verdict,
                points=tuple(points),
                levels=tuple(_levels(track, context.findings, row)),
                spread_ratio=math.sqrt(float(np.median(track.variance))) if len(track) else None,
                accepted_ratio=accepted,
            )
        )
    return found


def _levels(track: Track, findings: Findings, row: int) -> Iterator[Level]:
    """Yield the level of each stretch between steps, for each unit of hardware."""
    if not len(track):
        return
    bounds = [0, *(step.split for step in findings.steps[row]), len(track)]
    ramps = {split: slope for slope in findings.slopes[row] for split in slope.splits}
    for first, end in itertools.pairwise(bounds):
        at = np.arange(first, end)
        for unit in np.unique(track.unit[first:end]):
            mine = at[track.unit[at] == unit]
            weight = 1 / track.variance[mine]
            mean = float((weight * track.values[mine]).sum() / weight.sum())
            count = np.array([len(mine)])
            factor = float(inflation(count, count, track.correlation)[0])
            half = Z95 * math.sqrt(factor / float(weight.sum()))
            slope = ramps.get(end) or ramps.get(first)
            inside = slope is not None and slope.first < mine[-1] and slope.last > mine[0]
            yield Level(
                first=int(track.build[mine[0]]),
                last=int(track.build[mine[-1]]),
                value=math.exp(mean),
                low=math.exp(mean - half),
                high=math.exp(mean + half),
                end_value=math.exp(float(track.values[mine[-1]])) if inside else None,
            )


def _accepted(context: JudgedSeries, row: int) -> float:
    """Return the product of the steps after the last accepted one."""
    name = context.archive.series[row].name
    track = context.findings.tracks[row]
    moved = 0.0
    for step in context.findings.steps[row]:
        build = int(track.build[step.split])
        known = any(
            placed.first <= build <= placed.last
            and placed.entry.covers(name)
            and outgrown(track, context.findings.steps[row], placed, context.least) is None
            for placed in context.accepted
        )
        moved = 0.0 if known else moved + step.shift
    return math.exp(moved)


def counts(table: Sequence[SeriesInfo]) -> dict[str, int]:
    """Return the numbers of series that are slower, faster … than their last accepted level."""
    return dict(Counter(one.verdict for one in table).most_common())
