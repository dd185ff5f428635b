"""Samples in memory that processes share: a pipe would take as long as parsing them does."""

from __future__ import annotations

import itertools
import mmap
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Samples

    from bench_compare.rounds.table import RoundTable


@dataclass(frozen=True)
class Stored:
    """Arrays that stand one after another on a shelf."""

    offset: int
    sizes: Sequence[int]


class Shelf:
    """Made before a process is forked; filled by that process, looked at by the other one."""

    def __init__(self) -> None:
        self.handle = os.memfd_create("samples")

    def put(self, table: RoundTable) -> tuple[RoundTable, dict[str, Stored]]:
        """The table without its samples, and where those of each series stand now."""
        stored = {name: self._store(one.samples) for name, one in table.series.items()}
        series = {name: replace(one, samples=()) for name, one in table.series.items()}
        return replace(table, series=series), stored

    def _store(self, arrays: Sequence[Samples]) -> Stored:
        offset = os.lseek(self.handle, 0, os.SEEK_END)
        with open(self.handle, "wb", closefd=False) as file:
            file.write(np.concatenate([*arrays, np.empty(0, np.int64)]).data)
        return Stored(offset, [one.size for one in arrays])

    def take(self, table: RoundTable, stored: dict[str, Stored]) -> RoundTable:
        """The table with its samples, which are where they were put."""
        size = os.fstat(self.handle).st_size
        memory = mmap.mmap(self.handle, size, access=mmap.ACCESS_READ) if size else b""
        values = np.frombuffer(memory, np.int64)
        series = {
            name: replace(one, samples=_views(values, stored[name]))
            for name, one in table.series.items()
        }
        return replace(table, series=series)

    def close(self) -> None:
        """What was taken stays."""
        os.close(self.handle)


def _views(values: Samples, stored: Stored) -> list[Samples]:
    first = stored.offset // values.itemsize
    ends = [first + end for end in itertools.accumulate(stored.sizes)]
    return [values[start:end] for start, end in zip([first, *ends], ends, strict=False)]
