"""Other activity of the host during a round: processor time of other processes, stolen time, load,
involuntary switches of the measuring process, clock and temperature of the processor.

Every value is optional: those that the kernel does not report are unknown. Nothing here may fail.
"""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import Surroundings

from bench_run.machine.telemetry import process_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PROC = Path("/proc")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
OUR_PROGRAM = b"bench_run.worker"
"""Program name in the command lines of workers and of their templates; the parent of those is the
run."""
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "x86_pkg_temp")
CLOCKS = 8
"""Processors whose clock is read; on a large host reading all takes as long as a sample."""
HEAD_BYTES = 4096
"""Bytes of /proc/cpuinfo that describe the first processor."""


@dataclass(frozen=True)
class Reading:
    """Sums since some instant in the past, seconds."""

    at_s: float
    busy_s: float | None
    """Processor time of the whole host."""
    steal_s: float | None
    own_s: float | None
    """Processor time of the run's processes."""
    switches: int


NOTHING_READ = Reading(0.0, None, None, None, 0)


class HostWatch:
    """Activity of the host between `begin` and `end`. The run's own processes are searched when the
    watch is made and in `surroundings`: looking through all threads of a run takes 4 ms, in which
    the device would be unused."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc, self._root = proc, find_run(os.getpid(), proc)
        self._ours = frozenset(_tree(self._root, proc))
        self._before = self._after = NOTHING_READ
        self._load: float | None = None
        self._clock_mhz: float | None = None
        self._temperature_c: float | None = None

    def begin(self) -> None:
        self._before = _read(self._ours, self._proc)

    def end(self) -> None:
        self._after = _read(self._ours, self._proc)
        self._load, self._temperature_c = _load(), cpu_temperature_c()
        self._clock_mhz = cpu_clock_mhz(proc=self._proc)

    def surroundings(self) -> Surroundings:
        before, after = self._before, self._after
        window_s = after.at_s - before.at_s
        busy, own = _passed(before.busy_s, after.busy_s), _passed(before.own_s, after.own_s)
        others = None
        if busy is not None and own is not None:
            # Processes of ours that were not there when the watch was made; at most one processor
            # each, since they were not read at the beginning.
            now = _tree(self._root, self._proc).items()
            newcomers = (min(one.seconds, window_s) for pid, one in now if pid not in self._ours)
            others = busy - own - sum(newcomers)
        return Surroundings(
            window_s=round(window_s, 6),
            others_cpu_s=None if others is None else round(max(others, 0.0), 3),
            steal_s=_passed(before.steal_s, after.steal_s),
            load=self._load,
            involuntary_switches=max(0, after.switches - before.switches),
            cpu_clock_mhz=self._clock_mhz,
            cpu_temperature_c=self._temperature_c,
        )


def others_on(device: str) -> int | None:
    """Return the number of processes from outside of this run on the device; None if the driver
    does not report it, or counts in another namespace (as in a container)."""
    there = process_ids(device)
    if there is None or os.getpid() not in there:
        return None
    return len(there - _tree(find_run(os.getpid()), PROC).keys())


def _read(ours: Iterable[int], proc: Path) -> Reading:
    busy_s, steal_s = _host_times(proc)
    own = [found.seconds for pid in ours if (found := _stat(pid, proc)) is not None]
    return Reading(
        at_s=time.perf_counter(),
        busy_s=busy_s,
        steal_s=steal_s,
        own_s=sum(own) if own else None,
        switches=resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
    )


def _passed(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(max(after - before, 0.0), 3)


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _host_times(proc: Path) -> tuple[float | None, float | None]:
    """Return (busy, stolen) seconds of all processors; a guest's time is in that of user
    already."""
    try:
        with (proc / "stat").open(encoding="ascii") as file:
            words = file.readline().split()
        user, nice, system, _idle, _wait, irq, soft, steal = map(int, words[1:9])
    except (OSError, ValueError):
        return None, None
    return (user + nice + system + irq + soft) * TICK_S, steal * TICK_S


@lru_cache(maxsize=1)
def find_run(pid: int, proc: Path = PROC) -> int:
    """Return the process id of the run: the first ancestor that is neither a worker nor a
    template."""
    while True:
        found, words = _stat(pid, proc), b""
        with suppress(OSError):
            words = (proc / str(pid) / "cmdline").read_bytes()
        if found is None or found.parent <= 1 or OUR_PROGRAM not in words:
            return pid
        pid = found.parent


@dataclass(frozen=True)
class ProcessTimes:
    parent: int
    seconds: float
    """Its own, and that of its children that have ended and were waited for."""


def _stat(pid: int, proc: Path) -> ProcessTimes | None:
    try:
        text = (proc / str(pid) / "stat").read_bytes()
        fields = text[text.rindex(b")") + 2 :].split()
        return ProcessTimes(int(fields[1]), sum(map(int, fields[11:15])) * TICK_S)
    except (OSError, ValueError, IndexError):
        return None


def tree_time_s(root: int, proc: Path = PROC) -> float | None:
    """Return processor time of a process and all below it, ended ones included: what a child had
    used counts as its parent's once it is waited for, so the sum never falls."""
    found = _tree(root, proc)
    return sum(one.seconds for one in found.values()) if found else None


