"""The table of layers: every graph that was measured, by engine, variant and cache.

Times and energies are matrices with a row for each of these and a column for each round of each
document: what stands in one column was measured in one visit, in the same state of the machine.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import round_logs
from bench_schema.identity import REWRITES, CaseIdentity, engine_names, graphs_given, original

from bench_compare.comparison.circumstances.facts import facts
from bench_compare.compose.forms import FormConversion, conversion_of
from bench_compare.errors import InputError
from bench_compare.model import CaseSide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Case

    from bench_compare.comparison.measure import Array, Ints
    from bench_compare.model import Source


SERIES = ("device_ns", "e2e_ns")
REWRITING = frozenset(REWRITES)
CONVERSIONS = "identity"
"""Family of graphs that only convert."""
LEAST_NS = 1.0
"""Time of one execution that a measurement must exceed."""
MOST_JOULES = 1e9
"""Largest energy of one execution; larger values are not measurements."""
WRONG = "its outputs are wrong"
EVERY = ":all"
"""Behind an engine that lists its plans as variants."""


@dataclass(frozen=True, slots=True)
class TableRow:
    number: int
    fingerprint: str
    """Fingerprint of the graph that ran."""
    base: str
    """Fingerprint of the graph that it is a variant of; its own if layout, type and fusion are
    original."""
    name: str
    family: str
    data_type: str
    engine: str
    """Key without the path of a plugin, and without ``:all``."""
    variant: Mapping[str, str]
    cache: str
    layers: tuple[str, ...]
    """Fingerprints of the graphs of a chain."""
    path: str
    sha256: str
    op: str | None
    """Op spec that the graph was made from."""
    problem: str | None
    """Why it cannot be used: it did not run, its outputs are wrong."""
    error: float | None
    """Largest relative L2 of an output."""
    workspace_bytes: int | None
    unresolved: str | None
    """Sentence of the run if the energy counter is too coarse for the row."""
    is_launch_bound: bool
    """True if the host takes longer around it than the device for it."""
    source: str
    case: str

    @property
    def text(self) -> str:
        """Engine and variant, as people and ``--fix`` name it."""
        if not self.variant:
            return self.engine
        words = [f"{key}={value}" for key, value in sorted(self.variant.items())]
        return " ".join([self.engine, *words])

    @property
    def is_rewritten(self) -> bool:
        return not REWRITING.isdisjoint(self.variant)

    @property
    def is_default(self) -> bool:
        """The engine chose how to run it; of a rewritten graph as well."""
        return REWRITING.issuperset(self.variant)

    @property
    def is_chain(self) -> bool:
        return bool(self.layers) and not self.is_rewritten


@dataclass(frozen=True, eq=False)
class LayerTable:
    rows: tuple[TableRow, ...]
    times: Array
    """Nanoseconds, NaN if a round does not hold the row."""
    energies: Array
    """Joules of one execution."""
    sources: Ints
    """Document of each column."""
    rounds: Ints
    """Number of the round of each column."""
    series: str
    bounds: Array
    """Possible error of the device's clock in each row, nanoseconds; 0 for the host's clock."""

    @cached_property
    def layers(self) -> Mapping[tuple[str, str], list[TableRow]]:
        """Rows of single graphs, by the graph they are variants of and the cache."""
        found: dict[tuple[str, str], list[TableRow]] = defaultdict(list)
        for row in self.rows:
            if not row.is_chain:
                found[row.base, row.cache].append(row)
        return found

    @cached_property
    def pairs(self) -> Mapping[tuple[tuple[str, ...], str, str], list[TableRow]]:
        """Rows of chains of two, by their graphs, engine and cache."""
        found: dict[tuple[tuple[str, ...], str, str], list[TableRow]] = defaultdict(list)
        for row in self.rows:
            if row.is_chain and len(row.layers) == 2 and row.problem is None:
                found[row.layers, row.engine, row.cache].append(row)
        return found

    @cached_property
    def defaults(self) -> Mapping[tuple[str, str, str], TableRow]:
        """Return an engine's default rows, by fingerprint, engine and cache."""
        return {
            (row.fingerprint, row.engine, row.cache): row
            for row in self.rows
            if not row.is_chain and row.is_default and row.problem is None
        }

    @cached_property
    def conversions(self) -> Mapping[tuple[FormConversion, str], list[TableRow]]:
        """Return rows of graphs of the operation ``convert``, by conversion and cache. They are not
        layers of a pipeline, so they are not measured in a pass: hot rows stand for it."""
        found: dict[tuple[FormConversion, str], list[TableRow]] = defaultdict(list)
        for row in self.rows:
            if row.family == CONVERSIONS and not row.is_rewritten and row.problem is None:
                made = conversion_of(row.name)
                if made is not None:
                    found[made, row.cache].append(row)
        hot = {made: rows for (made, cache), rows in found.items() if cache == "hot"}
        return {**{(made, "pass"): rows for made, rows in hot.items()}, **found}

    @cached_property
    def engines(self) -> tuple[str, ...]:
        """Return the engines of single graphs, in the order of the documents."""
        return tuple(dict.fromkeys(row.engine for row in self.rows if not row.is_chain))

    @cached_property
    def caches(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.cache for row in self.rows))


