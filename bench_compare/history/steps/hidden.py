"""The largest step or slope in the newest level that an archive cannot exclude.

A gate may only pass where it would have found the step it looks for. So for each place where the
newest level could be split, and for a slope over all of it, this asks for the upper end of an
interval: Student's t over what the documents differ by within the levels that the split leaves.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.student import t_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.comparison.measure import Array, Ints
    from bench_compare.history.steps.segments import LevelStep
    from bench_compare.history.steps.track import Track

EXCLUDED = math.log(1.2)
"""A pass says that no case became this much slower unseen, where the threshold is not larger."""
SURE = 0.999
"""One-sided, of the interval."""
LEAST_SIDE = 2
"""Documents on either side of a step."""
FEW = 8
"""The number of documents below which an odd one looks like a new level."""


@dataclass(frozen=True)
class Hidden:
    """A series whose newest level may hold a step."""

    row: int
    most: float
    """Upper end of its size, a logarithm."""
    spread: float
    """Standard deviation of a document, a logarithm."""


def hidden(
    tracks: Sequence[Track], steps: Sequence[Sequence[LevelStep]], newest: int, least: float
) -> list[Hidden]:
    """Return the series that may hide a step of `least`, or of `EXCLUDED` if that is more, in the
    build of the number `newest`; of each the units of hardware that this build ran on."""
    limit, found = max(least, EXCLUDED), []
    for row, track in enumerate(tracks):
        sizes = list(_sizes(track, [step.split for step in steps[row]], newest))
        most = max((size for size, _ in sizes), default=-math.inf)
        if most >= limit:
            found.append(Hidden(row, most, max(spread for _, spread in sizes)))
    return found


def _sizes(track: Track, splits: Sequence[int], newest: int) -> Iterator[tuple[float, float]]:
    """Yield the upper end of each step and slope in the newest level, with the spread of a
    document."""
    values = track.values if len(track) >= FEW else track.raw
    first = splits[-1] if splits else 0
    squares, free = 0.0, 0
    for begin, end in itertools.pairwise([0, *splits]):
        for part in _units(values, track.unit, begin, end):
            squares, free = squares + _squares(part), free + len(part) - 1
    parts = list(_units(values, track.unit, first, len(values)))
    asked = np.isin(np.unique(track.unit[first:]), track.unit[track.build == newest])
    for number, part in enumerate(parts):
        if not asked[number]:
            continue
        rest = [other for place, other in enumerate(parts) if place != number]
        around = squares + sum(map(_squares, rest))
        left = free + sum(len(other) - 1 for other in rest)
        for split in range(LEAST_SIDE, len(part) - LEAST_SIDE + 1):
            old, new = part[:split], part[split:]
            spread = _spread(around + _squares(old) + _squares(new), left + len(part) - 2)
            error = spread * math.sqrt(1 / len(old) + 1 / len(new))
            yield _end(float(new.mean() - old.mean()), error, left + len(part) - 2), spread
        if len(part) > 2 * LEAST_SIDE:
            place = np.arange(len(part)) - (len(part) - 1) / 2
            rise = float(place @ part / (place @ place))
            spread = _spread(around + _squares(part - rise * place), left + len(part) - 2)
            error = spread / math.sqrt(float(place @ place))
            whole = len(part) - 1
            yield _end(whole * rise, whole * error, left + len(part) - 2), spread


def _units(values: Array, unit: Ints, begin: int, end: int) -> Iterator[Array]:
    for one in np.unique(unit[begin:end]):
        yield values[begin:end][unit[begin:end] == one]


def _squares(part: Array) -> float:
    return float(((part - part.mean()) ** 2).sum())


def _spread(squares: float, free: int) -> float:
    return math.sqrt(squares / free) if free > 0 else math.inf


def _end(size: float, error: float, free: int) -> float:
    return size + float(t_quantile(SURE, np.array([max(free, 1)]))[0]) * error
