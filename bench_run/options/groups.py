"""The settings of a run, cut by question: each part of the run gets those that it needs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from bench_run.settings import Options

T = TypeVar("T")


def grouped(group: type[T], options: Options) -> T:
    """Return a group of settings with the values of the options."""
    given: Any = group  # a dataclass whose fields are named as those of the options
    values = {field.name: getattr(options, field.name) for field in fields(given)}
    made: T = given(**values)
    return made


@dataclass(frozen=True)
class Sampling:
    """Rounds, iterations and time limits of the cases."""

    rounds: int
    max_rounds: int
    iterations: int | None
    warmup: int
    executions: int
    min_time_s: float | None
    max_time_s: float | None
    timeout_s: float
    precision_ratio: float | None
    duty: str
    settle: str | None
    interleave: str
    placements: int
    energy: bool
    observer: tuple[str, ...]
    seed: int
    prepare: int | None
    companions: tuple[str, ...]


@dataclass(frozen=True)
class Validation:
    """Inputs of the cases, and what their outputs are compared with."""

    seed: int
    init: tuple[str, ...]
    golden: str | None
    write_golden: str | None
    reference_cache: str | None
    tolerance: str
    rtol: float | None
    atol: float | None
    matched: float | None
    cosine: float | None
    mismatches: int
    check_budget_s: float
    save_outputs: str | None
    math: str
    strict: bool
    timeout_s: float


@dataclass(frozen=True)
class Output:
    """The document, and how the run talks about it."""

    output: str | None
    resume: bool
    force: bool
    quiet: bool
    trace: str | None
    counters: str | None
    adversarial: bool
    timeout_s: float