def read_table(
    sources: Sequence[Source], engines: Mapping[int, frozenset[str]], series: str | None
) -> LayerTable:
    """Read the table of layers. Raises `InputError` if no case has samples of the series."""
    grouped = _grouped(sources, engines)
    sides = [
        CaseSide(cases[-1].graph.name, key[1], tuple(cases), tuple(numbers))
        for key, (cases, numbers) in grouped.items()
    ]
    # Device time where every case that completed has it, else end-to-end time.
    ran = [one for side in sides for one in side.cases if one.outcome.status == "completed"]
    on_device = all(SERIES[0] in facts(one.rounds).sampled for one in ran)
    wanted = series or SERIES[0 if on_device else 1]
    times, at, rounds = _times(sides, wanted)
    times = np.where(times > LEAST_NS, times, np.nan)
    measured: list[bool] = np.asarray(np.isfinite(times).any(axis=1)).tolist()
    if not any(measured):
        what = f"no case has samples of {wanted} that took longer than {LEAST_NS:g} ns"
        raise InputError(f"{sources[0].path}: {what}")
    given = graphs_given(
        _identity(case)
        for (_, _, variant, _), (cases, _) in grouped.items()
        if REWRITING.isdisjoint([axis for axis, _ in variant])
        for case in cases
    )
    rows = tuple(
        _row(number, key, cases, sources[numbers[-1]].path, given, None if known else wanted)
        for number, ((key, (cases, numbers)), known) in enumerate(
            zip(grouped.items(), measured, strict=True)
        )
    )
    energies = _energies(sides, at, rounds)
    bounds = np.zeros(len(sides))
    for number, side in enumerate(sides if wanted == SERIES[0] else ()):
        timed = (case.rounds for case in side.cases if facts(case.rounds).bound_ns)
        known = [
            ns for rounds in timed for one in rounds if (ns := one.device_bound_ns) is not None
        ]
        bounds[number] = median(known) if known else 0.0
    return LayerTable(rows, times, energies, at, rounds, wanted, bounds)


def _times(sides: Sequence[CaseSide], series: str) -> tuple[Array, Ints, Ints]:
    """Return the time of each round of each case, NaN if there is none, and for each column the
    number of its document and of its round."""
    found = {
        (source, index, row): log
        for row, side in enumerate(sides)
        for case, source in zip(side.cases, side.sources, strict=True)
        for index, log in round_logs(case, series).items()
    }
    columns = sorted({(source, index) for source, index, _ in found})
    places = {column: place for place, column in enumerate(columns)}
    times = np.full((len(sides), len(columns)), np.nan)
    for (source, index, row), log in found.items():
        times[row, places[source, index]] = math.exp(log)
    at = np.array(columns, np.int64).reshape(-1, 2)
    return times, at[:, 0], at[:, 1]


_Key = tuple[str, str, tuple[tuple[str, str], ...], str]


