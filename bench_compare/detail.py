"""A closer look at one flagged case; too dear for all of them, and blind to the rounds' spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_compare.model import Detail

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from bench_compare.intervals import Array
    from bench_compare.samples import Ints

DRAWS = 2000
CHUNK = 1 << 21
"""Samples drawn at a time: 16 MiB."""
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
    starts, length = _block_starts(rounds, len(series))
    blocks = -(-len(series) // length)
    step = max(1, CHUNK // (blocks * length))
    medians = []
    for first in range(0, DRAWS, step):
        count = min(step, DRAWS - first)
        chosen = random.choice(starts, (count, blocks))
        places = (chosen[:, :, None] + np.arange(length)).reshape(count, -1)[:, : len(series)]
        medians.append(np.maximum(np.median(series[places], axis=1), 1))
    return np.concatenate(medians)


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
    return float(np.median(second[None, :] - first[:, None]))
