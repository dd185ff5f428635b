"""Many runs in one process: descriptors, memory, children and scratch files must not grow.

Each run is the whole command (worker processes, reference, document), on a small graph. The
first tenth warms up; from then on the count of descriptors and of children and the files left in
the scratch folder must stay as they are, and memory may grow by at most 20 kB a run (least squares
over all runs).

Usage:
  soak.py [--runs=N]

Options:
  --runs=N  [default: 200]
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from bench_run.cli import main as bench_run
from tests.benchmarks.harness import script

GROWTH_BYTES = 20_000
WORDS = (
    "--op",
    "matmul: m=8 n=8 k=8",
    "--engine",
    "numpy",
    "--rounds",
    "1",
    "--iters",
    "4",
    "--warmup",
    "0",
    "--quiet",
)


@dataclass(frozen=True)
class Reading:
    descriptors: int
    children: int
    scratch: int
    memory_bytes: int


def reading(scratch):
    process = psutil.Process()
    left = sum(1 for path in scratch.rglob("*") if path.is_file())
    children = len(process.children(recursive=True))
    return Reading(process.num_fds(), children, left, process.memory_info().rss)


def one_run(output):
    with contextlib.redirect_stdout(io.StringIO()):
        code = bench_run([*WORDS, "--force", "-o", str(output)])
    assert code == 0


def soak(runs):
    """Readings after each run."""
    with tempfile.TemporaryDirectory() as place:
        scratch, output = Path(place, "scratch"), Path(place, "out.json")
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)
        tempfile.tempdir = None  # asked for again, by this process and its workers
        readings = []
        for _ in range(runs):
            one_run(output)
            output.unlink()
            readings.append(reading(scratch))
        return readings


def growth(readings):
    """Bytes of memory a run."""
    memory = [each.memory_bytes for each in readings]
    return float(np.polyfit(range(len(memory)), memory, 1)[0])


def main(runs: int) -> None:
    readings = soak(runs)
    settled = readings[len(readings) // 10 :]
    for name in ("descriptors", "children", "scratch"):
        values = [getattr(each, name) for each in settled]
        print(
            f"{name:12} {values[0]} after warming up, {values[-1]} at the end, most {max(values)}"
        )
        assert max(values) <= values[0]
    first, last = settled[0].memory_bytes, settled[-1].memory_bytes
    slope = growth(settled)
    print(f"memory       {first / 2**20:.1f} MiB after warming up, {last / 2**20:.1f} at the end")
    print(f"             {slope / 1000:+.1f} kB a run over {len(settled)} runs")
    assert slope < GROWTH_BYTES


if __name__ == "__main__":
    script(main)
