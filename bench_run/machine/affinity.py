"""Which processors a worker may use, and how many threads its libraries start."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
)  # fmt: skip
"""Libraries read them once, while they are loaded."""
CPUS = Path("/sys/devices/system/cpu")


def thread_environment(threads: int | None) -> dict[str, str]:
    """Variables for a process that is held to so many threads."""
    return {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))


def available_cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def choose_cpus(allowed: set[int], threads: int, folder: Path = CPUS) -> set[int]:
    """So many of them, one of each core as long as there are cores; the last ones, since the
    first serve most interrupts."""
    by_core: dict[str, list[int]] = {}
    for number in sorted(allowed, reverse=True):
        by_core.setdefault(_core(number, folder), []).append(number)
    turns = max(map(len, by_core.values()))
    order = [core[turn] for turn in range(turns) for core in by_core.values() if turn < len(core)]
    return set(order[:threads])


def _core(number: int, folder: Path) -> str:
    """What the processors of one core have in common."""
    with suppress(OSError):
        return (folder / f"cpu{number}/topology/thread_siblings_list").read_text().strip()
    return str(number)


def pin_process(threads: int) -> None:
    """Hold every thread of this process, and those that they start, to as many processors."""
    chosen = choose_cpus(os.sched_getaffinity(0), threads)
    for task in os.listdir("/proc/self/task"):
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(int(task), chosen)
