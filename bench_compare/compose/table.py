"""The table of measured rows, and sums of them with their intervals.

A row is a graph on an engine in one variant, from all documents that have it. Its value is that of
`bench_schema.estimate`: the mean over documents of the mean over rounds of the logarithm. A sum
takes the values of its rows; how uncertain it is follows from the rounds in which all of its rows
were measured, so what a round shares (a clock, other work) counts once and not once for each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from bench_schema.estimate import MIN_ROUNDS_FOR_T, case_log, main_series, round_logs, two_sided
from bench_schema.identity import engine_names, graphs_given, original, variant_key

from bench_compare.compose.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from bench_schema.document import Case, GraphId
    from bench_schema.estimate import Flags, Floats, Integers

    from bench_compare.model import Source

LEAST_J = 1e-12
"""Smallest energy of an execution that is one."""
UNRESOLVED = "not resolved by the counter"
WIDEST = math.log(2)
"""Half an interval that says nothing: from half of the time to twice of it."""
Sum = dict[int, float]
"""Factor of each row in a sum."""


@dataclass(frozen=True, eq=False)
class Row:
    base: str
    """Fingerprint of the graph, before a variant rewrote it."""
    engine: str
    """Name that the user gave."""
    key: str
    """Engine's key in the document."""
    variant: Mapping[str, str]
    graph: GraphId
    case: Case
    """Case of the first document that completed it."""
    source: str
    excluded: str | None
    """Why it cannot be chosen."""
    error: float | None
    kind: Literal["alone", "pair", "chain"]
    """A graph; two layers of a pipeline in a row; a whole pipeline."""

    @property
    def configuration(self) -> str:
        return " ".join((self.engine, *(f"{k}={v}" for k, v in self.variant.items())))

    @property
    def timings(self) -> frozenset[str | None]:
        """Methods that measured its device times."""
        return frozenset(one.device_timing for one in self.case.rounds)

    @property
    def workspace_bytes(self) -> int | None:
        return None if self.case.memory is None else self.case.memory.workspace_bytes


class Table:
    """Rows of one cache state, and their times and energies in each round."""

    def __init__(
        self, sources: Sequence[Source], engines: Mapping[str, Collection[str]], series: str
    ) -> None:
        self.sources = tuple(sources)
        graphs = [c.graph for s in sources for c in s.document.cases]
        given, types = graphs_given(graphs), {one.fingerprint: one.data_type for one in graphs}
        units: dict[tuple[int, int], int] = {}
        cells: list[tuple[int, int, float, float]] = []
        seen: dict[object, list[tuple[Row, Mapping[int, float]]]] = {}
        places: dict[object, int] = {}
        for number, source in enumerate(sources):
            names = engine_names(e.key for e in source.document.engines)
            for case in source.document.cases:
                if case.engine not in engines[source.path]:
                    continue
                times = {n: log for n, log in round_logs(case, series).items() if log > 0}
                row = row_of(case, names[case.engine], source.path, series, times)
                base = original(case.graph, given)
                row = replace(row, base=base, variant=varied_only(case.variant, types.get(base)))
                key = (case.graph.fingerprint, row.engine, variant_key(row.variant), row.kind)
                place = places.setdefault(key, len(places))
                seen.setdefault(key, []).append((row, times))
                joules = {one.index: one.energy_j_per_iteration for one in case.rounds}
                for index, log in times.items():
                    unit = units.setdefault((number, index), len(units))
                    energy = joules.get(index) or 0.0
                    known = math.log(energy) if energy > LEAST_J else math.nan
                    cells.append((place, unit, log, known))
        self.rows = tuple(merged([row for row, _ in found]) for found in seen.values())
        self.logs, self.joules = np.full((2, len(self.rows), len(units)), np.nan)
        for place, unit, log, energy in cells:
            self.logs[place, unit], self.joules[place, unit] = log, energy
        self.document = np.array([number for number, _ in units], np.int64)
        self.round = np.array([index for _, index in units], np.int64)

    @property
    def every(self) -> Flags:
        return np.ones(len(self.document), bool)

    def alone(self, row: int) -> Estimate:
        """Return the time of one row with its interval; zero if it does not have one."""
        logs = self.logs[row][np.isfinite(self.logs[row])]
        if not logs.size:
            return Estimate(0.0)
        if self.document.any():
            return total({row: 1.0}, self.logs, self.document, self.every).estimate
        value, half = math.exp(logs.mean()), math.inf
        if logs.size >= MIN_ROUNDS_FOR_T:
            half = two_sided(logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size)
        factor = math.exp(min(half, 1.0))
        return (
            Estimate(value, value / factor, value * factor) if half <= WIDEST else Estimate(value)
        )

    def has_energy(self, rows: AbstractSet[int]) -> bool:
        """Return True if the energy of each row was measured."""
        return all(np.isfinite(self.joules[row]).any() for row in rows)


def row_of(
    case: Case,
    engine: str,
    source: str,
    series: str,
    times: Mapping[int, float],
) -> Row:
    excluded, errors = None, [0.0]
    validation = case.validation
    if case.outcome.status != "completed":
        excluded = f"{case.outcome.status}: {case.outcome.reason}"
    elif validation is not None and validation.status == "failed":
        excluded = WRONG
    elif not times:
        excluded = f"no samples of {series} that took longer than 1 ns"
    if validation is not None:
        errors += [float(one.relative_l2) for one in validation.outputs]
    return Row(
        base=case.graph.fingerprint,
        engine=engine,
        key=case.engine,
        variant=case.variant,
        graph=case.graph,
        case=case,
        source=source,
        excluded=excluded,
        error=max(errors) if len(errors) > 1 else None,
        kind=kind_of(case),
    )


