"""From aligned cases to matrices of units: the step between documents and statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench_compare.metrics import PerRound
from bench_compare.rounds.lazy import facts
from bench_compare.statistics.samples import RoundStatistics, SampleParts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_compare.metrics import Metric
    from bench_compare.model import CaseSide
    from bench_compare.rounds.lazy import SideRounds, Sides, TableCases
    from bench_compare.statistics.arrays import Array, Ints


@dataclass(frozen=True, eq=False)
class ObservationMatrix:
    """One side of one metric: natural logarithms, shape (cases, units), NaN where unknown."""

    values: Array
    sources: Ints
    """Document of each column, as an index into `Side.sources`."""
    rounds: Ints
    """`Round.index` of each column."""


@dataclass(frozen=True, eq=False)
class SeriesRounds:
    """All rounds of a series on one side, warm-up cut off, in parallel lists."""

    case: Ints
    source: Ints
    index: Ints
    """`Round.index`: rounds of one index in one document visited all cases together."""
    series: SampleParts
    not_warm: npt.NDArray[np.bool_]
    clock_mhz: Array


def series_names(side: SideRounds) -> set[str]:
    """Names of all series that any round of a side has."""
    every = (held.table.facts[place] for held in side.held for place in held.place.tolist())
    return set().union(*{found.series for found in every})


def summary_names(sides: Sides) -> set[str]:
    """Names of the series of which a case has nothing but a summary."""
    cases = (case for side in sides if side is not None for case in side.cases)
    return {
        name
        for case in cases
        if case.summary
        for name in case.summary.keys() - facts(case.rounds).sampled
    }


STATISTICS = tuple(field.name for field in fields(RoundStatistics))


class TableRounds(NamedTuple):
    """Rounds of one table."""

    turn: Ints
    """Number of the case in its side."""
    rounds: SeriesRounds
    statistics: RoundStatistics


def rounds_of(side: SideRounds, name: str) -> tuple[SeriesRounds, RoundStatistics]:
    """Every round that has samples of the series which count, and what is known of these."""
    parts = [_part(held, name) for held in side.held if name in held.table.series]
    if len(parts) == 1:
        return parts[0].rounds, parts[0].statistics
    order = np.argsort(_joined(parts, lambda part: part.turn), kind="stable")

    def column(read: Callable[[TableRounds], Any]) -> Any:
        return _joined(parts, read)[order]

    series = SampleParts.joined([part.rounds.series for part in parts])
    rounds = SeriesRounds(
        case=column(lambda part: part.rounds.case),
        source=column(lambda part: part.rounds.source),
        index=column(lambda part: part.rounds.index),
        series=series.part(order),
        not_warm=column(lambda part: part.rounds.not_warm).astype(bool),
        clock_mhz=column(lambda part: part.rounds.clock_mhz),
    )
    found = [column(attrgetter(f"statistics.{name}")) for name in STATISTICS]
    return rounds, RoundStatistics(*found)


def _joined(parts: Sequence[TableRounds], read: Callable[[TableRounds], Any]) -> Any:
    return np.concatenate([*map(read, parts), np.empty(0, np.int64)])


def _part(held: TableCases, name: str) -> TableRounds:
    table, found = held.table, held.table.series[name]
    starts = np.array(found.starts)
    first, last = starts[held.place], starts[held.place + 1]
    one = runs(first, last - first)
    case = np.repeat(np.arange(len(first)), last - first)
    kept = found.statistics.kept[one] > 0
    one, case = one[kept], case[kept]
    at = found.round[one]
    rounds = SeriesRounds(
        case=held.row[case],
        source=held.source[case],
        index=table.index[at],
        series=found.samples.part(one, found.cut[one]),
        not_warm=found.not_warm[one],
        clock_mhz=table.clocks.mean_mhz[at],
    )
    chosen = {name: getattr(found.statistics, name)[one] for name in STATISTICS}
    return TableRounds(held.turn[case], rounds, RoundStatistics(**chosen))


def runs(starts: Ints, counts: Ints) -> Ints:
    """So many numbers from each start on."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) + np.repeat(starts - before, counts))


def observation_matrix(
    case: Ints, source: Ints, index: Ints, values: Array, height: int
) -> ObservationMatrix:
    """Scatter one value a round into a matrix with a column for each (document, round index)."""
    code = source * (1 << 32) + index
    columns, place = np.unique(code, return_inverse=True)
    matrix = np.full((height, len(columns)), np.nan)
    matrix[case, place.ravel()] = values
    return ObservationMatrix(matrix, columns >> 32, columns & 0xFFFF_FFFF)


def sampled(side: SideRounds, name: str) -> tuple[ObservationMatrix, SeriesRounds, RoundStatistics]:
    """Round medians of a series, the rounds they came from, and what else is known of those."""
    rounds, found = rounds_of(side, name)
    placed = observation_matrix(
        rounds.case, rounds.source, rounds.index, found.log_median, side.height
    )
    return placed, rounds, found


def per_round(side: SideRounds, metric: Metric) -> ObservationMatrix:
    """Values of a metric that has one number a round."""
    assert isinstance(metric.reading, PerRound), "of another kind"
    parts = []
    for held in side.held:
        counts, values = held.table.numbers[metric.name]
        starts = (np.cumsum(counts) - counts)[held.place]
        counts = counts[held.place]
        one = runs(starts, counts)
        rows, sources, first = (np.repeat(x, counts) for x in (held.row, held.source, starts))
        parts.append((rows, sources, one - first, values[one]))
    if not sum(values.size for *_, values in parts):
        nothing = np.empty(0, np.int64)
        return ObservationMatrix(np.empty((side.height, 0)), nothing, nothing)
    rows, sources, places, values = map(np.concatenate, zip(*parts, strict=True))
    lifted = np.maximum(values, metric.reading.least)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.asarray(np.where(lifted > 0, np.log(lifted), np.nan))
    return observation_matrix(rows, sources, places, logs, side.height)


def clocks(rounds: SeriesRounds, height: int) -> ObservationMatrix:
    """Logarithm of the clock of each round."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(rounds.clock_mhz)
    return observation_matrix(rounds.case, rounds.source, rounds.index, logs, height)


def summary_levels(side: CaseSide, name: str) -> dict[int, float]:
    """Log median of each document, by its number, that has a summary of a series and not a single
    sample."""
    found = {}
    for case, source in zip(side.cases, side.sources, strict=True):
        if name in case.summary and name not in facts(case.rounds).sampled:
            median = case.summary[name].median
            if median > 0:
                found[source] = math.log(median)
    return found


def summary_level(sides: Sides, name: str) -> Array:
    """Log median that summaries tell, for cases without a single sample; else NaN."""
    level = np.full(len(sides), np.nan)
    for row, side in enumerate(sides):
        if side is None or any(name in facts(case.rounds).sampled for case in side.cases):
            continue
        known = list(summary_levels(side, name).values())
        if known:
            level[row] = math.fsum(known) / len(known)
    return level
