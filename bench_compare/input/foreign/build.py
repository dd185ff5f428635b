"""Measurements of another tool, put together to a document: the part that all readers share."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from bench_schema.document import (
    COMPLETED,
    UNKNOWN_WORK,
    Case,
    Cpu,
    Device,
    EngineRecord,
    GraphId,
    Machine,
    Outcome,
    Round,
    Tool,
    Work,
)
from bench_schema.merge import summaries
from bench_schema.summary import summarize

import bench_compare.input.foreign.parts as parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_schema.document import Document, Samples, Summary

NO_TIME = "1970-01-01T00:00:00+00:00"
NS_PER: Mapping[str, float] = {
    "ns": 1.0,
    "us": 1e3,
    "ms": 1e6,
    "s": 1e9,
    "second": 1e9,
    "seconds": 1e9,
}
"""Nanoseconds of a unit of time."""
FRACTIONS_BELOW_NS = 1000
"""Shorter times keep fractions of a nanosecond, which are more than 0.1 % of them."""
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
    timer: str = parts.UNKNOWN
    cache: str | None = None
    notes: tuple[str, ...] = ()


def samples(values: Iterable[Any], unit: str) -> Samples:
    """Convert times in a unit of `NS_PER` to nanoseconds, without values that are not finite
    numbers. Values from `FRACTIONS_BELOW_NS` on become whole numbers."""
    numbers = [found for one in values if (found := parts.number(one)) is not None]
    times = np.array(numbers, np.float64) * NS_PER[unit]
    short = times.size and np.median(times) < FRACTIONS_BELOW_NS
    result: Samples = cast("Samples", times) if short else np.rint(times).astype(np.int64)
    return result


def summary(stats: Mapping[str, Any], unit: str) -> Summary | None:
    """Read statistics with keys like ``median``, ``std``, ``n`` in a unit of `NS_PER`; None without
    a centre."""
    scale = NS_PER[unit] / parts.NS_PER_MS
    scaled = {
        f"{name}_ms": value * scale
        for name, one in stats.items()
        if name != "n" and (value := parts.number(one)) is not None
    }
    return parts.summary({**scaled, "n": stats.get("n")})


def series(name: str, rounds: Sequence[Samples], otherwise: Summary | None) -> dict[str, Any]:
    """Return arguments of `Measured` for one series: its samples if they are enough, otherwise the
    summary of the tool or of the samples."""
    count = sum(one.size for one in rounds)
    if count >= LEAST_SAMPLES and min(float(one.min()) for one in rounds if one.size) >= 1:
        return {"rounds": {name: [one for one in rounds if one.size]}}
    if otherwise is None and count:
        otherwise = summarize(list(rounds), [0] * len(rounds))
    return {} if otherwise is None else {"summary": {name: otherwise}}


def document(about: About, measured: Sequence[Measured], tree: Any) -> Document:
    """Return the document. A name that the tool measured twice gets a number."""
    host = about.host or parts.UNKNOWN
    engines: dict[str, EngineRecord] = {}
    cases = []
    times: Counter[tuple[str, str]] = Counter()
    for number, found in enumerate(measured, 1):
        key = found.engine or about.tool
        if found.device_index:
            key += f"+device={found.device_index}"
        times[key, found.name] += 1
        count = times[key, found.name]
        one = found if count == 1 else replace(found, name=f"{found.name} #{count}")
        if key not in engines:
            engines[key] = _engine(key, one.device_index, about)
        cases.append(_case(str(number), key, one, about))
    identity = hashlib.sha256(repr(tree).encode()).hexdigest()
    tool = Tool(about.tool, about.version)
    settings = parts.settings({"cache_mode": about.cache}, about.timer)
    run = parts.run(
        identity,
        about.started,
        settings,
        complete=True,
        tool=tool,
        tags=about.tags,
        notes=about.notes,
    )
    machine = Machine(
        host=host,
        os=about.os or parts.UNKNOWN,
        kernel=parts.UNKNOWN,
        cpu=Cpu(about.cpu, None, None),
        memory_bytes=None,
        python=about.python or parts.UNKNOWN,
        packages={},
        devices=about.devices,
        environment={},
        graphs_revision=None,
    )
    return parts.document(run, machine, engines, cases)


def _engine(key: str, device_index: int | None, about: About) -> EngineRecord:
    """Return the record of an engine: without a device it ran on the processor."""
    index = device_index or 0
    device = next((one for one in about.devices if one.index == index), None)
    return EngineRecord(
        key=key,
        name=key.split("+")[0],
        id=None,
        plugin_path=None,
        plugin_sha256=None,
        libraries=about.libraries,
        device="cpu" if device is None else device.uuid or str(index),
        device_kind=parts.UNKNOWN if device is None else device.name,
        knobs={},
        device_index=None if device is None else index,
    )


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
    graph = GraphId(
        name=one.name,
        path=one.name,
        sha256="",
        fingerprint=f"name:{one.name}",
        family=about.tool,
        data_type=parts.UNKNOWN,
    )
    return Case(
        id=number,
        graph=graph,
        engine=engine,
        outcome=one.outcome,
        rounds=rounds,
        summary={**one.summary, **summaries(rounds)},
        work=one.work,
        notes=("imported", *one.flags),
    )
