"""False alarms and power of bench-compare on simulated runs, through its real functions.

Usage:
  compare_power.py [--graphs=N] [--seed=N] [--repeats=N]

Options:
  --graphs=N   cases of a document [default: 2000]
  --seed=N     of the first [default: 1]
  --repeats=N  [default: 1]

Each run is a document of `graphs` cases with 5 rounds of 20 iterations. Iterations are an AR(1)
series (0.5 % marginal deviation), with an exponential tail of mean 0.5 % and 0.4 % spikes of 5 to
60 %; the scenarios add what real devices do. Columns: faster or slower among identical builds; the
share of true +5 % and +2 % moves (10 % of the graphs) that is found; false alarms among the alarms;
coverage of the 95 % intervals; cases proven the same in A/A.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace

import numpy as np

from bench_compare.comparison.compare import compare
from bench_compare.model import Comparison, Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, round_, side
from tests.benchmarks.harness import script

MOVER_EVERY = 10
ALARMS = (Verdict.FASTER, Verdict.SLOWER)


@dataclass(frozen=True)
class Scenario:
    rho: float = 0.0
    """Lag-1 autocorrelation inside a round."""
    slow_share: float = 0.0
    """Of the time spent in a clock state that is 3 % slower."""
    dwell: float = 40.0
    """Mean iterations in the slow state."""
    run_sd: float = 0.0
    """Spread of the rounds."""
    level_sd: float = 0.0
    """Spread of the logarithm of the graphs' own noise levels."""


SCENARIOS = {
    "iid": Scenario(),
    "ar.5": Scenario(rho=0.5),
    "ar.9": Scenario(rho=0.9),
    "clk15": Scenario(rho=0.5, slow_share=0.15),
    "clk50": Scenario(rho=0.5, slow_share=0.5, dwell=200),
    "run.2": Scenario(rho=0.5, run_sd=0.002),
    "run": Scenario(rho=0.5, run_sd=0.007),
    "het": Scenario(rho=0.5, run_sd=0.004, level_sd=0.7),
    "all": Scenario(rho=0.7, slow_share=0.15, run_sd=0.007),
}


@dataclass(frozen=True)
class Design:
    graphs: int = 2000
    rounds: int = 5
    iterations: int = 20


def clock_states(random, scenario: Scenario, shape: tuple[int, int]):
    """1 where the device is in its slow state: a two-state Markov chain, stationary from the
    start."""
    states = np.empty(shape)
    states[:, 0] = random.random(shape[0]) < scenario.slow_share
    leave = 1 / scenario.dwell
    enter = leave * scenario.slow_share / (1 - scenario.slow_share)
    for step in range(1, shape[1]):
        moved = random.random(shape[0]) < np.where(states[:, step - 1] == 1, leave, enter)
        states[:, step] = np.where(moved, 1 - states[:, step - 1], states[:, step - 1])
    return states


def autocorrelated(random, rho: float, shape: tuple[int, int]):
    """AR(1) with unit variance along the second axis."""
    noise = random.normal(size=shape)
    for step in range(1, shape[1]):
        noise[:, step] = rho * noise[:, step - 1] + np.sqrt(1 - rho**2) * noise[:, step]
    return noise


def log_times(random, scenario: Scenario, design: Design, levels):
    """Shape (graphs, rounds, iterations): log times around zero; `levels` scale the noise."""
    shape = (design.graphs * design.rounds, design.iterations)
    noise = 0.005 * autocorrelated(random, scenario.rho, shape)
    noise += random.exponential(0.005, shape)
    noise += (random.random(shape) < 0.004) * np.log1p(random.uniform(0.05, 0.6, shape))
    noise = noise.reshape(design.graphs, design.rounds, design.iterations)
    noise += scenario.run_sd * random.normal(size=(design.graphs, design.rounds, 1))
    noise *= levels[:, None, None]
    if scenario.slow_share:
        states = clock_states(random, scenario, shape)
        noise += np.log(1.03) * states.reshape(noise.shape)
    return noise


