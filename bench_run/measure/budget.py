"""Values of a measurement that travel between the run and its workers; importing them loads nothing
else."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the fields' types
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SamplingBudget:
    """Limits of one round's measuring."""

    warmup: int
    iterations: int
    min_time_ns: int = 0
    """Samples are added until a pass has lasted so long."""
    max_time_ns: int | None = None
    """No sample begins once a pass has lasted so long; at least one is taken. Both are wall time,
    since what comes with a sample (checks, canaries, flushes, rests) can take a thousand times as
    long as the sample."""
    executions: int = 1
    """Executions in one sample; the sample is their total divided by it."""
    rest_s: float = 0.0
    longest_ns: int | None = None
    """No sample may take longer: the worker would be ended before it could tell."""
    first_run_ns: int = 0
    """Duration of an iteration, used without a warm-up."""
    by_time: bool = False
    """True if the number of samples follows from how long they take (`by_time`), in place of
    `iterations`."""


@dataclass(frozen=True)
class Ceilings:
    gbps: float | None
    """Bytes read plus bytes written, GB/s."""
    tflops: Mapping[str, float] = field(default_factory=dict)