def varied_only(variant: Mapping[str, str], own_type: str | None) -> Mapping[str, str]:
    """Return the words of a variant that change something."""
    usual = {("dtype", own_type), ("approx", "none")}
    return {key: value for key, value in variant.items() if (key, value) not in usual}


def kind_of(case: Case) -> Literal["alone", "pair", "chain"]:
    if not case.graph.layers or "fusion" in case.variant:
        return "alone"
    return "pair" if "#" in case.graph.path else "chain"


WRONG = "its outputs are wrong"


def merged(rows: Sequence[Row]) -> Row:
    """Return one row of all documents: wrong if one is, and missing if all are."""
    wrong = [row for row in rows if row.excluded == WRONG]
    return (wrong or [row for row in rows if row.excluded is None] or list(rows))[0]


def series_of(sources: Sequence[Source], engines: Mapping[str, Collection[str]]) -> str:
    """Return the series of the times: device time if all cases with samples have it."""
    found = [
        main_series({name for one in case.rounds for name in one.series})
        for source in sources
        for case in source.document.cases
        if case.engine in engines[source.path] and case.rounds
    ]
    return "device_ns" if found and all(one == "device_ns" for one in found) else "e2e_ns"


def levels(values: Floats, document: Integers, kept: Flags) -> Floats:
    """Return the location of each row in the rounds that are kept: logarithms, NaN if there are
    none."""
    if not kept.any():
        return np.full(len(values), np.nan)
    return case_log(values[:, kept], document[kept])


@dataclass(frozen=True)
class Total:
    """A sum of rows."""

    value: float
    influence: Floats
    """Effect of each unit on the sum; a unit is a round, or a document."""
    groups: Integers
    """Independent group of each unit, within which units are compared."""
    by_documents: bool = False
    unsure: bool = False
    """True if a row of it has a single round."""

    def half(self, influence: Floats | None = None) -> float | None:
        """Return half of the 95 % interval of a number with this influence of the units; None if
        there are too few units, or they are too far apart."""
        found = self.influence if influence is None else influence
        variances, degrees = [], []
        for group in np.unique(self.groups[self.groups >= 0]):
            inside = self.groups == group
            count = int(inside.sum())
            variances.append(float((found[inside] ** 2).sum()) * count / (count - 1))
            degrees.append(count - 1)
        total = math.fsum(variances)
        if self.unsure or not variances or max(degrees) < MIN_ROUNDS_FOR_T - 1:
            return None
        if total == 0:
            return 0.0
        parts = zip(variances, degrees, strict=True)
        freedom = total**2 / math.fsum(v * v / d for v, d in parts)
        return two_sided(max(1.0, freedom)) * math.sqrt(total)

    @property
    def estimate(self) -> Estimate:
        """Return the sum with its interval; without, if that is wider than `WIDEST`."""
        half = self.half()
        if half is None or self.value <= 0 or half / self.value > WIDEST:
            return Estimate(self.value)
        factor = math.exp(half / self.value)
        return Estimate(self.value, self.value / factor, self.value * factor)


def total(terms: Sum, values: Floats, document: Integers, kept: Flags) -> Total:
    """Return a sum of rows. `values`: logarithms, a row for each row of the table and a column for
    each unit; `document`: number of the document of each column; `kept`: columns that count."""
    rows = np.array(sorted(terms), np.int64)
    factors = np.array([terms[row] for row in rows.tolist()])
    mine, known = values[rows], np.isfinite(values[rows]) & kept
    at = levels(mine, document, kept)
    sizes = factors * np.exp(at)
    value = math.fsum(sizes.tolist())
    numbers = np.unique(document[known.any(axis=0)])
    within = np.stack([levels(mine, document, kept & (document == n)) for n in numbers])
    has = np.isfinite(within)
    count = has.sum(axis=0)
    if len(numbers) >= MIN_ROUNDS_FOR_T and has.all():
        influence = ((within - at) * sizes).sum(axis=1) / len(numbers)
        return Total(value, influence, np.zeros(len(numbers), np.int64), by_documents=True)
    influence, groups, unsure = np.zeros(len(document)), np.full(len(document), -1), False
    for number, own in zip(numbers, within, strict=True):
        here = known & (document == number)
        rounds = here.sum(axis=1)
        unsure |= bool((rounds == 1).any())
        weight = np.where(rounds > 0, sizes / np.maximum(rounds, 1) / count, 0.0)
        apart = np.where(here, mine - own[:, None], 0.0)
        influence += (weight[:, None] * apart).sum(axis=0)
        if not unsure:
            groups[here.any(axis=0)] = number
    return Total(value, influence, groups, unsure=unsure)


def ratio(over: Total, under: Total) -> tuple[Estimate, float | None]:
    """Return the ratio of two sums, with half of the interval of its logarithm. What both share in
    a unit cancels."""
    if over.value <= 0 or under.value <= 0:
        return Estimate(math.nan), None
    value = over.value / under.value
    parts = [over.influence / over.value, under.influence / under.value]
    if over.by_documents == under.by_documents and parts[0].shape == parts[1].shape:
        groups, unsure = np.maximum(over.groups, under.groups), over.unsure or under.unsure
        half = Total(value, parts[0] - parts[1], groups, over.by_documents, unsure).half()
    else:
        halves = [one.half() for one in (over, under)]
        known = [
            half / one.value
            for half, one in zip(halves, (over, under), strict=True)
            if half is not None
        ]
        half = math.hypot(*known) if len(known) == len(halves) else None
    if half is None or half > WIDEST:
        return Estimate(value), None
    return Estimate(value, value / math.exp(half), value * math.exp(half)), half
