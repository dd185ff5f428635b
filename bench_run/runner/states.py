"""Results of a case until now, as a rule of the rounds sees them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench_schema.estimate import MIN_ROUNDS_FOR_T, Counted, counted, main_series, time_of

if TYPE_CHECKING:
    from bench_schema.document import Case

    from bench_run.plan.cases import PlannedCase

UNGATED_ELSEWHERE = "another round of this case had to do without the gate"


@dataclass(eq=False)
class CaseState:
    """Results of a case until now."""

    case: PlannedCase
    ended: str | None = None
    """The status that ended it, if it did not complete."""
    last: Case | None = None
    measured: dict[int, Counted] = field(default_factory=dict)
    """Samples by round: an earlier run may have lost one between others, and they end in any
    order."""
    is_wrong: bool = False
    """True if its outputs were wrong in a round."""
    timing: str | None = None
    """Method that measured the device times of these rounds."""

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
            found = None if name is None else counted(each, name)
            assert found is not None, "a round has samples, and some of them count"
            self.measured[each.index] = found
        if result.validation is not None and result.validation.status == "failed":
            self.is_wrong = True

    def in_order(self) -> list[Counted]:
        """Return the samples in the order of the rounds."""
        return [self.measured[index] for index in sorted(self.measured)]

    def bare(self) -> Case:
        """Return a part without measurements, for what is put on record later."""
        assert self.last is not None, "something was measured"
        return replace(
            self.last, init={}, rounds=(), summary={}, validation=None, memory=None, notes=()
        )

    def is_precise(self, target_ratio: float) -> bool:
        """Return True if the half width of the time's interval is at most this; it takes three
        rounds."""
        if self.rounds < MIN_ROUNDS_FOR_T:
            return False
        width = time_of(self.in_order()).half_width_ratio
        return width is not None and width <= target_ratio
