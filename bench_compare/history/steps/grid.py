"""The archive as numbers: series × documents, in the order of the builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Ints

FLOOR_VARIANCE = 0.002**2
"""No document is known better than to 0.2 %."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Natural logarithms, NaN where a document does not hold a series."""

    values: Array
    variance: Array
    """Of each value, as its rounds know it; zero where they do not."""
    build: Ints
    """Number of the build of each document, rising from 0."""
    unit: Ints
    """Unit of hardware of each document: levels are compared within units only."""
