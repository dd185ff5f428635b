"""The rounds of many cases, a column for each thing that is asked of all of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from bench_schema.estimate import cut_of

from bench_compare.metrics import METRICS, PerRound
from bench_compare.rounds.facts import Facts, facts_of_cases
from bench_compare.statistics.samples import (
    RoundStatistics,
    SampleParts,
    round_statistics,
    trimmed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_schema.document import Case, Round

    from bench_compare.statistics.arrays import Array, Ints, Mask


NAN = float("nan")
READINGS = 5
"""Columns of `Clocks.readings`."""
Numbers: TypeAlias = "tuple[Ints, Array]"
"""How many a case has, and the numbers of all cases."""


@dataclass(frozen=True, eq=False)
class SeriesColumns:
    """One series: an entry for each round that has samples of it."""

    round: Ints
    """Its place in the table."""
    starts: Sequence[int]
    """Place of the first entry of each case, and of one case more."""
    samples: SampleParts
    cut: Ints
    """Leading samples that do not count; computed where the document does not tell."""
    not_warm: Mask
    statistics: RoundStatistics
    """Of the samples that count."""

    @cached_property
    def times_ns(self) -> Array:
        """Of each round its location; NaN where no sample counts."""
        return np.asarray(np.exp(self.statistics.log_median))


@dataclass(frozen=True, eq=False)
class Clocks:
    """What devices told around each round; NaN where they did not."""

    told: Mask
    """Whether anything was."""
    mean_mhz: Array
    """Of before and after, probed if it was."""
    readings: Array
    """A row for each round: its longest cut, clock before and after (MHz), power (W), temperature
    (°C)."""

    @cached_property
    def last_mhz(self) -> Array:
        """After the round, else before it."""
        return np.where(np.isnan(self.readings[:, 2]), self.readings[:, 1], self.readings[:, 2])


@dataclass(frozen=True, eq=False)
class RoundTable:
    """Rounds in the order of their cases."""

    starts: Ints
    """Place of the first round of each case, and of one case more."""
    index: Ints
    clocks: Clocks
    series: Mapping[str, SeriesColumns]
    numbers: Mapping[str, Numbers]
    """By the names of metrics that have numbers of their own for rounds."""
    facts: Sequence[Facts]
    """Of each case."""

    @cached_property
    def clock_mhz(self) -> Sequence[float]:
        """Of each case the median over its rounds; NaN where none tells its clock."""
        found = np.full(len(self.starts) - 1, np.nan)
        counts, last = np.diff(self.starts), self.clocks.last_mhz
        for count in np.unique(counts[counts > 0]).tolist():
            alike = np.flatnonzero(counts == count)
            rows = np.sort(last[self.starts[alike][:, None] + np.arange(count)], axis=1)
            end = np.maximum((~np.isnan(rows)).sum(axis=1) - 1, 0)  # NaN stands last
            row = np.arange(len(rows))
            found[alike] = (rows[row, end // 2] + rows[row, (end + 1) // 2]) / 2
        middles: list[float] = found.tolist()
        return middles


def table_of(cases: Sequence[Case]) -> RoundTable:
    """The columns of cases whose samples are arrays."""
    rounds = [one for case in cases for one in case.rounds]
    starts = np.cumsum([0, *(len(case.rounds) for case in cases)])
    names = dict.fromkeys(name for one in rounds for name in one.series)
    numbers: dict[str, Numbers] = {}
    for name, row in METRICS.items():
        if isinstance(row.reading, PerRound):
            values = [row.reading.read(case) for case in cases]
            counts = np.fromiter(map(len, values), np.int64, len(values))
            numbers[name] = counts, np.array([*chain.from_iterable(values)], float)
    return RoundTable(
        starts=starts,
        index=np.array([one.index for one in rounds], np.int64),
        clocks=_clocks(rounds),
        series={name: _series(rounds, name, starts) for name in names},
        numbers=numbers,
        facts=facts_of_cases(case.rounds for case in cases),
    )


def _series(rounds: Sequence[Round], name: str, starts: Ints) -> SeriesColumns:
    places, samples = [], []
    for place, one in enumerate(rounds):
        found = one.series.get(name)
        if found is not None and found.size:
            places.append(place)
            samples.append(found)
    holders = [rounds[place] for place in places]
    if all(name in one.cut for one in holders):  # as in nearly all documents
        cuts = [one.cut[name] for one in holders]
        not_warm = [name in one.not_warm for one in holders]
    else:
        every = [cut_of(one, name) for one in holders]
        cuts, not_warm = [one.cut for one in every], [one.not_warm for one in every]
    return SeriesColumns(
        round=np.array(places, np.int64),
        starts=np.searchsorted(places, starts).tolist(),
        samples=SampleParts.of(samples),
        cut=np.array(cuts, np.int64),
        not_warm=np.array(not_warm, bool),
        statistics=round_statistics(trimmed(samples, cuts) if any(cuts) else samples),
    )


def empty_series(starts: int) -> SeriesColumns:
    """Of cases without a sample of it."""
    nothing = np.empty(0, np.int64)
    return SeriesColumns(
        round=nothing,
        starts=[0] * starts,
        samples=SampleParts.of(()),
        cut=nothing,
        not_warm=np.empty(0, bool),
        statistics=round_statistics(()),
    )


def _clocks(rounds: Sequence[Round]) -> Clocks:
    before = [one.telemetry_before for one in rounds]
    after = [one.telemetry_after for one in rounds]
    told = np.array([one is not None for one in before], bool)
    told |= np.array([one is not None for one in after], bool)
    readings = np.full((len(rounds), READINGS), np.nan)
    readings[:, 0] = [max(one.cut.values(), default=0) for one in rounds]
    if not told.any():
        return Clocks(told, np.full(len(rounds), np.nan), readings)
    rows = [[UNKNOWN if one is None else READ(one) for one in side] for side in (before, after)]
    (probed, reported, _, _), (probed_after, reported_after, power_w, temperature_c) = (
        np.array(side, float).T
        for side in rows  # None is NaN
    )
    mean = _mean(probed, probed_after)
    readings[:, 1] = np.where(np.isnan(probed), reported, probed)
    readings[:, 2] = np.where(np.isnan(probed_after), reported_after, probed_after)
    readings[:, 3], readings[:, 4] = power_w, temperature_c
    return Clocks(told, np.where(np.isnan(mean), _mean(reported, reported_after), mean), readings)


READ = attrgetter("probed_clock_mhz", "sm_clock_mhz", "power_w", "temperature_c")
UNKNOWN = (NAN,) * 4


def _mean(first: Array, second: Array) -> Array:
    """Of the one or two that are known and not 0, else NaN."""
    both = np.stack([first, second])
    known = np.nan_to_num(both) != 0
    count = known.sum(axis=0)
    total = np.where(known[0], first, 0.0) + np.where(known[1], second, 0.0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def joined(tables: Sequence[RoundTable]) -> RoundTable:
    """One table of neighbouring tables: the columns of all cases, in order."""
    if len(tables) < 2:
        return tables[0] if tables else table_of(())
    before = np.cumsum([0, *(one.index.size for one in tables)])
    names = dict.fromkeys(name for one in tables for name in one.series)
    metrics = tables[0].numbers
    return RoundTable(
        starts=_starts([one.starts for one in tables]),
        index=_column(tables, attrgetter("index")),
        clocks=_fields(Clocks, [one.clocks for one in tables]),
        series={name: _join_series(tables, name, before) for name in names},
        numbers={
            name: (
                np.concatenate([one.numbers[name][0] for one in tables]),
                np.concatenate([one.numbers[name][1] for one in tables]),
            )
            for name in metrics
        },
        facts=[*chain.from_iterable(one.facts for one in tables)],
    )


def _join_series(tables: Sequence[RoundTable], name: str, before: Ints) -> SeriesColumns:
    """`before`: rounds before those of each table."""
    parts = [one.series.get(name) or empty_series(len(one.starts)) for one in tables]
    rounds = [one.round + count for one, count in zip(parts, before.tolist(), strict=False)]
    return SeriesColumns(
        round=np.concatenate(rounds),
        starts=_starts([np.array(one.starts) for one in parts]).tolist(),
        samples=SampleParts.joined([one.samples for one in parts]),
        cut=_column(parts, attrgetter("cut")),
        not_warm=_column(parts, attrgetter("not_warm")),
        statistics=_fields(RoundStatistics, [one.statistics for one in parts]),
    )


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
