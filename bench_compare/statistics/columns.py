"""Where observations come from: the run, the visit and the unit of hardware behind each column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench_compare.statistics.arrays import Array, Ints, row_mean


@dataclass(frozen=True, eq=False)
class Columns:
    """Where the rounds of one side come from, one entry a column."""

    document: Ints
    """Equal numbers on both sides are one run."""
    round: Ints
    block: Ints
    """Unit of hardware."""


def single_documents(base: int, other: int) -> tuple[Columns, Columns]:
    """Columns of two sides with one document each, on one unit of hardware."""
    return (
        Columns(np.zeros(base, int), np.arange(base), np.zeros(base, int)),
        Columns(np.ones(other, int), np.arange(other), np.zeros(other, int)),
    )


def by_document(side: Array, columns: Columns) -> tuple[Array, Columns]:
    """One column a document: the mean over its rounds."""
    numbers, first = np.unique(columns.document, return_index=True)
    means = [row_mean(side[:, columns.document == number]) for number in numbers]
    values = np.stack(means, axis=1) if means else np.empty((len(side), 0))
    return values, Columns(numbers, np.zeros_like(numbers), columns.block[first])
