"""Live tunings of the plans of some graphs: winners, claims, time, and regret.

Usage:
  tune_gpu.py [options] [GRAPH]...

Options:
  --every=N      every N-th of the graphs [default: 3]
  --take=N       at most so many of these [default: 7]
  --engine=E     the engine whose plans are tried [default: cudnn]
  --space=S      what is tried [default: plan=all]
  --cache=STATE  as of bench-run [default: rotate]
  --exhaustive   measure all plans of these graphs in ordinary rounds, too, for the regret

GRAPH is suite:resnet50-batch32 unless said otherwise. Tunes the graphs twice with different seeds.
Two tunings name the same winner strictly where it is the same plan, and within ties where each
one's winner is the other's or tied with it.

On a machine without a GPU:
`tune_gpu.py --every 1 --engine numpy --space engine=numpy,torch --cache hot suite:smoke`.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from bench_schema.files import read

from bench_run.options import Options
from bench_run.runner.planning import outline_run
from tests.benchmarks.harness import folder, script

SUITE = "suite:resnet50-batch32"


def tuned(graphs, words, path, *extra):
    """The choices of a tuning, and the seconds that it took."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "bench_run", "tune", str(graphs), *words, *extra, "-q"]
    subprocess.run([*command, "-o", str(path)], check=True)
    return read(path).tuned, time.monotonic() - begin


def text(candidate):
    return " ".join(f"{axis}={value}" for axis, value in candidate.variant.items())


def equals(entry):
    """The winner, and what is tied with it."""
    return {text(entry.candidates[index]) for index in (entry.winner, *entry.tied_with)}


def compare(first, second):
    """What two tunings say of the same graphs."""
    pairs = list(zip(first.entries, second.entries, strict=True))
    same = within = 0
    moved = []
    for one, two in pairs:
        names = [text(entry.chosen) for entry in (one, two)]
        same += names[0] == names[1]
        agree = names[0] in equals(two) and names[1] in equals(one)
        within += agree
        if names[0] != names[1]:
            print(f"  {one.name}: {names[0]}, then {names[1]}, tied: {agree}")
        if names[0] == names[1] and one.chosen.time_ns and two.chosen.time_ns:
            moved.append(100 * abs(math.log(one.chosen.time_ns / two.chosen.time_ns)))
    print(f"the same winner twice: {same} of {len(pairs)}, within ties {within}")
    if moved:
        print(f"told times of the same winner: {np.median(moved):.3f} % apart in the median")


def regret(every, first):
    """By how much winners are slower than the fastest plan of an exhaustive tuning."""
    found = []
    for row, entry in zip(every.entries, first.entries, strict=True):
        times = {text(c): c.time_ns for c in row.candidates if c.status == "ok" and c.time_ns}
        if text(entry.chosen) in times:
            found.append(100 * (times[text(entry.chosen)] / min(times.values()) - 1))
    print(f"regret: {', '.join(f'{value:.2f}' for value in found)} %")


def main(
    every: int, take: int, engine: str, space: str, cache: str, exhaustive: bool, graph: list[str]
) -> None:
    chosen = outline_run(Options(graphs=tuple(graph or [SUITE]))).graphs[::every][:take]
    words = ["-e", engine, "--space", space, "--cache", cache, "--check-budget", "0.02"]
    with folder(None) as kept:
        graphs = kept / "graphs"
        graphs.mkdir()
        for each in chosen:
            (graphs / Path(each.id.path).name).write_bytes(each.loaded.text)
        runs = []
        for seed in (1, 2):
            found, took = tuned(graphs, words, kept / f"{seed}.json", "--seed", str(seed))
            count = sum(len(entry.candidates) for entry in found.entries)
            print(f"tuning {seed}: {took:.0f} s, {count} candidates of {len(found.entries)} graphs")
            runs.append(found)
        compare(*runs)
        if exhaustive:
            measured, took = tuned(graphs, words, kept / "every.json", "--exhaustive")
            print(f"all in ordinary rounds: {took:.0f} s")
            regret(measured, runs[0])


if __name__ == "__main__":
    script(main)
