"""What whole runs of many tiny graphs cost: processor time by their number, and the exponent.

Usage:
  run_cost.py [--graphs=N]... [--kept=N]... [--rounds=N]

Options:
  --graphs=N   how many graphs, several sizes to compare; 300, 900 and 2,700 by default
  --kept=N     references that the cache holds before; 0 and 16,000 by default
  --rounds=N   [default: 1]

Each run is the whole command on the NumPy engine with one iteration a round; it writes a document
and validates each output. Printed: seconds of processor time (of the command and all of its
workers, the kernel's part included), seconds on the wall, the largest memory of one of its
processes; then the exponent of a power law through the processor times. What a run costs before its
first case would hide growth: the time of a run of one graph is taken off before. Goal: 1.05 at
most.

Runs of a smaller size are repeated until they have had as many graphs as the largest, half of them
before it and half after, and their means count: a slow spell of the machine hits all sizes alike.
"""

from __future__ import annotations

import sys
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np
import orjson

from bench_run.worker.reference_cache import ReferenceCache
from tests.benchmarks.harness import Cost, cost, folder, script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GRAPHS, KEPT = (300, 900, 2_700), (0, 16_000)
MOST_EXPONENT = 1.05


def write_graphs(folder: Path, count: int) -> None:
    """Graphs of one size; each has uids, so inputs and a reference, of its own."""
    folder.mkdir()
    for number in range(count):
        uids = 2 * number, 2 * number + 1
        graph = {
            "tensors": [
                {"uid": uid, "data_type": "float", "dims": [2, 2], "strides": [2, 1]}
                for uid in uids
            ],
            "nodes": [
                {
                    "type": "PointwiseAttributes",
                    "compute_data_type": "float",
                    "inputs": {"operation": "relu_fwd", "in_0_tensor_uid": uids[0]},
                    "outputs": {"out_0_tensor_uid": uids[1]},
                }
            ],
        }
        (folder / f"g{number:05}.json").write_bytes(orjson.dumps(graph))


def fill_cache(folder: Path, outputs: Path, count: int) -> None:
    cache = ReferenceCache(folder)
    for number in range(count):
        cache.store(f"{number:064x}", outputs)


def cost_of_run(base: Path, count: int, kept: int, rounds: int, seed: int) -> Cost:
    """A run of `count` graphs. Its `seed`, and so each reference, is of its own."""
    graphs, output = base / f"graphs-{count}", base / "out.json"
    if not graphs.exists():
        write_graphs(graphs, count)
    words = ["--engine", "numpy", "--warmup", "0", "--iters", str(rounds), "--quiet"]
    words += ["--rounds", str(rounds), "--seed", str(seed), "--force", "-o", str(output)]
    words += ["--reference-cache", str(base / f"kept-{kept}")]
    found = cost([sys.executable, "-m", "bench_run", str(graphs), *words])
    assert len(orjson.loads(output.read_bytes())["cases"]) == count
    output.unlink()
    return found


def costs_of_sizes(
    base: Path, sizes: Sequence[int], kept: int, rounds: int
) -> dict[int, list[Cost]]:
    """Of each run, by size."""
    repeats = {count: max(sizes) // count for count in sizes}
    before = [count for count in sizes for _ in range(repeats[count] // 2)]
    after = [count for count in sizes for _ in range(repeats[count] - repeats[count] // 2)]
    costs: dict[int, list[Cost]] = {count: [] for count in sizes}
    for seed, count in enumerate((*before, *reversed(after)), 1):
        costs[count].append(cost_of_run(base, count, kept, rounds, seed))
    return costs


def main(graphs: list[int], kept: list[int], rounds: int) -> None:
    sizes = graphs or GRAPHS
    with folder() as base:
        outputs = base / "outputs"
        outputs.mkdir()
        np.save(outputs / "1.npy", np.arange(4.0))
        for before in kept or KEPT:
            fill_cache(base / f"kept-{before}", outputs, before)
            print(f"{before:,} references kept before", flush=True)
            first = cost_of_run(base, 1, before, rounds, 0)
            costs = costs_of_sizes(base, sizes, before, rounds)
            seconds = []
            for count in sizes:
                processor_s = mean(one.processor_s for one in costs[count])
                seconds.append(processor_s - first.processor_s)
                wall_s = mean(one.wall_s for one in costs[count])
                peak_mib = max(one.peak_mib for one in costs[count])
                print(
                    f"{count:7,} graphs: {processor_s:7.2f} s, {1e3 * seconds[-1] / count:.2f} ms "
                    f"each, {wall_s:.1f} s on the wall, {peak_mib:.0f} MiB",
                    flush=True,
                )
            if len(sizes) > 1:
                exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
                print(f"exponent {exponent:.3f}")
                assert exponent <= MOST_EXPONENT


if __name__ == "__main__":
    script(main)
