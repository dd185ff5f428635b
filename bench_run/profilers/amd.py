"""Traces and counters of a case on AMD: the case in a process of its own under `rocprofv3`."""

from __future__ import annotations

import csv
import io
import os
import shutil
import statistics
import sys
import sysconfig
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import Kernel

from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.machine import amd as machine
from bench_run.profilers import base
from bench_run.profilers.base import ITERATIONS, REST_NS, Counted, save
from bench_run.profilers.trace import DEVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bench_run.engines.base import TraceEvent
    from bench_run.profilers.base import Profiled


@dataclass(frozen=True)
class KernelDispatch:
    """One launch of a kernel."""

    number: int
    """Position in the order of enqueuing."""
    name: str
    begin_ns: int
    end_ns: int
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.begin_ns


Iteration = Sequence[KernelDispatch]


def last_iterations(
    dispatches: Sequence[KernelDispatch], count: int, rest_ns: int
) -> list[list[KernelDispatch]] | None:
    """Return the launches of the last `count` iterations. The profiled process rests for `rest_ns`
    before each, so that launches fall into groups; None if there are fewer groups than that."""
    groups: list[list[KernelDispatch]] = []
    busy_until_ns = None
    for each in sorted(dispatches, key=lambda d: (d.begin_ns, d.number)):
        if busy_until_ns is None or each.begin_ns - busy_until_ns >= rest_ns // 2:
            groups.append([])
        groups[-1].append(each)
        busy_until_ns = max(busy_until_ns or 0, each.end_ns)
    return groups[-count:] if len(groups) >= count else None


def kernels(iterations: Sequence[Iteration]) -> tuple[Kernel, ...]:
    """Return one row a kernel in order of its first launch: launches in an iteration (their
    median), and medians over all launches of its time and of each counter."""
    by_name: dict[str, list[KernelDispatch]] = defaultdict(list)
    for iteration in iterations:
        for each in iteration:
            by_name[each.name].append(each)
    rows = []
    for name, launches in by_name.items():
        counts = [sum(each.name == name for each in iteration) for iteration in iterations]
        counters = dict.fromkeys(counter for each in launches for counter in each.counters)
        medians = {
            counter: statistics.median(
                d.counters[counter] for d in launches if counter in d.counters
            )
            for counter in counters
        }
        median_ns = statistics.median(each.duration_ns for each in launches)
        rows.append(Kernel(name, round(statistics.median(counts)), median_ns, medians))
    return tuple(rows)


def trace_events(iterations: Sequence[Iteration]) -> list[TraceEvent]:
    """Return events of Chrome's trace format on the device's lane; instants in microseconds."""
    return [
        {
            "name": each.name,
            "ph": "X",
            "pid": 0,
            "tid": DEVICE,
            "ts": each.begin_ns / 1000,
            "dur": each.duration_ns / 1000,
            "args": {"iteration": index},
        }
        for index, iteration in enumerate(iterations)
        for each in iteration
    ]


# Which counters a set stands for on which AMD chip: a table by the beginning of its name.
#
# Derived counters differ between generations. `L2CacheHit` does not exist on gfx940 to gfx950,
# where hits and misses of the L2 are counters of their own. What a chip lacks in spite of this
# table costs itself: each counter is a pass of its own, since one that is unknown ends rocprofv3.

MEMORY = ("FETCH_SIZE", "WRITE_SIZE", "MemUnitStalled")
COMPUTE = ("VALUBusy", "VALUUtilization", "OccupancyPercent")
HIT_RATE, HITS_AND_MISSES = ("L2CacheHit",), ("TCC_HIT_sum", "TCC_MISS_sum")
MATRIX = ("MfmaUtil",)


def _sets(memory: tuple[str, ...], compute: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    memory, compute = (*MEMORY, *memory), (*COMPUTE, *compute)
    return {"memory": memory, "compute": compute, "basic": (*memory, *compute)}


BY_ARCH: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gfx90": _sets(HIT_RATE, MATRIX),
    "gfx94": _sets(HITS_AND_MISSES, MATRIX),
    "gfx95": _sets(HITS_AND_MISSES, MATRIX),
    "gfx1": _sets(HIT_RATE, ()),
}
"""CDNA 1 and 2, CDNA 3, CDNA 4, RDNA."""
UNKNOWN = _sets((*HIT_RATE, *HITS_AND_MISSES), MATRIX)
"""The counters of any chip, for a chip that is not known."""


def counters_of(name: str, arch: str | None) -> tuple[str, ...]:
    """Return the counters of a set (``memory``, ``compute``, ``basic``) on a chip such as
    ``gfx942``."""
    rows = (row for start, row in BY_ARCH.items() if arch is not None and arch.startswith(start))
    return next(rows, UNKNOWN)[name]


# AMD's `rocprofv3`: its command line, its counter sets, and its CSV files as launches.
#
# Written by its documentation: ``--kernel-trace`` writes ``*_kernel_trace.csv``, ``--pmc`` writes
# ``*_counter_collection.csv``, both with a header line; times are nanoseconds. Columns are found by
# name, since releases add some.

ROCPROF_TOOL = "rocprofv3"
OWN_PLACE = "/opt/rocm/bin"
INSTALL = "it comes with ROCm's rocprofiler-sdk (package rocprofiler-sdk, /opt/rocm/bin)"

_TRACE_COLUMNS = ("Dispatch_Id", "Kernel_Name", "Start_Timestamp", "End_Timestamp")
_COUNTER_COLUMNS = (*_TRACE_COLUMNS, "Counter_Name", "Counter_Value")


