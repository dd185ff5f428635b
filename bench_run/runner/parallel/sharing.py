"""The number of rounds that are prepared at the same time, and the memory that they share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bench_run.errors import UsageError
from bench_run.machine.affinity import available_cpus
from bench_run.machine.memory import free_host_bytes
from bench_run.machine.telemetry import free_memory_bytes
from bench_run.runner.parallel.gate import Room

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.options import Sampling


CORES_SHARE = 0.625
"""Share of the cores for workers that prepare; the measured one and the run have the rest."""
WORKERS_PER_ROUND = 2
"""Upper limit if there are cores: one prepares while the case of another waits or is measured. Each
of several engines has fewer, by the root of their number, because a host makes one context after
another (0.18 s each on two H200s)."""
DEVICE_BYTES_EACH = 2 << 30
"""Device memory of a process before its first tensor, with room for small tensors."""


@dataclass(frozen=True)
class Sharing:
    lanes: int
    """Number of workers of an engine that prepare at the same time."""
    devices: tuple[str, ...]
    """Uuids or indices; empty if only processors are used."""

    def together(self, companions: Sequence[str]) -> Literal["none", "prepare", "measure"]:
        """Work that several devices do at the same time. `companions`: devices of other shards."""
        if companions:
            return "measure"
        return "prepare" if len(self.devices) > 1 and self.lanes > 1 else "none"


ALONE = Sharing(1, ())


def share_devices(sampling: Sampling, by_engine: Mapping[str, str]) -> Sharing:
    """`by_engine`: the device of each. On a processor nothing may happen during a measurement."""
    devices = list(by_engine.values())
    accelerators = tuple(sorted(set(devices) - {"cpu"}))
    if "cpu" in devices or not accelerators:
        if sampling.prepare is not None:
            raise UsageError("--prepare: rounds on a processor are never prepared side by side")
        return Sharing(1, accelerators)
    lanes = sampling.prepare
    if lanes is None:
        lanes = _most_lanes(sampling.rounds, len(devices))
        for device in accelerators:
            free = free_memory_bytes(device)
            if free is not None:
                lanes = min(lanes, free // (DEVICE_BYTES_EACH * devices.count(device)))
        lanes = max(1, lanes)
    return Sharing(lanes, accelerators)


def _most_lanes(rounds: int, beside: int) -> int:
    """Limit by cores and rounds for each of `beside` engines."""
    most = int(available_cpus() * CORES_SHARE) // beside
    return max(1, min(most, round(WORKERS_PER_ROUND * rounds / math.sqrt(beside))))


HOST_SHARE, DEVICE_SHARE = 0.5, 0.8
"""Shares of the memory that is free when the run begins."""
DEVICE_BYTES = 8 << 30
"""Assumed free memory of a device that does not report it."""


def room_here(devices: Sequence[str]) -> Room:
    """Return the room of this machine for work on these devices (uuid or index)."""
    free = [free_memory_bytes(device) or DEVICE_BYTES for device in devices] or [DEVICE_BYTES]
    return Room((int(free_host_bytes() * HOST_SHARE), int(min(free) * DEVICE_SHARE)))
