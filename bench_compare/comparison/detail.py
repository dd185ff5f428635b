"""A closer look at one flagged case; too dear for all of them, and blind to the rounds' spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bench_compare.model import Detail

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from bench_compare.statistics.arrays import Array, Ints

    Narrow: TypeAlias = Ints | npt.NDArray[np.int32]

DRAWS = 2000
CHUNK = 1 << 16
"""Samples drawn at a time: half a MiB, so that the work on them stays in the cache."""
MOST_COPIED = 1 << 20
"""Samples in all windows of a series that are made a table: a few MiB."""
SEED = 20240601
PERCENTS = (5, 25, 50, 75, 95)
MOST_PAIRED = 1000
"""Samples of each side that the Hodges-Lehmann shift pairs up."""


def detail(metric: str, base: Sequence[Ints], other: Sequence[Ints]) -> Detail:
    """`base` and `other`: the rounds of the case, warm-up cut off, nanoseconds."""
    random = np.random.default_rng(SEED)
    medians = [_bootstrap_medians(side, random) for side in (base, other)]
    low, high = np.quantile(medians[1] / medians[0], (0.025, 0.975))
    first, second = np.concatenate(base), np.concatenate(other)
    quantiles = np.percentile(second, PERCENTS) / np.maximum(np.percentile(first, PERCENTS), 1)
    return Detail(
        metric=metric,
        median_ratio=float(np.median(second) / max(float(np.median(first)), 1.0)),
        bootstrap_low=float(low),
        bootstrap_high=float(high),
        shift_ns=hodges_lehmann(first, second),
        quantile_ratios=dict(zip(PERCENTS, quantiles.tolist(), strict=True)),
    )


def _bootstrap_medians(rounds: Sequence[Ints], random: np.random.Generator) -> Array:
    """Medians of `DRAWS` series drawn in blocks of 2 n^(1/3) consecutive samples that never cross
    a round (Künsch 1989: moving blocks)."""
    series = np.concatenate(rounds)
    least = int(series.min())
    starts, length = _block_starts(rounds, len(series))
    blocks = -(-len(series) // length)
    windows: Any = np.lib.stride_tricks.sliding_window_view(narrow(series, least), length)
    if windows.size <= MOST_COPIED:
        windows = np.ascontiguousarray(windows)
    step = max(1, CHUNK // (blocks * length))
    room = np.empty((step, blocks, length), windows.dtype)
    medians = []
    for first in range(0, DRAWS, step):
        count = min(step, DRAWS - first)
        drawn = _rows(windows, random.choice(starts, (count, blocks)), room[:count])
        medians.append(row_median(drawn.reshape(count, -1)[:, : len(series)]))
    return np.maximum(np.concatenate(medians) + least, 1)


def _rows(table: Narrow, places: Ints, room: Narrow) -> Narrow:
    """These rows; in `room` where the table is one in memory, too, so that they are just copied."""
    if table.flags.c_contiguous:
        return table.take(places, axis=0, out=room, mode="clip")  # "raise" would use another room
    return table[places]


def narrow(values: Ints, least: int) -> Narrow:
    """What the values exceed `least` by, in half of the width where neither it nor a difference of
    two can overflow: twice as many are looked at in a step."""
    above = values - least
    return above.astype(np.int32) if above.max() < 1 << 31 else above


def row_median(rows: Narrow) -> Array:
    """Like NumPy's, which looks for both middle values at once: that is several times slower.
    The rows are reordered."""
    count = rows.shape[1]
    upper = count // 2
    rows.partition(upper, axis=1)
    high = rows[:, upper]
    low = high if count % 2 else rows[:, :upper].max(axis=1)
    return np.asarray((low.astype(float) + high) / 2)


def _block_starts(rounds: Sequence[Ints], count: int) -> tuple[npt.NDArray[np.int64], int]:
    shortest = min(one.size for one in rounds)
    length = int(min(max(1, round(2 * count ** (1 / 3))), shortest))
    offsets = np.cumsum([0, *(one.size for one in rounds)])
    starts = [
        np.arange(offset, offset + one.size - length + 1)
        for offset, one in zip(offsets, rounds, strict=False)
    ]
    return np.concatenate(starts), length


def hodges_lehmann(base: Ints, other: Ints) -> float:
    """Median of all differences other - base, nanoseconds; long series are thinned evenly."""
    first, second = (side[:: max(1, side.size // MOST_PAIRED)] for side in (base, other))
    least = int(min(first.min(), second.min()))
    differences = narrow(second, least)[None, :] - narrow(first, least)[:, None]
    return float(row_median(differences.reshape(1, -1))[0])
