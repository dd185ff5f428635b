"""What the stages of a tuning hand on: to each other, and to the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Document

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedGraph
    from bench_run.plan.engines import PlannedEngine
    from bench_run.tune.building.fates import Fate
    from bench_run.tune.building.session import Effort
    from bench_run.tune.candidates import Option
    from bench_run.tune.choosing.decide import Finalist
    from bench_run.tune.racing.heats import RaceState
    from bench_run.tune.settings import Tuning


@dataclass(frozen=True)
class Raced:
    """One graph after its race."""

    graph: PlannedGraph
    options: Sequence[Option]
    fates: Sequence[Fate]
    """What became of each option until the race began."""
    entered: Sequence[int]
    """Options in the race, in the order of its rows."""
    state: RaceState | None
    ranks: Mapping[int, int]
    finalists: Sequence[int] = ()
    tied: Sequence[int] = ()
    """As indices of options."""

    @property
    def beyond(self) -> str | None:
        """The limit that the default breaks."""
        return self.fates[0].beyond

    def rivals(self, finalists: Sequence[Finalist]) -> Sequence[Finalist]:
        """Those that may win: not a default that breaks a limit, where others keep it."""
        others = [each for each in finalists if each.index != 0]
        return others if others and self.beyond is not None else finalists


@dataclass(frozen=True)
class Tuned:
    """Everything that the record is made of."""

    tuning: Tuning
    options: Options
    engines: Sequence[PlannedEngine]
    raced: Sequence[Raced]
    document: Document
    started: str
    effort: Effort
    race_s: float
    confirm_s: float
    notes: Sequence[str]
    command: Sequence[str]
    version: str
