"""Pairs of tunings over the stored measurement of every plan of many graphs.

Usage:
  tune_replay.py [FILE] [--pairs=N]

Options:
  --pairs=N  pairs of tunings of each graph [default: 10]

FILE is what `tune_every` wrote; without it the H200's of the tests. Each tuning races over the
stored blocks of a plan, drawn with replacement, and then confirms its finalists in rounds of fresh
processes, each of which favours a plan by an amount of its own (0.2 %: five rounds of nineteen
graphs on an H200 vary by as much beyond the noise of their samples). The race, the choice of
finalists, when rounds are enough, and the decision are the code of `bench-run tune`.
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_schema.looks import looks
from docopt import docopt

from bench_run.tune.choosing.decide import Finalist, decide, rank_candidates
from bench_run.tune.choosing.settle import ROUNDS_AT_MOST, open_finalists
from bench_run.tune.racing.heats import Visit, choose_finalists, run_race
from bench_run.tune.racing.rules import MIDMEAN_VARIANCE, RaceSettings

STORED = Path(__file__).resolve().parents[1] / "data" / "tuning" / "exhaustive_h200.json.gz"
MARGIN_RATIO = 0.005
MARGIN = math.log1p(MARGIN_RATIO)
PROCESS = 0.002
ROUNDS, SAMPLES = 5, 60
LOOKS = looks(ROUNDS, ROUNDS_AT_MOST * ROUNDS)


@dataclass(frozen=True)
class Tuned:
    plan: int
    claim: float
    """Logarithm of the time that is told."""
    rounds: int
    visits: int
    """In the race."""
    confirmed: int
    """Visits in rounds."""


class World:
    """One graph: its plans with the logarithms of their blocks, the default among them."""

    def __init__(self, row, stored_samples):
        self.name, self.deviation, self.cost = row["name"], row["deviation"], row["cost"]
        self.plans = [p for p in row["plans"] if "logs" in p and None not in p["logs"]]
        self.logs = np.array([p["logs"] for p in self.plans])
        self.stored = stored_samples
        names = [p["name"] for p in self.plans]
        self.default = names.index("") if "" in names else 0

    @property
    def truth(self):
        return self.logs.mean(axis=1)

    @property
    def ranks(self):
        facts = {i: (p["deterministic"], p["error"], p["workspace"])
                 for i, p in enumerate(self.plans)}  # fmt: skip
        return rank_candidates(facts, self.default)

    def noise(self, samples):
        """Standard deviation of a midmean of so many samples."""
        return self.deviation * math.sqrt(MIDMEAN_VARIANCE / samples)

    def visit(self, draw, plan, samples):
        """A stored block of the plan, with the noise of samples that it has too little of."""
        missing = max(0.0, self.noise(samples) ** 2 - self.noise(self.stored) ** 2)
        block = self.logs[plan, draw.integers(self.logs.shape[1])]
        return float(block + math.sqrt(missing) * draw.standard_normal())

    def round(self, draw, plan):
        spread = math.hypot(PROCESS, self.noise(SAMPLES))
        return float(self.truth[plan] + spread * draw.standard_normal())


def worlds(path):
    data = json.loads(gzip.decompress(Path(path).read_bytes()))
    every = [World(row, data["samples"]) for row in data["graphs"]]
    return [world for world in every if len(world.plans) > 1]


def tune(world, draw):
    offsets = PROCESS * draw.standard_normal(len(world.plans))
    visits = 0

    def measure(rows, samples):
        nonlocal visits
        visits += len(rows)
        return {r: Visit(world.visit(draw, r, samples) + offsets[r], world.deviation, world.cost)
                for r in rows}  # fmt: skip

    state = run_race(len(world.plans), world.default, measure, RaceSettings(margin=MARGIN))
    ranks = np.array([world.ranks[i] for i in range(len(world.plans))])
    chosen, _ = choose_finalists(state, ranks, world.default, MARGIN)
    return confirm(world, draw, chosen, ranks, visits)


def confirm(world, draw, chosen, ranks, visits):
    rounds, due = {plan: [] for plan in chosen}, frozenset(chosen)
    for count in LOOKS:
        for plan in sorted(due):
            known = rounds[plan]
            known += [world.round(draw, plan) for _ in range(len(known), count)]
        finalists = [Finalist(p, int(ranks[p]), np.array(known)) for p, known in rounds.items()]
        due = open_finalists(finalists, world.default, MARGIN_RATIO, len(LOOKS), LOOKS[-1])
        if not due:
            break
    winner = decide(finalists, world.default, MARGIN_RATIO, len(LOOKS)).winner
    claim = float(np.mean(rounds[winner]))
    return Tuned(winner, claim, count, visits, sum(map(len, rounds.values())))


@dataclass(frozen=True)
class Replayed:
    regrets: list[float]
    same: list[bool]
    differences: list[float]
    """Between what two tunings tell of one plan."""
    visits: float
    confirmed: float
    rounds: float


def replay(path=STORED, pairs=10):
    regrets, same, differences, runs = [], [], [], []
    for number, world in enumerate(worlds(path)):
        for pair in range(pairs):
            one, two = (tune(world, np.random.default_rng((number, pair, k))) for k in (1, 2))
            same.append(one.plan == two.plan)
            if same[-1]:
                differences.append(one.claim - two.claim)
            best = world.truth.min()
            regrets += [math.expm1(world.truth[each.plan] - best) for each in (one, two)]
            runs += [one, two]
    means = np.mean([(r.visits, r.confirmed, r.rounds) for r in runs], axis=0)
    return Replayed(regrets, same, differences, *map(float, means))


def main():
    given = docopt(__doc__)
    found = replay(given["FILE"] or STORED, int(given["--pairs"]))
    regrets, moved = 100 * np.array(found.regrets), 100 * np.abs(found.differences)
    print(
        f"{len(found.same)} pairs of tunings\n"
        f"regret: mean {regrets.mean():.3f} %, 95 % of them up to "
        f"{np.percentile(regrets, 95):.3f} %, largest {regrets.max():.3f} %\n"
        f"the same winner twice: {100 * np.mean(found.same):.1f} %\n"
        f"what two tunings tell of one plan: {np.median(moved):.3f} % apart in the median, 95 % "
        f"within {np.percentile(moved, 95):.3f} %\n"
        f"a graph takes {found.visits:.0f} visits in the race, {found.confirmed:.0f} in "
        f"{found.rounds:.1f} rounds"
    )


if __name__ == "__main__":
    main()
