"""What an execution takes beside time: memory and energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_compare.metrics.base import Exact, Metric, PerRound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case


def peak_bytes(case: Case) -> float | None:
    return None if case.memory is None else case.memory.peak_bytes


def workspace_bytes(case: Case) -> float | None:
    return None if case.memory is None else case.memory.workspace_bytes


def energy_j(case: Case) -> Sequence[float]:
    """Joules an iteration; a case counts if every round has it."""
    if case.rounds and case.rounds[0].energy_j_per_iteration is None:
        return ()
    values = [one.energy_j_per_iteration for one in case.rounds]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else ()


ROWS = (
    Metric("peak_bytes", "peak memory", "bytes", "lower", Exact(peak_bytes), speed=False),
    Metric("workspace_bytes", "workspace", "bytes", "lower", Exact(workspace_bytes), speed=False),
    Metric(
        "energy_j",
        "energy",
        "J",
        "lower",
        PerRound(energy_j),
        speed=False,
        threshold_ratio=0.03,  # power counters are coarse
    ),
)
