"""Error rate, power and rounds of ``--until decided``, through the functions of bench-compare.

Usage:
  until_decided.py [--suites=N] [--max-rounds=N]

Options:
  --suites=N      [default: 100]
  --max-rounds=N  [default: 30]

Each line is a kind of noise; suites of 1, 6 and 40 cases, the same number of cases in all (a tenth
of it where there is a change). Both sides of a pair share what a visit does to both (drift, states
of the machine). A case is wrong if it is called faster or slower without a change (or the other way
round with one), or the same with a change of twice the threshold. *Fixed* are `--max-rounds`
rounds for every case, judged once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import looks

from bench_compare.comparison import judge
from bench_compare.comparison.measure import Measured, unit_type
from tests.benchmarks.harness import script

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = np.log(1.01)
ROUNDS = 5
SIZES = (1, 6, 40)


@dataclass(frozen=True)
class Noise:
    """Of logarithms; standard deviations of one round."""

    name: str
    own: float
    shared: float = 0.01
    """What a visit does to both sides of a case."""
    correlation: float = 0.0
    """From one round to the next, of what is a side's own."""
    drift: float = 0.0
    """Over all rounds, of both sides."""
    spikes: float = 0.0
    """Share of the rounds that take 5 to 50 % longer."""
    turn: float = 0.0
    """What coming second costs: sides take turns."""
    step: float = 0.0
    """What both sides take more from a visit at random on."""
    suite: float = 0.0
    """What a visit does to one side of all cases."""


NOISES = (
    Noise("quiet, 0.2 %", 0.002),
    Noise("0.5 %", 0.005),
    Noise("1 %", 0.01),
    Noise("2 %", 0.02),
    Noise("restless, 5 %", 0.05, shared=0.1),
    Noise("1 %, drift 30 %", 0.01, drift=0.3),
    Noise("1 %, correlated 0.3", 0.01, correlation=0.3),
    Noise("1 %, step of 20 %", 0.01, step=0.2),
    Noise("4 %", 0.04),
    Noise("1 %, a tenth spikes", 0.01, spikes=0.1),
    Noise("1 %, second is 3 % slower", 0.01, turn=0.03),
    Noise("0.5 %, 0.5 % shared by one side", 0.005, suite=0.005),
)


def drawn(noise: Noise, shape: tuple[int, int], shift: float, random: np.random.Generator):
    """Base and other, cases × rounds."""
    cases, rounds = shape
    level = random.uniform(9, 16, (cases, 1))
    both = level + random.normal(0, noise.shared, shape) + np.linspace(0, noise.drift, rounds)
    both = both + noise.step * (np.arange(rounds) >= random.integers(0, rounds, (cases, 1)))
    sides = [both + _own(noise, shape, random) for _ in range(2)]
    second = np.arange(rounds) % 2
    sides[0] = sides[0] + noise.turn * second
    sides[1] = sides[1] + noise.turn * (1 - second) + random.normal(0, noise.suite, (1, rounds))
    return sides[0], sides[1] + shift


def _own(noise: Noise, shape: tuple[int, int], random: np.random.Generator):
    steps = random.normal(0, noise.own, shape)
    found = steps.copy()
    for place in range(1, shape[1]):
        fresh = np.sqrt(1 - noise.correlation**2)
        found[:, place] = noise.correlation * found[:, place - 1] + fresh * steps[:, place]
    spikes = random.random(shape) < noise.spikes
    return found + np.where(spikes, np.log1p(random.uniform(0.05, 0.5, shape)), 0)


def verdicts(base, other, known, look_count: int):
    """A move for each case, from the rounds that are known."""
    cases, rounds = np.nonzero(known)
    units = np.zeros((2, len(cases)), unit_type())
    for side, (part, logs) in enumerate(zip(units, (base, other), strict=True)):
        part["side"], part["case"], part["round"] = side, cases, rounds
        part["e2e_ns"] = logs[known]
        part["e2e_ns.variance"] = np.nan
    nothing = np.zeros(len(base))
    measured = Measured(units.ravel(), ((None,) * len(base),) * 2, {}, True, look_count, nothing)
    found, _ = judge.estimate(measured, "e2e_ns", 0.0)
    threshold, noise = np.full(len(base), LIMIT), np.full(len(base), np.nan)
    return judge.decide(found, judge.false_discovery(found.p), threshold, nothing, noise)


def until_decided(base, other):
    """Moves and the rounds that each case took, as `bench-run --until decided` adds them."""
    schedule = looks(ROUNDS, base.shape[1])
    taken = np.zeros(len(base), int)
    due = np.ones(len(base), bool)
    for until in schedule:
        taken[due] = until
        known = np.arange(base.shape[1]) < taken[:, None]
        moves = verdicts(base, other, known, len(schedule))
        due = moves == judge.UNCLEAR
        if not due.any():
            break
    return moves, taken


def fixed(base, other):
    return verdicts(base, other, np.ones(base.shape, bool), 1), np.full(len(base), base.shape[1])


def tried(rule: Callable, noise: Noise, shift: float, cases: int, max_rounds: int):
    """Shares of faster, slower, same; rounds of a case in the mean."""
    moves, rounds = [], []
    for size in SIZES:
        random = np.random.default_rng(size)
        for _ in range(cases // size):
            found, taken = rule(*drawn(noise, (size, max_rounds), shift, random))
            moves.append(found)
            rounds.append(taken)
    every = np.concatenate(moves)
    shares = [float(np.mean(every == move)) for move in (judge.DOWN, judge.UP, judge.SAME)]
    return (*shares, float(np.concatenate(rounds).mean()))


def main(suites: int, max_rounds: int) -> None:
    cases = suites * max(SIZES)
    print(
        f"{len(SIZES) * cases} cases without a change; "
        f"looks after {looks(ROUNDS, max_rounds)} rounds"
    )
    print(f"{'':34}{'until decided':>34}{'fixed':>32}")
    print(f"{'noise of a round, true change':34}" + "  faster  slower    same  rounds" * 2)
    worst = 0.0
    for noise in NOISES:
        for percent in (0, 2, 5, 20):
            shift = float(np.log1p(percent / 100))
            size = cases if percent == 0 else cases // 10
            rows = [tried(rule, noise, shift, size, max_rounds) for rule in (until_decided, fixed)]
            down, up, same, _ = rows[0]
            worst = max(worst, down + up if percent == 0 else down + same)
            text = "".join(
                f"{100 * a:7.2f}%{100 * b:7.2f}%{100 * c:7.1f}%{d:8.1f}" for a, b, c, d in rows
            )
            print(f"{noise.name + f', {percent} %':34}{text}", flush=True)
    print(f"wrong verdicts with --until decided, worst line: {100 * worst:.2f} %")


if __name__ == "__main__":
    script(main)
