"""How many rounds are prepared at the same time, and which devices they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.machine.telemetry import free_memory_bytes
from bench_run.runner.reference_workers import available_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_run.options import Options

CORES_SHARE = 0.625
"""Of the cores: workers that prepare. The one that measures, and the run itself, want theirs at
once."""
WORKERS_PER_ROUND = 2
"""At most: more start more processes than they save time."""
DEVICE_BYTES_EACH = 2 << 30
"""What a process takes of a device before its first tensor, with room for small ones."""


@dataclass(frozen=True)
class Sharing:
    lanes: int
    """How many workers of an engine prepare side by side."""
    devices: tuple[str, ...]
    """By uuid or index; none where only processors are used."""


ALONE = Sharing(1, ())


def share_devices(options: Options, devices: Sequence[str]) -> Sharing:
    """`devices`: that of each engine. On a processor nothing may happen beside a measurement."""
    accelerators = tuple(sorted(set(devices) - {"cpu"}))
    if "cpu" in devices or not accelerators:
        if options.prepare is not None:
            raise UsageError("--prepare: rounds on a processor are never prepared side by side")
        return Sharing(1, accelerators)
    if options.prepare is not None:
        return Sharing(options.prepare, accelerators)
    most = int(available_cores() * CORES_SHARE) // len(devices)
    for device in accelerators:
        free = free_memory_bytes(device)
        if free is not None:
            beside = sum(other == device for other in devices)
            most = min(most, free // (DEVICE_BYTES_EACH * beside))
    return Sharing(max(1, min(most, WORKERS_PER_ROUND * options.rounds)), accelerators)
