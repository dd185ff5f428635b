"""Reduction of raw samples to one number a round, all rounds of a metric at a time.

Every function takes series of any lengths and works on rectangles of equal length, so that the cost
is linear in the samples and there is no Python step per sample. Values are natural logarithms of
nanoseconds; samples below one nanosecond (a clock too coarse) count as one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import middle_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.statistics.arrays import Array, Ints

BLOCK_SAMPLES = 1 << 16
"""Samples in one rectangle: half a MiB, so that the work on it stays in the cache."""


class SampleTable:
    """The samples of many rounds, one after another in one array."""

    __slots__ = ("first", "sizes", "values")

    def __init__(self, values: Ints, first: Ints, sizes: Ints) -> None:
        self.values, self.first, self.sizes = values, first, sizes

    @classmethod
    def of(cls, rounds: Sequence[Ints] | SampleTable) -> SampleTable:
        if isinstance(rounds, SampleTable):
            return rounds
        sizes = np.fromiter((one.size for one in rounds), np.int64, len(rounds))
        values = np.concatenate([*rounds, np.empty(0, np.int64)])
        return cls(values, np.cumsum(sizes) - sizes, sizes)

    @classmethod
    def joined(cls, parts: Sequence[SampleTable]) -> SampleTable:
        before = itertools.accumulate((one.values.size for one in parts), initial=0)
        return cls(
            np.concatenate([one.values for one in parts]),
            np.concatenate([one.first + n for one, n in zip(parts, before, strict=False)]),
            np.concatenate([one.sizes for one in parts]),
        )

    def part(self, places: Ints, cut: Ints | int = 0) -> SampleTable:
        """Return a table of some rounds, without the first `cut` samples of each."""
        return SampleTable(self.values, self.first[places] + cut, self.sizes[places] - cut)

    def __len__(self) -> int:
        return self.sizes.size

    def take(self, places: slice | Ints) -> list[Ints]:
        """Return some of them, each as an array."""
        columns = self.first[places].tolist(), self.sizes[places].tolist()
        return [self.values[first : first + size] for first, size in zip(*columns, strict=True)]


@dataclass(frozen=True, eq=False)
class RoundStatistics:
    """Parallel arrays, one entry for each series; NaN if there are too few samples."""

    log_median: Array
    """The round's location (`bench_schema.estimate`)."""
    trend: Array
    """Log median of the second half minus that of the first: drift inside the round."""
    outliers: Ints
    """Samples further than `OUTLIER_MADS` median absolute deviations above the median."""
    kept: Ints
    """Samples after the cut."""
    scatter: Array
    """Standard deviation of the log times inside the round, from their quantiles at 20 and 80 %:
    that of modes, if there are two, and not of a few spikes."""


OUTLIER_MADS = 10.0
"""About 6.7 standard deviations of a normal distribution: spikes, not tails."""


