"""Pairs of tunings over the stored measurement of every plan of many graphs.

Usage:
  tune_replay.py [FILE] [--pairs=N] [--process=P] [--place=P] [--modes=P] [--drift=P]

Options:
  --pairs=N    pairs of tunings of each graph [default: 10]
  --process=P  standard deviation, in percent, by which a process favours a plan: in a round, and in
               the one process of a race [default: 0.3]
  --place=P    percent of plans whose place in a race's process moves them three times as much
               [default: 8]
  --modes=P    percent of plans that are 5 % slower in a third of all processes [default: 0]
  --drift=P    percent by which everything is slower at the end of a race [default: 0]

FILE is what `tune_every` wrote; without it the H200's of the tests. Each tuning races over the
stored blocks of a plan, drawn with replacement, and then confirms its finalists in rounds of fresh
processes. On H200s rounds of 24 graphs vary from process to process by 0.30 % (median of 160 plans;
0.13 to 0.53 % for 80 % of them), and races of 156 plans differ from their rounds by 0.36 %, ten of
them by more than 1 %. The race, the choice of finalists, when rounds are enough, and the decision
are the code of `bench-run tune`.
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from bench_schema.estimate import looks

from bench_run.tune.choosing import (
    ROUNDS_AT_MOST,
    Finalist,
    decide,
    open_finalists,
    rank_candidates,
)
from bench_run.tune.racing import (
    MIDMEAN_VARIANCE,
    BlockSample,
    RaceSettings,
    choose_finalists,
    run_race,
)
from tests.benchmarks.harness import script

STORED = Path(__file__).resolve().parents[1] / "data" / "tuning" / "exhaustive_h200.json.gz"
MARGIN_RATIO = 0.005
MARGIN = math.log1p(MARGIN_RATIO)
DRIFT_BLOCKS = 20
"""After so many blocks all of the drift is there."""
MODE, MODE_SHARE = 0.05, 1 / 3
"""By how much, and in which share of processes, a plan of two modes is slower in one of them."""
ROUNDS, SAMPLES = 5, 60
LOOKS = looks(ROUNDS, ROUNDS_AT_MOST * ROUNDS)


@dataclass(frozen=True)
class Noise:
    """What differs from process to process, and in the course of a race; logarithms."""

    process: float = 0.003
    place: float = 0.08
    """Share of plans that the process of a race moves three times as much."""
    modes: float = 0.0
    """Share of plans with two modes."""
    drift: float = 0.0

    def of_race(self, draw, slower):
        """By plan. `slower`: by how much each is in its slow mode."""
        wide = np.where(draw.random(len(slower)) < self.place, 3.0, 1.0)
        own = self.process * wide * draw.standard_normal(len(slower))
        return own + np.where(draw.random(len(slower)) < MODE_SHARE, slower, 0.0)

    def of_round(self, draw, slower):
        return self.process * draw.standard_normal() + (
            slower if draw.random() < MODE_SHARE else 0.0
        )

    def modes_of(self, number, count):
        """By how much each plan of this graph is slower in its slow mode."""
        draw = np.random.default_rng(number)
        return np.where(draw.random(count) < self.modes, MODE, 0.0)


@dataclass(frozen=True)
class TuneResult:
    plan: int
    tied: frozenset[int]
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
        facts = {
            i: (p["deterministic"], p["error"], p["workspace"]) for i, p in enumerate(self.plans)
        }
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
        """Without what its process adds."""
        return float(self.truth[plan] + self.noise(SAMPLES) * draw.standard_normal())


def worlds(path):
    data = json.loads(gzip.decompress(Path(path).read_bytes()))
    every = [World(row, data["samples"]) for row in data["graphs"]]
    return [world for world in every if len(world.plans) > 1]


def tune(world, draw, noise, slower):
    offsets = noise.of_race(draw, slower)
    visits = blocks = 0

    def measure(rows, samples):
        nonlocal visits, blocks
        visits, blocks = visits + len(rows), blocks + 1
        found = {}
        for place, row in enumerate(draw.permutation(list(rows))):
            late = noise.drift * (blocks + place / len(rows)) / DRIFT_BLOCKS
            logs = world.visit(draw, row, samples) + offsets[row] + late
            found[row] = BlockSample(logs, world.deviation, world.cost)
        return found

    state = run_race(len(world.plans), world.default, measure, RaceSettings(margin=MARGIN))
    ranks = np.array([world.ranks[i] for i in range(len(world.plans))])
    chosen, _ = choose_finalists(state, ranks, world.default, MARGIN)
    return confirm(world, draw, chosen, ranks, visits, partial(noise.of_round, draw), slower)


def confirm(world, draw, chosen, ranks, visits, of_round, slower):
    rounds, due = {plan: [] for plan in chosen}, frozenset(chosen)
    for count in LOOKS:
        for plan in sorted(due):
            known = rounds[plan]
            for _ in range(len(known), count):
                known.append(world.round(draw, plan) + of_round(slower[plan]))
        finalists = [Finalist(p, int(ranks[p]), np.array(known)) for p, known in rounds.items()]
        due = open_finalists(finalists, world.default, MARGIN_RATIO, len(LOOKS), LOOKS[-1])
        if not due:
            break
    decision = decide(finalists, world.default, MARGIN_RATIO, len(LOOKS))
    claim = float(np.mean(rounds[decision.winner]))
    tied = frozenset((decision.winner, *decision.tied_with))
    return TuneResult(decision.winner, tied, claim, count, visits, sum(map(len, rounds.values())))


@dataclass(frozen=True)
class Replayed:
    regrets: list[float]
    same: list[bool]
    within: list[bool]
    """The same, or each one's winner is tied with the other's."""
    differences: list[float]
    """Between what two tunings tell of one plan."""
    visits: float
    confirmed: float
    rounds: float


def replay(path=STORED, pairs=10, noise=Noise()):
    regrets, same, within, differences, runs = [], [], [], [], []
    for number, world in enumerate(worlds(path)):
        slower = noise.modes_of(number, len(world.plans))
        truth = world.truth + MODE_SHARE * slower
        for pair in range(pairs):
            draws = [np.random.default_rng((number, pair, turn)) for turn in (1, 2)]
            one, two = (tune(world, draw, noise, slower) for draw in draws)
            same.append(one.plan == two.plan)
            within.append(one.plan in two.tied and two.plan in one.tied)
            if same[-1]:
                differences.append(one.claim - two.claim)
            regrets += [math.expm1(truth[each.plan] - truth.min()) for each in (one, two)]
            runs += [one, two]
    means = np.mean([(r.visits, r.confirmed, r.rounds) for r in runs], axis=0)
    return Replayed(regrets, same, within, differences, *map(float, means))


def main(
    file: str | None, pairs: int, process: float, place: float, modes: float, drift: float
) -> None:
    parts = [percent / 100 for percent in (process, place, modes, drift)]
    found = replay(file or STORED, pairs, Noise(*parts))
    regrets, moved = 100 * np.array(found.regrets), 100 * np.abs(found.differences)
    print(
        f"{len(found.same)} pairs of tunings\n"
        f"regret: mean {regrets.mean():.3f} %, 95 % of them up to "
        f"{np.percentile(regrets, 95):.3f} %, largest {regrets.max():.3f} %\n"
        f"the same winner twice: {100 * np.mean(found.same):.1f} %, within ties "
        f"{100 * np.mean(found.within):.1f} %\n"
        f"what two tunings tell of one plan: {np.median(moved):.3f} % apart in the median, 95 % "
        f"within {np.percentile(moved, 95):.3f} %\n"
        f"a graph takes {found.visits:.0f} visits in the race, {found.confirmed:.0f} in "
        f"{found.rounds:.1f} rounds"
    )


if __name__ == "__main__":
    script(main)
