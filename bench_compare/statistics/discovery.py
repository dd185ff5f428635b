"""From estimates to decisions over many cases: false discoveries, what more measuring would decide.

Source: Benjamini and Hochberg 1995 (false-discovery rate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_compare.statistics.special import normal_quantile

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array
    from bench_compare.statistics.intervals import Estimates


def false_discovery(p: Array) -> Array:
    """Adjusted p (q) after Benjamini and Hochberg, over all known entries of any shape."""
    flat = p.ravel()
    known = np.flatnonzero(np.isfinite(flat))
    order = known[np.argsort(flat[known], kind="stable")]
    stepped = flat[order] * len(order) / np.arange(1, len(order) + 1)
    q = np.full_like(flat, np.nan)
    q[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return np.asarray(q.reshape(p.shape))


POWER_Z = 1.2816
"""Normal quantile of 90 %: so surely are the rounds that are asked for to decide."""
DISCOVERY_Z = 3.2905
"""Two-sided 0.1 %: about 5 % after false-discovery control where one case in fifty moves."""
SAME_Z = 1.6449
MOST_ROUNDS = 1000


def rounds_needed(found: Estimates, limit: Array) -> Array:
    """More units a side (documents where `Estimates.documents` says so) that would decide each case
    if its shift is what it seems; NaN where no sensible number would. `limit` is
    log(1 + threshold)."""
    more_documents = found.documents > 0
    same_z = np.full(len(found.looks), SAME_Z)  # normal quantile of 5 %, shared by the looks
    for count in np.unique(found.looks[found.looks > 1]).tolist():
        same_z[found.looks == count] = normal_quantile(1 - 0.05 / count)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(
            more_documents, found.documents, np.minimum(found.base_units, found.other_units)
        )
        pairs = 1 / np.maximum(found.base_units, 1) + 1 / np.maximum(found.other_units, 1)
        pairs = np.where(more_documents, 2 / np.maximum(found.documents, 1), pairs)
        s2 = found.variance / pairs
        size = np.abs(found.shift)
        moved = size >= limit
        distance = np.where(moved, size, limit - size)
        z = np.where(moved, DISCOVERY_Z, same_z) + POWER_Z
        needed = np.ceil(2 * s2 * (z / distance) ** 2)
        more = np.maximum(needed - least, 1)
    return np.asarray(np.where(needed <= MOST_ROUNDS, more, np.nan))
