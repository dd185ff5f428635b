"""AMD's `rocprofv3`: its command line, its counter sets, and its CSV files as launches.

Written by its documentation: ``--kernel-trace`` writes ``*_kernel_trace.csv``, ``--pmc`` writes
``*_counter_collection.csv``, both with a header line; times are nanoseconds. Columns are found by
name, since releases add some.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sysconfig
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.profilers.records import Dispatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

TOOL = "rocprofv3"
OWN_PLACE = "/opt/rocm/bin"
INSTALL = "it comes with ROCm's rocprofiler-sdk (package rocprofiler-sdk, /opt/rocm/bin)"

_TRACE_COLUMNS = ("Dispatch_Id", "Kernel_Name", "Start_Timestamp", "End_Timestamp")
_COUNTER_COLUMNS = (*_TRACE_COLUMNS, "Counter_Name", "Counter_Value")


def find_tool() -> str:
    """The profiler of the ROCm in use: that of the wheels beside this Python, then the one of
    ``$ROCM_PATH``, then of /opt/rocm; one that is only on the path may be another release's."""
    rocm = os.environ.get("ROCM_PATH")
    places = [sysconfig.get_path("scripts"), None if rocm is None else f"{rocm}/bin", OWN_PLACE]
    for place in places:
        path = None if place is None else shutil.which(TOOL, path=place)
        if path is not None:
            return path
    path = shutil.which(TOOL)
    if path is None:
        raise EngineUnavailableError(f"{TOOL} is not on the path: {INSTALL}")
    return path


def command(
    tool: str, folder: Path, program: Sequence[str], counters: Sequence[str] = ()
) -> list[str]:
    """The program under the profiler: a kernel trace, or one pass of counters."""
    what = ["--pmc", *counters] if counters else ["--kernel-trace"]
    places = ["--output-format", "csv", "-d", str(folder), "-o", "bench"]
    return [tool, *what, *places, "--", *program]


def read_trace(folder: Path) -> list[Dispatch]:
    """Launches of all processes below the folder."""
    return [
        Dispatch(int(row["Dispatch_Id"]), row["Kernel_Name"], *_times(row))
        for row in _rows(folder, "kernel_trace.csv", _TRACE_COLUMNS)
    ]


def read_counters(folder: Path) -> list[Dispatch]:
    """Launches with their counters. A counter that has a line for each unit is their sum."""
    found: dict[tuple[str, int], Dispatch] = {}
    for row in _rows(folder, "counter_collection.csv", _COUNTER_COLUMNS):
        key = row.get("Process_Id", ""), int(row["Dispatch_Id"])
        each = found.get(key) or Dispatch(key[1], row["Kernel_Name"], *_times(row))
        name, value = row["Counter_Name"], float(row["Counter_Value"])
        counters = {**each.counters, name: each.counters.get(name, 0.0) + value}
        found[key] = replace(each, counters=counters)
    return list(found.values())


def _times(row: Mapping[str, str]) -> tuple[int, int]:
    return int(row["Start_Timestamp"]), int(row["End_Timestamp"])


def _rows(folder: Path, ending: str, columns: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Rows of every file that ends so. Raises `EngineError` where there is none, or one whose
    columns are not the documented ones."""
    paths = sorted(folder.rglob(f"*{ending}"))
    if not paths:
        raise EngineError(f"{TOOL} wrote no {ending}: it saw no kernel, or could not attach")
    for path in paths:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8", errors="replace")))
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise EngineError(f"{TOOL}: {path.name} has no column {', '.join(missing)}")
        yield from reader