def find_tool() -> str:
    """Return the profiler of the ROCm in use: that of the wheels beside this Python, then the one
    of ``$ROCM_PATH``, then of /opt/rocm; one that is only on the path may be another release's."""
    rocm = os.environ.get("ROCM_PATH")
    places = [sysconfig.get_path("scripts"), None if rocm is None else f"{rocm}/bin", OWN_PLACE]
    for place in places:
        path = None if place is None else shutil.which(ROCPROF_TOOL, path=place)
        if path is not None:
            return path
    path = shutil.which(ROCPROF_TOOL)
    if path is None:
        raise EngineUnavailableError(f"{ROCPROF_TOOL} is not on the path: {INSTALL}")
    return path


def rocprof_command(
    tool: str, folder: Path, program: Sequence[str], counters: Sequence[str] = ()
) -> list[str]:
    """Return the program under the profiler: a kernel trace, or one pass of counters."""
    what = ["--pmc", *counters] if counters else ["--kernel-trace"]
    places = ["--output-format", "csv", "-d", str(folder), "-o", "bench"]
    return [tool, *what, *places, "--", *program]


def read_trace(folder: Path) -> list[KernelDispatch]:
    """Return launches of all processes below the folder."""
    return [
        KernelDispatch(int(row["Dispatch_Id"]), row["Kernel_Name"], *_times(row))
        for row in _rows(folder, "kernel_trace.csv", _TRACE_COLUMNS)
    ]


def read_counters(folder: Path) -> list[KernelDispatch]:
    """Return the launches with their counters. A counter with a line for each unit is their sum."""
    found: dict[tuple[str, int], KernelDispatch] = {}
    for row in _rows(folder, "counter_collection.csv", _COUNTER_COLUMNS):
        key = row.get("Process_Id", ""), int(row["Dispatch_Id"])
        each = found.get(key) or KernelDispatch(key[1], row["Kernel_Name"], *_times(row))
        name, value = row["Counter_Name"], float(row["Counter_Value"])
        counters = {**each.counters, name: each.counters.get(name, 0.0) + value}
        found[key] = replace(each, counters=counters)
    return list(found.values())


def _times(row: Mapping[str, str]) -> tuple[int, int]:
    return int(row["Start_Timestamp"]), int(row["End_Timestamp"])


def _rows(folder: Path, ending: str, columns: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield the rows of every file with this ending. Raises `EngineError` if there is none, or one
    with undocumented columns."""
    paths = sorted(folder.rglob(f"*{ending}"))
    if not paths:
        raise EngineError(
            f"{ROCPROF_TOOL} wrote no {ending}: it saw no kernel, or could not attach"
        )
    for path in paths:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8", errors="replace")))
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise EngineError(f"{ROCPROF_TOOL}: {path.name} has no column {', '.join(missing)}")
        yield from reader


TOOL = ROCPROF_TOOL


def why_not() -> str | None:
    """Return the reason why nothing can be recorded here, in a sentence; None if it can."""
    try:
        find_tool()
    except EngineUnavailableError as error:
        return str(error)
    return None


def trace(case: Profiled, environment: Mapping[str, str], timeout_s: float) -> list[TraceEvent]:
    """Return events of some iterations. Raises `EngineError`."""
    return trace_events(_record(case, (), read_trace, environment, timeout_s))


def count(
    case: Profiled, counters: str, environment: Mapping[str, str], timeout_s: float
) -> Counted:
    """Return the case's kernels: times from a pass without counters, then a pass for each counter
    of its chip; one that cannot be had costs itself. Raises `EngineError` if none can."""
    timed = kernels(_record(case, (), read_trace, environment, timeout_s))
    counted: dict[str, dict[str, float]] = {}
    missed: list[str] = []
    for counter in counters_of(counters, arch_of(case.options.device)):
        try:
            seen = _record(case, (counter,), read_counters, environment, timeout_s)
        except EngineError as error:
            missed.append(f"no {counter}: {error}")
            continue
        for kernel in kernels(seen):
            counted.setdefault(kernel.name, {}).update(kernel.counters)
    if not counted:
        raise EngineError(missed[0] if missed else f"{TOOL} recorded no kernel")
    complete = (replace(kernel, counters=counted.get(kernel.name, {})) for kernel in timed)
    return Counted(tuple(complete), tuple(missed))


def arch_of(device: int) -> str | None:
    """Return the chip of the device that ``--device`` names, such as ``gfx942``, as amdsmi tells
    it."""
    number = machine.device_number(device)
    names = ((each, (str(each.index), each.uuid)) for each in machine.devices())
    return next((each.arch for each, known in names if number in known), None)


def _record(
    case: Profiled,
    counters: Sequence[str],
    read: Callable[[Path], list[KernelDispatch]],
    environment: Mapping[str, str],
    timeout_s: float,
) -> list[list[KernelDispatch]]:
    """Return launches by iteration, from one pass of the profiler. The host's clock is used, so
    that no gate is closed: kernels that the profiler runs one at a time would wait behind it."""
    case = replace(case, options=replace(case.options, timer="host"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request, output = save(case, folder), folder / "out"
        target = [sys.executable, "-m", "bench_run.profilers.target", "rests", str(request)]
        command = rocprof_command(find_tool(), output, target, counters)
        done = base.run(command, environment, timeout_s, TOOL)
        if done.returncode != 0:
            last = base.output_tail(done)
            raise EngineError(f"{TOOL} ended with code {done.returncode}: {last}")
        iterations = last_iterations(read(output), ITERATIONS, REST_NS)
    if iterations is None:
        raise EngineError(f"{TOOL}: its records do not divide into {ITERATIONS} iterations")
    return iterations
