"""The mark of device times that were taken without a gate: such events also hold the host's launch
delays, which may double the time of a short kernel. No output shows them bare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.numbers.summary import main_series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_schema.document import Case

UNGATED = "*"
UNGATED_MEANS = "measured without a gate: device times that hold the host's launch delays"
UNLIKE = "unlike"
UNLIKE_MEANS = "one side was measured behind a gate and the other without: not to be compared"


def is_ungated(case: Case) -> bool:
    """Whether the case's device times hold the host's launch delays: events without a gate."""
    device = main_series(case.summary) == "device_ns"
    return device and device_timing(case) == "events"


def device_timing(case: Case) -> str:
    """How the case's device times were taken; empty where it has none."""
    return ", ".join(sorted({r.device_timing for r in case.rounds if r.device_timing is not None}))


def are_unlike(a: Case, b: Case) -> bool:
    """Whether the device times of two cases do not mean the same thing."""
    return is_ungated(a) != is_ungated(b)


def marked(text: str, case: Case) -> str:
    return text + (UNGATED if is_ungated(case) else "")


def footnotes(cases: Iterable[Case]) -> list[str]:
    """What the marks mean, where there are any."""
    return [f"{UNGATED} {UNGATED_MEANS}"] if any(map(is_ungated, cases)) else []