def _tree(root: int, proc: Path) -> dict[int, ProcessTimes]:
    """Return a process and all below it, by their ids; empty if it is not there."""
    known = {root: found} if (found := _stat(root, proc)) is not None else {}
    if not known:
        return {}
    children = _children_by_parent(root, proc)
    waiting = [root]
    while waiting:
        for pid in children(waiting.pop()):
            found = _stat(pid, proc)
            if found is not None and pid not in known:
                known[pid] = found
                waiting.append(pid)
    return known


def _children_by_parent(root: int, proc: Path) -> Callable[[int], list[int]]:
    """Return a function for the children of a process: the kernel's own lists if it keeps them,
    otherwise a search of all processes."""
    if (proc / str(root) / "task" / str(root) / "children").exists():
        return lambda pid: list(_listed_children(pid, proc))
    found: dict[int, list[int]] = defaultdict(list)
    with suppress(OSError):
        for name in os.listdir(proc):
            if name.isdecimal() and (one := _stat(int(name), proc)) is not None:
                found[one.parent].append(int(name))
    return lambda pid: found[pid]


def _listed_children(pid: int, proc: Path) -> Iterator[int]:
    """Yield the children of every thread: any of them may have started some."""
    with suppress(OSError):
        for task in os.listdir(proc / str(pid) / "task"):
            with suppress(OSError):
                text = (proc / str(pid) / "task" / task / "children").read_bytes()
                yield from map(int, text.split())


def cpu_clock_mhz(system: Path = Path("/sys"), proc: Path = PROC) -> float | None:
    """Return the mean clock of the first processors that this process may use."""
    found = []
    for number in sorted(os.sched_getaffinity(0))[:CLOCKS]:
        path = system / f"devices/system/cpu/cpu{number}/cpufreq/scaling_cur_freq"
        with suppress(OSError, ValueError):
            found.append(int(path.read_text()) / 1000)
    if found:
        return round(sum(found) / len(found), 1)
    with suppress(OSError, ValueError, StopIteration):
        with (proc / "cpuinfo").open("rb") as file:
            lines = file.read(HEAD_BYTES).splitlines()
        return float(next(line.split(b":")[1] for line in lines if line.startswith(b"cpu MHz")))
    return None


def cpu_temperature_c() -> float | None:
    path = _temperature_file()
    if path is not None:
        with suppress(OSError, ValueError):
            return int(path.read_text()) / 1000
    return None


@lru_cache(maxsize=1)
def _temperature_file(system: Path = Path("/sys")) -> Path | None:
    """Return the first sensor of the processor itself."""
    places = (
        *((path, "temp1_input") for path in system.glob("class/hwmon/hwmon*/name")),
        *((path, "temp") for path in system.glob("class/thermal/thermal_zone*/type")),
    )
    for path, value in places:
        with suppress(OSError):
            if path.read_text().strip() in CPU_SENSORS and (path.parent / value).exists():
                return path.parent / value
    return None
