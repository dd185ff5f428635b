"""How often the interval of a replayed chain holds, and how far predictions are off.

Usage:
  compose_worlds.py [--worlds=N]

Options:
  --worlds=N  of each kind of noise [default: 200]

Planted worlds of twelve layers (`tests/bench_compare/compose/test_replayed.py`) on a device with a
gap of 0.29 us between kernels of a graph and 0.91 us between graphs. Layers, pairs and the chain
are measured by the functions that measure on a device, in documents of their own, and composed and
checked by `bench-compare`'s own. A row for each kind of noise: standard deviations of a kernel in a
round, of a round's state, and of a document's; then the median error and how many of the worlds
hold, and the same where a pair has the mean of both gaps.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np

from tests.bench_compare import build
from tests.bench_compare.compose import test_replayed as replayed
from tests.bench_compare.compose import worlds
from tests.benchmarks.harness import folder, script

KINDS = (
    (0.001, 0.001, 0.001),
    (0.003, 0.004, 0.003),
    (0.01, 0.01, 0.005),
    (0.02, 0.04, 0.04),
)
ROUNDS = 5


def one(folder, kind, seed, refuses):
    noise, of_rounds, of_documents = kind
    generator = np.random.default_rng(seed)

    def states():
        document = generator.normal(1, of_documents)
        return document * generator.normal(1, of_rounds, ROUNDS)

    world = replayed.replayed_world()
    parts = build.document(list(replayed.cases(states(), noise, generator, refuses)))
    made = worlds.chain(world, "e")
    (case,) = made.cases
    rounds = replayed.device_rounds(replayed.whole(), states(), noise, generator)
    chain = replace(made, cases=(replace(case, rounds=tuple(rounds)),))
    (check,) = worlds.composed(world, folder, parts, against=(chain,)).checks
    return abs(check.log_error), check.holds


def main(worlds: int) -> None:
    print("| kernel, round, document | median off by | hold | mean of gaps: off by | hold |")
    print("| --- | --- | --- | --- | --- |")
    with folder() as scratch:
        for kind in KINDS:
            cells = []
            for refuses in (False, True):
                found = [one(scratch, kind, seed, refuses) for seed in range(worlds)]
                cells.append(f"{statistics.median(error for error, _ in found):.2%}")
                cells.append(f"{sum(holds for _, holds in found)} of {worlds}")
            text = ", ".join(f"{each:.1%}" for each in kind)
            print(f"| {text} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    script(main)
