"""Every metric a comparison knows, one row each. Importing it loads no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench_schema.units import AMOUNT, RATE, TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench_schema.document import Case, Samples

    Numbers: TypeAlias = Sequence[float] | Samples

__all__ = [
    *("GATES", "METRICS", "Exact", "Metric", "PerRound", "Rate", "Reading", "Sampled"),
    *("is_metric", "learn"),
]


@dataclass(frozen=True)
class Sampled:
    """A series of samples: every iteration of every round is there."""

    series: str


@dataclass(frozen=True)
class PerRound:
    """One positive number a round, in round order; empty if it is unknown."""

    read: Callable[[Case], Numbers]
    least: float = 0.0
    """Smaller values count as this one; at 0 they are unknown instead."""


@dataclass(frozen=True)
class Rate:
    """Work over the time of the first gate metric that both sides have, per nanosecond."""

    work: Callable[[Case], float | None]


@dataclass(frozen=True)
class Exact:
    """One number a case that does not scatter: judged by the threshold alone."""

    read: Callable[[Case], float | None]


Reading: TypeAlias = Sampled | PerRound | Rate | Exact


@dataclass(frozen=True)
class Metric:
    name: str
    title: str
    """Title in the heads of tables."""
    unit: str
    better: Literal["lower", "higher"]
    reading: Reading
    gates: bool = False
    """May decide what becomes of a case; the first one that both sides have does."""
    speed: bool = True
    """True if moves are called faster and slower; otherwise they are better and worse."""
    threshold_ratio: float = 0.01
    """Smallest change of practical interest, unless the policy says otherwise."""

    @property
    def statistic(self) -> str:
        """Statistic that stands for the samples of a round."""
        return "median" if isinstance(self.reading, Sampled) else "mean"

    @property
    def words(self) -> tuple[str, str]:
        """Words for a ratio above and below 1."""
        if not self.speed:
            return AMOUNT
        return TIME if self.better == "lower" else RATE


TIME_ROWS = (
    Metric("device_ns", "device time", "ns", "lower", Sampled("device_ns"), gates=True),
    Metric("e2e_ns", "end-to-end time", "ns", "lower", Sampled("e2e_ns"), gates=True),
    Metric("submit_ns", "enqueue time", "ns", "lower", Sampled("submit_ns")),
    Metric("kernel_sum_ns", "kernel time, sum", "ns", "lower", Sampled("kernel_sum_ns")),
    Metric("kernel_span_ns", "kernel time, span", "ns", "lower", Sampled("kernel_span_ns")),
)


FLOP_PER_NS_IN_TFLOPS = 1e-3


def teraflop(case: Case) -> float | None:
    """Return floating-point operations in units that give TFLOP/s when divided by nanoseconds."""
    flops = case.work.flops
    return None if flops is None else flops * FLOP_PER_NS_IN_TFLOPS


def moved_bytes(case: Case) -> float | None:
    """Return the moved bytes: over nanoseconds they are GB/s."""
    return case.work.moved_bytes


ROWS = (
    Metric("tflops", "compute rate", "TFLOP/s", "higher", Rate(teraflop)),
    Metric("gbps", "memory rate", "GB/s", "higher", Rate(moved_bytes)),
)


def peak_bytes(case: Case) -> float | None:
    return None if case.memory is None else case.memory.peak_bytes


def workspace_bytes(case: Case) -> float | None:
    return None if case.memory is None else case.memory.workspace_bytes


def energy_j(case: Case) -> Sequence[float]:
    """Return the joules of an iteration; a case counts if every round has it."""
    if case.rounds and case.rounds[0].energy_j_per_iteration is None:
        return ()
    values = [one.energy_j_per_iteration for one in case.rounds]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else ()


RESOURCES_ROWS = (
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
    """Return one value a round; a phase that is paid once has only the first."""
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


INIT_ROWS = (
    _row("init_ns", "initialisation", PerRound(total_ns, least=1.0)),
    *(
        _row(name, f"init: {title}", PerRound(partial(phase_ns, name), least=1.0))
        for name, title in PHASES.items()
    ),
)


def max_error(case: Case) -> float | None:
    """Return the largest absolute error of any output; NaN and infinities are infinitely wrong."""
    if case.validation is None or not case.validation.outputs:
        return None
    errors = [float(output.max_abs) for output in case.validation.outputs]
    return max(float("inf") if error != error else error for error in errors)


def mismatched(case: Case) -> float | None:
    """Return the number of elements outside of the tolerance, of all outputs together; None if they
    were not checked."""
    if case.validation is None or not case.validation.outputs:
        return None
    return sum(output.mismatched for output in case.validation.outputs)


ACCURACY_ROWS = (
    Metric(
        "max_error",
        "max error",
        "",
        "lower",
        Exact(max_error),
        speed=False,
        threshold_ratio=0.5,  # the order of a summation changes the last bits
    ),
    Metric("mismatched", "mismatches", "", "lower", Exact(mismatched), speed=False),
)


METRICS: dict[str, Metric] = {
    row.name: row for row in (*TIME_ROWS, *INIT_ROWS, *ROWS, *RESOURCES_ROWS, *ACCURACY_ROWS)
}
"""Metrics in the order of tables; of those that gate, the first that both sides have decides."""

GATES: tuple[str, ...] = tuple(name for name, row in METRICS.items() if row.gates)

EXTRA = "extra:"
"""Beginning of the names of metrics that are numbers of a person's own observers."""


def extra_values(name: str, case: Case) -> Sequence[float]:
    """Return a number of each round; none if a round lacks it."""
    values = [one.extra[name].value for one in case.rounds if name in one.extra]
    return values if len(values) == len(case.rounds) else ()


def learn(cases: Iterable[Case]) -> None:
    """Make a row of each number of own observers in these cases; equal names are one metric."""
    for case in cases:
        for one in case.rounds[:1]:
            for name, number in one.extra.items():
                reading = PerRound(partial(extra_values, name))
                row = Metric(EXTRA + name, name, "", number.better, reading, speed=False)
                METRICS.setdefault(row.name, row)


def is_metric(name: str) -> bool:
    """Return True for a row, and for any number of own observers."""
    return name in METRICS or name.startswith(EXTRA)
