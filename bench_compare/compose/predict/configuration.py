"""Rows of a configuration to its time, energy and error, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.compose.choose.space import Prices
from bench_compare.compose.model import (
    Configuration,
    Ends,
    ErrorBound,
    Estimate,
    IntervalKind,
    Part,
    Ratios,
)
from bench_compare.compose.predict.linear import Total, alone, means, ratio, total
from bench_compare.compose.predict.pieces import Piece, Pieces, assemble, weight_conversions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.compose.table.network import Network
    from bench_compare.compose.table.rows import Row, Table
    from bench_compare.statistics.arrays import Array, Mask

COLDER = ("rotate", "cold", "pass")
"""States at the other end of a bracket that begins with hot caches."""
NANOSECONDS = 1e-9


@dataclass(frozen=True, eq=False)
class Evidence:
    """The rounds that predict, of a table; `prices` are their means."""

    network: Network
    table: Table
    times: Array
    energies: Array
    prices: Prices

    @property
    def every(self) -> Mask:
        return np.ones(self.times.shape[1], dtype=bool)

    @cached_property
    def has_energy(self) -> bool:
        """Whether any row has joules."""
        return bool(np.isfinite(self.energies).any())

    @cached_property
    def alone(self) -> list[Estimate]:
        """Of each row by itself."""
        return alone(self.times, self.table.sources, self.table.bounds)

    def total(self, weights: Mapping[int, float]) -> Total:
        table = self.table
        return total(weights, self.times, table.sources, self.every, table.bounds)


def evidence(
    network: Network, table: Table, idle_power_w: float | None, parity: int | None
) -> Evidence:
    """`parity`: only rounds whose number is even (0) or odd (1), where a row has such; None: all.
    Rounds that choose do not predict."""
    times, energies = table.times, table.energies
    if parity is not None:
        other = np.asarray(table.rounds % 2 != parity)
        times, energies = (_without(values, other) for values in (times, energies))
    prices = Prices(means(times, table.sources), means(energies, table.sources), idle_power_w)
    return Evidence(network, table, times, energies, prices)


def _without(values: Array, columns: Mask) -> Array:
    """Each row without these columns, where that leaves it some."""
    kept = np.isfinite(values[:, ~columns]).any(axis=1)
    return np.asarray(np.where(np.outer(kept, columns), np.nan, values))


def pieces(found: Evidence, rows: Sequence[Row]) -> Pieces:
    costs = found.prices.times.tolist()
    return assemble(found.network, found.table, rows, costs, rows[0].cache)


def weights_of(parts: Sequence[Piece]) -> dict[int, float]:
    weights: dict[int, float] = {}
    for part in parts:
        for row, weight in part.weights.items():
            weights[row] = weights.get(row, 0.0) + weight
    return weights


def time_of(found: Evidence, rows: Sequence[Row]) -> Total:
    return found.total(weights_of(pieces(found, rows).found))


def describe(name: str, found: Evidence, rows: Sequence[Row]) -> Configuration:
    """The interval of the time is that of the rounds: `widened` puts in what is known of the
    model."""
    made = pieces(found, rows).found
    time = found.total(weights_of(made))
    parts = tuple(_part(piece, found, time.value) for piece in made)
    energy = _energy(found, made)
    stations = zip(found.network.stations, rows, strict=True)
    # Of the layer that needs most; None where one does not say.
    sizes = [row.workspace_bytes for row in rows if row.workspace_bytes is not None]
    return Configuration(
        name=name,
        engines=tuple(dict.fromkeys(row.engine for row in rows)),
        choices={station.layer.id: row.text for station, row in stations},
        time=time.elsewhere,
        energy=energy,
        edp=None if energy is None else energy.value * time.value * NANOSECONDS,
        error=_error(parts),
        workspace_bytes=max(sizes) if len(sizes) == len(rows) else None,
        ends=tuple(_ends(found, rows)),
        parts=parts,
        once=tuple(_once(found, rows)),
    )


def _part(piece: Piece, found: Evidence, whole: float) -> Part:
    time = found.prices.time(piece.weights)
    joules = math.nan
    if found.has_energy:
        joules = found.prices.energy(piece.weights, is_gap=piece.kind == "seam")
    row, notes = piece.row, [] if piece.note is None else [piece.note]
    if row is not None and row.unresolved is not None and not math.isnan(joules):
        notes.append(row.unresolved)
    if piece.kind == "seam" and _is_idle(piece, found):
        notes.append("energy: idle power × its time")
    is_layer = piece.kind == "layer" and row is not None
    return Part(
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


def _is_idle(piece: Piece, found: Evidence) -> bool:
    """Whether a seam's energy is that of an idle device."""
    idle = found.prices.idle_power_w is not None
    return idle and any(np.isnan(found.prices.energies[row]) for row in piece.weights)