def rectangles(series: Sequence[Ints] | SampleTable) -> Iterator[tuple[Ints, Ints]]:
    """Yield (indices, rows) of series of one length, at most `BLOCK_SAMPLES` at a time; empty ones
    are left out."""
    samples = SampleTable.of(series)
    lengths = samples.sizes
    order = np.argsort(lengths, kind="stable")
    bounds = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1))
    for first, last in itertools.pairwise(bounds):
        length = int(lengths[order[first]])
        step = max(1, BLOCK_SAMPLES // max(length, 1))
        for start in range(first, last, step) if length else ():
            index = order[start : min(start + step, last)]
            rows = np.concatenate(samples.take(index)).reshape(len(index), length)
            yield index, narrow(rows)


def narrow(rows: Ints) -> Ints:
    """Return the rows in half of the width if they fit, which sorts in half of the time. Times of
    other tools may have fractions."""
    fit = rows.dtype.kind == "i" and rows.max() < 1 << 31 and rows.min() >= 0
    return rows.astype(np.int32) if fit else rows


def round_statistics(
    series: Sequence[Ints] | SampleTable, moved: Mapping[int, Ints] | None = None
) -> RoundStatistics:
    """Compute the statistics of rounds whose warm-up is already cut off. `moved`: of rounds whose
    buffers were moved, the numbers of the first samples after each move."""
    size = len(series)
    medians, trend = np.full(size, np.nan), np.full(size, np.nan)
    outliers, kept = np.zeros(size, np.int64), np.zeros(size, np.int64)
    scatter = np.full(size, np.nan)
    for index, rows in rectangles(series):
        count = rows.shape[1]
        ordered = np.sort(rows, axis=1)
        medians[index] = middle_log(ordered)
        kept[index] = count
        outliers[index] = _outliers(ordered)
        last = ordered.shape[1] - 1
        ends = ordered[:, [round(0.2 * last), round(0.8 * last)]]
        scatter[index] = np.diff(np.log(np.maximum(ends, 1)), axis=1)[:, 0] / WITHIN_NORMAL
        if count >= 8:
            half = count // 2
            first, second = np.sort(rows[:, :half], axis=1), np.sort(rows[:, -half:], axis=1)
            trend[index] = middle_log(second) - middle_log(first)
    if moved:
        places, means = _by_place(SampleTable.of(series), moved)
        medians[places], trend[places] = means, np.nan
    return RoundStatistics(medians, trend, outliers, kept, scatter)


def _by_place(samples: SampleTable, moved: Mapping[int, Ints]) -> tuple[Ints, Array]:
    """Return the rounds whose buffers were moved, and the mean of their medians at each place."""
    places = np.fromiter(moved, np.int64, len(moved))
    first, size, part_of = [], [], []
    for number, place in enumerate(places.tolist()):
        ends = np.concatenate([[0], moved[place], samples.sizes[[place]]]).clip(0)
        first.append(samples.first[place] + ends[:-1])
        size.append(np.diff(ends))
        part_of.append(np.full(len(ends) - 1, number))
    parts = SampleTable(samples.values, np.concatenate(first), np.concatenate(size))
    owner, medians = np.concatenate(part_of), np.full(len(parts), np.nan)
    for index, rows in rectangles(parts):
        medians[index] = middle_log(np.sort(rows, axis=1))
    known = np.isfinite(medians)
    count = np.bincount(owner[known], minlength=len(places))
    total = np.bincount(owner[known], np.exp(medians[known]), len(places))
    return places, np.log(total / count)


WITHIN_NORMAL = 1.6832
"""Standard deviations of a normal distribution between its quantiles at 20 and 80 %."""


def _outliers(ordered: Ints) -> Ints:
    """Return the count of far values in each sorted row, above the median only: delays are
    one-sided.

    The deviation is that of the lower half, median minus lower quartile: spikes cannot widen it. At
    least 0.1 % of the median, so that a clock's tick is not an
    outlier.
    """
    count = ordered.shape[1]
    median, quartile = ordered[:, count // 2], ordered[:, count // 4]
    deviation = np.maximum(median - quartile, median // 1000 + 1)
    return np.asarray(np.sum(ordered > (median + OUTLIER_MADS * deviation)[:, None], axis=1))


SECTIONS = (16, 8)


def section_variance(series: Sequence[Ints] | SampleTable) -> tuple[Array, Array]:
    """Return the variance of the log median of each series from inside it, and its degrees of
    freedom.

    Sectioning: K consecutive batches, medians m_k, sum (m_k - mean)² / (K (K - 1)); of K = 16 and K
    = 8 the larger, because slow clock states show in long batches only. NaN below 16 samples.
    Source: Law, Simulation Modeling and Analysis, section 9.5 (batch means).
    """
    variance, dof = np.full(len(series), np.nan), np.full(len(series), np.nan)
    for index, rows in rectangles(series):
        for sections in SECTIONS:
            length = rows.shape[1] // sections
            if length < 2:
                continue
            batches = rows[:, : length * sections].reshape(-1, length)
            medians = middle_log(np.sort(batches, axis=1)).reshape(-1, sections)
            found = medians.var(axis=1, ddof=1) / sections
            larger = ~(variance[index] >= found)
            variance[index[larger]] = found[larger]
            dof[index[larger]] = sections - 1
    return variance, dof
