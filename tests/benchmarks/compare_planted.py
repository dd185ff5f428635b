"""Planted slow-downs with the real tools: documents of `bench-run --a --b`, and what
`bench-compare` says of several of them.

Usage:
  compare_planted.py [--trials=N] [--documents=N] [--extra=P] [--keep=FOLDER]

Options:
  --trials=N     [default: 10]
  --documents=N  in each trial [default: 3]
  --extra=P      more work, in percent [default: 30]
  --keep=FOLDER  for the documents

One execution of engine ``planted:13`` is 13 repeats of the same graph, one of ``planted:10`` is 10:
30 % more work on the same machine, minute and data. Each trial measures so many documents and
compares the engines in them. ``--extra 0`` plants nothing: every alarm is a false one. Documents
that are in the folder already are not measured again.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.benchmarks.harness import ROOT, folder, install_engine, script

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = ROOT / "tests" / "doubles" / "planted" / "planted_engine.py"
GRAPHS = (
    "matmul: m=96 n=96 k=96",
    "relu: n=4 c=16 h=32 w=32",
    "add: n=2 c=8 h=32 w=32",
    "conv_fwd: n=1 c=8 h=8 w=8 k=8 r=3 s=3 pad=1",
)
ITERATIONS = 100


def measure(target: Path, extra: int, environment: dict[str, str]) -> None:
    if target.exists():
        return
    graphs = [word for graph in GRAPHS for word in ("--op", graph)]
    words = ["--a", "planted:10", "--b", f"planted:{10 + extra // 10}", "-o", str(target), "-q"]
    command = [sys.executable, "-m", "bench_run", *graphs, *words, "--iters", str(ITERATIONS)]
    subprocess.run(command, check=True, env=environment)


def verdicts(documents: list[Path]) -> collections.Counter[str]:
    words = [*map(str, documents), "--group-by", "engine", "--json", "-"]
    command = [sys.executable, "-m", "bench_compare", *words, "--allow-no-answer"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 1:
        raise SystemExit(done.stderr)
    return collections.Counter(one["verdict"] for one in json.loads(done.stdout)["cases"])


def main(trials: int, documents: int, extra: int, keep: str | None) -> None:
    total: collections.Counter[str] = collections.Counter()
    alarmed = 0
    with folder() as site, folder(keep) as kept:
        environment = install_engine(SOURCE, site)
        for trial in range(trials):
            begin = time.monotonic()
            files = [kept / f"plus{extra}_{trial:02d}_{n}.json" for n in range(documents)]
            for path in files:
                measure(path, extra, environment)
            found = verdicts(files)
            total += found
            alarmed += found["slower"] > 0
            load = os.getloadavg()[0]
            taken = time.monotonic() - begin
            print(f"trial {trial + 1}: {dict(found)}  load {load:.1f}, {taken:.0f} s", flush=True)
    judged = sum(total.values())
    print(
        f"+{extra} %, {documents} documents a trial: {total['slower']} of {judged} cases slower, "
        f"{total['faster']} faster; in {alarmed} of {trials} trials one at least slower"
    )


if __name__ == "__main__":
    script(main)
