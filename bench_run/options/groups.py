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


GRAPHS = ("graphs", "op", "miopen_driver", "benchdnn")
"""Settings that name graphs."""


def names_graphs(options: object) -> bool:
    """Return True if one of `GRAPHS` is given, in all options or in a group of them."""
    return any(getattr(options, name) for name in GRAPHS)


@dataclass(frozen=True)
class Sources:
    """Graphs of a run, and their changes before it."""

    graphs: tuple[str, ...]
    op: tuple[str, ...]
    miopen_driver: tuple[str, ...]
    benchdnn: tuple[str, ...]
    dtype: str | None
    shapes: str
    direction: str
    seed: int
    chain: bool
    seams: bool
    scale_batch: int | None
    sdpa_scale: str | None
    golden: str | None
    write_golden: str | None
    save_graphs: str | None
    save_suite: str | None


@dataclass(frozen=True)
class Engines:
    """Engines of a run, their devices and their arithmetic."""

    engine: tuple[str, ...]
    a: str | None
    b: str | None
    a_python: str | None
    b_python: str | None
    oracle: bool
    reference: str
    tuned: str | None
    tuned_mismatch: str
    devices: tuple[int, ...] | None
    companions: tuple[str, ...]
    threads: int | None
    hold_threads: bool
    math: str
    cache: str
    timer: str
    replay: bool
    knobs: tuple[tuple[str, str], ...]
    build_timeout_s: float | None
    timeout_s: float
    plugin_path: tuple[str, ...]
    plugin_mode: str
    hipdnn_prefix: str | None
    vendor_caches: str
    cache_dir: str | None


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


@dataclass(frozen=True)
class Cut:
    """All settings of a run, by question."""

    sources: Sources
    engines: Engines
    sampling: Sampling
    validation: Validation
    output: Output


def cut(options: Options) -> Cut:
    """Return the options, cut by question: once, where a run begins."""
    return Cut(
        grouped(Sources, options),
        grouped(Engines, options),
        grouped(Sampling, options),
        grouped(Validation, options),
        grouped(Output, options),
    )
