"""Candidates of a tuning: variants of one graph beside each other, and those that none beats in
time, error, workspace and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_schema.estimate import case_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_schema.document import Case

    from bench_compare.model import CaseComparison


@dataclass(frozen=True)
class TuningCandidate:
    label: str
    time_ns: float
    low_ns: float
    high_ns: float
    """Interval of the time; both are the time where it is not known."""
    error: float | None
    workspace_bytes: int | None
    energy_j: float | None


def candidate_groups(cases: Sequence[CaseComparison]) -> list[dict[str, Any]]:
    """Graphs of which one side has several variants, each with its candidates, fastest first."""
    groups: dict[tuple[str, str], list[CaseComparison]] = {}
    for case in cases:
        groups.setdefault((case.name, case.other_label), []).append(case)
    made = []
    for (name, label), held in groups.items():
        if len(held) < 2 or not any(case.variant for case in held):
            continue  # of nearly all cases: what is not shown is not looked at
        found = [(case, one) for case in held if (one := _candidate(case)) is not None]
        if len(found) > 1 and any(case.variant for case, _ in found):
            made.append(
                {"name": name, "label": label, "points": _points([one for _, one in found])}
            )
    return made


def _candidate(comparison: CaseComparison) -> TuningCandidate | None:
    side = comparison.other or comparison.base
    return None if side is None else _measured(comparison, side.cases[-1])


def _measured(comparison: CaseComparison, case: Case) -> TuningCandidate | None:
    time = case_time(case)
    if case.outcome.status != "completed" or time is None:
        return None
    words = [f"{axis}={value}" for axis, value in comparison.variant.items()]
    return TuningCandidate(
        label=" ".join((comparison.engine, *words)),
        time_ns=time.ns,
        low_ns=time.ns if time.low_ns is None else time.low_ns,
        high_ns=time.ns if time.high_ns is None else time.high_ns,
        error=_largest_error(case),
        workspace_bytes=None if case.memory is None else case.memory.workspace_bytes,
        energy_j=_energy(case),
    )


def _largest_error(case: Case) -> float | None:
    if case.validation is None:
        return None
    errors = [float(output.relative_l2) for output in case.validation.outputs]
    finite = [error for error in errors if abs(error) < float("inf")]
    return max(finite) if finite and len(finite) == len(errors) else None


def _energy(case: Case) -> float | None:
    joules = [one.energy_j_per_iteration for one in case.rounds]
    known = [value for value in joules if value is not None]
    return sum(known) / len(known) if known and len(known) == len(joules) else None


def _points(found: Sequence[TuningCandidate]) -> list[list[Any]]:
    """Label, time, interval, error, workspace, energy, whether none beats it."""
    ordered = sorted(found, key=lambda one: one.time_ns)
    return [
        [
            one.label,
            one.time_ns,
            one.low_ns,
            one.high_ns,
            one.error,
            one.workspace_bytes,
            one.energy_j,
            not any(_beats(other, one) for other in ordered if other is not one),
        ]
        for one in ordered
    ]


def _beats(one: TuningCandidate, other: TuningCandidate) -> bool:
    """Better in something and worse in nothing; times differ only where intervals are apart."""
    pairs = [
        (one.error, other.error),
        (one.workspace_bytes, other.workspace_bytes),
        (one.energy_j, other.energy_j),
    ]
    better = [one.high_ns < other.low_ns, *_less(pairs)]
    worse = [other.high_ns < one.low_ns, *_less((b, a) for a, b in pairs)]
    return any(better) and not any(worse)


def _less(pairs: Iterable[tuple[float | None, float | None]]) -> list[bool]:
    return [a < b for a, b in pairs if a is not None and b is not None]
