"""The rows that a layer can take, and what they cost with their neighbours, as a `Problem`.

Rows of one graph on one engine have the same neighbours' costs, so only the best of them can be
chosen: they are one option, or several where one takes less time and another less energy or error.
A tensor that several layers read is converted once for all that want one form: a node of its own
says in which forms it is there.

A seam that was measured below zero counts nothing here: it is the difference of three
measurements, times how often the layer repeats, and no layer is chosen for what that seems to save.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.compose.forms import Form, FormConversion, as_variant
from bench_compare.compose.optimum import Limit, Problem, Term
from bench_compare.compose.pieces import cheapest, conversion, forms, seam

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.comparison.measure import Array
    from bench_compare.compose.network import Edge, Network, Station
    from bench_compare.compose.rows import LayerTable, TableRow


ROUNDING = 1e-12
"""Share of the largest term below which a sum is nothing."""
MOST_FORMS = 6
"""Largest number of simultaneous forms of one tensor in the problem."""


@dataclass(frozen=True, eq=False)
class Prices:
    """Costs of rows in the rounds that choose."""

    times: Array
    energies: Array
    idle_power_w: float | None
    """Times the time of a seam whose energy was not measured."""

    def time(self, weights: Mapping[int, float]) -> float:
        return _sum([w * float(self.times[row]) for row, w in weights.items()])

    def energy(self, weights: Mapping[int, float], is_gap: bool = False) -> float:
        joules = _sum([w * float(self.energies[row]) for row, w in weights.items()])
        if is_gap and math.isnan(joules):
            idle = self.idle_power_w
            return math.nan if idle is None else idle * self.time(weights) * 1e-9
        return joules


def _sum(terms: Sequence[float]) -> float:
    """Return the sum; zero if what is left of a difference is only rounding, as for a seam without
    cost."""
    found = math.fsum(terms)
    return 0.0 if abs(found) < ROUNDING * max(map(abs, terms), default=0.0) else found


@dataclass(frozen=True, eq=False)
class ChoiceSpace:
    problem: Problem
    options: tuple[tuple[TableRow, ...], ...]
    """Options of each layer, in the problem's numbering."""
    unpriced: tuple[tuple[FormConversion, str], ...]
    """Conversions that no row has, and the engine that would need them: choices with these were
    not possible."""
    merged: int
    """Rows that are behind the options."""


def make_space(
    network: Network,
    table: LayerTable,
    prices: Prices,
    allowed: Sequence[Sequence[TableRow]],
    cache: str,
    limits: Mapping[str, float],
    frugal: bool,
) -> ChoiceSpace:
    """Make the space of choices. `allowed`: the rows each layer may take. `frugal`: energy counts,
    too."""
    options = [_options(rows, prices, bool(limits), frugal) for rows in allowed]
    maker = _Maker(network, table, prices, options, cache, by_energy=frugal)
    terms = [
        *(maker.layer(s) for s in network.stations),
        *maker.seams(),
        *maker.links(),
    ]
    sizes = (*(len(rows) for rows in options), *maker.extra)
    bounds = []
    for name, bound in limits.items():
        power = 2 if name == "error" else 1
        costs = [
            np.array([s.layer.repeat * (row.error or 0.0) ** power for row in rows])
            for s, rows in zip(network.stations, options, strict=True)
        ]
        costs += [np.zeros(size) for size in maker.extra]
        bounds.append(Limit(bound**power, tuple(costs)))
    problem = Problem(sizes, tuple(terms), tuple(bounds))
    unpriced = tuple((need, engine) for need, engine in maker.unpriced.items())
    return ChoiceSpace(problem, tuple(map(tuple, options)), unpriced, sum(map(len, allowed)))


def _options(
    rows: Sequence[TableRow], prices: Prices, limited: bool, frugal: bool
) -> list[TableRow]:
    """Return the rows that are not dominated; rows with equal costs to neighbours are compared."""
    groups: dict[tuple[object, ...], list[TableRow]] = defaultdict(list)
    for row in rows:
        groups[row.engine, row.fingerprint, _rewrite(row)].append(row)
    found = []
    for group in groups.values():
        keys = []
        for row in group:
            energy = float(prices.energies[row.number])
            key = [float(prices.times[row.number])]
            key += [math.inf if math.isnan(energy) else energy] if frugal else []
            key += [math.inf if row.error is None else row.error] if limited else []
            keys.append(tuple(key))
        ordered = sorted(range(len(group)), key=lambda i: (keys[i], i))
        best: list[int] = []
        for one in ordered:
            if not any(all(a <= b for a, b in zip(keys[k], keys[one], strict=True)) for k in best):
                best.append(one)
        found += [group[one] for one in best]
    return found


def _rewrite(row: TableRow) -> tuple[str | None, str | None]:
    return row.variant.get("layout"), row.variant.get("dtype")


