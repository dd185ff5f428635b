"""Initialisation: its phases and their sum, one value a round."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from bench_compare.metrics.base import Metric, PerRound

if TYPE_CHECKING:
    from bench_schema.document import Case

    from bench_compare.metrics.base import Numbers

THRESHOLD_RATIO = 0.10
"""A compilation or a library's start scatters far more than a kernel does."""

PHASES = {
    "load_ns": "load graph",
    "import_ns": "import engine",
    "build_ns": "build",
    "plan_ns": "plan",
    "search_ns": "search",
    "first_run_ns": "first run",
}


def phase_ns(name: str, case: Case) -> Numbers:
    """One value a round; of what is paid once the first."""
    values = case.init.get(name)
    if values is None:
        return ()
    return values[:1] if name in _paid_once() else values


@cache
def _paid_once() -> tuple[str, ...]:
    from bench_schema.document import PAID_ONCE  # here: a usage error needs no NumPy

    return PAID_ONCE


def total_ns(case: Case) -> Numbers:
    """Sum of the phases of each round, without what is paid once; a round counts if every
    recorded phase has it."""
    columns = tuple(values for name, values in case.init.items() if name not in _paid_once())
    if not columns:
        return ()
    return [sum(row) for row in zip(*columns, strict=False)]


def _row(name: str, title: str, reading: PerRound) -> Metric:
    return Metric(name, title, "ns", "lower", reading, threshold_ratio=THRESHOLD_RATIO)


ROWS = (
    _row("init_ns", "initialisation", PerRound(total_ns, least=1.0)),
    *(
        _row(name, f"init: {title}", PerRound(partial(phase_ns, name), least=1.0))
        for name, title in PHASES.items()
    ),
)
