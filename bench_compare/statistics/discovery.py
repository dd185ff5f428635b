"""False discoveries among many cases (Benjamini and Hochberg 1995)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array


def false_discovery(p: Array) -> Array:
    """Return adjusted p (q) after Benjamini and Hochberg, over all known entries of any shape."""
    flat = p.ravel()
    known = np.flatnonzero(np.isfinite(flat))
    order = known[np.argsort(flat[known], kind="stable")]
    stepped = flat[order] * len(order) / np.arange(1, len(order) + 1)
    q = np.full_like(flat, np.nan)
    q[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return np.asarray(q.reshape(p.shape))
