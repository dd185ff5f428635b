"""Samples reduced for the eye: what a chart can show, in small integers.

Nothing here enters a verdict. A series that fits its budget is kept whole. A longer one becomes
quantiles (nearest rank) for its distribution, and for its course in time the least, the median and
the largest sample of buckets that never cross a round; the page says so beside the chart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
BATCH = 256
"""Series worked on at once: a few MB, so that they stay in the cache."""


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


class Held(NamedTuple):
    """One series of one side: its rounds, in the order of the documents."""

    rounds: Sequence[Samples]
    cuts: Sequence[int]
    """Leading samples of each round that do not count."""
    documents: Sequence[int]
    """Rounds of each document."""


def budget(series_count: int) -> Budget:
    return Budget(min(max(PAGE_VALUES // max(series_count, 1), LEAST), MOST))


def reduced(series: Sequence[Held], plan: Budget) -> list[dict[str, Any]]:
    """Each series as a mapping that serialises small.

    Every value is ``offset + step * integer`` nanoseconds. ``n`` are the samples of each round,
    ``mids`` the medians of what counts of them, ``docs`` the rounds of each document (left out
    where there is one document).
    Whole: ``raw``, all samples in order. Reduced: ``q``, the quantiles of `shares` as differences,
    the first from the offset; ``buckets`` of each round; ``mid`` the median of each bucket;
    ``down`` and ``up`` how far below and above it the extremes lie.
    """
    results: list[dict[str, Any]] = [{}] * len(series)
    for lengths, members in _alike(series).items():
        for batch in _batches(members):
            parts = [samples for i in batch for samples in series[i].rounds]
            samples, least = _narrow(np.concatenate(parts).reshape(len(batch), -1))
            middles = _middles(samples, lengths, [series[i].cuts for i in batch])
            rows = (
                _whole(samples, middles)
                if sum(lengths) <= plan.values
                else _short(samples, lengths, plan, middles)
            )
            for index, row, low in zip(batch, rows, least.tolist(), strict=True):
                row["offset"] += low
                documents = series[index].documents
                several = {"docs": documents} if len(documents) > 1 else {}
                results[index] = {"n": lengths, **several, **row}
    return results


def _narrow(samples: Ints) -> tuple[Ints, Ints]:
    """Samples above the least of their row, in 32 bits where they fit, which sorts in half the
    time; and the least of each row."""
    least = samples.min(axis=1)
    above = samples - least[:, None]
    fits = above.max() <= np.iinfo(np.int32).max
    return (above.astype(np.int32) if fits else above), least


def _middles(samples: Ints, lengths: tuple[int, ...], cuts: Sequence[Sequence[int]]) -> Floats:
    """Median of each round without its cut, shape (series, rounds)."""
    ends = np.cumsum(lengths)
    rounds = [samples[:, end - length : end] for end, length in zip(ends, lengths, strict=True)]
    found = np.stack([_median(one) for one in rounds], axis=1)
    for row, column in np.argwhere(np.array(cuts)).tolist():
        found[row, column] = np.median(rounds[column][row, cuts[row][column] :])
    return found


def _median(samples: Ints) -> Floats:
    """Of each row. NumPy's own takes three times as long: sorting whole numbers is quick."""
    ordered = np.sort(samples, axis=1)
    last = samples.shape[1] - 1
    return np.asarray(ordered[:, [last // 2, last - last // 2]].mean(axis=1))


def _alike(series: Sequence[Held]) -> Mapping[tuple[int, ...], list[int]]:
    """Positions of the series by the lengths of their rounds: those are reduced together."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, one in enumerate(series):
        groups.setdefault(tuple(map(len, one.rounds)), []).append(index)
    return groups


def _batches(members: Sequence[int]) -> Iterable[Sequence[int]]:
    return (members[start : start + BATCH] for start in range(0, len(members), BATCH))


def shares(quantiles: int) -> Floats:
    """Which quantiles are kept: evenly spaced, and closer together in the tails."""
    middle = np.linspace(TAIL[-1], 1 - TAIL[-1], quantiles - 2 * len(TAIL) + 2)[1:-1]
    return np.concatenate([TAIL, middle, 1 - np.array(TAIL[::-1])])


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


def _whole(samples: Ints, middles: Floats) -> list[dict[str, Any]]:
    offset, step = _grid(np.sort(samples, axis=1))
    columns = {"mids": _steps(middles, offset, step), "raw": _steps(samples, offset, step)}
    return _rows(offset, step, columns)


def _steps(values: Ints | Floats, offset: Ints, step: Floats) -> Ints:
    """In steps from the offset of the row."""
    return np.rint((values - offset[:, None]) / step[:, None]).astype(np.int64)


def _short(
    samples: Ints, lengths: tuple[int, ...], plan: Budget, middles: Floats
) -> list[dict[str, Any]]:
    ordered = np.sort(samples, axis=1)
    offset, step = _grid(ordered)

    quantiles = _steps(ordered[:, _ranks(samples.shape[1], plan.quantiles)], offset, step)
    per_round = [min(max(plan.buckets // len(lengths), 1), length) for length in lengths]
    least, middle, most = (
        _steps(values, offset, step) for values in _envelope(samples, lengths, per_round)
    )
    columns = {
        "mids": _steps(middles, offset, step),
        "q": np.diff(quantiles, axis=1, prepend=0),
        "mid": middle,
        "down": middle - least,
        "up": most - middle,
    }
    return [{"buckets": per_round, **row} for row in _rows(offset, step, columns)]


def _envelope(
    samples: Ints, lengths: tuple[int, ...], per_round: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """Least, (lower) median and largest sample of each bucket; buckets never cross a round."""
    starts = _starts(lengths, per_round)
    sizes = np.diff(starts, append=samples.shape[1])
    widest = sizes.max()
    if (sizes == widest).all():
        bucketed = np.sort(samples.reshape(len(samples), -1, widest), axis=2)
    else:
        inside = np.arange(widest) < sizes[:, None]
        bucketed = samples[:, np.where(inside, starts[:, None] + np.arange(widest), 0)]
        bucketed[:, ~inside] = np.iinfo(bucketed.dtype).max
        bucketed.sort(axis=2)
    every = np.arange(len(sizes))
    return (
        bucketed[:, :, 0],
        bucketed[:, every, (sizes - 1) // 2],
        bucketed[:, every, sizes - 1],
    )


def _starts(lengths: tuple[int, ...], per_round: Sequence[int]) -> Ints:
    begin = np.cumsum([0, *lengths[:-1]])
    parts = [
        first + np.arange(buckets) * length // buckets
        for first, length, buckets in zip(begin, lengths, per_round, strict=True)
    ]
    return np.concatenate(parts)


def _rows(offset: Ints, step: Floats, columns: Mapping[str, Ints]) -> list[dict[str, Any]]:
    whole = {name: np.ascontiguousarray(values) for name, values in columns.items()}
    return [
        {"offset": first, "step": width, **{name: values[i] for name, values in whole.items()}}
        for i, (first, width) in enumerate(zip(offset.tolist(), step.tolist(), strict=True))
    ]