def simulated(random, scenario: Scenario, design: Design, levels, moves):
    """A document; `moves` are the true log shifts of the graphs."""
    base = np.log(10.0) * np.linspace(4, 7, design.graphs) + moves
    times = base[:, None, None] + log_times(random, scenario, design, levels)
    samples = np.rint(np.exp(times)).astype(np.int64)
    cases = [
        case(f"g{graph}", [round_(n, {"device_ns": one}, cut=None) for n, one in enumerate(rounds)])
        for graph, rounds in enumerate(samples)
    ]
    return document(cases, run_id=str(random.integers(1 << 62)))


def pair(scenario: Scenario, design: Design, change: float, seed: int) -> Comparison:
    """Base against other with every tenth graph slower by `change`, through the real comparison."""
    random = np.random.default_rng(seed)
    levels = np.exp(scenario.level_sd * random.normal(size=design.graphs))
    still = np.zeros(design.graphs)
    moves = np.where(np.arange(design.graphs) % MOVER_EVERY == 0, np.log1p(change), 0.0)
    base = simulated(random, scenario, design, levels, still)
    other = simulated(random, scenario, design, levels, moves)
    return compare(side("base", base), [side("other", other)], Policy())


@dataclass(frozen=True)
class Rates:
    """Shares, between 0 and 1."""

    alarms: float
    """Cases called faster or slower."""
    power: float
    """Of the movers those called slower."""
    false: float
    """Of the alarms those that are none."""
    coverage: float
    same: float


def rates(comparison: Comparison, change: float) -> Rates:
    cases = comparison.cases
    moved = np.arange(len(cases)) % MOVER_EVERY == 0
    moved = moved if change else np.zeros(len(cases), bool)
    slower = np.array([one.verdict is Verdict.SLOWER for one in cases])
    alarm = np.array([one.verdict in ALARMS for one in cases])
    truth = np.where(moved, 1 + change, 1.0)
    found = [one.gate_metric for one in cases]
    low, high = (np.array([getattr(m, name) for m in found]) for name in ("ci_low", "ci_high"))
    wrong = alarm & ~(slower & moved)
    return Rates(
        alarms=float(alarm.mean()),
        power=float(slower[moved].mean()) if moved.any() else float("nan"),
        false=float(wrong.sum() / max(alarm.sum(), 1)),
        coverage=float(((low <= truth) & (truth <= high)).mean()),
        same=float(np.mean([one.verdict is Verdict.SAME for one in cases])),
    )


CHANGES = (0.0, 0.05, 0.02)


def mean_rates(scenario: Scenario, design: Design, seeds: range) -> list[Rates]:
    """For each of `CHANGES`, over all seeds; the false share is that of the alarms together."""
    result = []
    for number, change in enumerate(CHANGES):
        found = [rates(pair(scenario, design, change, seed + number), change) for seed in seeds]
        alarms = sum(one.alarms for one in found)
        false = sum(one.alarms * one.false for one in found) / alarms if alarms else 0.0
        means = {
            f.name: float(np.mean([getattr(one, f.name) for one in found])) for f in fields(Rates)
        }
        result.append(Rates(**{**means, "false": false}))
    return result


def main(graphs: int, seed: int, repeats: int) -> None:
    design = replace(Design(), graphs=graphs)
    seeds = range(seed, seed + repeats * len(CHANGES), len(CHANGES))
    print(f"{design.graphs} graphs, {design.rounds} rounds of {design.iterations}; all in %")
    print("scenario  A/A alarms  +5% found  +2% found  false of +5%  of +2%  coverage  same in A/A")
    total = false = 0.0
    for name, scenario in SCENARIOS.items():
        begin = time.perf_counter()
        still, five, two = mean_rates(scenario, design, seeds)
        total += five.alarms + two.alarms
        false += five.alarms * five.false + two.alarms * two.false
        print(
            f"{name:8}  {100 * still.alarms:10.2f}  {100 * five.power:9.1f}  "
            f"{100 * two.power:9.1f}  {100 * five.false:12.1f}  {100 * two.false:6.1f}  "
            f"{100 * still.coverage:8.1f}  {100 * still.same:11.1f}   "
            f"({time.perf_counter() - begin:.0f} s)",
            flush=True,
        )
    print(f"of all alarms where there are movers {100 * false / total:.1f} % are false")


if __name__ == "__main__":
    script(main)
