"""Each series for people: its points, its levels, its state in the newest build."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.history.model import HistoryPoint, Level, SeriesInfo

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from bench_compare.history.accepted import Placed
    from bench_compare.history.archive import Archive
    from bench_compare.history.steps.detect import Findings, Step

Z95 = 1.959964
ABSENT, UNTIMED, LOST = "absent", "not measured", "lost"
"""The newest build does not hold it; it completed without a time that it never had, or had."""


@dataclass(frozen=True, eq=False)
class Context:
    """Source of events and series."""

    archive: Archive
    findings: Findings
    accepted: tuple[Placed, ...]
    least: float
    """Smallest step of interest, a logarithm."""
    since: int

    def entry(self, row: int, earliest: int, latest: int) -> Placed | None:
        """Return the entry of the events file for a series at these builds."""
        name = self.archive.series[row].name
        return next(
            (one for one in self.accepted if one.overlaps(earliest, latest) and one.covers(name)),
            None,
        )


def identifier(row: int) -> str:
    return f"s{row + 1:04d}"


def infos(context: Context, unclear: Container[int]) -> list[SeriesInfo]:
    """Return the state of each series; `unclear`: rows whose newest documents decide nothing."""
    archive, grid = context.archive, context.archive.grid
    newest = dict(sorted(archive.outcomes))
    hidden = {one.row: math.exp(min(one.hidden, 50.0)) for one in context.findings.newest}
    apart, _ = apart_and_shared(archive)
    found = []
    for row, series in enumerate(archive.series):
        track, steps = context.findings.tracks[row], context.findings.steps[row]
        at = newest[row]
        outcome = archive.outcomes[row, at]
        moved = _since_accepted(context, steps)
        verdict = outcome.status
        if archive.columns[at].build < len(archive.builds) - 1:
            verdict = ABSENT
        elif verdict == "completed" and not math.isfinite(grid.values[row, at]):
            verdict = LOST if len(track.column) else UNTIMED
        elif verdict == "completed":
            verdict = "slower" if moved >= context.least else "same"
            verdict = "faster" if moved <= -context.least else verdict
            verdict = "unclear" if row in unclear else verdict
        points = [
            HistoryPoint(int(build), math.exp(value), Z95 * math.sqrt(variance), int(unit))
            for build, value, variance, unit in zip(
                track.build, track.raw, grid.variance[row, track.column], track.unit, strict=True
            )
        ]
        found.append(
            SeriesInfo(
                id=identifier(row),
                name=series.name,
                engine=series.key.engine,
                family=series.family,
                fingerprint=series.key.fingerprint,
                path=outcome.path,
                apart=", ".join(text for k, text in series.circumstances.items() if k in apart),
                metric=series.metric,
                verdict=verdict,
                points=tuple(points),
                levels=tuple(_levels(context, row, steps)),
                spread_ratio=math.sqrt(track.variance) if math.isfinite(track.variance) else None,
                accepted_ratio=math.exp(moved) if points else None,
                hidden_ratio=hidden.get(row),
            )
        )
    return found


def _levels(context: Context, row: int, steps: tuple[Step, ...]) -> Iterator[Level]:
    """Yield the level of each stretch between changes on each unit of hardware, and slopes."""
    grid, track = context.archive.grid, context.findings.tracks[row]
    stretches = [steps[0].before, *(one.after for one in steps)] if steps else [tuple(track.column)]
    ends: list[float] = []
    for place, stretch in enumerate(stretches):
        at = np.array(stretch, np.int64)
        for unit in np.unique(grid.unit[at]):
            mine = at[grid.unit[at] == unit]
            value = math.exp(float(np.median(grid.values[row, mine])))
            ends.append(value)
            if place and steps[place - 1].kind == "slope":
                slope = steps[place - 1]
                yield Level(slope.earliest, slope.latest, ends[-2], value)
            yield Level(int(grid.build[mine[0]]), int(grid.build[mine[-1]]), value)


def _since_accepted(context: Context, steps: tuple[Step, ...]) -> float:
    """Return the sum of the changes after the last accepted one."""
    moved = 0.0
    for step in steps:
        known = context.entry(step.row, step.earliest, step.latest)
        moved = moved + step.shift if known is None else 0.0
    return moved


def apart_and_shared(archive: Archive) -> tuple[Container[str], str]:
    """Return the names of what tells series apart, and what all share as a text."""
    every = [one.circumstances for one in archive.series]
    apart = {name for name, text in every[0].items() if any(one[name] != text for one in every)}
    return apart, ", ".join(text for name, text in every[0].items() if name not in apart)


def counts(table: Sequence[SeriesInfo]) -> dict[str, int]:
    """Return the numbers of series that are slower, faster … than their last accepted level."""
    return dict(Counter(one.verdict for one in table).most_common())
