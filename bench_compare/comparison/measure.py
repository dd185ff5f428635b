"""Documents → one structured array of units: a row for each round of each case of both sides.

A row says where its value comes from (case, side, run, place, round), and has a field for each
metric: the natural logarithm of the value of the round. `judge` computes with these rows, and looks
at documents no more.

The value of a round is that of `bench_schema.estimate`: the mean over the places of its buffers of
the median of the samples at each. No sample is left out, and none weighs more than another.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from bench_schema.estimate import block_levels, look_count, middle_log, paired_logs

from bench_compare.comparison.circumstances.facts import clock_mhz, facts
from bench_compare.input.align import whole_runs
from bench_compare.metrics import METRICS, Exact, PerRound, Sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Case, Round, Samples, Summary

    from bench_compare.input.align import Pair
    from bench_compare.model import CaseSide, Side

Array: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Units: TypeAlias = "np.ndarray[Any, np.dtype[np.void]]"

SERIES = {n: row.reading.series for n, row in METRICS.items() if isinstance(row.reading, Sampled)}
EXACT = {n: row.reading for n, row in METRICS.items() if isinstance(row.reading, Exact)}

UNKNOWN = -1
"""The place of a round of which no host is known."""
SUMMARY_ROUND = -1
"""The round of a summary, which stands for a whole document."""
ABOUT = (
    ("case", np.int32),  # row of the comparison
    ("side", np.int8),  # 0: base, 1: other
    ("run", np.int32),  # equal numbers: the same run
    ("place", np.int32),  # unit of hardware, a host and its device
    ("round", np.int32),  # `Round.index`, or `SUMMARY_ROUND`
    ("clock_mhz", np.float64),
)


def per_round() -> dict[str, PerRound]:
    """Return the metrics of one number a round; there are more where own observers have some."""
    return {n: row.reading for n, row in METRICS.items() if isinstance(row.reading, PerRound)}


def unit_type() -> np.dtype[np.void]:
    """Return the fields of a row. A series has also what a single row knows of itself: the variance
    of its value and its degrees of freedom, computed where a case has one round in a document, and
    the standard deviation that a summary states."""
    return np.dtype(
        [
            *ABOUT,
            *((name, np.float64) for name in (*SERIES, *per_round())),  # log; NaN: not known
            *((f"{n}.{word}", np.float64) for n in SERIES for word in ("variance", "dof", "sd")),
        ]
    )


HELD = 1 << 19
"""Samples and rows that are held at a time: a few MiB."""
SECTIONS = (16, 8)
MEDIAN = math.pi / 2
"""Variance of a median of normal samples over that of their mean."""
MAD_SD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True, eq=False)
class Measured:
    """All that is measured of the pairs of two sides."""

    units: Units
    cases: tuple[tuple[CaseSide | None, ...], tuple[CaseSide | None, ...]]
    """Measurable sides of each pair, base and other."""
    exact: Mapping[str, tuple[Array, Array]]
    """Metrics of one number a case, base and other; NaN: not known."""
    shares_run: bool
    """True if a run is on both sides: its rounds are pairs."""
    looks: int
    """Number of looks that share the error, if a run stopped when its cases were decided."""
    other_place: Mask
    """Cases whose sides ran on different units of hardware, as far as is known."""

    def metric(self, name: str) -> tuple[Units, Array]:
        """Return the rows that have a metric, and its values."""
        values = self.units[name]
        known = np.isfinite(values)
        return self.units[known], values[known]

    def has(self, name: str) -> bool:
        return bool(np.isfinite(self.units[name]).any())


def measure(pairs: Sequence[Pair], sides: tuple[Side, Side]) -> Measured:
    """Return the units of both sides; of cases that completed, and that nothing shows to be
    unlike."""
    base, other = (tuple(_measurable(one, pair) for one, pair in zip(held, pairs, strict=True))
        for held in ([pair.base for pair in pairs], [pair.other for pair in pairs])
    )  # fmt: skip
    reader = _Reader(sides, (base, other))
    units = reader.read()
    exact = {}
    for name, reading in EXACT.items():
        values = [[_largest(reading, one) for one in held] for held in (base, other)]
        found = np.array(values, np.float64).reshape(2, len(pairs))
        if np.isfinite(found).any():
            exact[name] = (found[0], found[1])
    settings = (source.document.run.settings for side in sides for source in side.sources)
    return Measured(
        units=units,
        cases=(base, other),
        exact=exact,
        shares_run=bool(np.intersect1d(reader.runs[0], reader.runs[1]).size),
        looks=max(map(look_count, settings), default=1),
        other_place=_other_place(units, len(pairs)),
    )


def _measurable(side: CaseSide | None, pair: Pair) -> CaseSide | None:
    if side is None or pair.unlike is not None:
        return None
    held = zip(side.cases, side.sources, strict=True)
    kept = [(case, source) for case, source in held if case.outcome.status == "completed"]
    if len(kept) == len(side.cases):
        return side
    if not kept:
        return None
    cases, sources = zip(*kept, strict=True)
    return replace(side, cases=cases, sources=sources)


def _largest(reading: Exact, side: CaseSide | None) -> float:
    """Return the largest value of a side's documents: memory and errors are judged by the worst."""
    values = () if side is None else (reading.read(case) for case in side.cases)
    return max((value for value in values if value is not None), default=math.nan)


