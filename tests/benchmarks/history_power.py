"""False events, delay and place of bench-compare history, through its real functions.

Usage:
  history_power.py [--archives=N] [--cases=N] [--builds=N] [--seed=N] [SECTION]...

Options:
  --archives=N  [default: 100]
  --cases=N     [default: 20]
  --builds=N    [default: 60]
  --seed=N      [default: 1]

SECTION is false, power, place, grow, controls or tails; all but the last without one.

Archives are grids of levels: `cases` series, one document a build, noise of 1 % unless the kind
says otherwise: *iid*; *spikes* (5 % of the values are 5 to 60 % slower); *ar.5* (neighbouring
documents correlate by 0.5); *some.5* (so do those of each fifth series only); *het* (the noise of
the series differs, log-sd 0.7); *common* (half of the variance is shared by all series of a
document); *busy* (3 % of the documents are 5 to 60 % slower as a whole); *missing* (each tenth
value is not there); *rounds* (each third document is three times as noisy, and its rounds say so);
*units* (two devices in turn, 15 % apart).

false: archives of identical builds with any event. power: a step of 3 % in one series, or in a
tenth of them; found within 2, 3, 4, 8 documents. place: the same steps with 8 documents after them.
grow: an accepted step while documents are appended. controls: the same series by the rules of
Apache Otava and ASV, as re-stated here. tails: the factors of `history/steps/tails.py`.
"""

from __future__ import annotations

import math
import time
from itertools import pairwise

import numpy as np
from bench_compare.history.steps.segments import splits
from bench_compare.history.steps.track import FACTORS, HEAD, tail

from bench_compare.history.steps.detect import detect
from bench_compare.history.steps.noise import Grid
from tests.benchmarks.harness import one_of, script

SD = 0.01
LEAST = math.log1p(0.01)
STEP = math.log1p(0.03)
KINDS = ("iid", "spikes", "ar.5", "some.5", "het", "common", "busy", "missing", "rounds", "units")
DELAYS = (2, 3, 4, 8)


def values(random, kind: str, cases: int, builds: int):
    """Logarithms, (cases, builds)."""
    noise = SD * random.normal(size=(cases, builds))
    shape = {"spikes": (cases, builds), "busy": (1, builds)}.get(kind)
    if shape:
        odd = random.random(shape) < (0.05 if kind == "spikes" else 0.03)
        noise += odd * np.log1p(random.uniform(0.05, 0.6, shape))
    if kind in ("ar.5", "some.5"):
        rows = slice(None, None, 1 if kind == "ar.5" else 5)
        for at in range(1, builds):
            noise[rows, at] = 0.5 * noise[rows, at - 1] + math.sqrt(0.75) * noise[rows, at]
    if kind == "het":
        noise *= np.exp(0.7 * random.normal(size=(cases, 1)))
    if kind == "common":
        noise = math.sqrt(0.5) * (noise + SD * random.normal(size=builds))
    if kind == "missing":
        noise[random.random(noise.shape) < 0.1] = np.nan
    if kind == "rounds":
        noise *= np.where(np.arange(builds) % 3 == 0, 3, 1)
    if kind == "units":
        noise += 0.15 * (np.arange(builds) % 2)
    return noise


def grid(kind: str, logs) -> Grid:
    builds = np.arange(logs.shape[1])
    variance = np.zeros_like(logs)
    if kind == "rounds":
        variance += np.where(builds % 3 == 0, 9, 1) * SD**2
    return Grid(logs, variance, builds, builds % 2 if kind == "units" else np.zeros_like(builds))


def false_events(kind: str, words: dict[str, int]) -> tuple[int, float]:
    """Archives of identical builds with an event, and seconds for one."""
    random = np.random.default_rng(words["seed"])
    began, wrong = time.perf_counter(), 0
    for _ in range(words["archives"]):
        found = detect(grid(kind, values(random, kind, words["cases"], words["builds"])), LEAST)
        wrong += bool(found.events)
    return wrong, (time.perf_counter() - began) / words["archives"]


def seen(found, at: int, moved: int):
    """The event of a moved series that is nearest to its true place, or None."""
    mine = [e for e in found.events if any(m.row < moved for m in e.members) and e.shift > 0]
    return min(mine, key=lambda event: abs(event.build - at), default=None)


