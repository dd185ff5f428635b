"""Estimates and a threshold to moves: up, down, the same, unclear. Nothing is estimated here."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.model import Verdict
from bench_compare.statistics.intervals import COMMON_ALPHA
from bench_compare.statistics.special import t_quantile

if TYPE_CHECKING:
    import numpy.typing as npt

    from bench_compare.metrics import Metric
    from bench_compare.statistics.arrays import Array
    from bench_compare.statistics.intervals import Estimates


class Move(IntEnum):
    """A direction of the numbers, good or bad."""

    DOWN = -1
    SAME = 0
    UP = 1
    UNCLEAR = 2
    UNKNOWN = 3


HALF = 0.5
"""Share of the threshold that the 95 % interval of a move must lie beyond. A ratio at the threshold
whose interval nearly reaches 1 may well be no change of interest: −1.0 % ± 0.6 of two identical
runs."""
LEAST_UNITS = 3
"""Below three units a side the variance itself is a guess: provisional."""


def judge(
    found: Estimates, q: Array, limit: Array, alpha: float, resolution: Array | None = None
) -> npt.NDArray[np.int64]:
    """Return a `Move` for each case; `limit` is log(1 + threshold).

    Up and down: significant after false-discovery control, at least the threshold, an interval
    beyond half of the threshold, beyond what all cases share (`Estimates.common`), beyond what a
    run that stops when decided must show (`Estimates.sure`), and beyond what the clock tells apart
    (`resolution`). Same: the 90 % interval lies within the threshold (two one-sided tests at 5 %).
    Otherwise unclear.
    """
    least = _least(found, limit, resolution)
    with np.errstate(invalid="ignore"):
        moved = (q <= alpha) & (np.abs(found.shift) >= least)
        moved &= np.maximum(found.low, -found.high) >= HALF * limit
        same = (found.same_low >= -limit) & (found.same_high <= limit)
    moves = np.where(same, Move.SAME, Move.UNCLEAR)
    moves = np.where(moved, np.where(found.shift > 0, Move.UP, Move.DOWN), moves)
    return np.asarray(np.where(np.isnan(found.shift), Move.UNKNOWN, moves), np.int64)


def _least(found: Estimates, limit: Array, resolution: Array | None) -> Array:
    """Return the smallest shift that is called, if it is significant."""
    with np.errstate(invalid="ignore"):
        least = np.maximum(np.maximum(limit, found.common), found.sure)
        return np.asarray(least if resolution is None else np.maximum(least, resolution))


def raw_moves(shift: Array, limit: Array) -> npt.NDArray[np.int64]:
    """Return a `Move` for each ratio (logarithm) without samples on some side: the threshold alone
    decides, as the scatter is unknown."""
    beyond = np.abs(shift) > limit * (1 + ROUNDING)
    return np.asarray(np.where(beyond, np.where(shift > 0, Move.UP, Move.DOWN), Move.SAME))


ROUNDING = 1e-9
POWER = 0.9
"""Probability with which a shift of `seen_shift` is called."""


def seen_shift(
    found: Estimates, tests: int, limit: Array, alpha: float, resolution: Array | None = None
) -> Array:
    """Return the smallest true shift that `judge` would call with a probability of `POWER`; NaN if
    none. It is called alone, among `tests` that move nothing, which is what control of false
    discoveries asks most of."""
    with np.errstate(invalid="ignore"):
        error = np.sqrt(found.variance) * _spread_doubt(found.dof)
        significant = t_quantile(1 - alpha / max(tests, 1) / 2, found.dof) * error
        least = np.maximum(_least(found, limit, resolution), significant)
        clear = _spread_doubt(found.dof) * (found.high - found.low) / 2
        least = np.maximum(least, HALF * limit + np.nan_to_num(clear))
        # What all cases share and what is a case's own may spread more than they were found to.
        shared = t_quantile(1 - COMMON_ALPHA / 2, found.common_dof) ** 2 * found.common_variance
        shared = np.minimum(np.nan_to_num(shared), found.common**2)
        of_shared = np.nan_to_num(_spread_doubt(found.common_dof), nan=1.0)
        of_own = np.nan_to_num(_spread_doubt(found.dof), nan=1.0)
        common = np.sqrt(of_shared**2 * shared + of_own**2 * (found.common**2 - shared))
        least = np.maximum(least, common)
        return np.asarray(least + t_quantile(POWER, found.dof) * error)


SPREAD_Z = -0.8416
"""Normal quantile of 20 %. Simulated with 4 to 100 degrees of freedom and 1 to 40 tests, shifts of
`seen_shift` are then called with a probability of 0.87 to 0.94."""


def _spread_doubt(dof: Array) -> Array:
    """Return the factor by which a standard deviation may exceed its estimate: the next one is
    drawn again (chi squared after Wilson and Hilferty 1931)."""
    part = 2 / (9 * dof)
    return np.asarray((1 - part + SPREAD_Z * np.sqrt(part)) ** -1.5)


def exact_move(base: float, other: float, threshold_ratio: float) -> Move:
    """Return the move of exact numbers; the test is the same from either side."""
    low, high = sorted((base, other))
    if low == high or (low > 0 and high <= low * (1 + threshold_ratio)):
        return Move.SAME
    return Move.UP if other > base else Move.DOWN


def words(metric: Metric) -> dict[int, Verdict]:
    """Return the verdict for each `Move` of a metric."""
    good, bad = (
        (Verdict.FASTER, Verdict.SLOWER) if metric.speed else (Verdict.BETTER, Verdict.WORSE)
    )
    down, up = (good, bad) if metric.better == "lower" else (bad, good)
    return {
        Move.DOWN: down,
        Move.UP: up,
        Move.SAME: Verdict.SAME,
        Move.UNCLEAR: Verdict.UNCLEAR,
        Move.UNKNOWN: Verdict.UNMEASURED,
    }
