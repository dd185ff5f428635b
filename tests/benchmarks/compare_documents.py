"""Coverage and wrong verdicts where documents differ from each other, through the real functions.

Usage:
  compare_documents.py [--repeats=N] [--cases=N] [--documents=LIST] [--effects=LIST]

Options:
  --repeats=N        comparisons a row; five times as many with a common and an own effect, ten
                     times with a common one alone, where all intervals miss together [default: 60]
  --cases=N          of each document [default: 40]
  --documents=LIST   a side [default: 1,2,3,5]
  --effects=LIST     common and own standard deviation of documents in % [default: 0/0,1/0,0/1,1/1]

Each document has cases with 5 rounds of 8 iterations; rounds spread by 0.2 %. A document moves all
of its cases together (common effect) and each case by itself (own effect), anew in every document.
Rows: both effects, documents a side, which cases really changed. Columns: share of 95 % intervals
that hold the true ratio, with its standard error; share of verdicts that are wrong (an alarm for a
case that did not change, the wrong direction, *same* for one that did); share of the changed cases
that is found. Below the rows of one effect: all of them, since coverage does not depend on what
changed. One document a side cannot know what differs between documents, unless a calibration tells.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, round_, side
from tests.benchmarks.harness import script

ROUND_SD, ITERATION_SD = 0.002, 0.001
ROUNDS, ITERATIONS = 5, 8
CHANGES = {
    "none": (0.0, 0.0),
    "all +3 %": (1.0, 0.03),
    "half +3 %": (0.5, 0.03),
    "10 % +5 %": (0.1, 0.05),
}
"""Share of the cases that changed, and by how much."""


@dataclass(frozen=True)
class Row:
    coverage: float
    wrong: float
    found: float
    alarmed: float
    """Share of the comparisons with a wrong verdict."""


def simulated(random, count: int, effects: tuple[float, float], moves):
    """A side of `count` documents."""
    common, own = effects
    levels = np.log(np.geomspace(1e5, 1e7, len(moves))) + moves
    documents = []
    for _ in range(count):
        at = levels + random.normal(0, common) + random.normal(0, own, len(moves))
        rounds = at[:, None] + random.normal(0, ROUND_SD, (len(moves), ROUNDS))
        noise = random.normal(0, ITERATION_SD, (*rounds.shape, ITERATIONS))
        samples = np.rint(np.exp(rounds[:, :, None] + noise)).astype(np.int64)
        cases = [
            case(f"g{n}", [round_(r, {"e2e_ns": one}) for r, one in enumerate(some)])
            for n, some in enumerate(samples)
        ]
        documents.append(document(cases, run_id=str(random.integers(1 << 62))))
    return documents


def outcome(
    random, cases: int, counts: tuple[int, int], effects: tuple[float, float], change: str
) -> Row:
    """One comparison; `counts` are the documents of base and other."""
    share, size = CHANGES[change]
    changed = np.arange(cases) < round(share * cases)
    random.shuffle(changed)
    moves = np.where(changed, np.log1p(size), 0.0)
    base = side("base", *simulated(random, counts[0], effects, np.zeros(cases)))
    other = side("other", *simulated(random, counts[1], effects, moves))
    found = compare(base, [other], Policy()).cases
    truth = np.exp(moves)
    metrics = [one.gate_metric for one in found]
    low, high = (np.array([getattr(m, name) for m in metrics]) for name in ("ci_low", "ci_high"))
    slower, faster, same = (
        np.array([one.verdict is verdict for one in found])
        for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME)
    )
    wrong = faster | (slower & ~changed) | (same & changed)
    return Row(
        coverage=float(((low <= truth) & (truth <= high)).mean()),
        wrong=float(wrong.mean()),
        found=float(slower[changed].mean()) if changed.any() else float("nan"),
        alarmed=float(wrong.any()),
    )


def row(seed: int, repeats: int, *what) -> list[Row]:
    """Repeated comparisons."""
    random = np.random.default_rng(seed)
    return [outcome(random, *what) for _ in range(repeats)]


def effort(effect: tuple[float, float], count: int) -> int:
    """How many times more comparisons it takes to know the coverage as well."""
    common, own = effect
    return 1 if not common or count == 1 else 5 if own else 10


def text(found: list[Row]) -> str:
    def mean(name: str) -> float:
        return float(np.mean([getattr(one, name) for one in found]))

    error = float(np.std([one.coverage for one in found])) / len(found) ** 0.5
    return (
        f"{mean('coverage'):9.3f} ±{error:.3f}  {100 * mean('wrong'):5.2f} %  {mean('found'):5.2f}"
        f"  {mean('alarmed'):14.3f}"
    )


def main(repeats: int, cases: int, documents: str, effects: str) -> None:
    counts = [int(word) for word in documents.split(",")]
    pairs = [word.split("/") for word in effects.split(",")]
    moved = [(float(common) / 100, float(own) / 100) for common, own in pairs]
    print(f"{repeats} comparisons or more of {cases} cases, {ROUNDS} rounds, round spread 0.2 %")
    print("common / own  documents  changed          coverage    wrong  found  with a wrong one")
    for number, (effect, count) in enumerate(itertools.product(moved, counts)):
        total = []
        name = f"{100 * effect[0]:4.0f} % / {100 * effect[1]:.0f} %  {count:9}"
        for place, change in enumerate(CHANGES):
            seed = number * len(CHANGES) + place
            found = row(
                seed, repeats * effort(effect, count), cases, (count, count), effect, change
            )
            print(f"{name}  {change:10}  {text(found)}", flush=True)
            total += found
        print(f"{name}  any         {text(total)}", flush=True)


if __name__ == "__main__":
    script(main)
