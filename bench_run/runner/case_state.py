"""What the rounds so far tell of a case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench_schema.summary import (
    MIN_ROUNDS_FOR_T,
    half_width_ratio,
    main_series,
    summarize,
)

if TYPE_CHECKING:
    from bench_schema.document import Case, Samples

    from bench_run.plan.cases import PlannedCase

UNGATED_ELSEWHERE = "another round of this case had to do without the gate"


@dataclass
class CaseState:
    """What is known of a case so far."""

    case: PlannedCase
    rounds: int = 0
    ended: str | None = None
    """The status that ended it, if it did not complete."""
    samples: list[Samples] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    last: Case | None = None
    indices: set[int] = field(default_factory=set)
    """Of the rounds that were measured: an earlier run may have lost one between others."""
    energies: list[float | None] = field(default_factory=list)
    """Joules of an iteration, of the rounds that `samples` are of."""
    is_wrong: bool = False
    """Whether its outputs were wrong in a round."""
    numbers: list[int] = field(default_factory=list)
    """Of the rounds that `samples` are of, which may have ended in another order."""
    timing: str | None = None
    """How the device times of these rounds were taken."""

    @property
    def no_gate(self) -> str | None:
        """Why further rounds are to do without a gate."""
        return UNGATED_ELSEWHERE if self.timing == "events" else None

    def take(self, result: Case) -> None:
        self.last = result
        if result.outcome.status != "completed":
            self.ended = result.outcome.status
        for each in result.rounds:
            if each.device_timing == "gated events" and self.timing == "events":
                continue  # it was under way when another one had to do without the gate
            if each.device_timing == "events" and self.timing == "gated events":
                self._void()
            self.timing = each.device_timing
            self.rounds += 1
            self.indices.add(each.index)
            name = main_series(each.series)
            assert name is not None, "a round has samples"
            self.samples.append(each.series[name])
            self.cuts.append(each.cut.get(name, 0))
            self.numbers.append(each.index)
            self.energies.append(each.energy_j_per_iteration)
        if result.validation is not None and result.validation.status == "failed":
            self.is_wrong = True

    def _void(self) -> None:
        """Forget what was measured behind a gate: it is measured again without one, and unlike
        samples share no series."""
        self.rounds = 0
        self.samples.clear()
        self.cuts.clear()
        self.energies.clear()
        self.numbers.clear()
        self.indices.clear()

    def is_precise(self, target_ratio: float) -> bool:
        width = self.half_width_ratio()
        return width is not None and width <= target_ratio

    def half_width_ratio(self) -> float | None:
        """Of the median's interval; unknown below three rounds."""
        if self.rounds < MIN_ROUNDS_FOR_T:
            return None
        return half_width_ratio(summarize(self.samples, self.cuts))
