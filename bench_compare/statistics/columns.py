"""Origin of observations: the run, the visit and the unit of hardware of each column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import row_mean

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Ints


@dataclass(frozen=True, eq=False)
class Columns:
    """Origin of the rounds of one side, one entry a column."""

    document: Ints
    """Equal numbers on both sides are one run."""
    round: Ints
    block: Ints
    """Unit of hardware."""


def single_documents(base: int, other: int) -> tuple[Columns, Columns]:
    """Return columns of two sides with one document each, on one unit of hardware."""
    return (
        Columns(np.zeros(base, int), np.arange(base), np.zeros(base, int)),
        Columns(np.ones(other, int), np.arange(other), np.zeros(other, int)),
    )


def together(side: Array, columns: Columns) -> tuple[Array, Columns]:
    """Return the values and their columns, with one column for each round of a run on one unit of
    hardware: a suite in pieces had one for each piece. Return both unchanged if pieces share a
    case."""
    places = np.stack([columns.document, columns.round, columns.block])
    whole, place = np.unique(places, axis=1, return_inverse=True)
    known = np.isfinite(side)
    if whole.shape[1] == places.shape[1] or not side.size:
        return side, columns
    rows, of = np.nonzero(known)
    cells, turn = np.unique(rows * whole.shape[1] + place.ravel()[of], return_index=True)
    if len(cells) < len(rows):
        return side, columns
    values = np.full((len(side), whole.shape[1]), np.nan)
    values.flat[cells] = side[known][turn]
    return values, Columns(*whole)


def by_document(side: Array, columns: Columns) -> tuple[Array, Columns]:
    """Return the values with one column for each document, and each unit of hardware in it, as
    means over its rounds; and these columns."""
    documents, groups = _documents(columns)
    means = [row_mean(side[:, rounds]) for rounds in groups]
    values = np.stack(means, axis=1) if means else np.empty((len(side), 0))
    return values, documents


@lru_cache(maxsize=16)
def _documents(columns: Columns) -> tuple[Columns, list[Ints]]:
    """Return the columns of documents, and of each the columns of its rounds. Many numbers of a
    comparison are taken over the same few columns."""
    places = np.stack([columns.document, columns.block])
    (numbers, blocks), group = np.unique(places, axis=1, return_inverse=True)
    groups = [np.flatnonzero(group.ravel() == number) for number in range(len(numbers))]
    return Columns(numbers, np.zeros_like(numbers), blocks), groups


@lru_cache(maxsize=16)
def paired_columns(base: Columns, other: Columns) -> tuple[Ints, Ints]:
    """Return the columns of visits that both sides have on one unit of hardware."""
    visits = np.concatenate(
        [np.stack([side.document, side.block, side.round]) for side in (base, other)], axis=1
    )
    _, number = np.unique(visits, axis=1, return_inverse=True)
    first, second = np.split(number.ravel(), [len(base.document)])
    _, mine, theirs = np.intersect1d(first, second, return_indices=True)
    return mine, theirs