def _grouped(
    sources: Sequence[Source], engines: Mapping[int, frozenset[str]]
) -> dict[_Key, tuple[list[Case], list[int]]]:
    """Return cases by fingerprint, engine, variant and cache, with the numbers of their documents.
    Of several in one document the first counts; of a row that ran in one document and not in
    another those that ran, in any order of the documents; outputs that are wrong anywhere are
    wrong."""
    found: dict[_Key, tuple[list[Case], list[int]]] = {}
    for number, source in enumerate(sources):
        cache = source.document.run.settings.cache
        names = engine_names(engine.key for engine in source.document.engines)
        for case in source.document.cases:
            if case.engine not in engines[number]:
                continue
            variant = tuple(sorted(case.variant.items()))
            engine = names[case.engine].removesuffix(EVERY)
            key = (case.graph.fingerprint, engine, variant, cache)
            cases, numbers = found.setdefault(key, ([], []))
            if number not in numbers:
                cases.append(case)
                numbers.append(number)
    for key, (cases, numbers) in found.items():
        pairs = list(zip(cases, numbers, strict=True))
        wrong = [pair for pair in pairs if _problem(pair[0]) == WRONG]
        counting = wrong or [pair for pair in pairs if _problem(pair[0]) is None] or pairs
        found[key] = [case for case, _ in counting], [number for _, number in counting]
    return found


def _identity(case: Case) -> CaseIdentity:
    return CaseIdentity(case.graph.fingerprint, case.graph.name, case.graph.path, case.engine)


def _row(
    number: int,
    key: _Key,
    cases: Sequence[Case],
    source: str,
    given: Mapping[tuple[str, str], str],
    lacking: str | None,
) -> TableRow:
    """`lacking`: the series that counts, if it has no samples of that."""
    fingerprint, engine, variant, cache = key
    case = cases[-1]
    validations = [one.validation for one in cases if one.validation is not None]
    errors = [
        float(output.relative_l2)
        for validation in validations
        if validation.status == "passed"
        for output in validation.outputs
    ]
    unresolved = None
    for one in cases:
        notes = [note for note in facts(one.rounds).notes or () if "not resolved" in note]
        unresolved = notes[0] if notes else unresolved
    made = dict(variant)
    # Of a call, its execution and the wait for it, more than half is not the execution.
    device, whole = (case.summary.get(name) for name in SERIES)
    return TableRow(
        number=number,
        fingerprint=fingerprint,
        base=fingerprint if REWRITING.isdisjoint(made) else original(_identity(case), given),
        name=case.graph.name,
        family=case.graph.family,
        data_type=case.graph.data_type,
        engine=engine,
        variant=made,
        cache=cache,
        layers=case.graph.layers,
        path=case.graph.path,
        sha256=case.graph.sha256,
        op=case.graph.op,
        problem=_problem(case, lacking),
        error=max(filter(math.isfinite, errors), default=None),
        workspace_bytes=None if case.memory is None else case.memory.workspace_bytes,
        unresolved=unresolved,
        is_launch_bound=device is not None
        and whole is not None
        and 2 * device.median < whole.median,
        source=source,
        case=case.id,
    )


def _problem(case: Case, lacking: str | None = None) -> str | None:
    if case.outcome.status != "completed":
        return f"{case.outcome.status}: {case.outcome.reason or 'no reason given'}"
    if case.validation is not None and case.validation.status == "failed":
        return WRONG
    if case.implausible is not None:
        return f"implausible: {case.implausible}"
    if lacking is None:
        return None
    return f"no samples of {lacking} that took longer than {LEAST_NS:g} ns"


def _energies(sides: Sequence[CaseSide], sources: Ints, rounds: Ints) -> Array:
    place = {pair: i for i, pair in enumerate(zip(sources.tolist(), rounds.tolist(), strict=True))}
    found = np.full((len(sides), len(place)), np.nan)
    for number, side in enumerate(sides):
        for case, source in zip(side.cases, side.sources, strict=True):
            for one in case.rounds:
                joules = one.energy_j_per_iteration
                if joules is None or not 0 < joules < MOST_JOULES:
                    continue  # a counter that wrapped says nothing
                if (source, one.index) in place:
                    found[number, place[source, one.index]] = joules
    return found
