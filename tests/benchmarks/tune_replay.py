"""Pairs of tunings over the stored measurement of every plan of many graphs.

Usage:
  tune_replay.py [FILE] [--pairs=N] [--process=P] [--modes=P]

Options:
  --pairs=N    pairs of tunings of each graph [default: 10]
  --process=P  standard deviation, in percent, by which a process favours a plan [default: 0.3]
  --modes=P    percent of plans that are 5 % slower in a third of all processes [default: 0]

FILE has the blocks of all plans of many graphs; without it the H200's of the tests. Each tuning
draws short rounds of all plans, and then ordinary rounds of its finalists, each in a process of its
own. On H200s rounds of 24 graphs vary from process to process by 0.30 % (median of 160 plans; 0.13
to 0.53 % for 80 % of them). The choice of finalists, when rounds are enough, and the decision are
the code of `bench-run tune`.
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_schema.estimate import looks

from bench_run.tune.race import Contender, decide, kept, ranked, undecided
from bench_run.tune.settings import MORE_ROUNDS
from bench_run.tune.stages import counts_of
from tests.benchmarks.harness import script

STORED = Path(__file__).resolve().parents[1] / "data" / "tuning" / "exhaustive_h200.json.gz"
MARGIN_RATIO = 0.005
MEDIAN_VARIANCE = 1.57
"""Variance of a median in that of a mean of as many samples."""
MODE, MODE_SHARE = 0.05, 1 / 3
"""By how much, and in which share of processes, a plan of two modes is slower in one of them."""
ROUNDS, SHORT, SAMPLES = 5, 20, 60
COUNTS = counts_of(ROUNDS, MORE_ROUNDS * ROUNDS)
LOOKS = len(looks(ROUNDS, MORE_ROUNDS * ROUNDS))


@dataclass(frozen=True)
class Noise:
    """What differs from process to process; logarithms."""

    process: float = 0.003
    modes: float = 0.0
    """Share of plans with two modes."""

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
    """Short ones."""
    confirmed: int
    """Ordinary ones."""


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

    def index(self, plan):
        """Number among contenders: the default is 0."""
        return 0 if plan == self.default else plan + 1

    def plan(self, index):
        return self.default if index == 0 else index - 1

    def noise(self, samples):
        """Standard deviation of a midmean of so many samples."""
        return self.deviation * math.sqrt(MEDIAN_VARIANCE / samples)


def worlds(path):
    data = json.loads(gzip.decompress(Path(path).read_bytes()))
    every = [World(row, data["samples"]) for row in data["graphs"]]
    return [world for world in every if len(world.plans) > 1]


def tune(world, draw, noise, slower):
    def visit(plan, samples):
        measured = world.truth[plan] + world.noise(samples) * draw.standard_normal()
        return float(measured + noise.of_round(draw, slower[plan]))

    plans = range(len(world.plans))
    short = np.array([[visit(plan, SHORT) for _ in range(2)] for plan in plans])
    rounds = {plan: [] for plan in sorted({world.default, *kept(short)})}
    due, facts = (
        frozenset(rounds),
        [(p["deterministic"], p["error"], p["workspace"]) for p in world.plans],
    )
    for count in COUNTS:
        for plan in sorted(due):
            rounds[plan] += [visit(plan, SAMPLES) for _ in range(len(rounds[plan]), count)]
        found = [Contender(world.index(p), 0, np.array(known)) for p, known in rounds.items()]
        found = ranked(found, [facts[plan] for plan in rounds])
        open_ = undecided([c for c in found if world.plan(c.index) in due], MARGIN_RATIO, LOOKS)
        due = frozenset(map(world.plan, open_))
        if not due:
            break
    decision = decide(found, MARGIN_RATIO, LOOKS)
    winner = world.plan(decision.winner)
    tied = frozenset((winner, *map(world.plan, decision.tied_with)))
    confirmed = sum(map(len, rounds.values()))
    return TuneResult(winner, tied, float(np.mean(rounds[winner])), count, short.size, confirmed)


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


def main(file: str | None, pairs: int, process: float, modes: float) -> None:
    found = replay(file or STORED, pairs, Noise(process / 100, modes / 100))
    regrets, moved = 100 * np.array(found.regrets), 100 * np.abs(found.differences)
    print(
        f"{len(found.same)} pairs of tunings\n"
        f"regret: mean {regrets.mean():.3f} %, 95 % of them up to "
        f"{np.percentile(regrets, 95):.3f} %, largest {regrets.max():.3f} %\n"
        f"the same winner twice: {100 * np.mean(found.same):.1f} %, within ties "
        f"{100 * np.mean(found.within):.1f} %\n"
        f"what two tunings tell of one plan: {np.median(moved):.3f} % apart in the median, 95 % "
        f"within {np.percentile(moved, 95):.3f} %\n"
        f"a graph takes {found.visits:.0f} short rounds, and {found.confirmed:.0f} in "
        f"{found.rounds:.1f} ordinary ones"
    )


if __name__ == "__main__":
    script(main)
