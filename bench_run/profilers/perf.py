"""Counters of a case on the processor, in a pass of their own under `perf stat`.

The counters of all threads of the process run over a few iterations only: they are switched on and
off through a pipe (``perf stat --control``). Each value is that of one iteration.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import Kernel

from bench_run.errors import EngineError
from bench_run.profilers import base
from bench_run.profilers.base import ITERATIONS, Counted, save

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.profilers.base import Profiled

TOOL = "perf"
TIME = "task-clock"
"""Milliseconds of processor time, of all threads together."""
MEMORY = ("cache-references", "cache-misses", "LLC-load-misses", "dTLB-load-misses", "page-faults")
COMPUTE = ("instructions", "cycles", "branches", "branch-misses", "context-switches")
SETS: Mapping[str, tuple[str, ...]] = {
    "memory": MEMORY,
    "compute": COMPUTE,
    "basic": (*MEMORY, *COMPUTE),
}
ROW = "one iteration"
"""The text in the place of a kernel's name."""


def why_not() -> str | None:
    """Return the reason why no counters can be read here, in a sentence; None if they can."""
    if shutil.which(TOOL) is None:
        return "perf is not on the PATH: install linux-perf (Debian) or linux-tools (Ubuntu)"
    return None


def count(
    case: Profiled, counters: str, environment: Mapping[str, str], timeout_s: float
) -> Counted:
    """Return one row for the whole case. Raises `EngineError`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request, table = save(case, folder), folder / "counters.csv"
        pipes = [folder / pipe for pipe in ("control", "answer")]
        for pipe in pipes:
            os.mkfifo(pipe)
        command = [
            TOOL,
            "stat",
            "--field-separator=;",
            f"--output={table}",
            "--delay=-1",
            f"--control=fifo:{','.join(map(str, pipes))}",
            f"--event={','.join((TIME, *SETS[counters]))}",
            sys.executable,
            "-m",
            "bench_run.profilers.target",
            "pipes",
            str(request),
        ]
        done = base.run(command, environment, timeout_s, TOOL)
        text = table.read_text(encoding="utf-8") if table.exists() else ""
    counted = parse(text)
    if done.returncode != 0 or counted is None:
        raise EngineError(f"{TOOL} counted nothing: {base.output_tail(done, text)}")
    return counted


def parse(text: str) -> Counted | None:
    """Return the table of `perf stat`, value by value for one iteration; None if it has no
    values."""
    values: dict[str, float] = {}
    missing = []
    for line in text.splitlines():
        value, *rest = line.split(";")
        if len(rest) < 2 or line.startswith("#"):
            continue
        try:
            values[rest[1]] = float(value) / ITERATIONS
        except ValueError:
            missing.append(rest[1])
    if not values:
        return None
    time_ms = values.pop(TIME, 0.0)
    unseen = f"{TOOL}: this machine does not count {', '.join(missing)}"
    row = Kernel(ROW, 1, time_ms * 1e6, values)
    return Counted((row,), (unseen,) if missing else ())
