"""A real archive with known slow-downs: documents of `graphs/smoke` made on this machine, one a
build, and what `bench-compare history` says of them.

    python -m tests.benchmarks.history_archive [--builds 40] [--keep FOLDER]

The engine `slowed` repeats NumPy's work: from build 13 on batch norms take 3 repeats in place
of 2 (+50 %), from build 28 on convolutions take 4 (twice as long). At build 21 an environment
variable changes and nothing else. Documents that are in the folder already are not measured again;
the page is written beside the archive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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


def installed(folder: Path) -> dict[str, str]:
    """The environment in which bench-run knows the engine."""
    info = folder / "slowed-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / SOURCE.name).write_text(SOURCE.read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slowed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bench_run.engines]\nslowed = slowed_engine\n")
    paths = [str(folder), str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def planted(build: int) -> dict[str, str]:
    """What of the environment is of a build."""
    slow = ["batchnorm=3"] * (build >= BATCHNORM) + ["conv=4"] * (build >= CONV)
    version = f"1.{(build >= BATCHNORM) + (build >= CONV)}"
    changed = {"NVIDIA_TF32_OVERRIDE": "0"} if build >= ENVIRONMENT else {}
    return {"SLOWED": ",".join(slow), "SLOWED_VERSION": version, **changed}


def measure(target: Path, build: int, environment: dict[str, str]) -> None:
    if target.exists():
        return
    words = ["graphs/smoke", "--engine", "slowed", "--label", f"build {build + 1}", *FLAGS]
    command = [sys.executable, "-m", "bench_run", *words, "-o", str(target)]
    subprocess.run(command, check=True, cwd=ROOT, env={**environment, **planted(build)})


def main(argv: list[str]) -> None:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words.get("--keep", temporary))
        archive = folder / "archive"
        archive.mkdir(parents=True, exist_ok=True)
        environment = installed(Path(temporary) / "site")
        for build in range(int(words.get("--builds", 40))):
            measure(archive / f"build_{build + 1:02d}.json", build, environment)
        program = [sys.executable, "-m", "bench_compare", "history", str(archive), "--by", "label"]
        subprocess.run([*program, "--html", str(folder / "trend.html")])
        done = subprocess.run([*program, "--json", "-"], capture_output=True, text=True)
        for event in json.loads(done.stdout)["events"]:
            ends = event["earliest"] + 1, event["build"] + 1, event["latest"] + 1
            print("event: builds", *ends, event["direction"], event["ratio"], event["causes"])


if __name__ == "__main__":
    main(sys.argv[1:])
