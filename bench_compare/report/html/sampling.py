"""Samples reduced for the eye: what a chart can show, in small integers.

Nothing here enters a verdict. A series that fits its budget is kept whole. A longer one becomes
quantiles (nearest rank) for its distribution, and for its course in time the least, the median and
the largest sample of buckets that never cross a round; the page says so beside the chart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from bench_schema.estimate import middle_log, round_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Samples

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Floats: TypeAlias = npt.NDArray[np.float64]

PAGE_VALUES = 1_500_000
"""Integers that all series of a page may take; about a byte each once compressed."""
MOST, LEAST = 2_000, 100
"""Integers for one series."""
LEVELS, INNER_LEVELS = 160, 20
"""Steps at least between the 5th and 95th, and between the 25th and 75th percentile: finer than a
pixel of the charts."""
FEW, MANY = 33, 65
"""Quantiles of a series: few of a short budget, else many."""
TAIL = (0.0, 0.002, 0.005, 0.01, 0.02)
"""Shares below which the lowest quantiles lie; the highest mirror them."""
BATCH = 128
"""Series worked on at once: of 1,000 samples a MiB, so that they stay in the cache."""
ALIKE = 64
"""Kinds of series, by the lengths of their rounds, whose buckets are remembered."""


@dataclass(frozen=True)
class Budget:
    """How many integers one series gets, and how they are spent."""

    values: int

    @property
    def quantiles(self) -> int:
        return MANY if self.values >= 200 else FEW

    @property
    def buckets(self) -> int:
        return max((self.values - self.quantiles) // 3, 8)


class HeldSeries(NamedTuple):
    """One series of one side: its rounds, in the order of the documents."""

    rounds: Sequence[Samples]
    cuts: Sequence[int]
    """Leading samples of each round that do not count."""
    documents: tuple[int, ...]
    """Rounds of each document."""


def budget(series_count: int) -> Budget:
    return Budget(min(max(PAGE_VALUES // max(series_count, 1), LEAST), MOST))


@dataclass(frozen=True, eq=False)
class Reduced:
    """Series whose rounds are of the same lengths, in small integers that serialise small.

    Every value is ``offset + step * integer`` nanoseconds; each column is a matrix with a row for
    each series. ``mids``: the locations of the rounds. Whole: ``raw``, all samples in
    order. Reduced: ``q``, the quantiles of `shares` as differences, the first from the offset;
    ``mid`` the median of each bucket; ``down`` and ``up`` how far below and above it the extremes
    lie.
    """

    members: Sequence[int]
    """Place of each series among all."""
    lengths: tuple[int, ...]
    """Samples of each round."""
    documents: tuple[int, ...]
    """Rounds of each document."""
    buckets: Sequence[int]
    """Of each round; none where the samples are whole."""
    offset: Ints
    step: Floats
    columns: Mapping[str, Ints]


def reduced(series: Sequence[HeldSeries], plan: Budget) -> Iterator[Reduced]:
    """All series, those together that are alike."""
    # Places of the series by the lengths of their rounds, and by their documents.
    groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for index, one in enumerate(series):
        key = tuple(map(len, one.rounds)), one.documents
        groups.setdefault(key, []).append(index)
    for (lengths, documents), members in groups.items():
        for start in range(0, len(members), BATCH):
            batch = members[start : start + BATCH]
            parts = [samples for i in batch for samples in series[i].rounds]
            samples: Ints = np.concatenate(parts, dtype=np.int64).reshape(len(batch), -1)
            # In 32 bits, where they fit, they sort in half the time; unsigned, a negative sample
            # is too large.
            if samples.view(np.uint64).max() <= np.iinfo(np.int32).max:
                samples = samples.astype(np.int32)
            least = samples.min(axis=1)
            samples -= least[:, None]
            middles = _middles(samples, least, lengths, [series[i] for i in batch])
            ordered = np.sort(samples, axis=1)
            offset, step = _grid(ordered)
            columns = {"mids": _steps(middles, offset, step)}
            buckets: tuple[int, ...] = ()
            if sum(lengths) <= plan.values:
                columns["raw"] = _steps(samples, offset, step)
            else:
                share = max(plan.buckets // len(lengths), 1)
                buckets = tuple(min(share, length) for length in lengths)
                # Least, (lower) median and largest sample of each bucket.
                found = np.empty((3, len(samples), sum(buckets)), samples.dtype)
                for size, alike, places in _alike_buckets(lengths, buckets):
                    bucketed = samples.take(places, axis=1).reshape(len(samples), -1, size)
                    bucketed.sort(axis=2)
                    for shown, rank in zip(found, (0, (size - 1) // 2, size - 1), strict=True):
                        shown[:, alike] = bucketed[:, :, rank]
                low, middle, high = _steps(found, offset, step)
                ranks = _ranks(samples.shape[1], plan.quantiles)
                quantiles = _steps(ordered[:, ranks], offset, step)
                columns |= {
                    "q": np.diff(quantiles, axis=1, prepend=0),
                    "mid": middle,
                    "down": middle - low,
                    "up": high - middle,
                }
            yield Reduced(batch, lengths, documents, buckets, offset + least, step, columns)


def _middles(
    samples: Ints, least: Ints, lengths: tuple[int, ...], held: Sequence[HeldSeries]
) -> Floats:
    """Location of each round, above the least of its row; shape (series, rounds)."""
    ends = np.cumsum(lengths)
    rounds = [samples[:, end - length : end] for end, length in zip(ends, lengths, strict=True)]
    above = least.astype(np.int64)
    found = [middle_log(np.sort(one, axis=1) + above[:, None]) for one in rounds]
    logs = np.stack(found, axis=1)
    for row, column in np.argwhere([one.cuts for one in held]).tolist():
        logs[row, column] = round_log(rounds[column][row, held[row].cuts[column] :] + above[row])
    return np.exp(logs) - least[:, None]


def shares(quantiles: int) -> Floats:
    """Which quantiles are kept: evenly spaced, and closer together in the tails."""
    middle = np.linspace(TAIL[-1], 1 - TAIL[-1], quantiles - 2 * len(TAIL) + 2)[1:-1]
    return np.concatenate([TAIL, middle, 1 - np.array(TAIL[::-1])])


@lru_cache(ALIKE)
def _ranks(count: int, quantiles: int) -> Ints:
    """Index of these quantiles in sorted samples."""
    return np.rint(shares(quantiles) * (count - 1)).astype(np.int64)


def _grid(ordered: Ints) -> tuple[Ints, Floats]:
    """Offset and step of each row, from its sorted samples."""
    last = ordered.shape[1] - 1

    def spread(share: float) -> npt.NDArray[np.int64]:
        low, high = math.floor(share * last), math.ceil((1 - share) * last)
        return ordered[:, high] - ordered[:, low]

    # The inner spread too, or a few slow samples would make all others look alike.
    step = np.minimum(spread(0.05) / LEVELS, spread(0.25) / INNER_LEVELS)
    return ordered[:, 0], np.maximum(np.round(step, 2), 1.0)


def _steps(values: Ints | Floats, offset: Ints, step: Floats) -> Ints:
    """In steps from the offset of the row."""
    return np.rint((values - offset[:, None]) / step[:, None]).astype(offset.dtype)


@lru_cache(ALIKE)
def _alike_buckets(
    lengths: tuple[int, ...], per_round: tuple[int, ...]
) -> list[tuple[int, Ints, Ints]]:
    """Sizes of buckets, each with the buckets that have it, and the places of their samples."""
    begin = np.cumsum([0, *lengths[:-1]])
    parts = [
        first + np.arange(buckets) * length // buckets
        for first, length, buckets in zip(begin, lengths, per_round, strict=True)
    ]
    starts = np.concatenate(parts)
    sizes = np.diff(starts, append=sum(lengths))
    found = []
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        found.append((size, alike, (starts[alike][:, None] + np.arange(size)).ravel()))
    return found
