"""What the samples behind a verdict look like: drift, modes, spikes, rounds that never got warm."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.circumstances.disturbances import disturbed_notes
from bench_compare.comparison.judging.observations import observation_matrix
from bench_compare.model import Note
from bench_compare.rounds.facts import KEPT
from bench_compare.rounds.lazy import facts
from bench_compare.statistics.arrays import row_mean, units
from bench_compare.statistics.samples import rectangles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_compare.comparison.judging.estimates import SideSamples
    from bench_compare.comparison.judging.observations import ObservationMatrix
    from bench_compare.model import CaseSide, Side, SideName
    from bench_compare.rounds.facts import Facts
    from bench_compare.statistics.arrays import Array, Ints

DRIFT_RATIO = 0.01
DRIFT_SIGMAS = 4.0
OUTLIER_SHARE = 0.02
MODE_SAMPLES = 128
"""Samples of a case that modes are looked for in."""
GOLDEN = 0.6180339887498949
MODE_LEAST = 20
MODE_SHARE = 0.1
"""A mode holds at least this share."""
MODE_DISTANCE = 0.01
"""Modes closer than 1 % are of no interest."""
MODE_ASHMAN = 4.5
"""Ashman's D. A split normal sample gives 2.7, a uniform 3.5, an exponential 3.0; two normal ones
that stand apart more than 4."""


def sample_notes(samples: SideSamples, height: int, side: SideName) -> dict[int, list[Note]]:
    """Notes by case (row), for cases that have any."""
    found: dict[int, list[Note]] = defaultdict(list)
    for finder in (_not_warm, _drift, _between, _outliers, _modes):
        for row, kind, text in finder(samples, height):
            found[row].append(Note(kind, side, text))
    return found


def _not_warm(samples: SideSamples, height: int) -> Iterator[tuple[int, str, str]]:
    rounds = samples.rounds
    cold = np.bincount(rounds.case[rounds.not_warm], minlength=height)
    total = np.bincount(rounds.case, minlength=height)
    for row in np.flatnonzero(cold).tolist():
        yield row, "not warm", f"{cold[row]} of {total[row]} rounds never got warm"


def _drift(samples: SideSamples, height: int) -> Iterator[tuple[int, str, str]]:
    """Second half of the rounds against the first, the same way in all of them."""
    trend = _by_case(samples, samples.statistics.trend, height).values
    mean, count = row_mean(trend), units(trend)
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(row_mean((trend - mean[:, None]) ** 2))
        error = deviation / np.sqrt(np.maximum(count - 1, 1))
        steady = (count >= 3) & (np.abs(mean) > DRIFT_SIGMAS * error)
        clear = (steady & (np.abs(mean) > DRIFT_RATIO)) | (np.abs(mean) > 5 * DRIFT_RATIO)
    for row in np.flatnonzero(clear).tolist():
        yield row, "drift", f"drifts by {100 * np.expm1(mean[row]):+.1f} % inside a round"


def _between(samples: SideSamples, height: int) -> Iterator[tuple[int, str, str]]:
    """Round medians that only rise, or only fall, over at least five rounds of one document."""
    placed = _by_case(samples, samples.statistics.log_median, height)
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


def _by_case(samples: SideSamples, values: Array, height: int) -> ObservationMatrix:
    """A number of each round, as a matrix with a row for each case."""
    rounds = samples.rounds
    return observation_matrix(rounds.case, rounds.source, rounds.index, values, height)


def _outliers(samples: SideSamples, height: int) -> Iterator[tuple[int, str, str]]:
    rounds, statistics = samples.rounds, samples.statistics
    far = np.bincount(rounds.case, statistics.outliers, minlength=height)
    kept = np.bincount(rounds.case, statistics.kept, minlength=height)
    for row in np.flatnonzero((far >= 2) & (far >= OUTLIER_SHARE * kept)).tolist():
        yield row, "outliers", f"{far[row]:.0f} of {kept[row]:.0f} samples are far above the rest"


def _modes(samples: SideSamples, height: int) -> Iterator[tuple[int, str, str]]:
    thinned = _thinned(samples, height)
    for index, rows in rectangles(thinned):
        if rows.shape[1] < MODE_LEAST:
            continue
        ordered = np.log(np.maximum(np.sort(rows, axis=1), 1))
        wide = np.flatnonzero(_inner_width(ordered) > MODE_DISTANCE)
        apart, share = two_modes(ordered[wide])
        for place in np.flatnonzero(np.isfinite(apart)).tolist():
            text = (
                f"two modes {100 * np.expm1(apart[place]):.1f} % apart, "
                f"{100 * share[place]:.0f} % of the samples in the slower"
            )
            yield int(index[wide[place]]), "bimodal", text


def _inner_width(ordered: Array) -> Array:
    """Without half a mode's share at either end: modes cannot be further apart than nearly this."""
    end = int(ordered.shape[1] * MODE_SHARE / 2)
    return np.asarray(ordered[:, -1 - end] - ordered[:, end])


def _thinned(samples: SideSamples, height: int) -> list[Ints]:
    """At most `MODE_SAMPLES` samples of each case, from all of its rounds."""
    rounds = samples.rounds
    parts: list[list[Ints]] = [[] for _ in range(height)]
    for row, one in zip(rounds.case.tolist(), rounds.series, strict=True):
        parts[row].append(one)
    empty = np.empty(0, np.int64)
    whole = (np.concatenate(part) if part else empty for part in parts)
    return [one if one.size <= MODE_SAMPLES else one[spread_places(one.size)] for one in whole]


@functools.cache
def spread_places(count: int) -> Ints:
    """`MODE_SAMPLES` places, one in each of as many equal parts, at multiples of the golden ratio
    within their part: a pattern that repeats in the samples cannot hide between them."""
    part = np.arange(MODE_SAMPLES)
    return np.asarray(((part + part * GOLDEN % 1) * count / MODE_SAMPLES).astype(np.int64))


def two_modes(logs: Array) -> tuple[Array, Array]:
    """Distance of two modes (log) and the share of the upper one, for each sorted row; NaN where
    there is one mode.

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
    """Notes that need no samples: where the case came from and what was said of it."""
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
    """The same facts come with nearly all cases of a document."""
    notes = []
    if any("events" in one.timings for one in found):
        notes.append(Note("no gate", name, "device times hold the host's launch delays"))
    reasons = dict.fromkeys(reason for one in found for reason in one.throttled)
    if reasons:
        notes.append(Note("throttled", name, f"the device throttled: {', '.join(reasons)}"))
    return tuple(notes)
