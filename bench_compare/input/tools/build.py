"""Measurements of another tool, put together to a document: the part that all readers share."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench_schema.document import (
    COMPLETED,
    SCHEMA_VERSION,
    UNKNOWN_WORK,
    Achieved,
    Case,
    Cpu,
    Device,
    Document,
    EngineRecord,
    GraphId,
    Machine,
    Outcome,
    Round,
    Run,
    Settings,
    Tool,
    Work,
)
from bench_schema.merge import summaries
from bench_schema.settings import rows_of
from bench_schema.summary import summarize

from bench_compare.input.tools.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Samples, Summary

NO_TIME = "1970-01-01T00:00:00+00:00"
LEAST_SAMPLES = 3
"""Fewer values are a summary: a benchmark that was repeated once or twice has no scatter."""


@dataclass(frozen=True)
class Measured:
    """One benchmark of another tool."""

    name: str
    rounds: Mapping[str, Sequence[Samples]] = field(default_factory=dict)
    """Series to the samples of each independent process, in nanoseconds."""
    summary: Mapping[str, Summary] = field(default_factory=dict)
    """Series without samples."""
    engine: str = ""
    """Empty: the name of the tool."""
    device_index: int | None = None
    outcome: Outcome = COMPLETED
    work: Work = UNKNOWN_WORK
    flags: tuple[str, ...] = ()
    """Words of the tool against the measurement: ``noise_timeout``."""
    path: str = ""
    """Separates graphs of one name; empty: the name."""
    meaning: str = ""
    """Identifies what was measured, next to the name: settings that make it other work."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `Case`."""
    engine_facts: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `EngineRecord`."""


@dataclass(frozen=True)
class About:
    """The run and the machine, as far as the tool records them."""

    tool: str
    version: str
    started: str | None = None
    host: str | None = None
    cpu: str | None = None
    os: str | None = None
    python: str | None = None
    devices: tuple[Device, ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    timer: str = UNKNOWN
    cache: str = UNKNOWN
    notes: tuple[str, ...] = ()
    complete: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `Settings`."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `Machine`."""


def series(name: str, rounds: Sequence[Samples], otherwise: Summary | None) -> dict[str, Any]:
    """Return arguments of `Measured` for one series: its samples if they are enough, otherwise the
    summary of the tool or of the samples."""
    taken = [one for one in rounds if one.size]
    count = sum(one.size for one in taken)
    if count >= LEAST_SAMPLES and min(float(one.min()) for one in taken) >= 1:
        return {"rounds": {name: taken}}
    if otherwise is None and count:
        otherwise = summarize(taken, [0] * len(taken))
    return {} if otherwise is None else {"summary": {name: otherwise}}


def both(*found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of several calls of `series` as those of one."""
    kinds = ("rounds", "summary")
    return {kind: {k: v for one in found for k, v in one.get(kind, {}).items()} for kind in kinds}


def document(about: About, measured: Sequence[Measured]) -> Document:
    """Return the document. A name that the tool measured twice gets a number."""
    engines: dict[str, EngineRecord] = {}
    cases = []
    times: Counter[tuple[str, ...]] = Counter()
    for number, found in enumerate(measured, 1):
        key = found.engine or about.tool
        if found.device_index:
            key += f"+device={found.device_index}"
        variant = found.facts.get("variant", {})
        this = (key, found.name, found.path, found.meaning, repr(variant))
        times[this] += 1
        one = found if times[this] == 1 else replace(found, name=f"{found.name} #{times[this]}")
        engines.setdefault(key, _engine(key, one, about))
        cases.append(_case(str(number), key, one, about))
    settings: dict[str, Any] = dict.fromkeys(rows_of(Settings)) | {
        "timer": about.timer,
        "cache": about.cache,
        **dict.fromkeys(("duty", "math", "reference", "tolerance"), UNKNOWN),
        "replay": False,
        **dict.fromkeys(("warmup", "iterations", "seed"), 0),
        "rounds": 1,
        "check_budget_s": 0.0,
        **about.settings,
    }
    run = Run(
        id="",  # that of the file
        label=None,
        tags=about.tags,
        notes=about.notes,
        started=about.started or NO_TIME,
        finished=None,
        complete=about.complete,
        command=(),
        tool=Tool(about.tool, about.version),
        settings=Settings(**settings),
    )
    facts = {
        "host": about.host or UNKNOWN,
        "os": about.os or UNKNOWN,
        "kernel": UNKNOWN,
        "cpu": Cpu(about.cpu, None, None),
        "memory_bytes": None,
        "python": about.python or UNKNOWN,
        "packages": {},
        "devices": about.devices,
        "environment": {},
        "graphs_revision": None,
    }
    machine = Machine(**{**facts, **about.machine})
    return Document(SCHEMA_VERSION, run, machine, tuple(engines.values()), tuple(cases))


def _engine(key: str, one: Measured, about: About) -> EngineRecord:
    """Return the record of an engine: without a device it ran on the processor."""
    index = one.device_index or 0
    device = next((found for found in about.devices if found.index == index), None)
    where = "cpu" if one.device_index is None else UNKNOWN
    facts = {
        "key": key,
        "name": key.split("+device=")[0],
        "id": None,
        "plugin_path": None,
        "plugin_sha256": None,
        "libraries": about.libraries,
        "device": where if device is None else device.uuid or str(index),
        "device_kind": UNKNOWN if device is None else device.name,
        "knobs": {},
        "device_index": None if device is None else index,
    }
    return EngineRecord(**{**facts, **one.engine_facts})


def _case(number: str, engine: str, one: Measured, about: About) -> Case:
    """Return the case, with one round for each process that was measured."""
    count = max((len(found) for found in one.rounds.values()), default=0)
    rounds = tuple(
        Round(
            index=index,
            started=about.started or NO_TIME,
            pid=0,
            position=0,
            series={name: found[index] for name, found in one.rounds.items() if index < len(found)},
        )
        for index in range(count)
    )
    print_ = f"name:{one.name}"
    if one.meaning:
        print_ = hashlib.sha256(f"{one.name} {one.meaning}".encode()).hexdigest()
    graph = GraphId(
        name=one.name,
        path=one.path or one.name,
        sha256="",
        fingerprint=print_,
        family=about.tool,
        data_type=UNKNOWN,
    )
    found = {**one.summary, **summaries(rounds)}
    fields = ("flops", "moved_bytes", "intensity")
    work = replace(one.work, **{k: None for k in fields if not (getattr(one.work, k) or 0) > 0})
    facts = {
        "rounds": rounds,
        "summary": found,
        "work": work,
        "achieved": _achieved(found, work),
        "notes": ("imported", *one.flags),
        **one.facts,
    }
    return Case(id=number, graph=graph, engine=engine, outcome=one.outcome, **facts)


def _achieved(found: Mapping[str, Summary], work: Work) -> Achieved | None:
    name = next(iter(found), None)
    if name is None or not found[name].median > 0 or work == UNKNOWN_WORK:
        return None
    median_ns = found[name].median
    tflops = None if work.flops is None else work.flops / median_ns / 1000  # flops/ns are GFLOP/s
    gbps = None if work.moved_bytes is None else work.moved_bytes / median_ns
    return Achieved(name, tflops, gbps, None)
