"""How much of a tuning's budget is left, and for whom."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RACE_SHARE = 0.6
"""Of the budget; the rest is for the rounds of the finalists."""
GRACE = 0.5
"""Of the time that building took: as long may a race go on that has used up its share."""


@dataclass
class Clock:
    """How much of the budget is left."""

    budget_s: float | None
    began: float = field(default_factory=time.monotonic)

    def spent_s(self) -> float:
        return time.monotonic() - self.began

    def race_end(self, graphs_left: int, graphs: int = 1) -> Callable[[], bool]:
        """Whether the next graphs have used up their share of the time for all races."""
        if self.budget_s is None:
            return lambda: False
        left = max(0.0, RACE_SHARE * self.budget_s - self.spent_s())
        end = time.monotonic() + left * graphs / max(graphs, graphs_left)
        return lambda: time.monotonic() >= end

    def with_grace(self, is_over: Callable[[], bool], took_s: float) -> Callable[[], bool]:
        """For the race of a graph that took so long to build: what was built should not be in vain,
        so it may take a part of that more than its share, unless all of the budget is gone."""
        end = time.monotonic() + GRACE * took_s
        return lambda: self.is_over() or (is_over() and time.monotonic() >= end)

    def is_over(self) -> bool:
        return self.budget_s is not None and self.spent_s() >= self.budget_s

    def text(self) -> str:
        spent = f"{self.spent_s():.0f} s"
        return spent if self.budget_s is None else f"{spent} of {self.budget_s:.0f} s"
