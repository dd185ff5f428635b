"""False events, delay, place and few documents of bench-compare history, by its real functions.

Usage:
  history_power.py [--archives=N] [--cases=N] [--builds=N] [--seed=N] [SECTION]...

Options:
  --archives=N  [default: 100]
  --cases=N     [default: 20]
  --builds=N    [default: 60]
  --seed=N      [default: 1]

SECTION is false, power, place or few; all without one. The exit code is 1 where a limit is passed.

Archives are grids of levels: `cases` series, one document a build, noise of 1 % unless the kind
says otherwise: *iid*; *spikes3* and *spikes5* (so many percent of the values are 5 to 60 %
slower); *ar.5* and *ar.7* (neighbouring documents correlate); *some.5* (so do those of each fifth
series only); *het* (the noise of the series differs, log-sd 0.7); *common* (half of the variance is
shared by all series of a document); *busy* (3 % of the documents are 5 to 60 % slower as a whole);
*one* (one build is ×1.5 in all series); *missing* (each tenth value is not there); *rounds* (each
third document is three times as noisy, and its rounds say so); *units* (two machines in turn, 15 %
apart); *week* (a wave of 1 % over seven builds); *season* (one of 0.5 % over thirty).

false: archives of identical builds with any event. power: a step of 3 % in one series; found within
2, 3, 4, 8 documents. place: the same steps anywhere: within one document of their place, and
intervals that hold the place and the size. few: one series of few documents, noise of 0.3 to 5 %:
found, undecided, passed.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from bench_compare.comparison.reasons import HIDDEN_RATIO
from bench_compare.history.steps.detect import ALONE, detect
from bench_compare.history.steps.noise import Grid
from tests.benchmarks.harness import one_of, script

SD = 0.01
LEAST = math.log1p(0.01)
STEP = math.log1p(0.03)
FLOOR = 0.001
DELAYS = (2, 3, 4, 8)
ODD = {"spikes3": 0.03, "spikes5": 0.05, "busy": 0.03}
CORRELATED = {
    "ar.5": (0.5, slice(None)),
    "ar.7": (0.7, slice(None)),
    "some.5": (0.5, slice(None, None, 5)),
}
WAVES = {"week": (0.01, 7), "season": (0.005, 30)}
FALSE = {
    "iid": 1,
    "spikes3": 5,
    "spikes5": 8,
    "ar.5": 5,
    "ar.7": 8,
    "some.5": 8,
    "het": 2,
    "common": 2,
    "busy": 5,
    "one": 2,
    "missing": 2,
    "rounds": 2,
    "units": 2,
    "week": 2,
    "season": 8,
}
"""Kind → most archives with an event, in percent."""
FOUND = {
    "iid": 95,
    "spikes3": 92,
    "spikes5": 90,
    "ar.5": 30,
    "some.5": 60,
    "het": 70,
    "common": 90,
    "busy": 90,
    "one": 95,
    "missing": 95,
    "units": 95,
}
"""Kind → least share of steps found within eight documents, in percent."""
FEW = {
    "2 + 2, ×2": (0.003, 1, [1] * 2 + [2] * 2),
    "3 + 3, ×1.3": (0.01, 1, [1] * 3 + [1.3] * 3),
    "4 + 4, ×2": (0.01, 1, [1] * 4 + [2] * 4),
    "3 + 3 + 3, ×2 each": (0.01, 1, [1] * 3 + [2] * 3 + [4] * 3),
    "4 + 4 + 4, ×1.3 each": (0.01, 1, [1] * 4 + [1.3] * 4 + [1.69] * 4),
    "5 + 5 + 5, ×1.3 each": (0.01, 1, [1] * 5 + [1.3] * 5 + [1.69] * 5),
    "6 + 6, ×2": (0.05, 1, [1] * 6 + [2] * 6),
    "+10 % over 16": (0.005, 1, np.linspace(1, 1.1, 16)),
    "+0.7 % a build, 24": (0.01, 1, 1.007 ** np.arange(24)),
    "newest of 12 ×1.3": (0.003, 1, [1] * 11 + [1.3]),
    "newest of 24 ×10": (0.003, 1, [1] * 23 + [10]),
    "same, 8": (0.01, 0, [1] * 8),
    "same, 24": (0.05, 0, [1] * 24),
    "same, 40": (0.05, 0, [1] * 40),
}
"""Name → noise, whether a step or slope is to be found, true levels."""
MOST_WRONG = 5
"""Answers other than that, in percent; no step is found in `same` more often than in 1 %."""


def values(random, kind: str, cases: int, builds: int):
    """Logarithms, (cases, builds)."""
    noise = SD * random.normal(size=(cases, builds))
    places = np.arange(builds)
    if kind in ODD:
        share, shape = ODD[kind], (1 if kind == "busy" else cases, builds)
        noise += (random.random(shape) < share) * np.log1p(random.uniform(0.05, 0.6, shape))
    if kind in CORRELATED:
        rho, rows = CORRELATED[kind]
        for at in range(1, builds):
            noise[rows, at] = rho * noise[rows, at - 1] + math.sqrt(1 - rho**2) * noise[rows, at]
    if kind in WAVES:
        size, length = WAVES[kind]
        noise += size * np.sin(2 * np.pi * (places / length + random.random()))
    if kind == "het":
        noise *= np.exp(0.7 * random.normal(size=(cases, 1)))
    if kind == "common":
        noise = math.sqrt(0.5) * (noise + SD * random.normal(size=builds))
    if kind == "one":
        noise[:, random.integers(2, builds - 1)] += math.log(1.5)
    if kind == "missing":
        noise[random.random(noise.shape) < 0.1] = np.nan
    if kind == "rounds":
        noise *= np.where(places % 3 == 0, 3, 1)
    return noise + (0.15 * (places % 2) if kind == "units" else 0)


def found_in(kind: str, logs):
    builds = np.arange(logs.shape[1])
    variance = np.zeros_like(logs)
    if kind == "rounds":
        variance += np.where(builds % 3 == 0, 9, 1) * SD**2
    unit = builds % 2 if kind == "units" else np.zeros_like(builds)
    return detect(Grid(logs, variance, builds, unit), LEAST, {}, FLOOR)


def steps_of(found):
    """Steps up of the first series."""
    return [one for one in found.steps[0] if one.shift > 0]


def false(kind: str, archives: int, cases: int, builds: int, seed: int) -> bool:
    random = np.random.default_rng(seed)
    wrong = sum(
        bool(found_in(kind, values(random, kind, cases, builds)).events) for _ in range(archives)
    )
    print(f"  {kind:8s} {wrong} of {archives} with an event, at most {FALSE[kind]} %", flush=True)
    return wrong > max(1, FALSE[kind] * archives / 100)


def power(kind: str, archives: int, cases: int, builds: int, seed: int) -> bool:
    random = np.random.default_rng(seed)
    counts = Counter[int]()
    for _ in range(archives):
        logs = values(random, kind, cases, builds + DELAYS[-1])
        logs[0, builds:] += STEP
        known = False
        for delay in DELAYS:
            known = known or bool(steps_of(found_in(kind, logs[:, : builds + delay])))
            counts[delay] += known
    told = ", ".join(str(counts[delay]) for delay in DELAYS)
    least = FOUND.get(kind, 0)
    print(f"  {kind:8s} {told} of {archives} within 2, 3, 4, 8; at least {least} %", flush=True)
    return 100 * counts[DELAYS[-1]] < least * archives


def place(kind: str, archives: int, cases: int, builds: int, seed: int) -> bool:
    random = np.random.default_rng(seed)
    counts = Counter[str]()
    for _ in range(archives):
        logs = values(random, kind, cases, builds)
        at = int(random.integers(8, builds - 8))
        logs[0, at:] += STEP
        steps = steps_of(found_in(kind, logs))
        if steps:
            one = min(steps, key=lambda step: abs(step.column - at))
            counts["found"] += 1
            counts["within 1"] += abs(one.column - at) <= 1
            counts["interval holds the place"] += one.earliest <= at <= one.latest
            counts["holds the size"] += one.low <= STEP <= one.high
    print(f"  {kind:8s} " + ", ".join(f"{number} {name}" for name, number in counts.items()))
    return counts["holds the size"] < 0.85 * counts["found"]


def few(archives: int, seed: int) -> bool:
    bad = False
    for name, (noise, is_moved, levels) in FEW.items():
        random = np.random.default_rng(seed)
        counts: Counter[str] = Counter()
        for _ in range(archives):
            logs = np.log(levels)[None, :] + random.normal(0, noise, (1, len(levels)))
            found = found_in("iid", logs)
            wide = [
                one
                for one in found.newest
                if one.hidden > math.log(HIDDEN_RATIO) or max(one.point, one.shift) > ALONE
            ]
            word = "found" if steps_of(found) else "undecided" if wide else "passed"
            counts[word] += 1
        print(f"  {name:22s} noise {100 * noise:g} %: {dict(counts)}", flush=True)
        right = counts["found"] if is_moved else counts["passed"]
        bad |= archives - right > max(1, MOST_WRONG * archives / 100)
        bad |= not is_moved and counts["found"] > max(1, archives / 100)
    return bad


def main(section: list[str], archives: int, cases: int, builds: int, seed: int) -> int:
    sections = {"false": (false, FALSE), "power": (power, FOUND), "place": (place, FOUND)}
    one_of("SECTION", section, (*sections, "few"))
    passed = []
    for what in section or [*sections, "few"]:
        print(f"{what}: {archives} archives", flush=True)
        if what == "few":
            passed += ["few"] * few(archives, seed)
            continue
        measure, kinds = sections[what]
        for kind in kinds:
            if measure(kind, archives, cases, builds, seed):
                passed.append(f"{what} {kind}")
    print(f"beyond a limit: {', '.join(passed) or 'none'}")
    return bool(passed)


if __name__ == "__main__":
    script(main)
