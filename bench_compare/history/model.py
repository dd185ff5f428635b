"""Result of a history, as frozen values: the reports only arrange it.

Ratios are new over old level; builds are numbers from 0, the oldest, on; times are as in the
metric's unit. ``None`` means "not known".
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  annotations are read at run time
from dataclasses import dataclass
from typing import Literal

from bench_compare.history.accepted import AcceptedChange, Placed  # noqa: TC001

Kind = Literal[
    "step", "slope", "broken", "wrong", "unsupported", "removed", "lost", "benchmark changed"
]
Direction = Literal["slower", "faster", "both", "none"]
MOST_RATIO = 100
"""Largest limit that is a number: beyond it the documents exclude nothing."""
BAD_STATES = frozenset({"broken", "wrong", "unsupported", "removed", "lost"})


@dataclass(frozen=True)
class BuildInfo:
    name: str
    started: str
    documents: tuple[str, ...]
    """Paths."""
    units: tuple[str, ...]


@dataclass(frozen=True)
class Level:
    """Documents between two changes, on one unit of hardware."""

    first: int
    last: int
    """Builds."""
    value: float
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
    family: str
    fingerprint: str
    path: str
    apart: str
    """Engine, device and settings, where they tell it apart from other series."""
    metric: str
    """Metric of its points and levels."""
    verdict: str
    """slower, faster or same against the last accepted level, unclear; otherwise its state in the
    newest document; absent where the newest build does not hold it."""
    points: tuple[HistoryPoint, ...]
    levels: tuple[Level, ...]
    spread_ratio: float | None
    """Standard deviation of a document about its level."""
    accepted_ratio: float | None
    """Last level over the last accepted one: that after the last acknowledged event, otherwise the
    oldest."""
    hidden_ratio: float | None
    """Largest lasting slow-down that its newest documents may hide (99 %)."""


@dataclass(frozen=True)
class LevelChange:
    """Effect of an event on one series."""

    series: str
    acknowledged: bool
    text: str | None = None
    """Text in place of a time."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval of the ratio."""
    p: float | None = None
    """Chance of such a change in an archive without one."""
    old: float | None = None
    new: float | None = None
    documents: int | None = None
    """Documents that show the new level."""


@dataclass(frozen=True)
class Suggestion:
    """Suggested next measurement."""

    reason: str
    command: str


@dataclass(frozen=True)
class EventInfo:
    kind: Kind
    direction: Direction
    build: int
    """Build that brought it; of a slope, the one where it ends."""
    earliest: int
    latest: int
    changes: tuple[LevelChange, ...]
    """The most certain first: its size is that of the event."""
    acknowledged: AcceptedChange | None
    gates: bool
    """New, unacknowledged, still there: a regression that fails the command."""
    causes: tuple[str, ...]
    """Differences across it, likeliest first."""
    suggestions: tuple[Suggestion, ...]
    sentence: str
    undone: int | None = None
    """Build from which its slower series are back at their old level."""
    cost_ratio: float = 1.0
    """Effect on the geometric mean of the suite: 1.01 is 1 % slower."""
    id: str = ""


@dataclass(frozen=True)
class Unclear:
    """A series whose newest documents decide nothing."""

    series: str
    ratio: float
    """Change of its single newest document, if that stands out, or the largest hidden step."""
    alone: bool
    """True if its single newest document stands out."""
    needed: int
    """Documents more of the newest build that would decide."""

    @property
    def limit(self) -> str:
        return f"up to {self.ratio:.2g}×" if self.ratio < MOST_RATIO else f"above {MOST_RATIO}×"


@dataclass(frozen=True)
class Noise:
    correlation: float
    """Correlation of neighbouring documents, in the middle."""
    odd_ratio: float
    """Share of single odd values."""
    hidden_ratio: float | None
    """Largest slow-down that may be hidden in a case that is not unclear (99 %)."""


@dataclass(frozen=True)
class History:
    title: str
    metric: str
    unit: str
    builds: tuple[BuildInfo, ...]
    shared: str
    """Engine, device and settings that all series share."""
    series: tuple[SeriesInfo, ...]
    events: tuple[EventInfo, ...]
    """Newest first."""
    unclear: tuple[Unclear, ...]
    repeat: Suggestion | None
    """The measurement that decides what is unclear."""
    suggestions: tuple[Suggestion, ...]
    accepted: tuple[Placed, ...]
    """Entries of the events file, with their builds."""
    noise: Noise
    counts: Mapping[str, int]
    """Series of the newest build by state: slower, faster, unclear, same, broken …"""
    remarks: tuple[str, ...]
    problems: tuple[str, ...]
    """Reasons for UNDECIDED."""

    @property
    def gating(self) -> tuple[EventInfo, ...]:
        return tuple(event for event in self.events if event.gates)
