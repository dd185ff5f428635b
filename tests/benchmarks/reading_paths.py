"""What a comparison of large documents costs beside reading their JSON and a median of each series.

    python -m tests.benchmarks.reading_paths [--keep FOLDER] [--cases 10000] [--samples 1000]
        [--turns 3]

Two documents as `compare_speed` makes them. *plain*: `orjson.loads` of both, and NumPy's median of
each series of each round: what a script by hand would do. *bench-compare*: the command, which
checks both documents, judges every case and prints its answer. Each turn is a process of its own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from tests.benchmarks.compare_speed import environment, save_both

PLAIN = """
import sys, numpy, orjson
for path in sys.argv[1:]:
    document = orjson.loads(open(path, "rb").read())
    for case in document["cases"]:
        for one in case["rounds"]:
            for samples in one["series"].values():
                numpy.median(samples)
"""


def call(command: list[str]) -> tuple[float, float]:
    """Seconds, and peak MiB."""
    begin = time.perf_counter()
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def main(argv: list[str]) -> None:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    cases, samples = int(words.get("--cases", 10_000)), int(words.get("--samples", 1_000))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words.get("--keep", temporary))
        folder.mkdir(parents=True, exist_ok=True)
        paths = list(map(str, save_both(folder, (cases, samples))))
        ways = {
            "plain": [sys.executable, "-c", PLAIN, *paths],
            "bench-compare": [sys.executable, "-m", "bench_compare", *paths, "-q"],
        }
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(int(words.get("--turns", 3))):
            for way, command in ways.items():
                found[way].append(call(command))
    today = datetime.now(timezone.utc).date()
    print(f"{today}, 2 documents of {cases} cases x {samples} samples")
    plain = statistics.median(seconds for seconds, _ in found["plain"])
    for way, calls in found.items():
        seconds, peak = (statistics.median(column) for column in zip(*calls, strict=True))
        print(f"  {way:13} {seconds:6.2f} s (x{seconds / plain:.2f}), {peak:5.0f} MiB")


if __name__ == "__main__":
    main(sys.argv[1:])
