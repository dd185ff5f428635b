"""What a history of few documents says of steps and slopes, beside Welch's test and PELT.

Usage:
  history_few.py [--draws=N] [--seed=N]

Options:
  --draws=N  [default: 200]
  --seed=N   [default: 1]

One series, one document a build, normal noise of 1 to 15 %. *step*: ×1.3 to ×3 after 2 to 8
documents, 2 to 8 documents long. *any place*: of 8 or 16 documents, the step anywhere with two on
either side. *ramp*: +1 % and +2 % a build over 24. *same*: identical builds. Shares in percent:
found (exit code 2), undecided (1), passed (0). Welch: the newest half against the rest, at 5 %.
PELT: least squares, penalty 3 σ² log n with σ from differences of neighbours, two documents at
least (package ruptures, where it is installed).
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from bench_compare.history.steps.detect import detect, odd_heads
from bench_compare.history.steps.hidden import hidden
from bench_compare.history.steps.noise import Grid
from tests.benchmarks.harness import script

LEAST = math.log1p(0.01)
SPREADS = (0.01, 0.02, 0.05, 0.1, 0.15)
STEPS = (1.3, 1.6, 2.0, 2.6, 3.0)
RAMPS = (0.01, 0.02)
RAMP_BUILDS = 24


def said(logs) -> str:
    """What the history says of one series, or of a row for each."""
    logs = np.atleast_2d(logs)
    builds = np.arange(logs.shape[1])
    grid = Grid(logs, np.zeros_like(logs), builds, np.zeros_like(builds))
    found = detect(grid, LEAST)
    if any(event.shift > 0 for event in found.events):
        return "found"
    rows = found.tracks[: len(logs)]
    odd = odd_heads(rows, found.steps, len(builds) - 1, LEAST)
    return "undecided" if odd or hidden(rows, found.steps, len(builds) - 1, LEAST) else "passed"


def stepped(random, before: int, after: int, factor: float, spread: float):
    logs = random.normal(0, spread, before + after)
    logs[before:] += math.log(factor)
    return logs


def ramp(random, rise: float, spread: float, builds: int = RAMP_BUILDS):
    return random.normal(0, spread, builds) + math.log1p(rise) * np.arange(builds)


def welch(logs) -> str:
    from scipy.stats import ttest_ind

    half = len(logs) // 2
    result = ttest_ind(logs[half:], logs[:half], equal_var=False)
    return "found" if result.pvalue < 0.05 and result.statistic > 0 else "passed"


def pelt(logs) -> str:
    import ruptures

    spread = max(1.4826 * np.median(np.abs(np.diff(logs))) / math.sqrt(2), 1e-6)
    penalty = 3 * spread**2 * math.log(len(logs))
    bounds = ruptures.Pelt("l2", min_size=2, jump=1).fit(logs).predict(pen=penalty)
    if len(bounds) < 2:
        return "passed"
    return "found" if logs[bounds[-2] :].mean() > logs[: bounds[0]].mean() else "passed"


def rivals():
    known = {"history": said}
    for name, module, rival in (("Welch", "scipy", welch), ("PELT", "ruptures", pelt)):
        try:
            __import__(module)
        except ImportError:
            print(f"{name}: {module} is not installed")
        else:
            known[name] = rival
    return known


def worlds(random, spread: float):
    """Name → a function that draws one series."""
    yield "same, 24", lambda: random.normal(0, spread, 24)
    yield "same, 8", lambda: random.normal(0, spread, 8)
    for sides in (2, 3, 4, 6, 8):
        for factor in STEPS:
            yield (
                f"{sides} + {sides}, ×{factor}",
                lambda sides=sides, factor=factor: stepped(random, sides, sides, factor, spread),
            )
    for rise in RAMPS:
        yield f"ramp +{100 * rise:g} %", lambda rise=rise: ramp(random, rise, spread)


def main(draws: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    known = rivals()
    print(f"{'':24}" + "".join(f"{name:>22}" for name in known))
    print(f"{'':24}" + f"{'found undec. passed':>22}" * len(known))
    for spread in SPREADS:
        for name, draw in worlds(random, spread):
            counts = {rival: Counter() for rival in known}
            for _ in range(draws):
                logs = draw()
                for rival, judge in known.items():
                    counts[rival][judge(logs)] += 1
            cells = (
                "".join(
                    f"{100 * one[key] / draws:7.1f}" for key in ("found", "undecided", "passed")
                )
                for one in counts.values()
            )
            print(f"{100 * spread:3g} %  {name:18}" + " ".join(f"{cell:>21}" for cell in cells))


if __name__ == "__main__":
    script(main)