def delays(kind: str, moved: int, words: dict[str, int]) -> list[int]:
    """In how many archives a step was found within each of `DELAYS`; places within one document."""
    random = np.random.default_rng(words["seed"])
    counts = [0] * len(DELAYS)
    builds = words["builds"]
    for _ in range(words["archives"]):
        logs = values(random, kind, words["cases"], builds + DELAYS[-1])
        logs[:moved, builds:] += STEP
        known = False
        for place, delay in enumerate(DELAYS):
            part = logs[:, : builds + delay]
            known = known or seen(detect(grid(kind, part), LEAST), builds, moved) is not None
            counts[place] += known
    return counts


def places(kind: str, words: dict[str, int]) -> tuple[int, int, int, int]:
    """Steps found, within one document of their place; intervals of place and size that hold."""
    random = np.random.default_rng(words["seed"])
    found = near = inside = size = 0
    for _ in range(words["archives"]):
        logs = values(random, kind, words["cases"], words["builds"])
        at = int(random.integers(8, words["builds"] - 8))
        logs[0, at:] += STEP
        event = seen(detect(grid(kind, logs), LEAST), at, 1)
        if event is not None:
            found += 1
            near += abs(event.build - at) <= 1
            inside += event.earliest <= at <= event.latest
            member = next(m for m in event.members if m.row == 0)
            size += member.low <= STEP <= member.high
    return found, near, inside, size


def grow(words: dict[str, int]) -> tuple[int, int, int]:
    """(accepted steps, still exactly there with 20 more documents, events beside them)."""
    random = np.random.default_rng(words["seed"])
    accepted = kept = more = 0
    for _ in range(words["archives"]):
        logs = values(random, "iid", words["cases"], words["builds"] + 28)
        logs[0, words["builds"] :] += STEP
        first = seen(detect(grid("iid", logs[:, : words["builds"] + 8]), LEAST), words["builds"], 1)
        if first is None:
            continue
        accepted += 1
        later = [
            detect(grid("iid", logs[:, : words["builds"] + 8 + n]), LEAST, {0: [first.build]})
            for n in (5, 20)
        ]
        kept += all(any(e.pinned and e.build == first.build for e in f.events) for f in later)
        more += any(len(f.events) > 1 for f in later)
    return accepted, kept, more


