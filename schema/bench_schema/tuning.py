"""Choices of a tuning in its result document: every variant of every graph, and the winners.

Frozen dataclasses, no I/O. Times are nanoseconds, ``None`` means "not known".
"""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003  annotations are read at run time
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench_schema.errors import SchemaError

Fate: TypeAlias = Literal[
    "ok",
    "unsupported",
    "failed",
    "crashed",
    "timed out",
    "wrong",
    "duplicate",
    "over a limit",
    "not tried",
]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of times, with its 95 % interval where that is known."""

    estimate: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a graph."""

    variant: Mapping[str, str]
    """Varied values by axis; empty for the default."""
    case_variant: Mapping[str, str]
    """The same for the engine, in its own words: the variant of the case."""
    engine: str
    """Key of the engine."""
    fingerprint: str
    """Hash of the graph that ran, which differs from the entry's if type or layout were varied."""
    status: Fate
    reason: str | None = None
    """Always there unless ok."""
    case: str | None = None
    """Id of its case in the document, if it has ordinary rounds."""
    time_ns: float | None = None
    """Time of its case; of a candidate without one, the mean of its short rounds."""
    rounds: int = 0
    """Number of rounds behind the time, each in a process of its own."""
    error: float | None = None
    """Largest relative L2 error of an output; None where nothing was compared."""
    deterministic: bool | None = None
    workspace_bytes: int | None = None
    plan: Mapping[str, str] = field(default_factory=dict)
    """Choices of the engine."""


@dataclass(frozen=True, slots=True)
class TunedEntry:
    """A graph, its candidates, and which of them won."""

    name: str
    path: str
    fingerprint: str
    """Hash of the meaning of the original graph."""
    family: str
    repeat: int
    candidates: tuple[Candidate, ...]
    """The default first."""
    winner: int
    """Index of a candidate; 0, the default, where nothing is known to be better."""
    reason: str
    """Why it won, in a sentence."""
    gain: Ratio | None = None
    """Time of the default in that of the winner, from ordinary rounds; 1 if they are one."""
    tied_with: tuple[int, ...] = ()
    beyond: str | None = None
    """The limit that the default breaks."""

    @property
    def default(self) -> Candidate:
        return self.candidates[0]

    @property
    def chosen(self) -> Candidate:
        """The candidate that won."""
        return self.candidates[self.winner]


@dataclass(frozen=True, slots=True)
class TunedEngine:
    """An engine as a later run must open it; what it was is in the document's engines."""

    key: str
    spec: str
    math: str


@dataclass(frozen=True, slots=True)
class Limits:
    error: float | None = None
    workspace_bytes: int | None = None
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """One combination for all graphs; times weighted by how often each graph occurs."""

    variant: Mapping[str, str]
    time_ns: float | None
    """None if some graph has no time in it."""
    confirmed: bool
    """False if some of the time is of short rounds."""
    missing: tuple[str, ...] = ()
    """Names of the graphs that it cannot run."""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class TunedWhole:
    """All graphs, each as often as it occurs."""

    default_ns: float | None = None
    tuned_ns: float | None = None
    gain: Ratio | None = None
    totals: tuple[Total, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuning's choice and its reasons."""

    space: tuple[str, ...]
    scope: Literal["layer", "global"]
    margin_ratio: float
    limits: Limits
    budget_s: float | None
    engines: tuple[TunedEngine, ...]
    entries: tuple[TunedEntry, ...]
    whole: TunedWhole = TunedWhole()


def check_tuned(tuned: Tuned, cases: frozenset[str], where: str) -> None:
    """Check what a schema cannot express: indices and ids that name something. Raises
    `SchemaError`."""
    for number, entry in enumerate(tuned.entries):
        here = f"{where}: tuned.entries[{number}] ({entry.name})"
        count = len(entry.candidates)
        for index in (entry.winner, *entry.tied_with):
            if not 0 <= index < count:
                raise SchemaError(here, f"names candidate {index}, and there are {count}")
        if entry.winner and entry.chosen.status != "ok":
            status = entry.chosen.status
            raise SchemaError(here, f"its winner, candidate {entry.winner}, is {status!r}")
        for candidate in entry.candidates:
            if candidate.case is not None and candidate.case not in cases:
                raise SchemaError(here, f"names the case {candidate.case!r}, which is not there")


OWN_AXES = ("plan", "knob:")
"""Axes whose values the library chooses among by itself."""


@dataclass(frozen=True)
class DefaultQuality:
    """Quality of the library's own choice, over graphs of one family."""

    family: str
    graphs: int
    beaten: int
    """Graphs of which another candidate was shown to be faster by more than the margin."""
    mean_ratio: float
    """Geometric mean of the default's time in the winner's: 1 is the best."""
    worst_ratio: float
    worst: str
    """Name of the graph with that ratio."""


def default_quality(tuned: Tuned) -> tuple[DefaultQuality, ...]:
    """Return how good the default is for each family; empty if the space has axes that a library
    does not choose by itself. Graphs without a second candidate that ran, or with a default beyond
    a limit, do not count."""
    axes = [text.partition("=")[0] for text in tuned.space]
    if not axes or not all(axis.startswith(OWN_AXES) for axis in axes):
        return ()
    families: dict[str, list[TunedEntry]] = {}
    for entry in tuned.entries:
        had_choice = any(other.status == "ok" for other in entry.candidates[1:])
        if had_choice and entry.gain is not None and entry.beyond is None:
            families.setdefault(entry.family, []).append(entry)
    return tuple(_quality(family, families[family]) for family in sorted(families))


def _quality(family: str, entries: list[TunedEntry]) -> DefaultQuality:
    ratios = {entry.name: entry.gain.estimate for entry in entries if entry.gain is not None}
    worst = max(ratios, key=lambda name: ratios[name])
    mean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
    beaten = sum(entry.winner != 0 for entry in entries)
    return DefaultQuality(family, len(entries), beaten, mean, ratios[worst], worst)
