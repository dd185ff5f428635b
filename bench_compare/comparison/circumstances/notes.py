"""Patterns in the samples behind a verdict: drift, modes, spikes, rounds that never got warm."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.circumstances.facts import (
    KEPT,
    OTHERS_S,
    STEAL_S,
    SWITCHES,
    facts,
)
from bench_compare.model import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.document import Case, Document, Surroundings

    from bench_compare.comparison.circumstances.facts import Disturber, Facts
    from bench_compare.comparison.measure import Array
    from bench_compare.model import CaseSide, Side, SideName


# Rounds beside which the host did other work: named, so that a reader knows which to repeat.
#
# No verdict depends on it: what a disturbance does to a time is in the spread of the rounds.

OTHERS_SHARE = 0.1
"""Share of the host's processors: other work of this size is felt through caches and clocks, and
sooner or later on the measuring processor."""
STEAL_SHARE = 0.02
SWITCHES_PER_S = 100.0
"""Rate of involuntary switches: another process waits for this processor in every slice of time."""
MOST_SHARE = 0.5
"""Share of the cases of a round above which the whole round counts as disturbed."""


def disturbance(found: Surroundings | Disturber, processors: int | None) -> str | None:
    """Return a phrase on the disturbance; None if nothing is known to have disturbed."""
    window_s = found.window_s
    if not window_s:
        return None
    others_s, steal_s = found.others_cpu_s or 0.0, found.steal_s or 0.0
    if steal_s >= STEAL_S and steal_s >= STEAL_SHARE * window_s:
        return "time was stolen by other guests"
    if others_s >= OTHERS_S and others_s >= OTHERS_SHARE * window_s * (processors or 1):
        return "other processes were at work"
    switches = found.involuntary_switches or 0
    if switches >= SWITCHES and switches >= SWITCHES_PER_S * window_s:
        return "other processes were at work"
    return None


def disturbed_rounds(case: Case, document: Document) -> dict[int, str]:
    """Return a phrase on the disturbance of each disturbed round, by round index."""
    found = {}
    for one in facts(case.rounds).disturbed:
        what = disturbance(one, document.machine.cpu.threads) if one.exposed else None
        if one.device_processes:
            what = "other processes were on the device"
        if what is not None:
            found[one.index] = what
    return found


def disturbed_notes(side: CaseSide, owner: Side, name: SideName) -> Iterator[Note]:
    """Yield a note that names the rounds of a case; with several documents it counts them."""
    if not any(facts(case.rounds).disturbed for case in side.cases):
        return
    every = [
        disturbed_rounds(case, owner.sources[number].document)
        for case, number in zip(side.cases, side.sources, strict=True)
    ]
    if not any(every):
        return
    what = " and ".join(dict.fromkeys(text for found in every for text in found.values()))
    if len(every) == 1:
        total = len(side.cases[0].rounds)
        yield Note("disturbed", name, f"{_rounds(list(every[0]), total)}: {what}")
    else:
        count, total = sum(map(len, every)), sum(len(case.rounds) for case in side.cases)
        yield Note("disturbed", name, f"{count} of {total} rounds: {what}")


def _rounds(indices: Sequence[int], total: int) -> str:
    """Return the rounds as text, such as ``rounds 2 and 4 of 5``, counted from 1 as in the progress
    of a run."""
    if len(indices) == total:
        return "all rounds"
    numbers = [str(index + 1) for index in sorted(indices)]
    if len(numbers) == 1:
        return f"round {numbers[0]} of {total}"
    return f"rounds {', '.join(numbers[:-1])} and {numbers[-1]} of {total}"


def disturbed_warnings(sides: Iterable[Side]) -> list[str]:
    """Return a sentence for each document that has rounds in which most cases were disturbed."""
    found = []
    for source in dict.fromkeys(source for side in sides for source in side.sources):
        cases = source.document.cases
        disturbed: dict[int, list[str]] = defaultdict(list)
        for case in cases:
            for index, what in disturbed_rounds(case, source.document).items():
                disturbed[index].append(what)
        if not disturbed:
            continue
        visits = Counter(one.index for case in cases for one in case.rounds)
        rounds = {
            index: Counter(texts).most_common(1)[0][0]
            for index, texts in disturbed.items()
            if len(texts) > MOST_SHARE * visits[index]
        }
        if rounds:
            total = max(len(case.rounds) for case in cases)
            what = Counter(rounds.values()).most_common(1)[0][0]
            found.append(f"{source.path}: {_rounds(list(rounds), total)} disturbed: {what}")
    return found


DRIFT_RATIO = 0.01
OUTLIER_SHARE = 0.02
OUTLIER_MADS = 10.0
"""About 6.7 standard deviations of a normal distribution: spikes, not tails."""
MODE_SHARE = 0.1
"""A mode holds at least this share."""
MODE_LEAST = 20
MODE_DISTANCE = 0.01
"""Modes closer than 1 % are of no interest."""
MODE_ASHMAN = 4.5
"""Ashman's D. A split normal sample gives 2.7, a uniform 3.5, an exponential 3.0; two normal ones
that stand apart more than 4."""


def sample_notes(side: CaseSide, series: str, name: SideName) -> Iterator[Note]:
    """Yield notes on the samples of a case. No number depends on them."""
    rounds = [one for case in side.cases for one in case.rounds if series in one.series]
    held = [np.log(np.maximum(one.series[series], 1)) for one in rounds if one.series[series].size]
    if not held:
        return
    cold = sum(series in one.not_warm for one in rounds)
    # Of short series that were warm all along one in ten looks cold: one round is not enough.
    if cold > 0 and 2 * cold >= len(rounds):
        yield Note("not warm", name, f"{cold} of {len(rounds)} rounds never got warm")
    if (moved := drift(held)) is not None:
        yield Note("drift", name, f"drifts by {100 * math.expm1(moved):+.1f} % inside a round")
    if (moved := between_rounds(held)) is not None and len(side.cases) == 1:
        text = f"drifts by {100 * math.expm1(moved):+.1f} % from the first round to the last"
        yield Note("drift", name, text)
    far = sum(spikes(one) for one in held)
    total = sum(one.size for one in held)
    if far >= 2 and far >= OUTLIER_SHARE * total:
        yield Note("outliers", name, f"{far} of {total} samples are far above the rest")
    modes = two_modes(np.sort(np.concatenate(held)))
    if modes is not None:
        apart, share = modes
        text = (
            f"two modes {100 * math.expm1(apart):.1f} % apart, {100 * share:.0f} % of the samples"
        )
        yield Note("bimodal", name, f"{text} in the slower")


def drift(rounds: Sequence[Array]) -> float | None:
    """Return the mean change (log) from the first half of each round to its second, if it is of one
    direction and larger than it scatters between rounds; None otherwise."""
    found = [
        quantile(np.sort(one[-(one.size // 2) :])) - quantile(np.sort(one[: one.size // 2]))
        for one in rounds
        if one.size >= 2 * MODE_LEAST // 5
    ]
    if len(found) < 3:
        return None
    mean, error = float(np.mean(found)), float(np.std(found, ddof=1)) / math.sqrt(len(found))
    return mean if abs(mean) > DRIFT_RATIO and abs(mean) > 4 * error else None


def between_rounds(rounds: Sequence[Array]) -> float | None:
    """Return the change (log) from the first round to the last, if all of five or more go one
    way."""
    steps = np.diff([quantile(np.sort(one)) for one in rounds])
    one_way = len(steps) >= 4 and ((steps > 0).all() or (steps < 0).all())
    return float(steps.sum()) if one_way and abs(steps.sum()) > 2 * DRIFT_RATIO else None


def spikes(logs: Array) -> int:
    """Return the number of samples far above the median; the deviation is that of the lower half,
    which spikes do not widen, and at least 0.1 %."""
    ordered = np.sort(logs)
    middle, quartile = quantile(ordered), quantile(ordered, 0.25)
    return int((logs > middle + OUTLIER_MADS * max(middle - quartile, 0.001)).sum())


def quantile(ordered: Array, share: float = 0.5) -> float:
    """Return a quantile of sorted samples, one at least: `numpy.quantile` takes ten times as long
    for short arrays, of which there are thousands."""
    return float(np.interp(share * (ordered.size - 1), np.arange(ordered.size), ordered))


def two_modes(logs: Array) -> tuple[float, float] | None:
    """Return the distance of two modes (log) of sorted samples, and the share of the upper one;
    None if there is one mode.

    The split that leaves the least variance inside its parts (Otsu 1979), kept where the parts lie
    `MODE_ASHMAN` standard deviations apart (Ashman, Bird and Zepf 1994).
    """
    count = logs.size
    end = int(count * MODE_SHARE / 2)
    if count < MODE_LEAST or logs[-1 - end] - logs[end] <= MODE_DISTANCE:
        return None
    centred = logs - logs.mean()
    sums, squares = np.cumsum(centred), np.cumsum(centred**2)
    splits = np.arange(math.ceil(MODE_SHARE * count), int(count * (1 - MODE_SHARE)) + 1)
    low, high = sums[splits - 1] / splits, (sums[-1] - sums[splits - 1]) / (count - splits)
    inside = squares[-1] - splits * low**2 - (count - splits) * high**2
    best = int(np.argmin(inside))
    cut = int(splits[best])
    apart = float(high[best] - low[best])
    spread = math.sqrt(float(logs[:cut].var() + logs[cut:].var()))
    two = apart > MODE_DISTANCE and math.sqrt(2) * apart > MODE_ASHMAN * spread
    return (apart, 1 - cut / count) if two else None


def case_notes(side: CaseSide, owner: Side, name: SideName) -> Iterator[Note]:
    """Yield notes that need no samples: where the case came from and what was said of it."""
    if any(owner.sources[number].imported for number in side.sources):
        yield Note("imported", name, "read from another tool's file")
        words = (note for case in side.cases for note in case.notes if note != "imported")
        yield from (Note(word, name, "its file says so") for word in dict.fromkeys(words))
    validations = [case.validation for case in side.cases if case.validation is not None]
    if any(validation.status == "failed" for validation in validations):
        yield Note("wrong", name, "outputs are outside of the tolerance")
    if any(validation.deterministic is False for validation in validations):
        yield Note("nondeterministic", name, "iterations gave different bytes")
    yield from _notes_of_facts(tuple(facts(case.rounds) for case in side.cases), name)
    yield from disturbed_notes(side, owner, name)


@functools.lru_cache(KEPT)
def _notes_of_facts(found: tuple[Facts, ...], name: SideName) -> tuple[Note, ...]:
    """Return notes on the facts of a case; the same facts come with nearly all cases of a
    document."""
    notes = []
    if any("events" in one.timings for one in found):
        notes.append(Note("no gate", name, "device times hold the host's launch delays"))
    reasons = dict.fromkeys(reason for one in found for reason in one.throttled)
    if reasons:
        notes.append(Note("throttled", name, f"the device throttled: {', '.join(reasons)}"))
    return tuple(notes)