def otava(series, p_limit: float = 0.001, window: int = 50) -> list[int]:
    """Apache Otava's rule as re-stated here: E-divisive in overlapping windows, each split tested
    by Student's t and divided again while it is significant. Deviations with n, not n - 1; no
    correction over series."""
    found: set[int] = set()
    for start in range(0, max(len(series) - window // 2, 1), window // 2):
        _divide(series, start, min(start + window, len(series)), p_limit, found)
    return sorted(found)


def _divide(series, first: int, end: int, p_limit: float, found: set[int]) -> None:
    from scipy.stats import ttest_ind_from_stats

    best = max(
        range(first + 2, end - 1), key=lambda k: _energy(series[first:end], k - first), default=None
    )
    if best is None:
        return
    left, right = series[first:best], series[best:end]
    test = ttest_ind_from_stats(
        left.mean(), left.std(), len(left), right.mean(), right.std(), len(right)
    )
    if test.pvalue < p_limit:
        found.add(best)
        _divide(series, first, best, p_limit, found)
        _divide(series, best, end, p_limit, found)


def _energy(series, split: int) -> float:
    left, right = series[:split], series[split:]
    between = np.abs(left[:, None] - right).mean()
    within = [np.abs(side[:, None] - side).mean() for side in (left, right)]
    return (2 * between - sum(within)) * len(left) * len(right) / len(series)


def asv(series) -> list[int]:
    """ASV's rule as re-stated here: piecewise constant fit in L1 (Potts), penalty chosen by the
    information criterion n log(loss / n) + 2 k log n."""
    best: tuple[float, list[int]] | None = None
    scale = np.median(np.abs(np.diff(series))) + 1e-12
    loss = _losses(series)
    for gamma in scale * np.geomspace(0.3, 30, 24):
        cuts = _potts(loss, gamma)
        bounds = [0, *cuts, len(series)]
        left = sum(loss[a, b] for a, b in pairwise(bounds))
        count = len(series)
        score = count * math.log(left / count + 1e-12) + 2 * (len(cuts) + 1) * math.log(count)
        if best is None or score < best[0]:
            best = (score, cuts)
    return best[1] if best else []


def _losses(series):
    count = len(series)
    loss = np.zeros((count + 1, count + 1))
    for a in range(count):
        for b in range(a + 1, count + 1):
            loss[a, b] = np.abs(series[a:b] - np.median(series[a:b])).sum()
    return loss


def _potts(loss, gamma: float) -> list[int]:
    count = len(loss) - 1
    cost, last = np.zeros(count + 1), np.zeros(count + 1, int)
    for end in range(1, count + 1):
        every = cost[:end] + loss[:end, end] + gamma
        last[end] = int(every.argmin())
        cost[end] = every[last[end]]
    cuts, at = [], count
    while last[at]:
        at = int(last[at])
        cuts.append(at)
    return sorted(cuts)


def controls(kind: str, rule, words: dict[str, int]) -> tuple[int, int, int]:
    """Of single series: any change in pure noise; a 3 % step found within 4, within 8 documents."""
    random = np.random.default_rng(words["seed"])
    builds, wrong, four, eight = words["builds"], 0, 0, 0
    for _ in range(words["archives"]):
        series = values(random, kind, 1, builds + 8)[0]
        wrong += bool(rule(series[:builds]))
        series[builds:] += STEP
        four += any(abs(at - builds) <= 3 for at in rule(series[: builds + 4]))
        eight += any(abs(at - builds) <= 3 for at in rule(series))
    return wrong, four, eight


def tails(words: dict[str, int]) -> None:
    """Tail of the largest split of white noise over that of one split, beside the formulas."""
    random = np.random.default_rng(words["seed"])
    for count in (8, 12, 20, 60, 120, 365):
        every = splits(count)
        largest = np.zeros((3, 0))
        for _ in range(max(1, 200 * words["archives"] // 5000)):
            sums = np.pad(random.normal(size=(5000, count)).cumsum(axis=1), ((0, 0), (1, 0)))
            left, right = every.split - every.first, every.end - every.split
            step = (sums[:, every.end] - sums[:, every.split]) / right
            step -= (sums[:, every.split] - sums[:, every.first]) / left
            z = np.abs(step) / np.sqrt(1 / left + 1 / right)
            head = every.whole & (count - every.split <= HEAD)
            rows = [z[:, mask].max(axis=1) for mask in (head, every.whole, ~every.whole | True)]
            largest = np.concatenate([largest, np.stack(rows)], axis=1)
        for (name, factor), row in zip(FACTORS.items(), largest, strict=True):
            seen_ = [f"{(row > z).mean() / tail(z):.1f}" for z in (3.0, 3.5, 4.0)]
            print(f"{count:4d} documents, {name:5s}: {', '.join(seen_)}; used {factor(count):.1f}")


def report(what: str, words: dict[str, int]) -> None:
    archives, cases = words["archives"], words["cases"]
    print(f"{what}: {archives} archives of {cases} series, {words['builds']} builds", flush=True)
    for kind in KINDS if what != "grow" else ("iid",):
        if what == "false":
            wrong, seconds = false_events(kind, words)
            said = f"{wrong} archives with an event, {1000 * seconds:.0f} ms each"
        elif what == "power":
            rows = {1, max(1, cases // 10)}
            said = "; ".join(
                f"in {moved}: " + ", ".join(map(str, delays(kind, moved, words)))
                for moved in sorted(rows)
            )
            said += f" found within {', '.join(map(str, DELAYS))} documents"
        elif what == "place":
            found, near, inside, size = places(kind, words)
            said = f"{found} found, {near} within 1 document, intervals hold {inside} places"
            said += f" and {size} sizes"
        else:
            accepted, kept, more = grow(words)
            said = f"{accepted} accepted, {kept} stayed, {more} with another event"
        print(f"  {kind:8s} {said}", flush=True)


def main(section: list[str], **words: int) -> None:
    one_of("SECTION", section, ("false", "power", "place", "grow", "controls", "tails"))
    for what in section or ["false", "power", "place", "grow", "controls"]:
        if what == "tails":
            tails(words)
        elif what == "controls":
            for name, rule in (("Otava's rule", otava), ("ASV's rule", asv)):
                for kind in ("iid", "spikes", "ar.5"):
                    wrong, four, eight = controls(kind, rule, words)
                    print(
                        f"{name}, {kind}: {wrong} of {words['archives']} pure noise; "
                        f"3 % within 4: {four}, within 8: {eight}",
                        flush=True,
                    )
        else:
            report(what, words)


if __name__ == "__main__":
    script(main)
