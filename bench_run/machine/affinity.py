"""Processors of a worker, and the number of threads that its libraries start."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
)
"""Libraries read them once, while they are loaded."""
CPUS = Path("/sys/devices/system/cpu")


def thread_environment(threads: int | None) -> dict[str, str]:
    """Return variables for a process that is held to so many threads."""
    return {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))


def available_cpus() -> int:
    """Return the number of processors that this process may use; that of all if the system does not
    report it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_cpus(allowed: set[int], threads: int, folder: Path = CPUS) -> set[int]:
    """Return `threads` of them, on different cores if possible; the last ones, since the first
    serve most interrupts."""
    by_core: dict[str, list[int]] = {}
    for number in sorted(allowed, reverse=True):
        siblings = str(number)  # what the processors of one core have in common
        with suppress(OSError):
            siblings = (folder / f"cpu{number}/topology/thread_siblings_list").read_text().strip()
        by_core.setdefault(siblings, []).append(number)
    turns = max(map(len, by_core.values()))
    order = [core[turn] for turn in range(turns) for core in by_core.values() if turn < len(core)]
    return set(order[:threads])


def pin_process(threads: int) -> None:
    """Hold every thread of this process, and those that they start, to as many processors."""
    chosen = choose_cpus(os.sched_getaffinity(0), threads)
    for task in os.listdir("/proc/self/task"):
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(int(task), chosen)


SYSTEM = Path("/sys")


def cpus_near(address: str | None, system: Path = SYSTEM) -> set[int]:
    """Return the numbers of the processors near the device at an address of the PCI bus; empty if
    unknown, or if all are equally near."""
    if address is None:
        return set()
    try:
        node = int((system / "bus/pci/devices" / address / "numa_node").read_text())
        text = (system / f"devices/system/node/node{node}/cpulist").read_text()
    except (OSError, ValueError):
        return set()
    return parse_cpus(text)


def parse_cpus(text: str) -> set[int]:
    """Parse ``0-3,8``, as the kernel writes it."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def stay_near(device: str) -> None:
    """Hold this process, and what it starts, to the processors near a device, as far as it may use
    them."""
    from bench_run.machine.telemetry import pci_address  # loads NumPy

    wanted = cpus_near(pci_address(device)) & os.sched_getaffinity(0)
    for task in os.listdir("/proc/self/task") if wanted else ():
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(int(task), wanted)