def _other_place(units: Units, height: int) -> Mask:
    """Return the cases that both sides measured, on places that are all known and never shared."""
    known = units["place"] != UNKNOWN
    held = [np.bincount(units["case"][units["side"] == n], minlength=height) > 0 for n in (0, 1)]
    sure = np.bincount(units["case"], ~known, height) == 0
    width = int(units["place"].max(initial=0)) + 2
    codes = units["case"].astype(np.int64) * width + units["place"] + 1
    common = np.intersect1d(codes[units["side"] == 0], codes[units["side"] == 1]) // width
    found = held[0] & held[1] & sure
    found[common] = False
    return np.asarray(found)


class _Reader:
    """Reads all rounds of both sides once."""

    def __init__(self, sides: tuple[Side, Side], cases: Any) -> None:
        self.sides, self.cases = sides, cases
        runs = whole_runs(sides, cases)
        numbers = {run: n for n, run in enumerate(dict.fromkeys(itertools.chain(*runs)))}
        self.runs = [np.array([numbers[run] for run in side], np.int64) for side in runs]
        self.places: dict[tuple[str, str], int] = {}
        self.rows: list[tuple[int, int, int, int, int, float]] = []
        self.columns: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.samples: dict[str, list[tuple[int, Samples]]] = defaultdict(list)
        self.per_round, self.kind = per_round(), unit_type()
        self.held = self.before = 0
        """Samples that are held, and rows in `chunks`."""
        self.chunks: list[Units] = []
        self.blocks: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})

    def read(self) -> Units:
        for side, (owner, cases) in enumerate(zip(self.sides, self.cases, strict=True)):
            devices = [{e.key: e.device for e in one.document.engines} for one in owner.sources]
            for row, one in enumerate(cases):
                for case, source in () if one is None else zip(one.cases, one.sources, strict=True):
                    document = owner.sources[source].document
                    where = document.machine.host, devices[source].get(case.engine, "")
                    self._case(row, side, int(self.runs[side][source]), case, where)
                    if self.held + len(self.rows) >= HELD:
                        self._flush()
        self._flush()
        units = np.empty(self.before, self.kind)
        while self.chunks:  # one after another, as both together would be the most that is held
            chunk = self.chunks.pop()
            self.before -= len(chunk)
            units[self.before : self.before + len(chunk)] = chunk
        self._pair_blocks(units)
        return units

    def _case(self, row: int, side: int, run: int, case: Case, where: tuple[str, str]) -> None:
        """Enter a case of a document: a row for each round, and one for its summary if it needs
        one."""
        told, first = facts(case.rounds), len(self.rows)
        one_place = self._place(side, where, *told.places[0]) if len(told.places) == 1 else None
        alone = len(case.rounds) == 1
        for n, each in enumerate(case.rounds):
            place = one_place
            if place is None:
                place = self._place(side, where, each.host, each.device_uuid)
            clock = _clock_mhz(each)
            self.rows.append((row, side, run, place, each.index, clock))
            for name, samples in each.series.items():
                if samples.size and name in SERIES:
                    self._samples(name, first + n, each, alone)
            if each.blocks:
                for name in each.blocks:
                    key = (name, row, run, place, each.index)
                    self.blocks[side][key] = self.before + first + n, block_levels(each, name)
        self._numbers(case, first, (row, side, run, self._place(side, where, None, None)))
        summaries = [n for n in case.summary if n in SERIES and n not in told.sampled]
        if summaries:
            place = self._place(side, where, None, None)
            self.rows.append((row, side, run, place, SUMMARY_ROUND, math.nan))
        for name in summaries:
            if case.summary[name].median > 0:
                self.columns[name].append((len(self.rows) - 1, math.log(case.summary[name].median)))
                self._scatter(name, len(self.rows) - 1, *stated(case.summary[name]))

    def _place(self, side: int, where: tuple[str, str], host: str | None, uuid: str | None) -> int:
        """Return the number of a unit of hardware; what a round does not say, its document does."""
        if self.sides[side].is_unit:
            return 0  # units are what is compared
        host = where[0] if host is None else host
        if host == "unknown":
            return UNKNOWN
        return self.places.setdefault((host, uuid or where[1]), len(self.places))

    def _samples(self, name: str, row: int, each: Round, alone: bool) -> None:
        """Take the samples of a round, those of each place of its buffers by themselves."""
        samples, moves = each.series[name], each.placements.get(name)
        held = self.samples[name]
        self.held += samples.size
        if moves is None or not moves.size:
            held.append((row, samples))
        else:
            parts = np.split(samples, np.maximum(moves, 0))
            held += [(row, part) for part in parts if part.size]
        if alone:
            variance, dof = inside(samples)
            self._scatter(name, row, variance, dof, math.nan)

    def _scatter(self, name: str, row: int, variance: float, dof: float, sd: float) -> None:
        for word, value in (("variance", variance), ("dof", dof), ("sd", sd)):
            self.columns[f"{name}.{word}"].append((row, value))

    def _numbers(self, case: Case, first: int, about: tuple[int, int, int, int]) -> None:
        """Enter metrics of one number a round; a document without rounds gets rows for them."""
        for name, reading in self.per_round.items():
            for n, value in enumerate(reading.read(case)):
                if first + n == len(self.rows):
                    self.rows.append((*about, n, math.nan))
                value = max(float(value), reading.least)
                if value > 0:
                    self.columns[name].append((first + n, math.log(value)))

    def _flush(self) -> None:
        """Make units of the rows, and of their samples, that are held."""
        units = np.zeros(len(self.rows), self.kind)
        told = np.array(self.rows, [*ABOUT])
        for name in self.kind.names or ():
            units[name] = told[name] if name in (told.dtype.names or ()) else np.nan
        for name, entries in self.columns.items():
            rows, values = zip(*entries, strict=True)
            units[name][list(rows)] = values
        for name, held in self.samples.items():
            at = np.array([row for row, _ in held], np.int64)
            logs = medians([part for _, part in held])
            units[name][at] = logs
            count = np.bincount(at, minlength=len(units))
            several = count > 1
            if several.any():  # the mean over places
                total = np.bincount(at, np.exp(logs), len(units))
                units[name][several] = np.log(total[several] / count[several])
        self.chunks.append(units)
        self.before, self.held = self.before + len(units), 0
        self.rows.clear()
        self.columns.clear()
        self.samples.clear()

    def _pair_blocks(self, units: Units) -> None:
        """Set the levels of rounds whose sides took turns in blocks (`estimate.paired_logs`)."""
        one, two = self.blocks
        for key in one.keys() & two.keys():
            (left, before), (right, after) = one[key], two[key]
            column = units[key[0]]
            column[left], column[right] = paired_logs(
                (float(column[left]), float(column[right])), (before, after)
            )


