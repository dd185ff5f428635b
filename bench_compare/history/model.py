"""Result of a history, as frozen values: the reports only arrange it.

Ratios are new over old level; builds are numbers from 0, the oldest, on; times are as in the
metric's unit. ``None`` means "not known".
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  annotations are read at run time
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "step", "slope", "broken", "wrong", "unsupported", "removed", "lost", "benchmark changed"
]
Direction = Literal["slower", "faster", "both", "none"]
BAD_STATES = frozenset({"broken", "wrong", "unsupported", "removed", "lost"})


@dataclass(frozen=True)
class BuildInfo:
    name: str
    started: str
    documents: tuple[str, ...]
    """Paths."""
    units: tuple[str, ...]
    changes: tuple[str, ...]
    """Changes of its environment since the build before."""


@dataclass(frozen=True)
class Level:
    """A segment of a series: documents that are of one level."""

    first: int
    last: int
    """Builds."""
    value: float
    low: float
    high: float
    """95 % interval of the level."""
    end_value: float | None = None
    """Last value of a level that is a slope."""


@dataclass(frozen=True)
class HistoryPoint:
    build: int
    value: float
    half: float
    """Half width of the 95 % interval from the rounds alone, as a ratio: 0.01 is 1 %."""
    unit: int


@dataclass(frozen=True)
class SeriesInfo:
    id: str
    name: str
    engine: str
    variant: str
    family: str
    data_type: str
    fingerprint: str
    path: str
    settings: str
    metric: str
    """Metric of its points and levels."""
    state: str
    """State in the newest document that has it."""
    verdict: str
    """slower, faster or same against the last accepted level; otherwise the state; absent where the
    newest build does not hold it."""
    points: tuple[HistoryPoint, ...]
    levels: tuple[Level, ...]
    spread_ratio: float | None
    """Standard deviation between documents of one build."""
    accepted_ratio: float | None
    """Last level over the last accepted one: that after the last acknowledged event, otherwise the
    oldest."""


@dataclass(frozen=True)
class LevelChange:
    """Effect of an event on one series."""

    series: str
    ratio: float | None
    low: float | None
    high: float | None
    old: float | None
    new: float | None
    text: str | None
    """Text in place of a time."""
    acknowledged: bool


@dataclass(frozen=True)
class Acknowledgement:
    kind: str
    note: str | None
    link: str | None
    where: str
    """Its place in the events file."""


@dataclass(frozen=True)
class Suggestion:
    """Suggested next measurement."""

    reason: str
    command: str


@dataclass(frozen=True)
class EventInfo:
    id: str
    kind: Kind
    direction: Direction
    build: int
    earliest: int
    latest: int
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    all_cases: bool
    """The suite as a whole stepped."""
    changes: tuple[LevelChange, ...]
    cost_ratio: float
    """Effect on the geometric mean of the suite: 1.01 is 1 % slower."""
    acknowledged: Acknowledgement | None
    undone: int | None
    """Build from which its slower series are back at their old level."""
    gates: bool
    """New, unacknowledged, still there: a regression that fails the command."""
    causes: tuple[str, ...]
    """Differences across it, likeliest first."""
    suggestions: tuple[Suggestion, ...]
    sentence: str


@dataclass(frozen=True)
class Unclear:
    """A series whose newest document leaves its level, alone."""

    series: str
    ratio: float
    needed: int
    """Documents that would decide it."""


@dataclass(frozen=True)
class LevelBand:
    """An acknowledged stretch, drawn over all charts."""

    first: int
    last: int
    kind: str
    note: str | None


@dataclass(frozen=True)
class Noise:
    correlation: float
    shared_ratio: float
    odd_ratio: float
    sensitivity_ratio: float | None
    """Smallest lasting slow-down that four documents of the middle series would have shown."""


@dataclass(frozen=True)
class History:
    title: str
    metric: str
    unit: str
    builds: tuple[BuildInfo, ...]
    series: tuple[SeriesInfo, ...]
    events: tuple[EventInfo, ...]
    """Newest first."""
    unclear: tuple[Unclear, ...]
    suggestions: tuple[Suggestion, ...]
    bands: tuple[LevelBand, ...]
    noise: Noise
    counts: Mapping[str, int]
    """Series of the newest build by state: slower, faster, unclear, same, broken …"""
    remarks: tuple[str, ...]
    problems: tuple[str, ...]
    """Why nothing can be said."""

    @property
    def gating(self) -> tuple[EventInfo, ...]:
        return tuple(event for event in self.events if event.gates)
