"""How many rounds are prepared at the same time, and which devices they share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from bench_run.errors import UsageError
from bench_run.machine.telemetry import free_memory_bytes
from bench_run.runner.references import available_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.options import Options

CORES_SHARE = 0.625
"""Of the cores: workers that prepare. The one that measures, and the run itself, want theirs at
once."""
WORKERS_PER_ROUND = 2
"""Where cores allow it; one prepares while another's case waits for its turn or is measured. Of
several engines each has fewer, by the root of their number: a host makes one context after the
other, 0.18 s each (two H200s), whatever its cores and devices."""
DEVICE_BYTES_EACH = 2 << 30
"""What a process takes of a device before its first tensor, with room for small ones."""


@dataclass(frozen=True)
class Sharing:
    lanes: int
    """How many workers of an engine prepare side by side."""
    devices: tuple[str, ...]
    """By uuid or index; none where only processors are used."""
    by_engine: Mapping[str, str] = field(default_factory=dict)
    """The device of each engine, where each device measures when it can; else empty."""

    @property
    def together(self) -> Literal["none", "prepare", "measure"]:
        """What several devices do at the same time."""
        if len(self.devices) < 2 or (self.lanes == 1 and not self.by_engine):
            return "none"
        return "measure" if self.by_engine else "prepare"


ALONE = Sharing(1, ())


def share_devices(options: Options, by_engine: Mapping[str, str]) -> Sharing:
    """`by_engine`: the device of each. On a processor nothing may happen beside a measurement."""
    devices = list(by_engine.values())
    accelerators = tuple(sorted(set(devices) - {"cpu"}))
    if options.parallel is not None and ("cpu" in devices or len(accelerators) < 2):
        raise UsageError("--parallel goes with several accelerators, as in --device all")
    if "cpu" in devices or not accelerators:
        if options.prepare is not None:
            raise UsageError("--prepare: rounds on a processor are never prepared side by side")
        return Sharing(1, accelerators)
    apart = by_engine if options.parallel == "measure" and options.rounds > 1 else {}
    lanes = options.prepare
    if lanes is None:
        lanes = _most_lanes(options, len(devices))
        for device in accelerators:
            free = free_memory_bytes(device)
            if free is not None:
                lanes = min(lanes, free // (DEVICE_BYTES_EACH * devices.count(device)))
        lanes = max(1, lanes)
    return Sharing(lanes, accelerators, apart)


def likely_lanes(options: Options, engines: int) -> int:
    """How many workers of each of so many engines will prepare side by side, if these are on
    accelerators."""
    if options.rounds < 2:
        return 1
    most = options.prepare or _most_lanes(options, engines)
    first = options.devices[0] if options.devices else 0
    free = free_memory_bytes(str(first))
    return most if free is None else max(1, min(most, free // (DEVICE_BYTES_EACH * engines)))


def _most_lanes(options: Options, beside: int) -> int:
    """As cores and rounds allow, for each of so many engines."""
    most = int(available_cores() * CORES_SHARE) // beside
    return max(1, min(most, round(WORKERS_PER_ROUND * options.rounds / math.sqrt(beside))))