class _Maker:
    def __init__(
        self,
        network: Network,
        table: LayerTable,
        prices: Prices,
        options: Sequence[Sequence[TableRow]],
        cache: str,
        by_energy: bool,
    ) -> None:
        self._network, self._table, self._prices = network, table, prices
        self._options, self._cache = options, cache
        self._costs = (prices.energies if by_energy else prices.times).tolist()
        self._times = prices.times.tolist()
        self._known: dict[FormConversion, tuple[float, float]] = {}
        self._seams: dict[object, tuple[float, float]] = {}
        self.extra: list[int] = []
        """Sizes of the nodes behind the layers'."""
        self.unpriced: dict[FormConversion, str] = {}

    def layer(self, station: Station) -> Term:
        numbers = [row.number for row in self._options[station.number]]
        repeat = station.layer.repeat
        return Term(
            (station.number,),
            repeat * self._prices.times[numbers],
            repeat * self._prices.energies[numbers],
        )

    def seams(self) -> Iterator[Term]:
        for station in self._network.stations:
            if station.entry is None:
                continue
            first, second = self._options[station.entry], self._options[station.number]
            time, energy = np.zeros((2, len(first), len(second)))
            for (i, a), (j, b) in itertools.product(enumerate(first), enumerate(second)):
                key = (station.seam, a.engine, b.engine, a.fingerprint, b.fingerprint)
                if key not in self._seams:
                    measured = seam(self._table, station, a, b, self._times)
                    weights = {} if measured is None else measured.weights
                    joules = self._prices.energy(weights, is_gap=True)
                    joules = 0.0 if math.isnan(joules) else joules
                    self._seams[key] = max(0.0, self._prices.time(weights)), max(0.0, joules)
                time[i, j], energy[i, j] = self._seams[key]
            time, energy = station.layer.repeat * time, station.layer.repeat * energy
            if time.any() or energy.any():
                yield Term((station.entry, station.number), time, energy)

    def links(self) -> Iterator[Term]:
        groups: dict[tuple[int | None, str], list[Edge]] = defaultdict(list)
        for edge in self._network.edges:
            # Some option of either end could want a conversion.
            ends = [end for end in (edge.writer, edge.reader) if end is not None]
            if any(_rewrite(row) != (None, None) for end in ends for row in self._options[end]):
                groups[edge.writer, edge.output].append(edge)
        for edges in groups.values():
            alike = []
            for edge in edges:
                sides = forms(edge, self._network)
                if sides is not None and sides[0] == sides[1] and not edge.is_view:
                    alike.append(edge)
            wanted = list(dict.fromkeys(form for edge in alike for form in self._wanted(edge)))
            if len(alike) > 1 and len(wanted) <= MOST_FORMS:
                yield from self._shared(alike, wanted)
                edges = [edge for edge in edges if edge not in alike]
            yield from map(self._single, edges)

    def _variants(self, end: int | None) -> list[Mapping[str, str]]:
        return [{}] if end is None else [row.variant for row in self._options[end]]

    def _wanted(self, edge: Edge) -> list[Form]:
        """Return the form that each option of the reader wants."""
        sides = forms(edge, self._network)
        assert sides is not None, "of links that can be shared both sides are known"
        return [as_variant(sides[1], variant) for variant in self._variants(edge.reader)]

    def _shared(self, edges: Sequence[Edge], wanted: Sequence[Form]) -> Iterator[Term]:
        """Yield terms for the forms of a tensor: their cost, and that each reader finds its own
        form."""
        node = len(self._options) + len(self.extra)
        sets = [
            frozenset(some)
            for count in range(1, len(wanted) + 1)
            for some in itertools.combinations(wanted, count)
        ]
        self.extra.append(len(sets))
        writer, sides = edges[0].writer, forms(edges[0], self._network)
        assert sides is not None
        rows = []
        for variant in self._variants(writer):
            here = as_variant(sides[0], variant)
            prices = {
                there: self._price(FormConversion(here, there), edges[0])
                for there in wanted
                if there != here
            }
            found = [[prices[form] for form in some if form != here] for some in sets]
            rows.append(
                [tuple(map(math.fsum, zip(*each, strict=True))) or (0.0, 0.0) for each in found]
            )
        yield _term(writer, node, np.array(rows))
        for edge in edges:
            finds = [
                [0.0 if form in some else math.inf for form in self._wanted(edge)] for some in sets
            ]
            table = np.array(finds)[:, :, None].repeat(2, axis=2)
            yield _term(edge.reader, node, table.transpose(1, 0, 2))

    def _single(self, edge: Edge) -> Term:
        sides = forms(edge, self._network)
        rows = []
        for first in self._variants(edge.writer):
            prices = []
            for second in self._variants(edge.reader):
                need = conversion(edge, sides, first, second)
                if isinstance(need, bool):
                    prices.append((0.0, 0.0) if need else (math.inf, math.inf))
                else:
                    prices.append(self._price(need, edge))
            rows.append(prices)
        table = np.array(rows)
        if edge.writer is None:
            return _term(None, edge.reader, table)
        return _term(edge.reader, edge.writer, table.transpose(1, 0, 2))

    def _price(self, need: FormConversion, edge: Edge) -> tuple[float, float]:
        if need not in self._known:
            row = cheapest(self._table.conversions.get((need, self._cache), ()), self._costs)
            if row is None:
                near = edge.writer if edge.reader is None else edge.reader
                assert near is not None
                self.unpriced.setdefault(need, self._options[near][0].engine)
                self._known[need] = (math.inf, math.inf)
            else:
                weights = {row.number: 1.0}
                self._known[need] = (self._prices.time(weights), self._prices.energy(weights))
        return self._known[need]


def _term(first: int | None, second: int | None, table: Array) -> Term:
    """`table` has an axis for each end and one for time and energy; an end that is None has a
    single choice and no node."""
    nodes = tuple(node for node in (first, second) if node is not None)
    if first is None:
        table = table[0]
    elif second is None:
        table = table[:, 0]
    return Term(nodes, table[..., 0], table[..., 1])
