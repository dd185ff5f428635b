"""From aligned cases to matrices of units: the step between documents and statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_compare.statistics.samples import RoundStatistics, round_statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.document import Case, Round, Samples, Telemetry

    from bench_compare.metrics import PerRound
    from bench_compare.model import CaseSide
    from bench_compare.statistics.arrays import Array, Ints

Sides: TypeAlias = "Sequence[CaseSide | None]"
"""One entry a case of the comparison; None where it cannot be measured."""


@dataclass(frozen=True, eq=False)
class ObservationMatrix:
    """One side of one metric: natural logarithms, shape (cases, units), NaN where unknown."""

    values: Array
    sources: Ints
    """Document of each column, as an index into `Side.sources`."""
    rounds: Ints
    """`Round.index` of each column."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """All rounds of a series on one side, warm-up cut off, in parallel lists."""

    case: Ints
    source: Ints
    index: Ints
    """`Round.index`: rounds of one index in one document visited all cases together."""
    series: list[Samples]
    not_warm: npt.NDArray[np.bool_]
    clock_mhz: Array


def series_names(sides: Sides) -> set[str]:
    """Names of all series that any round of a side has."""
    cases = (case for side in sides if side is not None for case in side.cases)
    return set().union(*(one.series for case in cases for one in case.rounds))


def summary_names(sides: Sides) -> set[str]:
    """Names of the series of cases that have nothing but a summary."""
    cases = (case for side in sides if side is not None for case in side.cases)
    return {name for case in cases if not case.rounds for name in case.summary}


def rounds_of(sides: Sides, name: str) -> Rounds:
    """Every round that has samples of the series; a cut that is not stored is computed."""
    places: list[tuple[int, int, int]] = []
    series: list[Samples] = []
    rounds: list[Round] = []
    not_warm: list[bool] = []
    for row, source, one, samples in _visits(sides, name):
        cut, cold = _cut(one, name, samples)
        if cut >= samples.size:
            continue
        places.append((row, source, one.index))
        series.append(samples[cut:] if cut else samples)
        rounds.append(one)
        not_warm.append(cold)
    table = np.array(places, np.int64).reshape(-1, 3)
    columns = (table[:, 0], table[:, 1], table[:, 2])
    clocks = np.fromiter(map(_clock_mhz, rounds), float, len(rounds))
    return Rounds(*columns, series, np.array(not_warm, bool), clocks)


def _visits(sides: Sides, name: str) -> Iterator[tuple[int, int, Round, Samples]]:
    for row, side in enumerate(sides):
        if side is None:
            continue
        for case, source in zip(side.cases, side.sources, strict=True):
            for one in case.rounds:
                samples = one.series.get(name)
                if samples is not None and samples.size:
                    yield row, source, one, samples


def _cut(one: Round, name: str, samples: Samples) -> tuple[int, bool]:
    cut = one.cut.get(name)
    if cut is not None:
        return cut, name in one.not_warm
    from bench_schema.summary import warmup_cut

    found = warmup_cut(samples)
    return found.cut, found.not_warm


def _clock_mhz(one: Round) -> float:
    """SM clock of a round: probed if it was, else the mean of before and after; else NaN."""
    if one.telemetry_before is None and one.telemetry_after is None:
        return math.nan
    known = [t for t in (one.telemetry_before, one.telemetry_after) if t is not None]
    probed = [t.probed_clock_mhz for t in known if t.probed_clock_mhz]
    clocks = probed or _sm_clocks(known)
    return sum(clocks) / len(clocks) if clocks else math.nan


def _sm_clocks(known: Iterable[Telemetry]) -> list[float]:
    return [t.sm_clock_mhz for t in known if t.sm_clock_mhz]


def observation_matrix(
    case: Ints, source: Ints, index: Ints, values: Array, height: int
) -> ObservationMatrix:
    """Scatter one value a round into a matrix with a column for each (document, round index)."""
    code = source * (1 << 32) + index
    columns, place = np.unique(code, return_inverse=True)
    matrix = np.full((height, len(columns)), np.nan)
    matrix[case, place.ravel()] = values
    return ObservationMatrix(matrix, columns >> 32, columns & 0xFFFF_FFFF)


def sampled(sides: Sides, name: str) -> tuple[ObservationMatrix, Rounds, RoundStatistics]:
    """Round medians of a series, the rounds they came from, and what else is known of those."""
    rounds = rounds_of(sides, name)
    found = round_statistics(rounds.series)
    placed = observation_matrix(
        rounds.case, rounds.source, rounds.index, found.log_median, len(sides)
    )
    return placed, rounds, found


def per_round(sides: Sides, reading: PerRound) -> ObservationMatrix:
    """Values of a metric that has one number a round."""
    read = reading.read
    found = [
        (row, source, values)
        for row, side in enumerate(sides)
        if side is not None
        for case, source in zip(side.cases, side.sources, strict=True)
        if len(values := read(case))
    ]
    if not found:
        nothing = np.empty(0, np.int64)
        return ObservationMatrix(np.empty((len(sides), 0)), nothing, nothing)
    every = np.concatenate([values for _, _, values in found], dtype=float)
    counts = np.fromiter((len(values) for _, _, values in found), np.int64, len(found))
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(np.array([row for row, _, _ in found], np.int64), counts)
    sources = np.repeat(np.array([source for _, source, _ in found], np.int64), counts)
    logs = _logs(every, reading.least)
    return observation_matrix(rows, sources, np.arange(len(every)) - starts, logs, len(sides))


def _logs(values: Array, least: float) -> Array:
    lifted = np.maximum(values, least)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(lifted > 0, np.log(lifted), np.nan))


def clocks(rounds: Rounds, height: int) -> ObservationMatrix:
    """Logarithm of the clock of each round."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(rounds.clock_mhz)
    return observation_matrix(rounds.case, rounds.source, rounds.index, logs, height)


def summary_level(sides: Sides, name: str) -> Array:
    """Log median that a summary tells, for cases without a single sample; else NaN."""
    level = np.full(len(sides), np.nan)
    for row, side in enumerate(sides):
        if side is not None and not any(case.rounds for case in side.cases):
            level[row] = _summary_log(side.cases, name)
    return level


def _summary_log(cases: Iterable[Case], name: str) -> float:
    medians = [case.summary[name].median for case in cases if name in case.summary]
    usable = [median for median in medians if median > 0]
    return float(np.mean(np.log(usable))) if usable else math.nan
