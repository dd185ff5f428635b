"""A/A with the real tools: pairs of identical runs on this machine, and the verdicts on them.

Usage:
  compare_aa_test.py [--pairs=N] [--keep=FOLDER] [--engine=NAME] [--smoke]

Options:
  --pairs=N      [default: 20]
  --keep=FOLDER  for the documents; runs that are there already are not repeated
  --engine=NAME  [default: numpy]
  --smoke        suite:smoke, whose graphs are larger than these eight

Runs `bench-run` twice for every pair, in turn, compares each pair with `bench-compare`, and prints
what it said of builds that are one and the same; then three documents a side, of three pairs each.
An alarm is a verdict *faster* or *slower*, or an exit code that is not 0. Exit code 1 if there was
one.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.benchmarks.harness import folder, script

if TYPE_CHECKING:
    from pathlib import Path

OPS = (
    "matmul: m=96 n=96 k=96",
    "matmul: m=256 n=256 k=256",
    "relu: n=4 c=16 h=32 w=32",
    "relu: n=32 c=64 h=28 w=28",
    "add: n=2 c=8 h=32 w=32",
    "add: n=16 c=64 h=28 w=28",
    "conv_fwd: n=1 c=8 h=8 w=8 k=8 r=3 s=3 pad=1",
    "batchnorm_inference: n=8 c=32 h=28 w=28",
)
ALARMS = ("faster", "slower")
SIDE = 3
"""Documents a side, at the end."""


def run(target: Path, label: str, engine: str, smoke: bool) -> None:
    if target.exists():
        return
    what = ["suite:smoke"] if smoke else [w for op in OPS for w in ("--op", op)]
    words = [*what, "-o", str(target), "--engine", engine, "--label", label, "-q"]
    subprocess.run([sys.executable, "-m", "bench_run", *words], check=True)


def compared(*files: Path) -> tuple[collections.Counter[str], int]:
    """How often each verdict was given, and the exit code."""
    command = [
        sys.executable,
        "-m",
        "bench_compare",
        *map(str, files),
        "--allow-no-answer",
        "--json",
        "-",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 1:
        raise SystemExit(done.stderr)
    found = collections.Counter(one["verdict"] for one in json.loads(done.stdout)["cases"])
    return found, done.returncode


def main(pairs: int, keep: str | None, engine: str, smoke: bool) -> int:
    total: collections.Counter[str] = collections.Counter()
    codes: collections.Counter[int] = collections.Counter()

    def add(what: str, *files: Path) -> None:
        found, code = compared(*files)
        total.update(found)
        codes[code] += 1
        load = os.getloadavg()[0]
        print(f"{what}: {dict(found)}, exit code {code}, load {load:.1f}", flush=True)

    with folder(keep) as kept:
        made = []
        for number in range(pairs):
            pair = [kept / f"pair{number:02d}_{label}.json" for label in "ab"]
            for label, path in zip("ab", pair, strict=True):
                run(path, label, engine, smoke)
            made.append(pair)
            add(f"pair {number + 1}", *pair)
        for first in range(0, len(made) - SIDE + 1, SIDE):
            group = made[first : first + SIDE]
            files = [*(a for a, _ in group), *(b for _, b in group)]
            add(f"{SIDE} documents a side, from pair {first + 1}", *files)
    alarms = sum(total[verdict] for verdict in ALARMS)
    print(", ".join(f"{count} {verdict}" for verdict, count in total.most_common()))
    print(f"{alarms} false alarms among {total.total()} verdicts of {codes.total()} comparisons,")
    print(f"{codes.total() - codes[0]} of which did not exit with 0")
    return 1 if alarms or codes.total() > codes[0] else 0


if __name__ == "__main__":
    script(main)
