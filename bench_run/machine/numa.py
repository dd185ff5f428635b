"""Which processors are near a device: those of its NUMA node."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bench_run.machine.telemetry import pci_address

SYSTEM = Path("/sys")


def cpus_near(address: str | None, system: Path = SYSTEM) -> set[int]:
    """Numbers of the processors near the device at an address of the PCI bus; none where that is
    not known, or all are as near."""
    if address is None:
        return set()
    try:
        node = int((system / "bus/pci/devices" / address / "numa_node").read_text())
        text = (system / f"devices/system/node/node{node}/cpulist").read_text()
    except (OSError, ValueError):
        return set()
    return parse_cpus(text)


def parse_cpus(text: str) -> set[int]:
    """``0-3,8`` as the kernel writes it."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def stay_near(device: str) -> None:
    """Hold this process, and what it starts, to the processors near a device, as far as it may use
    them."""
    wanted = cpus_near(pci_address(device)) & os.sched_getaffinity(0)
    for task in os.listdir("/proc/self/task") if wanted else ():
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(int(task), wanted)
