"""Means, counts and medians of matrices in which NaN means "not observed"."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Records: TypeAlias = Any
"""A structured array (`numpy.recarray`): a record for each case, whose fields are attributes."""


def blank(kind: np.dtype[np.void], size: int) -> Records:
    """Return records whose numbers are NaN, counts 0 and marks False."""
    made = np.zeros(size, kind).view(np.recarray)
    for name in kind.names or ():
        if kind[name].kind == "f":
            made[name] = np.nan
    return made


def filled(kind: np.dtype[np.void], **columns: npt.ArrayLike) -> Records:
    """Return records from a column for each field."""
    made = blank(kind, len(np.asarray(next(iter(columns.values())))))
    for name, values in columns.items():
        made[name] = values
    return made


def units(values: Array) -> npt.NDArray[np.int64]:
    return np.asarray(np.isfinite(values).sum(axis=1))


def column_median(values: Array) -> Array:
    """Return the median of the known values in each column; NaN if there are none."""
    ordered = np.sort(values, axis=0)  # NaN last
    count = np.isfinite(ordered).sum(axis=0)
    columns = np.arange(values.shape[1])
    low, high = ((np.maximum(place, 0), columns) for place in ((count - 1) // 2, count // 2))
    middle = (ordered[low] + ordered[np.minimum(high[0], len(values) - 1), columns]) / 2
    return np.asarray(np.where(count > 0, middle, np.nan))
