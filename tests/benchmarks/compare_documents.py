"""Coverage and wrong verdicts where documents differ from each other, through the real functions.

    python -m tests.benchmarks.compare_documents [--repeats 60] [--cases 40] [--documents 1,2,3,5]
        [--effects 0/0,1/0,0/1,1/1]

Each document has `cases` cases with 5 rounds of 8 iterations; rounds spread by 0.2 %. A document
moves all of its cases together (common effect) and each case by itself (own effect), anew in every
document. Rows: both effects, documents a side, which cases really changed. Columns: share of 95 %
intervals that hold the true ratio; share of verdicts that are wrong (an alarm for a case that did
not change, the wrong direction, *same* for one that did); share of the changed cases that is found.
One document a side cannot know what differs between documents, unless a calibration tells it.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass

import numpy as np

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy.values import Policy
from tests.bench_compare.build import case, document, round_, side

ROUND_SD, ITERATION_SD = 0.002, 0.001
ROUNDS, ITERATIONS = 5, 8
EFFECTS = "0/0,1/0,0/1,1/1"
"""Common and own standard deviations of documents, in %."""
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


def row(seed: int, repeats: int, *what) -> Row:
    """The mean over repeated comparisons."""
    random = np.random.default_rng(seed)
    found = [outcome(random, *what) for _ in range(repeats)]
    means = (
        np.mean([getattr(one, name) for one in found])
        for name in ("coverage", "wrong", "found", "alarmed")
    )
    return Row(*map(float, means))


def main(argv: list[str]) -> None:
    words = dict(zip(argv[::2], argv[1::2], strict=True))
    repeats, cases = int(words.get("--repeats", 60)), int(words.get("--cases", 40))
    counts = [int(word) for word in words.get("--documents", "1,2,3,5").split(",")]
    pairs = [word.split("/") for word in words.get("--effects", EFFECTS).split(",")]
    effects = [(float(common) / 100, float(own) / 100) for common, own in pairs]
    print(f"{repeats} comparisons of {cases} cases, {ROUNDS} rounds, round spread 0.2 %")
    print(
        "common / own   documents   changed      coverage  wrong  found  comparisons with a wrong"
    )
    for seed, (effect, count, change) in enumerate(itertools.product(effects, counts, CHANGES)):
        one = row(seed, repeats, cases, (count, count), effect, change)
        print(
            f"{100 * effect[0]:4.0f} % / {100 * effect[1]:.0f} %  {count:9}   {change:10}  "
            f"{one.coverage:9.3f}  {one.wrong:.3f}  {one.found:5.2f}  {one.alarmed:14.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
