"""Verdicts on what the statistics do not assume, through the real functions.

Usage:
  compare_attacks.py [--repeats=N] [--cases=N] [--only=NAME]

Options:
  --repeats=N  comparisons of each scenario [default: 40]
  --cases=N    [default: 40]
  --only=NAME  this scenario

Each scenario says how the logarithms of round medians come about: an array of (documents, rounds,
cases) for each side, and where and in which rounds documents were measured. Two lines each: nothing
changed, and every tenth case 5 % slower. Columns: share of 95 % intervals that hold the true ratio;
share of verdicts that are wrong (an alarm for what did not change, the wrong direction, *same* for
what did); share of the changed cases that is found; share of comparisons with a wrong verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, machine, round_, side
from tests.benchmarks.harness import script

if TYPE_CHECKING:
    from collections.abc import Callable

CHANGE, MOVER_EVERY = 0.05, 10
ITERATIONS = 8
LEVEL_NS = 1e6


@dataclass(frozen=True)
class Scenario:
    what: str
    levels: Callable
    """(random, cases) → of base and of other, (documents, rounds, cases), NaN where there is no
    round."""
    hosts: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    tick_ns: int = 1
    level_ns: float = LEVEL_NS


def quiet(random, documents=3, rounds=5, cases=40, sd=0.002):
    return random.normal(0, sd, (documents, rounds, cases))


def both(make):
    return lambda random, cases: tuple(make(random, cases) for _ in range(2))


def heavy_tails(random, cases):
    return 0.005 * random.standard_t(2, (3, 5, cases))


def drift(random, cases):
    return quiet(random, cases=cases) + np.linspace(0, 0.03, 5)[None, :, None]


def sequential(random, cases):
    """The machine gets 2 % slower from the first document of base to the last one of other."""
    trend = np.linspace(0, 0.02, 6)[:, None, None]
    both_sides = quiet(random, 6, cases=cases) + trend
    return both_sides[:3], both_sides[3:]


def round_states(random, cases):
    """Half of the rounds at a clock 3 % lower, for all cases of the round."""
    return quiet(random, cases=cases) + 0.03 * random.integers(0, 2, (3, 5, 1))


def document_states(random, cases):
    """A third of the documents 5 % slower."""
    return quiet(random, cases=cases) + 0.05 * (random.random((3, 1, 1)) < 0.33)


def bad_document(random, cases):
    found = quiet(random, 5, cases=cases), quiet(random, 5, cases=cases)
    found[1][random.integers(5)] += 0.1
    return found


def unequal_rounds(random, cases):
    """3 and 12 rounds, in two documents each; what differs between documents is 1 %."""
    sides = []
    for _ in range(2):
        one = quiet(random, 2, 12, cases) + random.normal(0, 0.01, (2, 1, 1))
        one[random.integers(2), 3:] = np.nan
        sides.append(one)
    return tuple(sides)


def single_documents(random, cases):
    return quiet(random, 1, 10, cases)[:, :3], quiet(random, 1, 10, cases)


def two_machines(random, cases):
    """The second machine is 15 % slower."""
    sides = []
    for slow in ((0, 0, 1), (0, 1, 1)):
        own = quiet(random, cases=cases) + 0.15 * np.array(slow)[:, None, None]
        sides.append(own)
    return tuple(sides)


def placement(random, cases):
    """Where buffers lie follows from the order of the cases, which every document repeats."""
    return quiet(random, cases=cases) + 0.05 * random.normal(size=(1, 5, cases))


def rounds_alone(random, cases):
    """Ten documents of one round each; documents differ by 1 %."""
    return quiet(random, 10, 1, cases) + random.normal(0, 0.01, (10, 1, 1))


def unlike_noise(random, cases):
    """Of a case 0.1 %, of the next 10 %."""
    spread = np.where(np.arange(cases) % 2, 0.001, 0.1)
    return spread * random.normal(size=(3, 5, cases))


def families(random, cases):
    """A document moves every second case by the same 2 %, the others not."""
    own = 0.02 * random.normal(size=(3, 1, 1)) * (np.arange(cases) % 2)
    return quiet(random, cases=cases) + own


def spikes(random, cases):
    """One round in ten takes up to 50 % longer."""
    return quiet(random, cases=cases) + random.uniform(0, 0.4, (3, 5, cases)) * (
        random.random((3, 5, cases)) < 0.1
    )


def neighbour(random, cases):
    """A neighbour slows a random half of the cases of one document of other by 20 %."""
    found = quiet(random, cases=cases), quiet(random, cases=cases)
    found[1][2] += 0.2 * (random.random(cases) < 0.5)
    return found


def two_speeds(documents):
    """Each case takes one of two times for a whole document."""

    def made(random, cases):
        state = random.integers(0, 2, (documents, 1, cases))
        return quiet(random, documents, cases=cases) + 0.05 * state

    return made


def uneven(random, cases):
    """Documents differ by 0.5 % case by case, one of them by 2.5 %."""
    spread = np.full(3, 0.005)
    spread[random.integers(3)] = 0.025
    return quiet(random, cases=cases) + spread[:, None, None] * random.normal(size=(3, 1, cases))


def third(random, cases):
    own = 0.02 * random.normal(size=(3, 1, 1)) * (np.arange(cases) % 3 == 0)
    return quiet(random, cases=cases) + own


def opposed(random, cases):
    """What slows one half of the cases makes the others faster."""
    own = 0.01 * random.normal(size=(3, 1, 1)) * np.where(np.arange(cases) % 2, 1, -1)
    return quiet(random, cases=cases) + own


def by_length(random, cases):
    own = 0.01 * random.normal(size=(3, 1, 1)) * np.linspace(0, 2, cases)
    return quiet(random, cases=cases) + own


def cauchy(random, cases):
    return 0.001 * random.standard_cauchy((3, 5, cases))


STILL = both(lambda random, cases: quiet(random, cases=cases))
HOSTS = (("one", "one", "two"), ("one", "two", "two"))
SCENARIOS = {
    "quiet": Scenario("normal, for comparison", STILL),
    "heavy tails": Scenario("round medians after Student's t, 2 dof, 0.5 %", both(heavy_tails)),
    "drift": Scenario("3 % over the rounds of each document", both(drift)),
    "sequential": Scenario("2 % from the first to the last document", sequential),
    "round states": Scenario("rounds at one of two clocks, 3 % apart", both(round_states)),
    "document states": Scenario("documents at one of two clocks, 5 %", both(document_states)),
    "bad document": Scenario("one of five of other 10 % slower", bad_document),
    "unequal rounds": Scenario("3 and 12 rounds, documents differ by 1 %", unequal_rounds),
    "single documents": Scenario("one a side, 3 against 10 rounds", single_documents),
    "two machines": Scenario("15 % apart, known", two_machines, HOSTS),
    "machines unknown": Scenario("15 % apart, one name", two_machines),
    "placement": Scenario("5 %, repeated by every document", both(placement)),
    "rounds alone": Scenario("ten documents of one round", both(rounds_alone)),
    "unlike noise": Scenario("0.1 % and 10 %", both(unlike_noise)),
    "families": Scenario("documents move half of the cases by 2 %", both(families)),
    "spikes": Scenario("one round in ten up to 50 % slower", both(spikes)),
    "neighbour": Scenario("half of the cases of one document 20 % slower", neighbour),
    "two speeds, two": Scenario("5 % apart, a state of a document and case", both(two_speeds(2))),
    "two speeds, three": Scenario("the same with three documents", both(two_speeds(3))),
    "two speeds, five": Scenario("the same with five documents", both(two_speeds(5))),
    "uneven": Scenario("one document of three five times as restless", both(uneven)),
    "third": Scenario("documents move a third of the cases by 2 %", both(third)),
    "opposed": Scenario("documents move two halves apart by 1 %", both(opposed)),
    "by length": Scenario("documents move cases by 0 to 2 %, as their place says", both(by_length)),
    "cauchy": Scenario("round medians after Cauchy, 0.1 %", both(cauchy)),
    "coarse clock": Scenario(
        "1 µs at 20 µs", both(lambda r, n: quiet(r, cases=n)), None, 1000, 2e4
    ),
    "short kernels": Scenario("32 ns at 2 µs", both(lambda r, n: quiet(r, cases=n)), None, 32, 2e3),
}


def documents(random, scenario, logs, number, moves):
    hosts = None if scenario.hosts is None else scenario.hosts[number]
    cases = logs.shape[2]
    centre = np.log(scenario.level_ns) + 0.3 * np.sin(np.arange(cases)) + moves
    noise = random.normal(0, 0.001, (*logs.shape, ITERATIONS))
    times = np.exp(centre + logs)[..., None] * np.exp(noise)
    ticks = np.rint(np.nan_to_num(times) / scenario.tick_ns) * scenario.tick_ns
    samples = np.maximum(ticks, 1).astype(np.int64)
    for place, held in enumerate(samples):
        known = np.flatnonzero(np.isfinite(logs[place, :, 0]))
        made = [
            case(f"g{n}", [round_(int(r), {"e2e_ns": held[r, n]}) for r in known])
            for n in range(cases)
        ]
        where = machine() if hosts is None else replace(machine(), host=hosts[place])
        yield document(made, run_id=str(random.integers(1 << 62)), machine=where)


def outcome(random, scenario, cases, change):
    """(coverage, wrong, found, alarmed) of one comparison."""
    changed = (np.arange(cases) % MOVER_EVERY == 0) & (change > 0)
    moves = np.where(changed, np.log1p(change), 0.0)
    logs = scenario.levels(random, cases)
    base = side("base", *documents(random, scenario, logs[0], 0, np.zeros(cases)))
    other = side("other", *documents(random, scenario, logs[1], 1, moves))
    found = compare(base, [other], Policy()).cases
    metrics = [one.gate_metric for one in found]
    low, high = (
        np.array([getattr(m, name) or np.nan for m in metrics], float)
        for name in ("ci_low", "ci_high")
    )
    slower, faster, same = (
        np.array([one.verdict is verdict for one in found])
        for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME)
    )
    wrong = faster | (slower & ~changed) | (same & changed)
    truth = np.exp(moves)
    hits = slower[changed].mean() if changed.any() else np.nan
    return ((low <= truth) & (truth <= high)).mean(), wrong.mean(), hits, wrong.any()


def main(repeats: int, cases: int, only: str | None) -> None:
    print(f"{repeats} comparisons of {cases} cases")
    print(f"{'scenario':17} {'changed':10} coverage  wrong  found  comparisons with a wrong")
    for name, scenario in SCENARIOS.items():
        if only not in (None, name):
            continue
        for change in (0.0, CHANGE):
            random = np.random.default_rng(len(name))
            rows = [outcome(random, scenario, cases, change) for _ in range(repeats)]
            coverage, wrong, hits, alarmed = np.mean(np.array(rows, float), axis=0)
            what = "10 % +5 %" if change else "none"
            print(
                f"{name:17} {what:10} {coverage:8.3f}  {wrong:.3f}  {hits:5.2f}  {alarmed:6.2f}"
                f"   {'' if change else scenario.what}",
                flush=True,
            )


if __name__ == "__main__":
    script(main)
