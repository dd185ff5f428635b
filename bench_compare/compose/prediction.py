"""Rows of a configuration to its time, energy and error, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import case_log
from bench_schema.student import t_quantile

from bench_compare.compose.model import (
    Configuration,
    Ends,
    ErrorBound,
    IntervalEstimate,
    IntervalKind,
    PassPart,
    Ratios,
)
from bench_compare.compose.pieces import Piece, Pieces, assemble, weight_conversions
from bench_compare.compose.space import Prices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.comparison.measure import Array, Ints, Mask
    from bench_compare.compose.network import Network
    from bench_compare.compose.rows import LayerTable, TableRow


UNSETTLED_SD = 0.02
"""Rounds that scatter by more than 2 % show states of the machine, which outlast a round and often
a document."""

# Sums of measured rows, and how sure they are.
#
# A configuration is a weighted sum of rows: layers count as often as they run, a seam is a pair
# minus both alone. Summed within each round first, what the rows of a round share (the state of the
# machine) is in the sum's spread as it is in the pipeline's; then Student's t over rounds.
#
# A pipeline is measured in another run than its layers were. So the interval of a prediction
# (`WeightedSum.elsewhere`) has a document's own effect besides: as known from several, else by the
# rule of comparisons, that on a machine that does not keep still a document differs from the next
# as its rounds do.

COVERAGE = 0.975
MOST_LOG = math.log(10)
"""An interval that leaves more than a factor of ten either way says nothing: there is none then."""
DOCUMENTS = 3
"""Number of documents with all rows from which these, and not their rounds, are the units."""


@dataclass(frozen=True)
class WeightedSum:
    value: float
    """NaN if some row has no value."""
    variance: float | None
    dof: float | None
    unit: str
    """``documents``, ``rounds`` or ``none``."""
    states: float = 0.0
    """Variance of what another document would be apart."""
    bound: float = 0.0
    """Possible error of the clock, either way and the same for all rows: a plain sum."""

    @property
    def half(self) -> float | None:
        """Half the width of the 95 % interval."""
        return self._half(0.0)

    def _half(self, states: float) -> float | None:
        if self.variance is None or self.dof is None:
            return None
        quantile = float(t_quantile(COVERAGE, np.array([self.dof]))[0])
        return quantile * math.sqrt(self.variance + states) + self.bound

    @property
    def estimate(self) -> IntervalEstimate:
        """The interval is that of the logarithm, to first order: no total is below zero."""
        return _logarithmic(self.value, self.half)

    @property
    def elsewhere(self) -> IntervalEstimate:
        """Return the estimate with the interval for another document."""
        return _logarithmic(self.value, self._half(self.states))


def _logarithmic(value: float, half: float | None) -> IntervalEstimate:
    if half is None or math.isnan(half):
        return IntervalEstimate(value)
    if value <= 0:
        return IntervalEstimate(value, value - half, value + half)
    return within(value, half / value)


def within(value: float, half_log: float) -> IntervalEstimate:
    """Return an estimate with an interval of `half_log` either way in the logarithm; without an
    interval if that exceeds `MOST_LOG` or is NaN."""
    if not half_log <= MOST_LOG:
        return IntervalEstimate(value)
    return IntervalEstimate(value, value * math.exp(-half_log), value * math.exp(half_log))


def each_of(sources: Ints) -> Ints:
    """Return the distinct sources, as `np.unique`, which takes longer to load than this to
    count."""
    return np.flatnonzero(np.bincount(sources))


def means(values: Array, sources: Ints) -> Array:
    """Return the mean of each row, of positive numbers, over its rounds and documents
    (`bench_schema.estimate`)."""
    return np.asarray(np.exp(case_log(np.log(values), sources)))


def _mean(values: Array) -> Array:
    known = np.isfinite(values)
    count = known.sum(axis=1)
    sums = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def total(
    weights: Mapping[int, float],
    values: Array,
    sources: Ints,
    use: Mask,
    bounds: Array | None = None,
) -> WeightedSum:
    """Sum of rows, each by its weight, over the columns that `use` marks. `bounds`: of each row's
    systematic error."""
    bound = 0.0
    if bounds is not None:
        bound = math.fsum(abs(w) * float(bounds[r]) for r, w in weights.items())
    rows = np.array([number for number, weight in weights.items() if weight], dtype=np.int64)
    factors = np.array([weight for weight in weights.values() if weight], dtype=float)
    cells, columns = values[np.ix_(rows, np.flatnonzero(use))], sources[use]
    value = float((factors * means(cells, columns)).sum())
    unknown = WeightedSum(value, None, None, "none", bound=bound)
    if not math.isfinite(value) or not rows.size:
        return unknown
    # Documents that hold every row are the units, where no other one holds any.
    known = {int(one): np.isfinite(cells[:, columns == one]).any(axis=1) for one in set(columns)}
    whole = sorted(one for one, here in known.items() if here.any())
    if len(whole) >= DOCUMENTS and all(known[one].all() for one in whole):
        each = [float((factors * _mean(cells[:, columns == one])).sum()) for one in whole]
        count, apart = len(each), float(np.var(each, ddof=1))
        return WeightedSum(value, apart / count, count - 1, "documents", apart, bound)
    # Documents add up; each has its own rounds, so variances add, and degrees of freedom as
    # by Satterthwaite.
    documents = each_of(columns)
    held = np.stack([np.isfinite(cells[:, columns == d]).any(axis=1) for d in documents], axis=1)
    shares = factors / held.sum(axis=1)
    parts: list[tuple[float, int]] = []
    states = 0.0
    for place, one in enumerate(documents):
        mine = held[:, place]
        if mine.any():
            here = cells[np.ix_(mine, columns == one)]
            # Over the rounds that hold every row; where these are fewer than two, of each alone.
            terms, common = shares[mine][:, None] * here, np.isfinite(here).all(axis=0)
            single = [row[np.isfinite(row)] for row in terms]
            sums = [terms[:, common].sum(axis=0)] if common.sum() >= 2 else single
            added = [
                (float(s.var(ddof=1)) / s.size if s.size > 1 else 0.0, s.size - 1) for s in sums
            ]
            states += unsettled(added, float((shares[mine] * _mean(here)).sum()))
            parts += added
    if any(dof < 1 for _, dof in parts):
        return unknown
    variance = sum(v for v, _ in parts)
    spread = sum(v * v / dof for v, dof in parts)
    dof = variance * variance / spread if spread else 1.0
    return WeightedSum(value, variance, dof, "rounds", states, bound)


def unsettled(parts: Sequence[tuple[float, int]], value: float) -> float:
    """Return the variance between documents of a sum whose means vary like this over the rounds of
    one."""
    rounds = sum(variance * (dof + 1) for variance, dof in parts)
    quiet = (UNSETTLED_SD * value) ** 2
    return max(0.0, rounds - quiet)


def alone(values: Array, sources: Ints, bounds: Array) -> list[IntervalEstimate]:
    """Return an estimate of each row by itself, as `total` gives it, for all rows at once."""
    parts = []
    for one in each_of(sources):  # in each document: mean, variance of that mean, number of values
        cells = values[:, sources == one]
        known, middle = np.isfinite(cells), _mean(cells)
        squares = np.where(known, (cells - middle[:, None]) ** 2, 0.0).sum(axis=1)
        size = known.sum(axis=1)
        parts.append((middle, squares / np.maximum(size * (size - 1), 1), size))
    mean, variance, count = (np.stack(rows, axis=1) for rows in zip(*parts, strict=True))
    held = (count > 0).sum(axis=1)
    middle = _mean(mean)
    of_rounds = np.where(count > 0, variance, 0.0) / np.maximum(held, 1)[:, None] ** 2
    spread = (of_rounds**2 / np.maximum(count - 1, 1)).sum(axis=1)
    summed = of_rounds.sum(axis=1)
    dof = np.where(spread > 0, summed**2 / np.where(spread > 0, spread, 1.0), 1.0)
    dof = np.where((count == 1).any(axis=1), np.nan, dof)
    apart = np.where(count > 0, (mean - middle[:, None]) ** 2, 0.0).sum(axis=1)
    by_document = held >= DOCUMENTS
    summed = np.where(by_document, apart / np.maximum(held * (held - 1), 1), summed)
    dof = np.where(by_document, held - 1, dof)
    half = t_quantile(COVERAGE, dof) * np.sqrt(summed) + bounds
    value = means(values, sources)
    # As `_logarithmic` has it: times of single rows are above zero.
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(half / value <= MOST_LOG, half / value, np.nan)
    rows = zip(value.tolist(), np.exp(logs).tolist(), strict=True)
    return [IntervalEstimate(v) if f != f else IntervalEstimate(v, v / f, v * f) for v, f in rows]


def ratio(
    over: Mapping[int, float],
    under: Mapping[int, float],
    values: Array,
    sources: Ints,
    use: Mask,
    bounds: Array | None = None,
) -> IntervalEstimate | None:
    """Return one sum over another. Common parts cancel: the interval is that of the difference of
    their logarithms, to first order."""
    a, b = total(over, values, sources, use), total(under, values, sources, use)
    if not (a.value > 0 and b.value > 0):
        return None
    weights = {row: weight / a.value for row, weight in over.items()}
    for row, weight in under.items():
        weights[row] = weights.get(row, 0.0) - weight / b.value
    value = a.value / b.value
    if all(abs(w) < 1e-15 for w in weights.values()):
        return IntervalEstimate(value, value, value)
    half = total(weights, values, sources, use, bounds).half
    return IntervalEstimate(value) if half is None else within(value, half)


COLDER = ("rotate", "cold", "pass")
"""States at the other end of a bracket that begins with hot caches."""


@dataclass(frozen=True, eq=False)
class PredictionRounds:
    """The rounds that predict, of a table; `prices` are their means."""

    network: Network
    table: LayerTable
    times: Array
    energies: Array
    prices: Prices

    @property
    def every(self) -> Mask:
        return np.ones(self.times.shape[1], dtype=bool)

    @cached_property
    def has_energy(self) -> bool:
        """True if any row has joules."""
        return bool(np.isfinite(self.energies).any())

    @cached_property
    def alone(self) -> list[IntervalEstimate]:
        """Return the estimate of each row alone."""
        return alone(self.times, self.table.sources, self.table.bounds)

    def total(self, weights: Mapping[int, float]) -> WeightedSum:
        table = self.table
        return total(weights, self.times, table.sources, self.every, table.bounds)


def evidence(
    network: Network, table: LayerTable, idle_power_w: float | None, parity: int | None
) -> PredictionRounds:
    """`parity`: only rounds whose number is even (0) or odd (1), where a row has such; None: all.
    Rounds that choose do not predict."""
    times, energies = table.times, table.energies
    if parity is not None:
        other = np.asarray(table.rounds % 2 != parity)
        # Each row without the other rounds, where that leaves it some.
        times, energies = (
            np.where(np.outer(np.isfinite(v[:, ~other]).any(axis=1), other), np.nan, v)
            for v in (times, energies)
        )
    prices = Prices(means(times, table.sources), means(energies, table.sources), idle_power_w)
    return PredictionRounds(network, table, times, energies, prices)


def beside(
    some: PredictionRounds, whole: PredictionRounds, rows: Sequence[TableRow]
) -> PredictionRounds:
    """Scale `some` rounds so that these rows take as long as in the `whole`: a configuration that
    was not chosen has one time, whichever rounds predict."""
    ratio = time_of(whole, rows).value / time_of(some, rows).value
    if not 0 < ratio < math.inf:
        return some
    prices = replace(some.prices, times=some.prices.times * ratio)
    return replace(some, times=some.times * ratio, prices=prices)


def pieces(found: PredictionRounds, rows: Sequence[TableRow]) -> Pieces:
    costs = found.prices.times.tolist()
    return assemble(found.network, found.table, rows, costs, rows[0].cache)


def weights_of(parts: Sequence[Piece]) -> dict[int, float]:
    weights: dict[int, float] = {}
    for part in parts:
        for row, weight in part.weights.items():
            weights[row] = weights.get(row, 0.0) + weight
    return weights


def time_of(found: PredictionRounds, rows: Sequence[TableRow]) -> WeightedSum:
    return found.total(weights_of(pieces(found, rows).found))


def describe(name: str, found: PredictionRounds, rows: Sequence[TableRow]) -> Configuration:
    """Return the configuration with the interval of the rounds, to which `widened` adds caches."""
    made = pieces(found, rows).found
    time = found.total(weights_of(made))
    parts = tuple(_part(piece, found, time.value) for piece in made)
    energy = _energy(found, made)
    stations = zip(found.network.stations, rows, strict=True)
    # Of the layer that needs most; None where one does not say.
    sizes = [row.workspace_bytes for row in rows if row.workspace_bytes is not None]
    layers = [part for part in parts if part.kind == "layer"]
    errors = [(part.count, part.error) for part in layers if part.error is not None]
    worst = math.fsum(count * error for count, error in errors)
    root = math.sqrt(math.fsum(count * error * error for count, error in errors))
    # The same rows in every cache that has all of them.
    ends = []
    for cache in found.table.caches:
        same = in_cache(found.table, rows, cache)
        summed = None if same is None else time_of(found, same)
        if summed is not None and math.isfinite(summed.value):
            ends.append(Ends(cache, summed.elsewhere))
    return Configuration(
        name=name,
        engines=tuple(dict.fromkeys(row.engine for row in rows)),
        choices={station.layer.id: row.text for station, row in stations},
        time=time.elsewhere,
        energy=energy,
        error=ErrorBound(worst, root) if len(errors) == len(layers) else None,
        workspace_bytes=max(sizes) if len(sizes) == len(rows) else None,
        ends=tuple(ends),
        parts=parts,
        once=tuple(_once(found, rows)),
    )


def _part(piece: Piece, found: PredictionRounds, whole: float) -> PassPart:
    time = found.prices.time(piece.weights)
    joules = math.nan
    if found.has_energy:
        joules = found.prices.energy(piece.weights, is_gap=piece.kind == "seam")
    row, notes = piece.row, [] if piece.note is None else [piece.note]
    if row is not None and row.unresolved is not None and not math.isnan(joules):
        notes.append(row.unresolved)
    unknown = any(np.isnan(found.prices.energies[row]) for row in piece.weights)
    if piece.kind == "seam" and found.prices.idle_power_w is not None and unknown:
        notes.append("energy: idle power × its time")
    is_layer = piece.kind == "layer" and row is not None
    return PassPart(
        kind=piece.kind,
        layer=piece.layer,
        writer=piece.writer,
        name=piece.name,
        configuration=piece.configuration,
        count=piece.count,
        time_ns=time,
        share=time / whole if whole > 0 else 0.0,
        energy_j=None if math.isnan(joules) else joules,
        error=row.error if is_layer and row is not None else None,
        workspace_bytes=row.workspace_bytes if is_layer and row is not None else None,
        source=None if row is None else row.source,
        case=None if row is None else row.case,
        note="; ".join(notes) or None,
    )


def _energy(found: PredictionRounds, made: Sequence[Piece]) -> IntervalEstimate | None:
    """Return the joules of all rows, with idle power for gaps of seams that lack energy; None if
    some layer or conversion lacks it."""
    weights: dict[int, float] = {}
    gaps = 0.0
    for piece in made:
        known = all(np.isfinite(found.prices.energies[row]) for row in piece.weights)
        if known:
            for row, weight in piece.weights.items():
                weights[row] = weights.get(row, 0.0) + weight
        elif piece.kind == "seam":
            joules = found.prices.energy(piece.weights, is_gap=True)
            gaps += 0.0 if math.isnan(joules) else joules
        else:
            return None
    summed = total(weights, found.energies, found.table.sources, found.every).estimate
    ends = [None if end is None else end + gaps for end in (summed.low, summed.high)]
    return IntervalEstimate(summed.value + gaps, *ends) if math.isfinite(summed.value) else None


def in_cache(table: LayerTable, rows: Sequence[TableRow], cache: str) -> list[TableRow] | None:
    found = []
    for row in rows:
        same = [
            one
            for one in table.layers.get((row.base, cache), ())
            if (one.engine, one.variant) == (row.engine, row.variant) and one.problem is None
        ]
        if not same:
            return None
        found.append(same[0])
    return found


def _once(found: PredictionRounds, rows: Sequence[TableRow]) -> Iterator[PassPart]:
    by_id = {s.layer.id: row for s, row in zip(found.network.stations, rows, strict=True)}
    for layer, need in weight_conversions(found.network, rows):
        row = by_id[layer]
        known = found.table.conversions.get((need, row.cache), ())
        measured = next(iter(known), None)
        weights = {} if measured is None else {measured.number: 1.0}
        note = "of weights, once" if measured is not None else "of weights, once; not measured"
        name = need.spec if measured is None else measured.name
        text = row.engine if measured is None else measured.text
        piece = Piece("conversion", layer, None, name, measured, text, 1, weights, note)
        yield replace(_part(piece, found, math.inf), share=0.0)


def widened(made: Configuration) -> tuple[Configuration, IntervalKind]:
    """Return the configuration with the bracket of cache states, if several were measured."""
    time, kind = interval(made.time, made.ends)
    return replace(made, time=time), kind


def interval(time: IntervalEstimate, ends: Sequence[Ends]) -> tuple[IntervalEstimate, IntervalKind]:
    known = time.low is not None and time.high is not None and time.value > 0
    by_cache = {end.cache: end.estimate for end in ends}
    colder = next((by_cache[cache] for cache in COLDER if cache in by_cache), None)
    if "hot" in by_cache and colder is not None:
        both = (by_cache["hot"], colder, time)
        lows = [e.low for e in both if e.low is not None]
        highs = [e.high for e in both if e.high is not None]
        if len(lows) < len(both) or len(highs) < len(both):
            return IntervalEstimate(time.value), "none"  # its ends are not known
        return IntervalEstimate(time.value, min(lows), max(highs)), "bracket"
    return time, "rounds" if known else "none"


def ratios(
    found: PredictionRounds, baseline: Sequence[TableRow], chosen: Sequence[TableRow]
) -> Ratios | None:
    over, under = (pieces(found, rows).found for rows in (baseline, chosen))
    sources, every = found.table.sources, found.every
    bounds = found.table.bounds
    time = ratio(weights_of(over), weights_of(under), found.times, sources, every, bounds)
    if time is None:
        return None
    joules = [_energy(found, made) for made in (over, under)]
    if joules[0] is None or joules[1] is None or min(j.value for j in joules if j) <= 0:
        return Ratios(time, None)
    energy = IntervalEstimate(joules[0].value / joules[1].value)
    return Ratios(time, energy)
