"""Content of the index for a document: levels and outcomes of its cases, facts of its origin."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from bench_schema.document import Settings
from bench_schema.estimate import round_logs
from bench_schema.identity import engine_name, engine_names, is_tuned, without_device
from bench_schema.provenance import DEVICE_LIMITS
from bench_schema.settings import rows_of

from bench_compare.comparison.circumstances.facts import facts
from bench_compare.comparison.circumstances.settings import (
    ENGINE_FACTS,
    MUST_AGREE,
    SHOULD_AGREE,
    device_times,
)
from bench_compare.comparison.measure import inside, stated
from bench_compare.comparison.outcomes import checked, complaint, wrong
from bench_compare.metrics import METRICS, PerRound, Sampled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_schema.document import Case, Device, Document, EngineRecord


LEAST_WINDOW_S = 0.2
"""Over less, the kernel's hundredths of a second tell nothing."""
LEFT_OUT = frozenset({"environment", "libraries", "knobs", "plugin"})
"""Facts that are tables themselves, which are reported entry by entry."""


SERIES_SETTINGS = tuple(name for name, row in rows_of(Settings).items() if row.separates_series)
"""Settings with a series of its own for each of their values."""


class SeriesKey(NamedTuple):
    """Levels with the same key may be held against each other."""

    fingerprint: str
    engine: str
    """Engine name of the user, without circumstances such as device and plugin path."""
    variant: str
    """JSON; empty if a tuning chose it."""
    device_kind: str
    settings: tuple[str, ...]
    """Values of `SERIES_SETTINGS`."""
    twin: str
    """Name of the graph, where a document holds its meaning more than once; otherwise empty."""


class LevelRow(NamedTuple):
    """The time of a case, or another metric."""

    metric: str
    log_mean: float
    variance: float
    """Variance of the mean, as its rounds or its file state it; 0 if they do not."""


@dataclass(frozen=True)
class CaseRow:
    key: SeriesKey
    name: str
    family: str
    path: str
    """Path of the graph in the run."""
    status: str
    """The outcome's; ``wrong`` where it completed with outputs, or a time, that cannot be right."""
    reason: str | None
    plan: dict[str, str]
    kernels: str | None
    """Hash of the names and counts of its kernels."""
    unit: str
    """Host and device that it ran on."""
    checked: bool
    """True if its outputs were compared with a reference."""
    levels: tuple[LevelRow, ...]


@dataclass(frozen=True)
class Digest:
    run_id: str
    label: str | None
    started: str
    """ISO 8601."""
    complete: bool
    parts: tuple[str, ...]
    """Identifiers of the runs that were merged into it."""
    tags: dict[str, str]
    graphs_commit: str | None
    command: tuple[str, ...]
    facts: dict[str, str]
    cases: tuple[CaseRow, ...]


def digest(document: Document) -> Digest:
    run, revision = document.run, document.machine.graphs_revision
    engines = {engine.key: engine for engine in document.engines}
    # Keys to the user's engine names; levels on several devices are separated by
    # their unit.
    shared = {engine.key: without_device(engine.key) for engine in document.engines}
    called = engine_names(shared.values())
    names = {key: called[name] for key, name in shared.items()}
    rows = [
        _case(document, case, engines[case.engine], names[case.engine]) for case in document.cases
    ]
    times = Counter((row.key, row.unit) for row in rows)
    cases = tuple(
        replace(row, key=row.key._replace(twin=f"{row.name} {row.path}"))
        if times[row.key, row.unit] > 1
        else row
        for row in rows
    )
    return Digest(
        run_id=run.id,
        label=run.label,
        started=run.started,
        complete=run.complete,
        parts=tuple(sorted({part.run.id for part in document.parts} - {run.id})),
        tags=dict(run.tags),
        graphs_commit=None if revision is None else revision.commit,
        command=tuple(run.command),
        facts=dict(_facts(document)),
        cases=cases,
    )


