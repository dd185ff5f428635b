"""Memory of the host and of an NVIDIA GPU while a run measures many graphs: that of the run itself,
of its workers, and what it keeps on disk.

Usage:
  host_memory.py [--engine=SPEC] [--graphs=N] [--prepare=N]... [--rounds=N]

Options:
  --engine=SPEC  [default: hipdnn]
  --graphs=N     [default: 500]
  --prepare=N    workers that prepare side by side, several to compare; 1 and 4 by default
  --rounds=N     [default: 2]

Where hipDNN is not installed, ``hipdnn`` is its double in `tests/doubles`, whose device is the
processor. Every output is checked, references are computed. While the first fifth of the visits is
measured, the second, and so on, the largest of what is sampled is noted: the memory of the run,
the largest of a worker, all of them together (memory that several map, such as expected outputs,
counted once for each), the run's folder on disk, and how much less of device 0 is free than before.
Were something kept of every graph, the last fifth would have four times more of it than the first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from bench_schema.journal import journal_path

from bench_run.machine.telemetry import free_memory_bytes
from tests.benchmarks.harness import script

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PARTS = 5
SPECS = (
    "relu: n=4 c=16 h={0} w=64 dtype=float",
    "add: n=4 c=16 h={0} w=64 dtype=half",
    "matmul: m=256 n={1} k=64 dtype=float",
    "conv_fwd: n=1 c=8 h=64 w={0} k=16 r=3 s=3 pad=1 dtype=float",
    "layernorm: n=4 s={0} h=512 dtype=float",
)
"""A tensor of each has 1 to 8 MB."""


@dataclass
class Peak:
    """The largest of some samples, bytes."""

    run: int = 0
    worker: int = 0
    together: int = 0
    disk: int = 0
    device: int = 0
    processes: int = 0
    samples: int = field(default=0, repr=False)

    def note(self, run: int, workers: list[int], disk: int, device: int) -> None:
        self.run, self.disk = max(self.run, run), max(self.disk, disk)
        self.device = max(self.device, device)
        self.worker = max([self.worker, *workers])
        self.together = max(self.together, run + sum(workers))
        self.processes = max(self.processes, 1 + len(workers))
        self.samples += 1


def specs(count: int) -> list[str]:
    """So many graphs, no two alike."""
    return [SPECS[i % len(SPECS)].format(64 + i // 5, 1024 + 8 * (i // 5)) for i in range(count)]


def sample(process: psutil.Process, scratch: Path) -> tuple[int, list[int], int]:
    found = []
    for child in process.children(recursive=True):
        try:
            found.append(child.memory_info().rss)
        except psutil.Error:
            continue
    return process.memory_info().rss, found, sum(sizes(scratch))


def sizes(folder: Path) -> Iterator[int]:
    """Of all files; what is removed meanwhile takes nothing."""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield os.stat(os.path.join(place, name)).st_size


def lines_of(journal: Path) -> int:
    return journal.read_bytes().count(b'\n{"case"') if journal.exists() else 0


def watched(command: list[str], environment: dict[str, str], output: Path, visits: int):
    """The peaks of each fifth of the visits, and the seconds of the whole."""
    peaks = [Peak() for _ in range(PARTS)]
    begin, free = time.monotonic(), free_memory_bytes("0") or 0
    error = output.with_suffix(".err")
    with error.open("wb") as file:
        running = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    process = psutil.Process(running.pid)
    while running.poll() is None:
        place = min(PARTS - 1, PARTS * lines_of(journal_path(output)) // visits)
        try:
            device = free - (free_memory_bytes("0") or free)
            peaks[place].note(*sample(process, Path(environment["TMPDIR"])), device)
        except psutil.Error:
            break
        time.sleep(0.1)
    if running.wait() != 0:
        raise SystemExit(f"exit code {running.returncode}\n{error.read_text()[-2000:]}")
    return peaks, time.monotonic() - begin


def main(graphs: int, rounds: int, engine: str, prepare: list[str]) -> None:
    count = graphs
    doubles = [] if find_spec("hipdnn_frontend") else [str(ROOT / "tests" / "doubles")]
    for workers in prepare or ["1", "4"]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "tmp").mkdir()
            listed = folder / "run.toml"
            listed.write_text(f"op = {specs(count)!r}\n")
            output = folder / "run.json"
            command = [sys.executable, "-m", "bench_run", "--config", str(listed)]
            command += ["--engine", engine, "--rounds", str(rounds)]
            command += ["--iters", str(rounds), "--warmup", "0", "--prepare", workers]
            command += ["--reference-cache", "off", "-q", "-o", str(output)]
            paths = [str(ROOT), str(ROOT / "schema"), *doubles, os.environ.get("PYTHONPATH", "")]
            environment = {
                **os.environ,
                "TMPDIR": str(folder / "tmp"),
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            }
            peaks, seconds = watched(command, environment, output, count * rounds)
            size = output.stat().st_size
        print(
            f"{count} graphs, {rounds} rounds, --prepare {workers}: {seconds:.0f} s; "
            f"document {size / 1e6:.1f} MB"
        )
        names = ("run", "a worker", "together")
        print(
            f"{'visits':>12}{''.join(f'{n:>10}' for n in names)}{'processes':>11}{'disk':>10}"
            f"{'device':>10}"
        )
        for place, peak in enumerate(peaks):
            row = (peak.run, peak.worker, peak.together)
            text = "".join(f"{value / 1e6:7.0f} MB" for value in row)
            part = f"{100 * place // PARTS} to {100 * (place + 1) // PARTS} %"
            print(
                f"{part:>12}{text}{peak.processes:11}{peak.disk / 1e6:7.0f} MB"
                f"{peak.device / 1e6:7.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    script(main)
