"""Candidates of a tuning: variants of one graph beside each other, and those that none beats in
time, error, workspace and energy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_schema.estimate import case_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_compare.model import CaseComparison


@dataclass(frozen=True)
class TuningCandidate:
    label: str
    time_ns: float
    low_ns: float
    high_ns: float
    """Interval of the time; both are the time if it is not known."""
    error: float | None
    workspace_bytes: int | None
    energy_j: float | None


def candidate_groups(cases: Sequence[CaseComparison]) -> list[dict[str, Any]]:
    """Return the graphs of which one side has several variants, each with its candidates, fastest
    first."""
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
    if side is None:
        return None
    case = side.cases[-1]
    time = case_time(case)
    if case.outcome.status != "completed" or time is None:
        return None
    words = [f"{axis}={value}" for axis, value in comparison.variant.items()]
    outputs = () if case.validation is None else case.validation.outputs
    errors = [float(output.relative_l2) for output in outputs]
    joules = [one.energy_j_per_iteration for one in case.rounds]
    known = [value for value in joules if value is not None]
    return TuningCandidate(
        label=" ".join((comparison.engine, *words)),
        time_ns=time.ns,
        low_ns=time.ns if time.low_ns is None else time.low_ns,
        high_ns=time.ns if time.high_ns is None else time.high_ns,
        error=max(errors) if errors and all(map(math.isfinite, errors)) else None,
        workspace_bytes=None if case.memory is None else case.memory.workspace_bytes,
        energy_j=sum(known) / len(known) if known and len(known) == len(joules) else None,
    )


def _points(found: Sequence[TuningCandidate]) -> list[list[Any]]:
    """Return a list for each candidate, the fastest first: label, time, interval, error, workspace,
    energy, and True if no other is better in something and worse in nothing; times differ only if
    intervals are apart."""
    ordered = sorted(found, key=lambda one: one.time_ns)
    points = []
    for one in ordered:
        costs = (one.error, one.workspace_bytes, one.energy_j)
        unbeaten = True
        for other in ordered:
            pairs = [*zip((other.error, other.workspace_bytes, other.energy_j), costs, strict=True)]
            better = [other.high_ns < one.low_ns, *_less(pairs)]
            worse = [one.high_ns < other.low_ns, *_less((b, a) for a, b in pairs)]
            if other is not one and any(better) and not any(worse):
                unbeaten = False
        points.append([one.label, one.time_ns, one.low_ns, one.high_ns, *costs, unbeaten])
    return points


def _less(pairs: Iterable[tuple[float | None, float | None]]) -> list[bool]:
    return [a < b for a, b in pairs if a is not None and b is not None]
