"""Samples in memory that processes share: a pipe would take as long as parsing them does."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from bench_schema.document import Samples

    from bench_compare.rounds.table import RoundTable


@dataclass(frozen=True)
class Stored:
    """Arrays that stand one after another on a shelf."""

    offset: int
    sizes: Sequence[int]


Places: TypeAlias = Mapping[str, Stored]
"""Where the samples of each series of a table are."""


class Shelf:
    """Made before a process is forked; filled by that process, looked at by the other one."""

    def __init__(self) -> None:
        self.handle = os.memfd_create("samples")
        self.size = 0

    def put(self, table: RoundTable) -> tuple[RoundTable, Places]:
        """The table without its samples, and where those of each series stand now."""
        stored = {name: self._store(one.samples) for name, one in table.series.items()}
        series = {name: replace(one, samples=()) for name, one in table.series.items()}
        return replace(table, series=series), stored

    def _store(self, arrays: Sequence[Samples]) -> Stored:
        values = np.concatenate([*arrays, np.empty(0, np.int64)])
        with open(self.handle, "wb", closefd=False) as file:
            file.write(values.data)
        stored = Stored(self.size, [one.size for one in arrays])
        self.size += values.nbytes
        return stored

    def take(self, table: RoundTable, stored: Sequence[Places]) -> RoundTable:
        """The table with its samples, which are where they were put, some neighbouring cases at a
        time."""
        size = os.fstat(self.handle).st_size
        memory = mmap.mmap(self.handle, size, access=mmap.ACCESS_READ) if size else b""
        values = np.frombuffer(memory, np.int64)
        series = {
            name: replace(one, samples=_views(values, [at[name] for at in stored if name in at]))
            for name, one in table.series.items()
        }
        return replace(table, series=series)

    def close(self) -> None:
        """What was taken stays."""
        os.close(self.handle)


def _views(values: Samples, stored: Sequence[Stored]) -> list[Samples]:
    found: list[Samples] = []
    for part in stored:
        first = part.offset // values.itemsize
        ends = list(itertools.accumulate(part.sizes, initial=first))
        found += [values[start:end] for start, end in itertools.pairwise(ends)]
    return found
