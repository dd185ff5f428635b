"""Hardware counters of a case's kernels, in a pass of their own under Nsight Compute (`ncu`).

Counters come from there, times do not: under the profiler kernels run one at a time, and several
times each. The clocks are left alone, and so are the caches.
"""

from __future__ import annotations

import csv
import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import Kernel

from bench_run.errors import EngineError, UsageError
from bench_run.profilers import base
from bench_run.profilers.base import Counted, save

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.profilers.base import Profiled

TOOL = "ncu"
DURATION = "gpu__time_duration.sum"
MEMORY = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
)
COMPUTE = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__cycles_elapsed.avg.per_second",
    "launch__registers_per_thread",
)
SETS: Mapping[str, tuple[str, ...]] = {
    "memory": MEMORY,
    "compute": COMPUTE,
    "basic": (*MEMORY, *COMPUTE),
}
"""Names that ``--counters`` takes, and their metrics."""


def check_set(name: str) -> None:
    if name not in SETS:
        raise UsageError(f"--counters: no set {name!r}; choose from {', '.join(SETS)}")


def why_not() -> str | None:
    """Return the reason why no counters can be read here, in a sentence; None if they can."""
    if shutil.which(TOOL) is None:
        return f"{TOOL} (Nsight Compute) is not on the PATH"
    return None


def count(
    case: Profiled, counters: str, environment: Mapping[str, str], timeout_s: float
) -> Counted:
    """Return the case's kernels with the counters of a set. Raises `EngineError`."""
    with tempfile.TemporaryDirectory() as folder:
        request, log = save(case, Path(folder)), Path(folder) / "counters.csv"
        command = [
            TOOL,
            "--profile-from-start",
            "off",
            "--clock-control",
            "none",
            "--cache-control",
            "none",
            "--target-processes",
            "all",
            "--csv",
            "--page",
            "details",
            "--print-units",
            "base",
            "--metrics",
            ",".join((DURATION, *SETS[counters])),
            "--log-file",
            str(log),
            sys.executable,
            "-m",
            "bench_run.profilers.target",
            "marks",
            str(request),
        ]
        done = base.run(command, environment, timeout_s, TOOL)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    kernels = parse(text)
    if not kernels:
        raise EngineError(f"{TOOL} recorded no kernel: {base.output_tail(done, text)}")
    return Counted(kernels)


def parse(text: str) -> tuple[Kernel, ...]:
    """Parse the tool's table of one row per metric: kernels in launch order."""
    lines = [line for line in text.splitlines() if line and not line.startswith("==")]
    launches: dict[str, dict[str, float]] = {}
    names: dict[str, str] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        launch, metric = row.get("ID"), row.get("Metric Name")
        value = _number(row.get("Metric Value"))
        if launch is None or metric is None or value is None:
            continue
        names[launch] = row.get("Kernel Name") or "kernel"
        launches.setdefault(launch, {})[metric] = value
    # One row a kernel: counters of its first launch, launches counted.
    rows: dict[str, Kernel] = {}
    for launch, values in launches.items():
        name = names[launch]
        known = rows.get(name)
        if known is not None:
            rows[name] = Kernel(name, known.count + 1, known.median_ns, known.counters)
            continue
        counters = {metric: value for metric, value in values.items() if metric != DURATION}
        rows[name] = Kernel(name, 1, values.get(DURATION, 0.0), counters)
    return tuple(rows.values())


def _number(text: str | None) -> float | None:
    """Parse a value with commas for thousands; None if there is none."""
    try:
        return None if text is None else float(text.replace(",", ""))
    except ValueError:
        return None
