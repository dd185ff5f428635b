"""What a metric is: a row with a name, a unit, a direction, and how to read it from a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_schema.document import Case, Samples

    Numbers: TypeAlias = Sequence[float] | Samples


@dataclass(frozen=True)
class Sampled:
    """A series of samples: every iteration of every round is there."""

    series: str


@dataclass(frozen=True)
class PerRound:
    """One positive number a round, in round order; empty where it is unknown."""

    read: Callable[[Case], Numbers]
    least: float = 0.0
    """Smaller values count as this one; at 0 they are unknown instead."""


@dataclass(frozen=True)
class Rate:
    """Work over the time of the first gate metric that both sides have, per nanosecond."""

    work: Callable[[Case], float | None]


@dataclass(frozen=True)
class Exact:
    """One number a case that does not scatter: judged by the threshold alone."""

    read: Callable[[Case], float | None]


Reading: TypeAlias = Sampled | PerRound | Rate | Exact


@dataclass(frozen=True)
class Metric:
    name: str
    title: str
    """For the heads of tables."""
    unit: str
    better: Literal["lower", "higher"]
    reading: Reading
    gates: bool = False
    """May decide what becomes of a case; the first one that both sides have does."""
    speed: bool = True
    """Moves are faster and slower, else better and worse."""
    threshold_ratio: float = 0.01
    """Smallest change of practical interest, unless the policy says otherwise."""
