"""Inputs of a composition, and facts that follow before anything is chosen."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench_schema.document import Settings
from bench_schema.identity import engine_name
from bench_schema.merge import find_device
from bench_schema.provenance import DEVICE_LIMITS
from bench_schema.settings import rows_of as setting_rows

from bench_compare.comparison.circumstances.facts import facts
from bench_compare.compose.against import measured_chains
from bench_compare.compose.model import Composition, Missing, Objective, TableSurroundings
from bench_compare.compose.network import read_network
from bench_compare.compose.rows import LayerTable, read_table
from bench_compare.compose.select import (
    ComposeSettings,
    baseline_rows,
    default_baseline,
    fixes_of,
    main_cache,
    rows_of,
)
from bench_compare.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_schema.document import Document, EngineRecord

    from bench_compare.compose.against import MeasuredChain
    from bench_compare.compose.forms import FormConversion
    from bench_compare.compose.network import Network, Station
    from bench_compare.model import Source


# Documents of one table share device, settings and libraries: else they are refused.
#
# What a document does not tell (older versions) is not held against it. The cache may differ: its
# states are rows of their own.

OWN_ROWS = ("cache", "check_budget_s")
"""Settings that must agree elsewhere: layers have a row for each state of the cache, and what is
checked between the samples is not in them."""
SETTINGS = tuple(
    name
    for name, row in setting_rows(Settings).items()
    if row.agree == "must" and name not in OWN_ROWS
)
"""Fields of ``run.settings`` that change what a time means."""
ENGINE_FACTS: Mapping[str, Callable[[EngineRecord], object]] = {
    "libraries": lambda e: dict(e.libraries),
    "plugin_sha256": lambda e: e.plugin_sha256,
    "knobs": lambda e: dict(e.knobs),
}


def check_alike(sources: Sequence[Source], engines: Mapping[int, frozenset[str]]) -> None:
    """Raise `InputError` that names the file and the first field that differs. `engines`: keys of
    those that count, by number of the document."""
    known: dict[str, tuple[object, str]] = {}
    for number, source in enumerate(sources):
        if source.imported:
            raise InputError(f"{source.path}: results of another tool are not a table of layers")
        for name, field, value in _facts(source.document, engines[number]):
            if value is None:
                continue
            first = known.setdefault(name, (value, source.path))
            if first[0] != value:
                here, there = _text(value, first[0]), _text(first[0], value)
                if first[1] == source.path:
                    raise InputError(f"{source.path}: {field}: {here}, and also {there}")
                raise InputError(f"{source.path}: {field}: {here}, but {first[1]} has {there}")


def _facts(document: Document, wanted: frozenset[str]) -> Iterator[tuple[str, str, object]]:
    """Yield (name of a property that must agree, its field in this document, value)."""
    settings = document.run.settings
    for name in SETTINGS:
        value: object = vars(settings)[name]
        # Documents that say how their workers started say, too, that these had no limit.
        if name == "threads" and value is None and settings.worker_start is not None:
            value = "no limit"
        yield name, f"run.settings.{name}", value
    for engine in document.engines:
        if engine.key in wanted:
            yield from _engine_facts(document, engine)
    for number, case in enumerate(document.cases):
        if case.engine in wanted:
            for uuid in {uuid for _, uuid in facts(case.rounds).places}:
                yield "device", f"cases[{number}].rounds.device_uuid", uuid
    yield "environment", "machine.environment", dict(document.machine.environment)


def _engine_facts(document: Document, engine: EngineRecord) -> Iterator[tuple[str, str, object]]:
    where = f"engines.{engine.key}"
    yield "device kind", f"{where}.device_kind", engine.device_kind
    yield "device", f"{where}.device", engine.device
    if engine.device == "cpu":
        yield "host", "machine.host", document.machine.host
    for name, read in ENGINE_FACTS.items():
        yield f"{name} of {engine.key.split('@')[0]}", f"{where}.{name}", read(engine)
    device = find_device(document.machine, engine.device)
    if device is not None:
        for name in ("driver", *DEVICE_LIMITS):
            yield name, f"machine.devices.{name}", getattr(device, name)


def _text(value: object, other: object) -> str:
    """Return the value as text; for tables, only the differing entries."""
    if isinstance(value, dict) and isinstance(other, dict):
        keys = sorted(k for k in {*value, *other} if value.get(k) != other.get(k))
        return ", ".join(f"{key} {value.get(key, 'not set')}" for key in keys)
    return repr(value) if isinstance(value, bool) else str(value)


def surroundings(
    sources: Sequence[Source], engines: Mapping[int, frozenset[str]], cache: str
) -> TableSurroundings:
    """Return the properties that all documents share. At least one document has an engine that
    counts."""
    used = [
        (s.document, e)
        for number, s in enumerate(sources)
        for e in s.document.engines
        if e.key in engines[number]
    ]
    document, engine = used[0]
    device = find_device(document.machine, engine.device)
    settings: dict[str, str] = {}
    for name in SETTINGS:
        value: object = vars(document.run.settings)[name]
        if isinstance(value, bool):
            value = "yes" if value else "no"
        elif isinstance(value, (tuple, dict)):
            items = value.items() if isinstance(value, dict) else value
            value = ", ".join(" ".join(i) if isinstance(i, tuple) else i for i in items) or None
        if value is not None:
            settings[name] = str(value)
    return TableSurroundings(
        device_kind=engine.device_kind,
        device=engine.device,
        host=document.machine.host,
        driver=None if device is None else device.driver,
        cache=cache,
        settings=settings,
        libraries={
            e.key: ", ".join(f"{name} {version}" for name, version in sorted(e.libraries.items()))
            for _, e in used
        },
    )


VALUED = (
    *("--timer", "--duty", "--math", "--threads", "--executions", "--init", "--knob"),
    *("--device", "--rounds", "--iters", "--max-time", "--plugin-path", "--hipdnn-prefix"),
)
KERNEL = "kernel"
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
        keys = {case.engine for source in sources for case in source.document.cases}
        named = ((engine_name(key), key) for key in sorted(keys))
        self._kernels = {name.spec: key for name, key in named if name.family == KERNEL}
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
        """Return the missing knowledge of which graphs these layers are, with the command line that
        finds it."""
        what = f"which graphs {_named(s.layer.id for s in stations)} are"
        line = self._line([self._pipeline, "--seams"], engine, cache)
        return Missing("layer", what, line, blocks=True)

    def seams(self, count: int, engine: str, cache: str) -> Missing:
        what = f"{count} seam{'' if count == 1 else 's'} on {engine}"
        line = self._line([self._pipeline, "--seams"], engine, cache)
        return Missing("seam", what, line, blocks=False)

    def conversions(
        self, needs: Iterable[FormConversion], engine: str, cache: str, blocks: bool
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
        spec = self._kernels.get(engine, engine)  # a kernel is its file
        return shlex.join(["bench-run", *words, "-e", spec, *flags])


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
    needs: Iterable[tuple[FormConversion, str]],
) -> Iterator[tuple[str, list[FormConversion]]]:
    found: dict[str, list[FormConversion]] = {}
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
    settings: ComposeSettings
    engines: tuple[str, ...] = ()
    """Globs; empty for all."""


@dataclass(frozen=True, eq=False)
class Given:
    """Inputs of a composition, and facts that follow before anything is chosen."""

    inputs: Inputs
    table: LayerTable
    network: Network
    cache: str
    baseline: str
    fixes: Mapping[str, str]
    lines: Lines
    wanted: Mapping[int, frozenset[str]]
    chains: tuple[MeasuredChain, ...]
    remarks: tuple[str, ...]


def read_given(inputs: Inputs) -> Given:
    every = (*inputs.sources, *inputs.against)
    wanted: dict[int, frozenset[str]] = {}
    for number, source in enumerate(every):
        keys = {case.engine for case in source.document.cases}
        fitting = (
            key
            for key in keys
            if any(fnmatchcase(engine_name(key).spec, glob) for glob in inputs.engines)
        )
        wanted[number] = frozenset(fitting if inputs.engines else keys)
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


def blocked(given: Given) -> list[Missing]:
    """Return the layers without a row that the baseline, or any request, could take."""
    engine = given.baseline if given.baseline in given.table.engines else None
    engine = engine or given.table.engines[0]
    unknown = [s for s in given.network.stations if s.fingerprint is None]
    if unknown:
        return [given.lines.unnamed(unknown, engine, given.cache)]
    rows = baseline_rows(given.table, given.network, given.baseline, given.cache)
    lacking = [s for s, row in zip(given.network.stations, rows, strict=True) if row is None]
    return [given.lines.layers(lacking, engine, given.cache)] if lacking else []


def unusable(given: Given) -> Iterator[str]:
    """Yield a sentence for each layer that has rows of the baseline of which none can be taken,
    with the reason."""
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
    names: dict[str | None, Objective] = {"time": "time", "energy": "energy"}
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
        missing=tuple(missing),
        checks=(),
        remarks=given.remarks,
        problems=tuple(problems),
    )


def idle_power_w(sources: Sequence[Source]) -> float | None:
    """Return the least power that a device reported before a round; None if it is unknown."""
    known = [
        one.telemetry_before.power_w
        for source in sources
        for case in source.document.cases
        for one in case.rounds
        if one.telemetry_before is not None and one.telemetry_before.power_w is not None
    ]
    return min(known, default=None)
