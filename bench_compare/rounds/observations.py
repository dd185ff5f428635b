"""Matrices of observations, cases by rounds, from the rounds of one side of a comparison."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from bench_schema.estimate import BlockLevels, block_levels, cut_of, moves_of, paired_logs

from bench_compare.metrics import METRICS, PerRound
from bench_compare.rounds.facts import facts
from bench_compare.statistics.samples import RoundStatistics, SampleTable, round_statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Round, Telemetry

    from bench_compare.metrics import Metric
    from bench_compare.model import CaseSide
    from bench_compare.statistics.arrays import Array, Ints

Sides: TypeAlias = "Sequence[CaseSide | None]"
"""One entry for each case of the comparison; None if it cannot be measured."""

RoundKey: TypeAlias = tuple[int, int, int]
"""Row of the comparison, document as an index into `Side.sources`, and `Round.index`."""
CASES_AT_ONCE = 256
"""Cases whose samples are separate arrays at the same time."""
ROUND = np.dtype(
    [
        ("case", np.int32),  # row of the comparison
        ("source", np.int32),  # document, as an index into `Side.sources`
        ("index", np.int32),  # `Round.index`: equal ones of a document visited all cases together
        ("cut", np.int32),
        ("not_warm", bool),
        ("clock_mhz", float),  # mean of before and after the round; NaN: unknown
    ]
)
NUMBER = np.dtype([("case", np.int32), ("source", np.int32), ("index", np.int32), ("value", float)])


@dataclass(frozen=True, eq=False)
class ObservationMatrix:
    """One side of one metric: natural logarithms, shape (cases, units), NaN if unknown."""

    values: Array
    sources: Ints
    """Document of each column, as an index into `Side.sources`."""
    rounds: Ints
    """`Round.index` of each column."""


@dataclass(frozen=True, eq=False)
class SeriesRounds:
    """Rounds of one side that have samples of a series, in parallel arrays."""

    case: Ints
    source: Ints
    index: Ints
    not_warm: Ints
    clock_mhz: Array
    series: SampleTable
    """Without the warm-up."""
    statistics: RoundStatistics


@dataclass(frozen=True, eq=False)
class SideRounds:
    """The rounds of all cases of one side."""

    height: int
    """Cases of the comparison."""
    numbers: Mapping[str, np.ndarray]
    """Name of a metric with one number a round → entries of `NUMBER`."""
    samples: Mapping[str, tuple[np.ndarray, SampleTable]]
    """Name of a series → entries of `ROUND`, and their samples with the warm-up."""
    moves: Mapping[str, Mapping[RoundKey, Ints]]
    """Name of a series → of rounds whose buffers were moved, the first samples after each move."""
    blocks: Mapping[str, Mapping[RoundKey, BlockLevels]]
    """Name of a series → of rounds that were measured in blocks, their blocks."""

    @cached_property
    def series(self) -> Mapping[str, SeriesRounds]:
        return {
            name: _counted(*one, self.moves.get(name, {})) for name, one in self.samples.items()
        }


def gather(sides: Sides) -> SideRounds:
    """Read all rounds of a side once."""
    found: dict[str, list[tuple[np.ndarray, SampleTable]]] = defaultdict(list)
    numbers: dict[str, list[np.ndarray]] = {name: [] for name in PER_ROUND}
    moves: dict[str, dict[RoundKey, Ints]] = defaultdict(dict)
    blocks: dict[str, dict[RoundKey, BlockLevels]] = defaultdict(dict)
    rows = (
        (row, case, source)
        for row, side in enumerate(sides)
        if side is not None
        for case, source in zip(side.cases, side.sources, strict=True)
    )
    while block := list(itertools.islice(rows, CASES_AT_ONCE)):
        entries: dict[str, list[tuple[int, int, int, int, bool, float]]] = defaultdict(list)
        samples: dict[str, list[Ints]] = defaultdict(list)
        told: dict[str, list[tuple[int, int, int, float]]] = {name: [] for name in PER_ROUND}
        for row, case, source in block:
            for one in case.rounds:
                clock = _clock_mhz(one)
                for name, values in one.series.items():
                    if values.size:
                        cut = cut_of(one, name)
                        entry = (row, source, one.index, cut.cut, cut.not_warm, clock)
                        entries[name].append(entry)
                        samples[name].append(values)
                _enter_parts(one, (row, source, one.index), moves, blocks)
            for name, reading in PER_ROUND.items():
                read = enumerate(reading.read(case))
                told[name] += [(row, source, place, value) for place, value in read]
        for name, values_of in told.items():
            numbers[name].append(np.array(values_of, NUMBER))
        for name, some in entries.items():
            found[name].append((np.array(some, ROUND), SampleTable.of(samples[name])))
    return SideRounds(
        height=len(sides),
        numbers={n: np.concatenate([*some, np.empty(0, NUMBER)]) for n, some in numbers.items()},
        samples={name: _joined(some) for name, some in found.items()},
        moves=moves,
        blocks=blocks,
    )


def _enter_parts(
    one: Round,
    key: RoundKey,
    moves: dict[str, dict[RoundKey, Ints]],
    blocks: dict[str, dict[RoundKey, BlockLevels]],
) -> None:
    """Enter where the buffers of a round were moved, and the levels of its blocks."""
    for name in one.placements:
        moves[name][key] = moves_of(one, name)
    for name in one.blocks:
        blocks[name][key] = block_levels(one, name)


PER_ROUND = {
    name: metric.reading for name, metric in METRICS.items() if isinstance(metric.reading, PerRound)
}


def _joined(parts: Sequence[tuple[np.ndarray, SampleTable]]) -> tuple[np.ndarray, SampleTable]:
    rounds, samples = zip(*parts, strict=True)
    return np.concatenate(rounds), SampleTable.joined(samples)


def _counted(
    rounds: np.ndarray, samples: SampleTable, moves: Mapping[RoundKey, Ints]
) -> SeriesRounds:
    """Return the rounds with a sample behind the warm-up."""
    kept = np.flatnonzero(samples.sizes > rounds["cut"])
    rounds = rounds[kept]
    counting = samples.part(kept, rounds["cut"])
    columns = {name: rounds[name] for name in ROUND.names or () if name != "cut"}
    keys = zip(*(rounds[name].tolist() for name in ("case", "source", "index")), strict=True)
    moved = {place: moves[key] for place, key in enumerate(keys) if key in moves} if moves else {}
    found = round_statistics(counting, moved)
    return SeriesRounds(**columns, series=counting, statistics=found)


def _clock_mhz(one: Round) -> float:
    """Return the mean of the clocks before and after a round, the measured ones if there are
    any."""
    before, after = one.telemetry_before, one.telemetry_after
    if before is None and after is None:
        return math.nan
    told = [one for one in (before, after) if one is not None]
    clocks = [mhz for one in told if (mhz := one.probed_clock_mhz)]
    clocks = clocks or [mhz for one in told if (mhz := one.sm_clock_mhz)]
    return sum(clocks) / len(clocks) if clocks else math.nan


def clock_mhz(telemetry: Telemetry | None) -> float | None:
    """Return the measured clock if there is one, otherwise that which the device reports."""
    if telemetry is None:
        return None
    probed = telemetry.probed_clock_mhz
    return telemetry.sm_clock_mhz if probed is None else probed


def summary_names(sides: Sides) -> set[str]:
    """Return the names of series for which some case of a side has a summary and no samples."""
    cases = (case for side in sides if side is not None for case in side.cases)
    return {
        name
        for case in cases
        if case.summary
        for name in case.summary.keys() - facts(case.rounds).sampled
    }


def observation_matrix(
    case: Ints, source: Ints, index: Ints, values: Array, height: int
) -> ObservationMatrix:
    """Scatter one value a round into a matrix with a column for each (document, round index)."""
    code = source.astype(np.int64) * (1 << 32) + index
    columns, place = np.unique(code, return_inverse=True)
    matrix = np.full((height, len(columns)), np.nan)
    matrix[case, place.ravel()] = values
    return ObservationMatrix(matrix, columns >> 32, columns & 0xFFFF_FFFF)


def of_rounds(rounds: SeriesRounds, values: Array, height: int) -> ObservationMatrix:
    """Return the matrix of one value for each round of a series."""
    return observation_matrix(rounds.case, rounds.source, rounds.index, values, height)


def sampled(side: SideRounds, name: str) -> tuple[ObservationMatrix, SeriesRounds]:
    """Return the round medians of a series, and the rounds that they came from."""
    nothing = np.empty(0, ROUND), SampleTable.of(())
    rounds = side.series[name] if name in side.series else _counted(*nothing, {})
    return of_rounds(rounds, rounds.statistics.log_median, side.height), rounds


def in_blocks(
    sides: tuple[SideRounds, SideRounds],
    name: str,
    levels: tuple[ObservationMatrix, ObservationMatrix],
    documents: tuple[Ints, Ints],
) -> tuple[ObservationMatrix, ObservationMatrix]:
    """Return the levels (log times) of both sides; in rounds whose sides took turns in blocks those
    of `bench_schema.estimate.paired_logs`. `name`: the series; `documents`: number of the run of
    each document, equal numbers are one run."""
    values = levels[0].values.copy(), levels[1].values.copy()
    mine, theirs = (
        {(row, int(documents[n][source]), index): (logs, source) for (row, source, index), logs in
         sides[n].blocks.get(name, {}).items()}
        for n in (0, 1)
    )  # fmt: skip
    columns = [
        {
            place: n
            for n, place in enumerate(zip(m.sources.tolist(), m.rounds.tolist(), strict=True))
        }
        for m in levels
    ]
    for key in mine.keys() & theirs.keys():
        row, _, index = key
        (base, first), (other, second) = mine[key], theirs[key]
        places = columns[0].get((first, index)), columns[1].get((second, index))
        if places[0] is None or places[1] is None:
            continue
        ends = (row, places[0]), (row, places[1])
        found = paired_logs((float(values[0][ends[0]]), float(values[1][ends[1]])), (base, other))
        values[0][ends[0]], values[1][ends[1]] = found
    one, two = (
        ObservationMatrix(v, m.sources, m.rounds) for v, m in zip(values, levels, strict=True)
    )
    return one, two


def per_round(side: SideRounds, metric: Metric) -> ObservationMatrix:
    """Return the values of a metric that has one number a round."""
    assert isinstance(metric.reading, PerRound), "of another kind"
    found = side.numbers[metric.name]
    lifted = np.maximum(found["value"], metric.reading.least)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.asarray(np.where(lifted > 0, np.log(lifted), np.nan))
    return observation_matrix(found["case"], found["source"], found["index"], logs, side.height)


def clocks(rounds: SeriesRounds, height: int) -> ObservationMatrix:
    """Return the logarithm of the clock of each round."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return of_rounds(rounds, np.log(rounds.clock_mhz), height)


def summary_levels(side: CaseSide, name: str) -> dict[int, float]:
    """Return the log median of each document (by its number) that has a summary of a series and
    not a single sample."""
    found = {}
    for case, source in zip(side.cases, side.sources, strict=True):
        if name in case.summary and name not in facts(case.rounds).sampled:
            median = case.summary[name].median
            if median > 0:
                found[source] = math.log(median)
    return found


def summary_level(sides: Sides, name: str) -> Array:
    """Return the log median in the summaries of cases without a single sample; NaN for others."""
    level = np.full(len(sides), np.nan)
    for row, side in enumerate(sides):
        if side is None or any(name in facts(case.rounds).sampled for case in side.cases):
            continue
        known = list(summary_levels(side, name).values())
        if known:
            level[row] = math.fsum(known) / len(known)
    return level
