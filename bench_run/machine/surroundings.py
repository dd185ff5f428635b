"""Other activity of the host during a round: processor time of other processes, stolen time, load,
involuntary switches of the measuring process, clock and temperature of the processor.

Every value is optional: those that the system does not report are unknown. Nothing here may fail.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import psutil
from bench_schema.document import Surroundings

from bench_run.machine.telemetry import process_ids

if TYPE_CHECKING:
    from collections.abc import Iterable

OUR_PROGRAM = "bench_run.worker"
"""Program name in the command lines of workers and of their templates; the parent of those is the
run."""
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "x86_pkg_temp")
CLOCKS = 8
"""Processors whose clock counts: the first that this process may use."""
FAILS = (psutil.Error, OSError, ValueError, AttributeError, IndexError, RuntimeError)
"""Errors of psutil where the system does not report a value."""

Processes: TypeAlias = "dict[int, psutil.Process]"


class HostWatch:
    """Activity of the host between `begin` and `end`. The run's own processes are searched when the
    watch is made and in `surroundings`: that takes milliseconds, in which the device would be
    unused."""

    def __init__(self) -> None:
        self._root = find_run(os.getpid())
        self._ours = _tree(self._root)
        self._before = self._after = _host_times()
        self._own_s = 0.0
        self._begin_s = self._window_s = 0.0
        self._switches = 0

    def begin(self) -> None:
        self._own_s = -_seconds(self._ours.values())
        self._switches = -resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        self._before, self._begin_s = _host_times(), time.perf_counter()

    def end(self) -> None:
        self._after, self._window_s = _host_times(), time.perf_counter() - self._begin_s
        self._own_s += _seconds(self._ours.values())
        self._switches += resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

    def surroundings(self) -> Surroundings:
        others = steal = None
        if self._before is not None and self._after is not None:
            busy, steal = (b - a for a, b in zip(self._before, self._after, strict=True))
            # Processes of ours that were not there when the watch was made; at most one processor
            # each, since they were not read at the beginning.
            new = (one for pid, one in _tree(self._root).items() if pid not in self._ours)
            newcomers_s = sum(min(_seconds([one]), self._window_s) for one in new)
            others = round(max(busy - self._own_s - newcomers_s, 0.0), 3)
        load = None
        with suppress(OSError):
            load = round(os.getloadavg()[0], 2)
        return Surroundings(
            window_s=round(self._window_s, 6),
            others_cpu_s=others,
            steal_s=None if steal is None else round(max(steal, 0.0), 3),
            load=load,
            involuntary_switches=max(0, self._switches),
            cpu_clock_mhz=cpu_clock_mhz(),
            cpu_temperature_c=cpu_temperature_c(),
        )


def others_on(device: str) -> int | None:
    """Return the number of processes from outside of this run on the device; None if the driver
    does not report it, or counts in another namespace (as in a container)."""
    there = process_ids(device)
    if there is None or os.getpid() not in there:
        return None
    return len(there - _tree(find_run(os.getpid())).keys())


def tree_ns(root: int) -> int | None:
    """Return processor time of a process and all below it, whatever session they are in, ended ones
    included: what a child had used counts as its parent's once it is waited for, in steps of 10 ms.
    None if the process is not there."""
    found = _tree(root)
    return sum(_process_ns(process) for process in found.values()) if found else None


def waited_ns(root: int) -> int:
    """Return how long threads of a process and of all below it waited for a processor since they
    began; 0 where the system does not tell."""
    total = 0
    for pid in _tree(root):
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    total += int((thread / "schedstat").read_text().split()[1])
    return total


def _process_ns(process: psutil.Process) -> int:
    with suppress(*FAILS):
        ended = sum(process.cpu_times()[2:4])
        # Its clock as clock_getcpuclockid(3) names it.
        return round(ended * 1e9) + time.clock_gettime_ns((~process.pid << 3) | 2)
    return 0


def _host_times() -> tuple[float, float] | None:
    """Return (busy, stolen) seconds of all processors; a guest's time is in that of user
    already."""
    with suppress(*FAILS):
        t = psutil.cpu_times()
        return t.user + t.nice + t.system + t.irq + t.softirq, t.steal
    return None


@lru_cache(maxsize=1)
def find_run(pid: int) -> int:
    """Return the process id of the run: the first ancestor that is neither a worker nor a
    template."""
    with suppress(*FAILS):
        process = psutil.Process(pid)
        while any(OUR_PROGRAM in word for word in process.cmdline()):
            process = process.parent() or psutil.Process(1)
        return int(process.pid)
    return pid


def _tree(root: int) -> Processes:
    """Return a process and all below it, by their ids; empty if it is not there."""
    found: Processes = {}
    with suppress(*FAILS):
        found[root] = psutil.Process(root)
        if not Path(f"/proc/{root}/task/{root}/children").exists():
            return found | {one.pid: one for one in found[root].children(recursive=True)}
    # The kernel's own lists: psutil looks at every process of the host, 24 µs each.
    waiting = list(found)
    while waiting:
        tasks = f"/proc/{waiting.pop()}/task"
        with suppress(OSError):  # it may have ended
            for thread in os.listdir(tasks):
                with suppress(*FAILS), open(f"{tasks}/{thread}/children", "rb") as listed:
                    new = {pid: psutil.Process(pid) for pid in map(int, listed.read().split())}
                    waiting += new.keys() - found.keys()
                    found |= new
    return found


def _seconds(processes: Iterable[psutil.Process]) -> float:
    """Return processor time of processes, and of their children that have ended."""
    total = 0.0
    for process in processes:
        with suppress(*FAILS):
            total += sum(process.cpu_times()[:4])
    return total


def cpu_clock_mhz() -> float | None:
    """Return the mean clock of the first processors that this process may use."""
    with suppress(*FAILS):
        clocks = psutil.cpu_freq(percpu=True)
        mine = [clocks[n].current for n in sorted(os.sched_getaffinity(0))[:CLOCKS]]
        return round(statistics.fmean(mine), 1)
    return None


def cpu_temperature_c() -> float | None:
    """Return the temperature of the first sensor of the processor itself."""
    with suppress(*FAILS):
        found = psutil.sensors_temperatures()
        return next((float(found[name][0].current) for name in CPU_SENSORS if name in found), None)
    return None
