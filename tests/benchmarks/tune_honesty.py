"""Is what a tuning claims true? The race against the rules of other tuners, in simulated worlds.

Usage:
  tune_honesty.py [--worlds=N]

Options:
  --worlds=N  [default: 200]

A world has 40 plans whose true times lie evenly within 8 % of the best; the first is the default.
Samples are noisy and skewed to the right, and every visit to a plan (a process, a placement, a
clock) is off by an amount of its own. Each rule tunes each world twice. Regret: how much slower the
chosen plan truly is than the best. Claim: the time that is told beside the chosen plan's true one.
Agree: both tunings choose the same plan.

The foreign rules are those of the tools' sources: cuDNN's frontend stops a plan at the first run
that is not 5 % faster; hipDNN when the last three runs vary by less than 5 %; both take the
smallest. TunableOp takes the smallest mean of up to 100 runs after 3 and 10; MIGraphX the smallest
mean of the middle half of 20 events of 10 runs. Ours is the code that `bench-run tune` runs:
`kept`, `undecided`, `decide`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from bench_schema.estimate import looks

from bench_run.tune.race import Contender, decide, kept, undecided
from bench_run.tune.settings import MORE_ROUNDS
from bench_run.tune.stages import counts_of
from tests.benchmarks.harness import script

PLANS, WIDTH = 40, 0.08
SKEW = 0.5
MARGIN = 0.005
ROUNDS, SHORT, SAMPLES = 5, 20, 60
COUNTS = counts_of(ROUNDS, MORE_ROUNDS * ROUNDS)
LOOKS = len(looks(ROUNDS, MORE_ROUNDS * ROUNDS))


@dataclass(frozen=True)
class Noise:
    sample: float
    visit: float

    def take(self, draw, true, count):
        """Logarithms of the times of one visit."""
        bell = draw.standard_normal(count) * math.sqrt(1 - SKEW**2)
        tail = SKEW * (draw.exponential(1.0, count) - 1)
        return true + self.visit * draw.standard_normal() + self.sample * (bell + tail)


WORLDS = {
    "quiet GPU (1 %, 0.2 %)": Noise(0.01, 0.002),
    "short kernels (4 %, 0.5 %)": Noise(0.04, 0.005),
    "shared machine (10 %, 3 %)": Noise(0.10, 0.03),
}


def world(draw):
    """True logarithms, the best at 0."""
    true = draw.uniform(0, WIDTH, PLANS)
    return true - true.min()


def cudnn_rule(draw, true, noise):
    return _smallest([_until_slower(np.exp(noise.take(draw, t, 60))[1:]) for t in true])


def _until_slower(runs):
    best = runs[0]
    for count, value in enumerate(runs[1:], 2):
        if value > 0.95 * best:
            return min(best, value), count + 1
        best = value
    return best, len(runs) + 1


def hipdnn_rule(draw, true, noise):
    return _smallest([_until_stable(np.exp(noise.take(draw, t, 101))[1:]) for t in true])


def _until_stable(runs):
    count = 3
    while count < len(runs) and _spread(runs[count - 3 : count]) > 0.05:
        count += 1
    return runs[:count].min(), count + 1


def _spread(runs):
    return np.ptp(runs) / runs.mean()


def tunableop_rule(draw, true, noise):
    best, chosen, used = math.inf, 0, 0
    for index, t in enumerate(true):
        runs = np.exp(noise.take(draw, t, 113))
        used += 3
        if runs[:3].mean() > 1.5 * best:
            continue
        used += 10
        if runs[3:13].mean() > 1.15 * best:
            continue
        used += 100
        if runs[13:].mean() < best:
            best, chosen = runs[13:].mean(), index
    return chosen, best, used


def migraphx_rule(draw, true, noise):
    found = []
    for t in true:
        events = np.sort(np.exp(noise.take(draw, t, 200)).reshape(20, 10).mean(axis=1))
        found.append((events[5:15].mean(), 201))
    return _smallest(found)


def _smallest(found):
    values = [value for value, _ in found]
    return int(np.argmin(values)), min(values), sum(used for _, used in found)


def our_rule(draw, true, noise):
    """Two short visits to all, ordinary ones to the finalists, the decision."""
    used = 0

    def visit(plan, samples, warmup):
        nonlocal used
        used += samples + warmup
        return float(np.median(noise.take(draw, true[plan], samples)))

    short = np.array([[visit(plan, SHORT, 2) for _ in range(2)] for plan in range(PLANS)])
    known = {plan: [] for plan in sorted({0, *kept(short)})}
    due = frozenset(known)
    for count in COUNTS:
        for plan in sorted(due):
            known[plan] += [visit(plan, SAMPLES, 10) for _ in range(len(known[plan]), count)]
        found = [Contender(plan, plan, np.array(logs)) for plan, logs in known.items()]
        due = undecided([c for c in found if c.index in due], MARGIN, LOOKS)
        if not due:
            break
    winner = decide(found, MARGIN, LOOKS).winner
    return winner, math.exp(float(np.mean(known[winner]))), used


RULES = {
    "cuDNN": cudnn_rule,
    "hipDNN": hipdnn_rule,
    "TunableOp": tunableop_rule,
    "MIGraphX": migraphx_rule,
    "bench-run tune": our_rule,
}


@dataclass(frozen=True)
class Row:
    regret: float
    regret_95: float
    claim: float
    agree: float
    executions: float


def judge(rule, noise, worlds):
    regrets, claims, agrees, used = [], [], [], []
    for seed in range(worlds):
        true = world(np.random.default_rng(seed))
        chosen = []
        for turn in (1, 2):
            plan, claim, executions = rule(np.random.default_rng((seed, turn)), true, noise)
            median = math.exp(true[plan])
            regrets.append(math.expm1(true[plan]))
            claims.append(claim / median - 1)
            used.append(executions)
            chosen.append(plan)
        agrees.append(chosen[0] == chosen[1])
    return Row(
        float(np.mean(regrets)),
        float(np.percentile(regrets, 95)),
        float(np.mean(claims)),
        float(np.mean(agrees)),
        float(np.mean(used)),
    )


def main(worlds: int) -> None:
    print(f"{worlds} worlds of {PLANS} plans, two tunings each")
    print(f"{'':28}{'rule':16}{'regret':>9}{'95 %':>9}{'claim':>9}{'agree':>8}{'executions':>12}")
    for label, noise in WORLDS.items():
        name = label
        for rule, function in RULES.items():
            row = judge(function, noise, worlds)
            print(
                f"{name:28}{rule:16}{100 * row.regret:8.2f}%{100 * row.regret_95:8.2f}%"
                f"{100 * row.claim:8.2f}%{100 * row.agree:7.0f}%{row.executions:12.0f}",
                flush=True,
            )
            name = ""  # only once


if __name__ == "__main__":
    script(main)
