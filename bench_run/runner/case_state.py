"""What the rounds so far tell of a case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from bench_schema.numbers.summary import (
    MIN_ROUNDS_FOR_T,
    half_width_ratio,
    main_series,
    summarize,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from bench_schema.document import Case, Samples

    from bench_run.plan.cases import PlannedCase

UNGATED_ELSEWHERE = "another round of this case had to do without the gate"


class RoundSamples(NamedTuple):
    """What a round tells of the case's time."""

    samples: Samples
    cut: int
    energy_j: float | None = None
    """Of an iteration."""


@dataclass
class CaseState:
    """What is known of a case so far."""

    case: PlannedCase
    ended: str | None = None
    """The status that ended it, if it did not complete."""
    last: Case | None = None
    measured: dict[int, RoundSamples] = field(default_factory=dict)
    """By round: an earlier run may have lost one between others, and they end in any order."""
    is_wrong: bool = False
    """Whether its outputs were wrong in a round."""
    timing: str | None = None
    """How the device times of these rounds were taken."""

    @property
    def rounds(self) -> int:
        return len(self.measured)

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
                self.measured.clear()  # measured again: unlike samples share no series
            self.timing = each.device_timing
            name = main_series(each.series)
            assert name is not None, "a round has samples"
            self.measured[each.index] = RoundSamples(
                each.series[name], each.cut.get(name, 0), each.energy_j_per_iteration
            )
        if result.validation is not None and result.validation.status == "failed":
            self.is_wrong = True

    def forget(self, rounds: Collection[int]) -> None:
        """These are void, and will be measured again."""
        for index in rounds:
            self.measured.pop(index, None)

    def in_order(self) -> list[RoundSamples]:
        """What was measured, in the order of the rounds."""
        return [self.measured[index] for index in sorted(self.measured)]

    def bare(self) -> Case:
        """A part without measurements, for what is put on record later."""
        assert self.last is not None, "something was measured"
        return replace(
            self.last, init={}, rounds=(), summary={}, validation=None, memory=None, notes=()
        )

    def is_precise(self, target_ratio: float) -> bool:
        width = self.half_width_ratio()
        return width is not None and width <= target_ratio

    def half_width_ratio(self) -> float | None:
        """Of the median's interval; unknown below three rounds."""
        if self.rounds < MIN_ROUNDS_FOR_T:
            return None
        rounds = self.in_order()
        summary = summarize([each.samples for each in rounds], [each.cut for each in rounds])
        return half_width_ratio(summary)
