"""A real archive with known slow-downs: documents of `suite:smoke` made on this machine, one a
build, and what `bench-compare history` says of them.

Usage:
  history_archive.py [--builds=N] [--keep=FOLDER]

Options:
  --builds=N     [default: 40]
  --keep=FOLDER  for the documents

The engine `slowed` repeats NumPy's work: from build 13 on batch norms take 3 repeats in place
of 2 (+50 %), from build 28 on convolutions take 4 (twice as long). At build 21 an environment
variable changes and nothing else. Documents that are in the folder already are not measured again;
the page is written beside the archive.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.benchmarks.harness import ROOT, folder, install_engine, script

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = ROOT / "tests" / "doubles" / "slowed" / "slowed_engine.py"
BATCHNORM, ENVIRONMENT, CONV = 12, 20, 27
FLAGS = (
    "--rounds",
    "3",
    "--iters",
    "30",
    "--scale-batch",
    "2",
    "--max-time",
    "0.3",
    "--check-budget",
    "0",
    "--reference",
    "none",
    "--threads",
    "1",
    "--quiet",
)


def planted(build: int) -> dict[str, str]:
    """What of the environment is of a build."""
    slow = ["batchnorm=3"] * (build >= BATCHNORM) + ["conv=4"] * (build >= CONV)
    version = f"1.{(build >= BATCHNORM) + (build >= CONV)}"
    changed = {"NVIDIA_TF32_OVERRIDE": "0"} if build >= ENVIRONMENT else {}
    return {"SLOWED": ",".join(slow), "SLOWED_VERSION": version, **changed}


def measure(target: Path, build: int, environment: dict[str, str]) -> None:
    if target.exists():
        return
    words = ["suite:smoke", "--engine", "slowed", "--label", f"build {build + 1}", *FLAGS]
    command = [sys.executable, "-m", "bench_run", *words, "-o", str(target)]
    subprocess.run(command, check=True, cwd=ROOT, env={**environment, **planted(build)})


def main(builds: int, keep: str | None) -> None:
    with folder() as site, folder(keep) as kept:
        archive = kept / "archive"
        archive.mkdir(parents=True, exist_ok=True)
        environment = install_engine(SOURCE, site)
        for build in range(builds):
            measure(archive / f"build_{build + 1:02d}.json", build, environment)
        program = [sys.executable, "-m", "bench_compare", "history", str(archive), "--by", "label"]
        subprocess.run([*program, "--html", str(kept / "trend.html")])
        done = subprocess.run([*program, "--json", "-"], capture_output=True, text=True)
        for event in json.loads(done.stdout)["events"]:
            ends = event["earliest"] + 1, event["build"] + 1, event["latest"] + 1
            print("event: builds", *ends, event["direction"], event["ratio"], event["causes"])


if __name__ == "__main__":
    script(main)
