"""Tables of neighbouring cases → one table."""

from __future__ import annotations

from dataclasses import fields
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_compare.rounds.table import Clocks, RoundTable, SeriesColumns, empty_series, table_of
from bench_compare.statistics.samples import RoundStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_compare.rounds.table import Numbers
    from bench_compare.statistics.arrays import Ints


def joined(tables: Sequence[RoundTable]) -> RoundTable:
    """The columns of all cases, in order."""
    if len(tables) < 2:
        return tables[0] if tables else table_of(())
    before = np.cumsum([0, *(one.index.size for one in tables)])
    names = dict.fromkeys(name for one in tables for name in one.series)
    metrics = tables[0].numbers
    return RoundTable(
        starts=_starts([one.starts for one in tables]),
        index=_column(tables, attrgetter("index")),
        clocks=_fields(Clocks, [one.clocks for one in tables]),
        series={name: _series(tables, name, before) for name in names},
        numbers={name: _numbers([one.numbers[name] for one in tables]) for name in metrics},
        facts=[*chain.from_iterable(one.facts for one in tables)],
    )


def _series(tables: Sequence[RoundTable], name: str, before: Ints) -> SeriesColumns:
    """`before`: rounds before those of each table."""
    parts = [one.series.get(name) or empty_series(len(one.starts)) for one in tables]
    rounds = [one.round + count for one, count in zip(parts, before.tolist(), strict=False)]
    return SeriesColumns(
        round=np.concatenate(rounds),
        starts=_starts([np.array(one.starts) for one in parts]).tolist(),
        samples=[*chain.from_iterable(one.samples for one in parts)],
        cut=_column(parts, attrgetter("cut")),
        told_cut=_column(parts, attrgetter("told_cut")),
        not_warm=_column(parts, attrgetter("not_warm")),
        statistics=_fields(RoundStatistics, [one.statistics for one in parts]),
    )


def _numbers(parts: Sequence[Numbers]) -> Numbers:
    return _column(parts, itemgetter(0)), _column(parts, itemgetter(1))


def _starts(parts: Sequence[Ints]) -> Ints:
    """Each part begins with 0 and ends with its length."""
    counts = [np.diff(one) for one in parts]
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))])


def _column(parts: Sequence[Any], read: Callable[[Any], Any]) -> Any:
    return np.concatenate([read(one) for one in parts])


def _fields(kind: Any, parts: Sequence[Any]) -> Any:
    """A value of columns, each joined."""
    names = [one.name for one in fields(kind)]
    return kind(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))