def _clock_mhz(one: Round) -> float:
    """Return the mean of the clocks before and after a round; NaN if neither is known."""
    told = [mhz for t in (one.telemetry_before, one.telemetry_after) if (mhz := clock_mhz(t))]
    return sum(told) / len(told) if told else math.nan


def rectangles(series: Sequence[Samples]) -> Iterator[tuple[list[int], Any]]:
    """Yield places and rows of the series of one length, for each length."""
    by_size: dict[tuple[int, str], list[int]] = defaultdict(list)
    for place, one in enumerate(series):
        by_size[one.size, one.dtype.kind].append(place)
    for (_, kind), places in by_size.items():
        rows = np.array([series[place] for place in places])
        if kind == "i" and rows.max(initial=0) < 1 << 31 and rows.min(initial=0) >= 0:
            rows = rows.astype(np.int32)  # sorted in half of the time
        yield places, rows


def medians(series: Sequence[Samples]) -> Array:
    """Return the log of the median of each series; one sample at least."""
    found = np.empty(len(series))
    for places, rows in rectangles(series):
        rows.sort(axis=1)
        found[places] = middle_log(rows)
    return found


def inside(samples: Samples) -> tuple[float, float]:
    """Return the variance of the log median of one series from its samples, and its degrees of
    freedom; NaN and 0 for a single sample.

    Of independent samples π/2 of the variance of their mean. From 16 samples on also that of the
    medians of 8 consecutive sections, and from 32 on of 16, of which the larger counts, because
    samples that follow each other are alike (Law, Simulation Modeling and Analysis, section 9.5,
    batch means).
    """
    count = samples.size
    if count < 2:
        return math.nan, 0.0
    logs = np.log(np.maximum(samples, 1))
    factor = MEDIAN if count > 2 else 1.0
    best, dof = factor * float(logs.var(ddof=1)) / count, count - 1.0
    for sections in SECTIONS:
        length = count // sections
        if length >= 2:
            part = np.sort(samples[: length * sections].reshape(sections, length), axis=1)
            variance = float(middle_log(part).var(ddof=1)) / sections
            if variance > best:
                best, dof = variance, sections - 1.0
    return best, dof


def stated(summary: Summary) -> tuple[float, float, float]:
    """Return the variance of the log centre of a summary, its degrees of freedom, and the standard
    deviation of its samples relative to the centre, as far as the file states them (NaN, 0)."""
    sd = math.nan
    if summary.std is not None and math.isfinite(summary.std):
        sd = summary.std / summary.median
    elif math.isfinite(summary.mad):
        sd = MAD_SD * summary.mad / summary.median
    if not math.isfinite(sd) or summary.count < 2:
        return math.nan, 0.0, sd
    return MEDIAN * sd**2 / summary.count, summary.count - 1.0, sd


def samples_of(side: CaseSide, series: str) -> list[Samples]:
    """Return the samples of the rounds of a case of one side."""
    rounds = (one for case in side.cases for one in case.rounds)
    return [
        one.series[series] for one in rounds if series in one.series and one.series[series].size
    ]
