"""Patterns in the samples behind a verdict: drift, modes, spikes, rounds that never got warm."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import row_mean

from bench_compare.model import Note
from bench_compare.rounds.facts import KEPT, OTHERS_S, STEAL_S, SWITCHES, facts
from bench_compare.rounds.observations import of_rounds
from bench_compare.statistics.arrays import units
from bench_compare.statistics.samples import rectangles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.document import Case, Document, Surroundings

    from bench_compare.model import CaseSide, Side, SideName
    from bench_compare.rounds.facts import Disturber, Facts
    from bench_compare.rounds.observations import SeriesRounds
    from bench_compare.statistics.arrays import Array, Ints


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
DRIFT_SIGMAS = 4.0
HALVES = float(np.sqrt(2 * np.pi))
"""Standard deviation of the difference between the medians of two halves of n normal samples, over
that of one sample, times √n."""
OUTLIER_SHARE = 0.02
MODE_SAMPLES = 128
"""Samples of a case that modes are looked for in."""
MODE_CASES = 1 << 13
"""Cases whose samples are held for that at a time: 8 MiB."""
GOLDEN = 0.6180339887498949
MODE_LEAST = 20
MODE_SHARE = 0.1
"""A mode holds at least this share."""
MODE_DISTANCE = 0.01
"""Modes closer than 1 % are of no interest."""
MODE_ASHMAN = 4.5
"""Ashman's D. A split normal sample gives 2.7, a uniform 3.5, an exponential 3.0; two normal ones
that stand apart more than 4."""


def sample_notes(rounds: SeriesRounds, height: int, side: SideName) -> dict[int, list[Note]]:
    """Return notes by case (row), for cases that have any."""
    found: dict[int, list[Note]] = defaultdict(list)
    for finder in (cold_rounds, drift_inside_rounds, drift_between_rounds, outliers, modes):
        for row, kind, text in finder(rounds, height):
            found[row].append(Note(kind, side, text))
    return found


def cold_rounds(rounds: SeriesRounds, height: int) -> Iterator[tuple[int, str, str]]:
    cold = np.bincount(rounds.case[rounds.not_warm], minlength=height)
    total = np.bincount(rounds.case, minlength=height)
    # Of short series that were warm all along one in ten looks cold: one round is not enough.
    for row in np.flatnonzero((cold > 0) & (2 * cold >= total)).tolist():
        yield row, "not warm", f"{cold[row]} of {total[row]} rounds never got warm"


def drift_inside_rounds(rounds: SeriesRounds, height: int) -> Iterator[tuple[int, str, str]]:
    """Yield the change from the first half of the rounds to the second, if it has one direction in
    all of them and exceeds the scatter of their samples."""
    found = rounds.statistics
    trend = of_rounds(rounds, found.trend, height).values
    of_halves = HALVES * found.scatter / np.sqrt(np.maximum(found.kept, 1))
    halves = of_rounds(rounds, of_halves, height).values
    mean, count = row_mean(trend), units(trend)
    with np.errstate(invalid="ignore"):
        between = row_mean((trend - mean[:, None]) ** 2) / np.maximum(count - 1, 1)
        inside = row_mean(halves**2) / np.maximum(count, 1)
        error = np.sqrt(np.maximum(between, inside))
        clear = (np.abs(mean) > DRIFT_RATIO) & (np.abs(mean) > DRIFT_SIGMAS * error)
    for row in np.flatnonzero(clear).tolist():
        yield row, "drift", f"drifts by {100 * np.expm1(mean[row]):+.1f} % inside a round"


def drift_between_rounds(rounds: SeriesRounds, height: int) -> Iterator[tuple[int, str, str]]:
    """Round medians that only rise, or only fall, over at least five rounds of one document."""
    placed = of_rounds(rounds, rounds.statistics.log_median, height)
    for source in np.unique(placed.sources).tolist():
        levels = placed.values[:, placed.sources == source]
        if levels.shape[1] < 5:
            continue
        steps = np.diff(levels, axis=1)
        total = levels[:, -1] - levels[:, 0]
        with np.errstate(invalid="ignore"):
            one_way = (steps > 0).all(axis=1) | (steps < 0).all(axis=1)
            clear = one_way & (np.abs(total) > 2 * DRIFT_RATIO)
        for row in np.flatnonzero(clear).tolist():
            change = 100 * np.expm1(total[row])
            yield row, "drift", f"drifts by {change:+.1f} % from the first round to the last"


def outliers(rounds: SeriesRounds, height: int) -> Iterator[tuple[int, str, str]]:
    far = np.bincount(rounds.case, rounds.statistics.outliers, minlength=height)
    kept = np.bincount(rounds.case, rounds.statistics.kept, minlength=height)
    for row in np.flatnonzero((far >= 2) & (far >= OUTLIER_SHARE * kept)).tolist():
        yield row, "outliers", f"{far[row]:.0f} of {kept[row]:.0f} samples are far above the rest"


def modes(rounds: SeriesRounds, height: int) -> Iterator[tuple[int, str, str]]:
    """Yield the row, ``bimodal`` and a text for each case with two modes, in at most `MODE_SAMPLES`
    samples of each case, from all of its rounds."""
    case = rounds.case
    for first in range(0, height, MODE_CASES):
        here = np.flatnonzero((case >= first) & (case < first + MODE_CASES))
        parts: list[list[Ints]] = [[] for _ in range(first, min(first + MODE_CASES, height))]
        samples = rounds.series.take(here)
        for row, one in zip((case[here] - first).tolist(), samples, strict=True):
            parts[row].append(one)
        for row, text in _bimodal(parts):
            yield first + row, "bimodal", text


def _bimodal(cases: Sequence[Sequence[Ints]]) -> Iterator[tuple[int, str]]:
    """Yield the positions of cases with two modes, by the samples of their rounds, and a
    sentence."""
    empty = np.empty(0, np.int64)
    whole = (np.concatenate(rounds) if rounds else empty for rounds in cases)
    thinned = [one if one.size <= MODE_SAMPLES else one[spread_places(one.size)] for one in whole]
    for index, rows in rectangles(thinned):
        if rows.shape[1] < MODE_LEAST:
            continue
        ordered = np.log(np.maximum(np.sort(rows, axis=1), 1))
        # Without half a mode's share at either end: modes cannot be further apart than
        # nearly this.
        end = int(ordered.shape[1] * MODE_SHARE / 2)
        wide = np.flatnonzero(np.asarray(ordered[:, -1 - end] - ordered[:, end]) > MODE_DISTANCE)
        apart, share = two_modes(ordered[wide])
        for place in np.flatnonzero(np.isfinite(apart)).tolist():
            text = (
                f"two modes {100 * np.expm1(apart[place]):.1f} % apart, "
                f"{100 * share[place]:.0f} % of the samples in the slower"
            )
            yield int(index[wide[place]]), text


@functools.cache
def spread_places(count: int) -> Ints:
    """Return `MODE_SAMPLES` places, one in each of as many equal parts, at multiples of the golden
    ratio within their part: a pattern that repeats in the samples cannot hide between them."""
    part = np.arange(MODE_SAMPLES)
    return np.asarray(((part + part * GOLDEN % 1) * count / MODE_SAMPLES).astype(np.int64))


def two_modes(logs: Array) -> tuple[Array, Array]:
    """Return the distance of two modes (log) and the share of the upper one, for each sorted row;
    NaN if there is one mode.

    The split that leaves the least variance inside its parts (Otsu 1979), kept where the parts lie
    `MODE_ASHMAN` standard deviations apart (Ashman, Bird and Zepf 1994).
    """
    count = logs.shape[1]
    centred = logs - logs.mean(axis=1, keepdims=True)
    sums, squares = np.cumsum(centred, axis=1), np.cumsum(centred**2, axis=1)
    splits = np.arange(int(np.ceil(MODE_SHARE * count)), int(count * (1 - MODE_SHARE)) + 1)
    low_sum, low_square = sums[:, splits - 1], squares[:, splits - 1]
    high_sum, high_square = sums[:, -1:] - low_sum, squares[:, -1:] - low_square
    low, high = low_sum / splits, high_sum / (count - splits)
    inside = (low_square - splits * low**2) + (high_square - (count - splits) * high**2)
    best = np.argmin(inside, axis=1)[:, None]

    def at(values: Array) -> Array:
        return np.take_along_axis(values, best, axis=1)[:, 0]

    share = 1 - splits[best[:, 0]] / count
    apart = at(high) - at(low)
    low_variance = at(low_square / splits - low**2)
    high_variance = at(high_square / (count - splits) - high**2)
    spread = np.sqrt(np.maximum(low_variance + high_variance, 0))
    two = (apart > MODE_DISTANCE) & (np.sqrt(2) * apart > MODE_ASHMAN * spread)
    return np.where(two, apart, np.nan), np.where(two, share, np.nan)


def case_notes(side: CaseSide, owner: Side, name: SideName) -> Iterator[Note]:
    """Yield notes that need no samples: where the case came from and what was said of it."""
    if any(owner.sources[number].imported for number in side.sources):
        yield Note("imported", name, "read from another tool's file")
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
