"""What was read, and what follows from it before anything is chosen."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench_schema.identity import engine_name

from bench_compare.compose.against import measured_chains
from bench_compare.compose.choose.select import (
    Asked,
    baseline_rows,
    default_baseline,
    fixes_of,
    main_cache,
    rows_of,
)
from bench_compare.compose.model import Composition, Missing, Objective
from bench_compare.compose.table.alike import check_alike, surroundings
from bench_compare.compose.table.network import read_network
from bench_compare.compose.table.rows import Table, read_table
from bench_compare.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_compare.compose.against import Measured
    from bench_compare.compose.table.forms import Conversion
    from bench_compare.compose.table.network import Network, Station
    from bench_compare.model import Source


# What was not measured, as command lines that measure it in the way of the documents.

VALUED = (
    *("--timer", "--duty", "--math", "--threads", "--executions", "--init", "--knob"),
    *("--device", "--rounds", "--iters", "--max-time", "--plugin-path", "--hipdnn-prefix"),
)
SWITCHES = ("--replay", "--energy")
"""Flags of the run that a repeat needs as well."""
MOST_NAMES = 4


class Lines:
    """Makes them, each with an output file of its own."""

    def __init__(self, network: Network, sources: Sequence[Source]) -> None:
        self._pipeline = os.path.relpath(network.path)
        if self._pipeline.startswith(".."):
            self._pipeline = str(network.path)
        self._flags = _flags(sources[0].document.run.command)
        self._made = 0

    def layers(self, stations: Iterable[Station], engine: str, cache: str) -> Missing:
        rows = list({s.layer.file or s.layer.op: s for s in stations}.values())
        files = [str(s.layer.file) for s in rows if s.layer.file is not None]
        ops = [word for s in rows if s.layer.op is not None for word in ("--op", s.layer.op)]
        what = f"{_named(s.layer.id for s in rows)} on {engine}"
        whole = [self._pipeline, "--seams"]  # a pass is that of the pipeline
        words = whole if cache == "pass" else [*files, *ops]
        return Missing("layer", what, self._line(words, engine, cache), blocks=True)

    def unnamed(self, stations: Sequence[Station], engine: str, cache: str) -> Missing:
        """Layers of which no document says which graph they are."""
        what = f"which graphs {_named(s.layer.id for s in stations)} are"
        line = self._line([self._pipeline, "--seams"], engine, cache)
        return Missing("layer", what, line, blocks=True)

    def seams(self, count: int, engine: str, cache: str) -> Missing:
        what = f"{count} seam{'' if count == 1 else 's'} on {engine}"
        line = self._line([self._pipeline, "--seams"], engine, cache)
        return Missing("seam", what, line, blocks=False)

    def conversions(
        self, needs: Iterable[Conversion], engine: str, cache: str, blocks: bool
    ) -> Missing:
        specs = list(dict.fromkeys(need.spec for need in needs))
        words = [word for spec in specs for word in ("--op", spec)]
        what = f"{len(specs)} conversion{'' if len(specs) == 1 else 's'} on {engine}"
        state = "hot" if cache == "pass" else cache
        return Missing("conversion", what, self._line(words, engine, state), blocks)

    def cache(self, state: str, engine: str) -> Missing:
        line = self._line([self._pipeline, "--seams"], engine, state)
        return Missing("cache", f"layers and seams with {state} caches on {engine}", line, False)

    def energy(self, engine: str, cache: str, blocks: bool) -> Missing:
        switch = [] if "--energy" in self._flags else ["--energy"]
        line = self._line([self._pipeline, "--seams", *switch], engine, cache)
        return Missing("energy", f"joules on {engine}", line, blocks)

    def _line(self, words: Sequence[str], engine: str, cache: str) -> str:
        self._made += 1
        state = [] if cache == "hot" else ["--cache", cache]
        flags = [*self._flags, *state, "-o", f"missing-{self._made}.json"]
        return shlex.join(["bench-run", *words, "-e", engine, *flags])


def _flags(command: Sequence[str]) -> list[str]:
    found: list[str] = []
    words = iter(command)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in VALUED:
            found += [word] if equals else [word, next(words, "")]
        elif word in SWITCHES:
            found.append(word)
    return found


def _named(ids: Iterable[str]) -> str:
    names = list(ids)
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def by_engine(
    needs: Iterable[tuple[Conversion, str]],
) -> Iterator[tuple[str, list[Conversion]]]:
    found: dict[str, list[Conversion]] = {}
    for need, engine in needs:
        found.setdefault(engine, []).append(need)
    yield from found.items()


def limits_text(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{name} ≤ {bound:g}" for name, bound in limits.items())


@dataclass(frozen=True, eq=False)
class Inputs:
    sources: tuple[Source, ...]
    against: tuple[Source, ...]
    path: Path
    settings: Asked
    engines: tuple[str, ...] = ()
    """Globs; empty for all."""


@dataclass(frozen=True, eq=False)
class Given:
    """What was read, and what follows from it before anything is chosen."""

    inputs: Inputs
    table: Table
    network: Network
    cache: str
    baseline: str
    fixes: Mapping[str, str]
    lines: Lines
    wanted: Mapping[int, frozenset[str]]
    chains: tuple[Measured, ...]
    remarks: tuple[str, ...]


def read_given(inputs: Inputs) -> Given:
    every = (*inputs.sources, *inputs.against)
    wanted = {number: _engines(source, inputs.engines) for number, source in enumerate(every)}
    if not any(wanted[number] for number in range(len(inputs.sources))):
        what = f"no engine fits {', '.join(inputs.engines)}" if inputs.engines else "no cases in it"
        raise InputError(f"{inputs.sources[0].path}: {what}")
    check_alike(every, wanted)
    table = read_table(inputs.sources, wanted, inputs.settings.series)
    network = read_network(inputs.path, table)
    measured = frozenset().union(*(wanted[n] for n in range(len(inputs.sources), len(every))))
    chains, remarks = measured_chains(inputs.against, measured, table.series)
    cache = inputs.settings.cache or main_cache(
        table, network, [one.cache for one in chains], choosing=inputs.settings.choose is not None
    )
    if cache not in table.caches:
        known = ", ".join(table.caches)
        raise UsageError(f"--cache {cache}: no document was measured so; there are {known}")
    if not table.engines:
        raise InputError(f"{inputs.sources[0].path}: no graph was measured alone (--seams does)")
    return Given(
        inputs=inputs,
        table=table,
        network=network,
        cache=cache,
        baseline=inputs.settings.baseline or default_baseline(table, network, cache),
        fixes=fixes_of(network, inputs.settings),
        lines=Lines(network, inputs.sources),
        wanted=wanted,
        chains=tuple(chains),
        remarks=tuple(remarks),
    )


def _engines(source: Source, globs: Sequence[str]) -> frozenset[str]:
    keys = {case.engine for case in source.document.cases}
    if not globs:
        return frozenset(keys)
    return frozenset(
        k for k in keys if any(fnmatchcase(engine_name(k).spec, glob) for glob in globs)
    )


def blocked(given: Given) -> list[Missing]:
    """Layers without a row that the baseline, or anything asked for, could take."""
    engine = given.baseline if given.baseline in given.table.engines else None
    engine = engine or given.table.engines[0]
    unknown = [s for s in given.network.stations if s.fingerprint is None]
    if unknown:
        return [given.lines.unnamed(unknown, engine, given.cache)]
    rows = baseline_rows(given.table, given.network, given.baseline, given.cache)
    lacking = [s for s, row in zip(given.network.stations, rows, strict=True) if row is None]
    return [given.lines.layers(lacking, engine, given.cache)] if lacking else []


def unusable(given: Given) -> Iterator[str]:
    """Layers of which there are rows of the baseline, and why none of them can be taken."""
    for station in given.network.stations:
        rows = rows_of(given.table, station, given.cache)
        if given.baseline in given.table.engines:
            rows = [row for row in rows if row.engine == given.baseline]
        if rows and all(row.problem is not None for row in rows):
            yield f"layer {station.layer.id}: {rows[0].text}: {rows[0].problem}"


def without_answer(
    given: Given, missing: Sequence[Missing], problems: Sequence[str]
) -> Composition:
    settings, sources = given.inputs.settings, given.inputs.sources
    names: dict[str | None, Objective] = {"time": "time", "energy": "energy", "edp": "edp"}
    return Composition(
        pipeline=given.network.pipeline.name,
        path=str(given.network.path),
        about=given.network.pipeline.about,
        series=given.table.series,
        documents=tuple(source.path for source in sources),
        surroundings=surroundings(sources, given.wanted, given.cache),
        baseline_name=given.baseline,
        choose=names.get(settings.choose),
        limits=dict(settings.limits),
        fixed=dict(given.fixes),
        optimal=None,
        method="",
        interval="none",
        baseline=None,
        chosen=None,
        others=(),
        ratios=None,
        layers=(),
        front=(),
        missing=tuple(missing),
        checks=(),
        model=None,
        remarks=given.remarks,
        problems=tuple(problems),
    )


def idle_power_w(sources: Sequence[Source]) -> float | None:
    """The least that a device said before a round."""
    known = [
        one.telemetry_before.power_w
        for source in sources
        for case in source.document.cases
        for one in case.rounds
        if one.telemetry_before is not None and one.telemetry_before.power_w is not None
    ]
    return min(known, default=None)
