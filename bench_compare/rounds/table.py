"""The rounds of many cases, a column for each thing that is asked of all of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bench_compare.metrics import METRICS, PerRound
from bench_compare.rounds.facts import Facts, facts_of_cases
from bench_compare.statistics.samples import RoundStatistics, round_statistics, trimmed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Case, Round, Samples, Telemetry

    from bench_compare.statistics.arrays import Array, Ints, Mask

Numbers: TypeAlias = "tuple[Ints, Array]"
"""How many a case has, and the numbers of all cases."""


@dataclass(frozen=True, eq=False)
class SeriesColumns:
    """One series: an entry for each round that has samples of it."""

    round: Ints
    """Its place in the table."""
    samples: Sequence[Samples]
    cut: Ints
    """Leading samples that do not count; computed where the document does not tell."""
    told_cut: Ints
    """The same as the document tells it, else 0."""
    not_warm: Mask
    statistics: RoundStatistics
    """Of the samples that count."""


@dataclass(frozen=True, eq=False)
class Clocks:
    """What devices told around each round; NaN where they did not."""

    told: Mask
    """Whether anything was."""
    mean_mhz: Array
    """Of before and after, probed if it was."""
    before_mhz: Array
    after_mhz: Array
    power_w: Array
    temperature_c: Array


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


def table_of(cases: Sequence[Case]) -> RoundTable:
    """The columns of cases whose samples are arrays."""
    rounds = [one for case in cases for one in case.rounds]
    counts = [len(case.rounds) for case in cases]
    names = dict.fromkeys(name for one in rounds for name in one.series)
    return RoundTable(
        starts=np.cumsum([0, *counts]),
        index=np.array([one.index for one in rounds], np.int64),
        clocks=_clocks(rounds),
        series={name: _series(rounds, name) for name in names},
        numbers={
            name: _numbers([row.reading.read(case) for case in cases])
            for name, row in METRICS.items()
            if isinstance(row.reading, PerRound)
        },
        facts=facts_of_cases(case.rounds for case in cases),
    )


def _series(rounds: Sequence[Round], name: str) -> SeriesColumns:
    held = [
        (place, found, one)
        for place, one in enumerate(rounds)
        if (found := one.series.get(name)) is not None and found.size
    ]
    samples = [found for _, found, _ in held]
    cuts = [_cut(one, name, found) for _, found, one in held]
    effective = [cut for cut, _ in cuts]
    return SeriesColumns(
        round=np.array([place for place, _, _ in held], np.int64),
        samples=samples,
        cut=np.array(effective, np.int64),
        told_cut=np.array([one.cut.get(name) or 0 for _, _, one in held], np.int64),
        not_warm=np.array([cold for _, cold in cuts], bool),
        statistics=round_statistics(trimmed(samples, effective) if any(effective) else samples),
    )


def _cut(one: Round, name: str, samples: Samples) -> tuple[int, bool]:
    cut = one.cut.get(name)
    if cut is not None:
        return cut, name in one.not_warm
    from bench_schema.summary import warmup_cut

    found = warmup_cut(samples)
    return found.cut, found.not_warm


def _numbers(values: Sequence[Any]) -> Numbers:
    counts = np.fromiter(map(len, values), np.int64, len(values))
    return counts, np.array(list(itertools.chain.from_iterable(values)), float)


def _clocks(rounds: Sequence[Round]) -> Clocks:
    told = np.array([_told(one) for one in rounds], bool)
    table = np.full((5, len(rounds)), np.nan)
    if told.any():
        table = np.array([_telemetry(one) for one in rounds], float).T
    return Clocks(told, *table)


def _told(one: Round) -> bool:
    return not (one.telemetry_before is one.telemetry_after is None)


def _telemetry(one: Round) -> tuple[float | None, ...]:
    before, after = one.telemetry_before, one.telemetry_after
    mean = mean_clock_mhz([known for known in (before, after) if known is not None])
    if after is None:
        return mean, None if before is None else _mhz(before), None, None, None
    first = None if before is None else _mhz(before)
    return mean, first, _mhz(after), after.power_w, after.temperature_c


def _mhz(telemetry: Telemetry) -> float | None:
    """The measured clock where there is one, else what the device reports."""
    probed = telemetry.probed_clock_mhz
    return telemetry.sm_clock_mhz if probed is None else probed


def mean_clock_mhz(known: Sequence[Telemetry]) -> float | None:
    """SM clock of a round: probed if it was, else the mean of before and after."""
    clocks = [t.probed_clock_mhz for t in known if t.probed_clock_mhz]
    clocks = clocks or [t.sm_clock_mhz for t in known if t.sm_clock_mhz]
    return sum(clocks) / len(clocks) if clocks else None
