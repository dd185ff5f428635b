"""Differences between the two sides of a case, other than its numbers: possible explanations of a
change.

They are facts of the documents; none of them is claimed to be the cause.
"""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from bench_schema.launches import launch_changes

from bench_compare.comparison.circumstances.facts import clock_mhz

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.document import Case, Kernel

    from bench_compare.model import CaseComparison

CLOCK_SHARE = 0.01
"""Clocks that differ by less are the same clock."""


class SideChange(NamedTuple):
    kind: str
    """``plan``, ``kernels``, ``launch`` or ``clock``; the head of a report tells of engines and
    settings."""
    name: str
    """Name in reports: ``plan, engine id``."""
    base: str
    other: str


def case_changes(case: CaseComparison) -> tuple[SideChange, ...]:
    """Plan, kernels, their launches and clock, which are the case's own."""
    base, other = case.base, case.other
    if base is None or other is None:
        return ()
    found = []
    plans = [one.plan for one in (*base.cases, *other.cases)]
    if plans.count(plans[0]) < len(plans):
        for name in dict.fromkeys(key for plan in plans for key in plan):
            texts = [_joined(one.plan.get(name, "-") for one in s.cases) for s in (base, other)]
            if texts[0] != texts[1]:
                found.append(SideChange("plan", f"plan, {name}", *texts))
    kernels = [_traced(side.cases) for side in (base, other)]
    if (
        all(kernels) and kernels[0].keys() != kernels[1].keys()
    ):  # a missing trace is not another kernel
        found.append(SideChange("kernels", "kernels", *(", ".join(sorted(s)) for s in kernels)))
    found += _launch_changes(*kernels)
    first, second = _median_clock_mhz(base.cases), _median_clock_mhz(other.cases)
    if first is not None and second is not None and abs(second - first) > CLOCK_SHARE * first:
        clocks = f"{first:.0f} MHz", f"{second:.0f} MHz"
        found.append(SideChange("clock", "clock, median of rounds", *clocks))
    return tuple(found)


def kinds(changes: Iterable[SideChange]) -> list[str]:
    """Return each kind once."""
    return list(dict.fromkeys([change.kind for change in changes]))


def _joined(values: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(values))


def _traced(cases: Sequence[Case]) -> dict[str, Kernel]:
    """Return the kernels of the last document that was traced, by name."""
    for case in reversed(cases):
        if case.kernels:
            return {one.name: one for one in case.kernels}
    return {}


def _template(name: str) -> str:
    """Return ``void f`` for ``void f<float, 96>(float*)``."""
    return re.split(r"[<(]", name, maxsplit=1)[0]


def _launch_changes(base: dict[str, Kernel], other: dict[str, Kernel]) -> Iterator[SideChange]:
    """Yield what differs between kernels of one name, or between instances of one template if each
    side has one kernel."""
    pairs = [(base[name], other[name]) for name in base if name in other]
    templates = {_template(name) for name in (*base, *other)}
    if not pairs and len(base) == len(other) == len(templates) == 1:
        pairs = list(zip(base.values(), other.values(), strict=True))
    for first, second in pairs:
        if first.launch is None or second.launch is None:
            continue
        lead = "" if len(base) == 1 else f"{second.name}: "
        for name, *texts in launch_changes(first.launch, second.launch):
            yield SideChange("launch", f"{lead}{name}", *texts)


def _median_clock_mhz(cases: Sequence[Case]) -> float | None:
    known: list[float] = []
    for case in cases:
        for one in case.rounds:
            mhz = clock_mhz(one.telemetry_after)
            mhz = clock_mhz(one.telemetry_before) if mhz is None else mhz
            known += [] if mhz is None else [mhz]
    return median(known) if known else None