def _case(document: Document, case: Case, engine: EngineRecord, name: str) -> CaseRow:
    """`name`: what the user calls the engine."""
    variant = json.dumps({} if is_tuned(case) else dict(case.variant), sort_keys=True)
    settings = vars(document.run.settings)
    how = tuple(settings[setting] for setting in SERIES_SETTINGS)
    status = case.outcome.status
    bad = status == "completed" and wrong(case)
    reason = complaint((case,)) if bad else case.outcome.reason
    kernels = json.dumps([(kernel.name, kernel.count) for kernel in case.kernels])
    # As the rounds say, else as the machine and the engine do.
    places = facts(case.rounds).places
    hosts = {where for where, _ in places if where is not None}
    devices = {device for _, device in places if device is not None}
    where = hosts.pop() if len(hosts) == 1 else document.machine.host
    return CaseRow(
        key=SeriesKey(case.graph.fingerprint, name, variant, engine.device_kind, how, ""),
        name=case.graph.name,
        family=case.graph.family,
        path=case.graph.path,
        status="wrong" if bad else status,
        reason=reason,
        plan=dict(case.plan),
        kernels=hashlib.sha256(kernels.encode()).hexdigest()[:16] if case.kernels else None,
        unit=f"{where} {devices.pop() if len(devices) == 1 else engine.device}",
        checked=checked(case),
        levels=tuple(_levels(case)) if status == "completed" and not bad else (),
    )


def _levels(case: Case) -> Iterator[LevelRow]:
    """Yield a row for each metric of samples, of rounds or of a summary that the case has."""
    for name, metric in METRICS.items():
        if isinstance(metric.reading, Sampled):
            logs = list(round_logs(case, metric.reading.series).values())
        elif isinstance(metric.reading, PerRound):
            least = metric.reading.least
            values = (max(float(value), least) for value in metric.reading.read(case))
            logs = [math.log(value) for value in values if value > 0]
        else:
            continue
        variance, summary = math.nan, case.summary.get(name)
        if len(logs) > 1:
            variance = float(np.var(logs, ddof=1)) / len(logs)
        elif logs and isinstance(metric.reading, Sampled):
            samples = (one.series.get(metric.reading.series) for one in case.rounds)
            variance, _ = inside(next(one for one in samples if one is not None))
        elif not logs and summary is not None and summary.median > 0:
            logs, (variance, _, _) = [math.log(summary.median)], stated(summary)
        if logs:
            known = variance if math.isfinite(variance) else 0.0
            yield LevelRow(name, float(np.mean(logs)), known)


def _facts(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the name and text of everything that may explain a change."""
    for name, read in (*MUST_AGREE.items(), *SHOULD_AGREE.items()):
        text = read(document)
        if text and name not in LEFT_OUT:
            yield name, text
    if times := device_times(document.cases):
        yield "device times", times
    machine = document.machine
    # Of the host's processor time while rounds were measured, that of others' processes.
    every = [one.surroundings for case in document.cases for one in case.rounds]
    watched = [(one.others_cpu_s, one.window_s) for one in every if one is not None]
    pairs = [(others, window) for others, window in watched if None not in (others, window)]
    window_s = sum(window or 0.0 for _, window in pairs)
    if window_s >= LEAST_WINDOW_S:
        share = sum(others or 0.0 for others, _ in pairs) / window_s / (machine.cpu.threads or 1)
        yield "other processes", f"{100 * share:.0f} % of the processors"
    yield from ((f"environment {key}", value) for key, value in machine.environment.items())
    yield from ((f"package {key}", value) for key, value in machine.packages.items())
    for device in machine.devices:
        yield from _device_facts(device)
    for engine in document.engines:
        called = engine_name(engine.key).spec
        yield from ((f"{called} library {key}", value) for key, value in engine.libraries.items())
        yield from ((f"{called} knob {key}", value) for key, value in engine.knobs.items())
        plugin = ENGINE_FACTS["plugin sha256"](engine)
        if plugin != "unknown":
            yield f"{called} plugin sha256", plugin


def _device_facts(device: Device) -> Iterator[tuple[str, str]]:
    where = f"device {device.index}"
    if device.uuid is not None:
        yield f"{where} unit", device.uuid
    if device.driver is not None:
        yield "driver", device.driver
    for field, (name, unit) in DEVICE_LIMITS.items():
        value = getattr(device, field)
        if value is not None:
            yield f"{where} {name}", f"{value:g} {unit}"
    if device.ceiling_gbps is not None:
        yield f"{where} copy ceiling", f"{device.ceiling_gbps:.4g} GB/s"
    for name, rate in device.ceiling_tflops.items():
        yield f"{where} {name} ceiling", f"{rate:.4g} TFLOP/s"