def _energy(found: Evidence, made: Sequence[Piece]) -> Estimate | None:
    """Joules of all rows, and idle power times the gaps of seams without; None where some layer or
    conversion has none."""
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
    return Estimate(summed.value + gaps, *ends) if math.isfinite(summed.value) else None


def _error(parts: Sequence[Part]) -> ErrorBound | None:
    layers = [part for part in parts if part.kind == "layer"]
    errors = [(part.count, part.error) for part in layers if part.error is not None]
    if len(errors) < len(layers):
        return None
    worst = math.fsum(count * error for count, error in errors)
    return ErrorBound(worst, math.sqrt(math.fsum(count * e * e for count, e in errors)))


def _ends(found: Evidence, rows: Sequence[Row]) -> Iterator[Ends]:
    """The same rows in every cache that has all of them."""
    for cache in found.table.caches:
        same = in_cache(found.table, rows, cache)
        if same is not None:
            summed = time_of(found, same)
            if math.isfinite(summed.value):
                yield Ends(cache, summed.elsewhere)


def in_cache(table: Table, rows: Sequence[Row], cache: str) -> list[Row] | None:
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


def _once(found: Evidence, rows: Sequence[Row]) -> Iterator[Part]:
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


def widened(
    made: Configuration, half_width_log: float | None
) -> tuple[Configuration, IntervalKind]:
    """With the model's own error where that is known, else with the bracket of cache states."""
    time, kind = interval(made.time, made.ends, half_width_log)
    return replace(made, time=time), kind


def interval(
    time: Estimate, ends: Sequence[Ends], half_width_log: float | None
) -> tuple[Estimate, IntervalKind]:
    known = time.low is not None and time.high is not None and time.value > 0
    if half_width_log is not None:
        own = (time.high - time.value) / time.value if known and time.high is not None else 0.0
        half = math.hypot(own, half_width_log)
        value = time.value
        return Estimate(value, value * math.exp(-half), value * math.exp(half)), "model"
    by_cache = {end.cache: end.estimate for end in ends}
    colder = next((by_cache[cache] for cache in COLDER if cache in by_cache), None)
    if "hot" in by_cache and colder is not None:
        both = (by_cache["hot"], colder, time)
        lows = [e.low for e in both if e.low is not None]
        highs = [e.high for e in both if e.high is not None]
        if len(lows) < len(both) or len(highs) < len(both):
            return Estimate(time.value), "none"  # its ends are not known
        return Estimate(time.value, min(lows), max(highs)), "bracket"
    return time, "rounds" if known else "none"


def ratios(found: Evidence, baseline: Sequence[Row], chosen: Sequence[Row]) -> Ratios | None:
    over, under = (pieces(found, rows).found for rows in (baseline, chosen))
    sources, every = found.table.sources, found.every
    bounds = found.table.bounds
    time = ratio(weights_of(over), weights_of(under), found.times, sources, every, bounds)
    if time is None:
        return None
    joules = [_energy(found, made) for made in (over, under)]
    if joules[0] is None or joules[1] is None or min(j.value for j in joules if j) <= 0:
        return Ratios(time, None, None)
    energy = Estimate(joules[0].value / joules[1].value)
    return Ratios(time, energy, time.value * energy.value)
