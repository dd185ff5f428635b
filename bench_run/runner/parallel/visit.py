"""A case in a round, as it waits for its turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_run.plan.cases import PlannedCase


@dataclass(frozen=True)
class Visit:
    """A case in a round."""

    case: PlannedCase
    index: int
    position: int
