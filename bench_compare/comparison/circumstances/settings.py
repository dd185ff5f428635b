"""Settings and facts that both sides should share; one list, and the only place that has it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from bench_schema.document import Settings
from bench_schema.identity import engine_name
from bench_schema.provenance import DEVICE_LIMITS
from bench_schema.settings import rows_of

from bench_compare.comparison.circumstances.facts import facts
from bench_compare.metrics import GATES
from bench_compare.model import SettingDifference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bench_schema.document import Case, Device, Document, EngineRecord
    from bench_schema.settings import Setting

    from bench_compare.model import Side
    from bench_compare.policy import Policy


def _settings(
    agree: str, unknown: str | None = None
) -> dict[str, Callable[[Document], str | None]]:
    """Return, for each setting with this agreement, its word and the function that reads it."""

    def reader(row: Setting) -> Callable[[Document], str | None]:
        def read(document: Document) -> str | None:
            text = row.text(vars(document.run.settings)[row.name])
            return unknown if text is None else text

        return read

    return {row.word: reader(row) for row in rows_of(Settings).values() if row.agree == agree}


def threads(document: Document) -> str | None:
    """Return the number of threads as text, or ``all``; None for old documents, which do not say
    which it was."""
    settings = document.run.settings
    if settings.threads is None and settings.worker_start is not None:
        return "all"
    return None if settings.threads is None else str(settings.threads)


def gated_samples(document: Document) -> str | None:
    """Return the number of samples behind one gate, on which the level of a short kernel depends;
    None if no device time was taken behind a gate."""
    settings = document.run.settings
    timings = (facts(case.rounds).timings for case in document.cases)
    if not settings.rounds or not any("gated events" in one for one in timings):
        return None
    asked = settings.iterations
    return "by time" if asked is None else f"{asked / settings.rounds:g}"


MUST_AGREE: dict[str, Callable[[Document], str | None]] = {
    **_settings("must"),
    "threads": threads,
    "samples behind one gate": gated_samples,
}
"""Readers of the settings that must agree: if one differs, the numbers do not mean the same thing.
Kinds of device (`differences`) and methods of timing (`pairs`) must agree as well. A value of None
(older versions) agrees with everything. Data types are part of a graph's meaning, which `align`
compares."""


def graphs_revision(document: Document) -> str:
    revision = document.machine.graphs_revision
    if revision is None:
        return "unknown"
    return revision.commit[:12] + (" with changes" if revision.dirty else "")


SHOULD_AGREE: dict[str, Callable[[Document], str | None]] = {
    **_settings("should", unknown="unknown"),
    "host": lambda d: d.machine.host,
    "cpu": lambda d: _text(d.machine.cpu.model),
    "os": lambda d: d.machine.os,
    "kernel": lambda d: d.machine.kernel,
    "python": lambda d: d.machine.python,
    "tool": lambda d: f"{d.run.tool.name} {d.run.tool.version}",
    "graphs": graphs_revision,
    "environment": lambda d: _table(d.machine.environment),
}
"""Worth knowing, and often the very thing that is compared."""

ENGINE_FACTS: dict[str, Callable[[EngineRecord], str]] = {
    "libraries": lambda e: _table(e.libraries),
    "plugin": lambda e: _text(e.plugin_path),
    "plugin sha256": lambda e: _text(e.plugin_sha256),
}

KNOB = re.compile(r"\+knob:([^=+@]+)=")
"""A knob in an engine's spec."""
THREADS = "threads"
DEVICE_KIND = "device kind"


def _text(value: object) -> str:
    return "unknown" if value is None else str(value)


def _table(values: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(values.items())) or "none"


def _joined(values: Iterable[str | None]) -> str:
    """Return the distinct values joined by "and"; empty if none is known."""
    return " and ".join(sorted({value for value in values if value is not None}))


def device_times(cases: Iterable[Case]) -> str:
    """Return the methods that timed the cases on the device; empty if none is known."""
    return _joined(how for case in cases for how in facts(case.rounds).timings)


def _engines(side: Side) -> list[EngineRecord]:
    wanted = set(side.engines)
    return [e for source in side.sources for e in source.document.engines if e.key in wanted]


def knobs_compared(base: Side, other: Side) -> frozenset[str]:
    """Return the names of the knobs that the specs of two engines of one run give, and ``threads``
    if one gives it: how they differ is the question (``--a``, ``--b``), and not a reservation.
    Empty if the sides are different runs, or units of hardware."""
    runs = [{source.document.run.id for source in side.sources} for side in (base, other)]
    if other.is_unit or runs[0].isdisjoint(runs[1]):
        return frozenset()
    specs = [engine_name(key) for side in (base, other) for key in side.engines]
    knobs = {knob for one in specs for knob in KNOB.findall(one.spec)}
    return frozenset(knobs | {THREADS} if any(one.threads for one in specs) else knobs)


def differences(base: Side, other: Side) -> list[SettingDifference]:
    """Return the settings in which two sides differ, those that must agree first."""
    found: list[SettingDifference] = []

    def note(name: str, texts: tuple[str, str], must_agree: bool) -> None:
        if texts[0] and texts[1] and texts[0] != texts[1]:
            found.append(SettingDifference(name, *texts, other.label, must_agree))

    documents = [[source.document for source in side.sources] for side in (base, other)]
    for table, must in ((MUST_AGREE, True), (SHOULD_AGREE, False)):
        for name, read in table.items():
            a, b = (_joined(read(document) for document in side) for side in documents)
            note(name, (a, b), must)
    engines = (_engines(base), _engines(other))
    kinds = [_joined(e.device_kind for e in side) for side in engines]
    runs = [{document.run.id for document in side} for side in documents]
    asked = other.is_unit or not runs[0].isdisjoint(runs[1])  # engines of one run
    note(DEVICE_KIND, (kinds[0], kinds[1]), not asked)
    drivers = [
        _joined([_text(device.driver) for d in side for device in d.machine.devices])
        for side in documents
    ]
    note("driver", (drivers[0], drivers[1]), False)
    found += limits(base, other)
    for name, fact in ENGINE_FACTS.items():
        a, b = (_joined(fact(engine) for engine in side) for side in engines)
        note(name, (a, b), False)
    compared = knobs_compared(base, other)
    knobs = [
        _joined(
            _table({name: value for name, value in engine.knobs.items() if name not in compared})
            for engine in side
        )
        for side in engines
    ]
    note("knobs", (knobs[0], knobs[1]), False)
    return sorted(found, key=lambda difference: not difference.must_agree)


def limits(base: Side, other: Side) -> list[SettingDifference]:
    """Return limits of the devices of one kind that the two sides do not share."""
    devices = [_devices(side) for side in (base, other)]
    found = []
    for kind in devices[0].keys() & devices[1].keys():
        for field, (name, unit) in DEVICE_LIMITS.items():
            values = ([getattr(d, field) for d in side[kind]] for side in devices)
            a, b = (_joined(None if v is None else f"{v:g} {unit}" for v in vs) for vs in values)
            if a and b and a != b:
                found.append(SettingDifference(name, a, b, other.label, must_agree=True))
    return found


def _devices(side: Side) -> dict[str, list[Device]]:
    """Return devices that a side's engines ran on, by kind."""
    found: dict[str, list[Device]] = {}
    for source in side.sources:
        document = source.document
        used = {e.device for e in document.engines if e.key in side.engines}
        for device in document.machine.devices:
            if device.uuid is None or device.uuid in used:
                found.setdefault(device.name, []).append(device)
    return found


def stopping_warnings(sides: Iterable[Side], policy: Policy) -> list[str]:
    """Return sentences on documents whose rounds ended when they were decided by another
    threshold."""
    here = policy.threshold(GATES[0])
    found = []
    for source in (source for side in sides for source in side.sources):
        asked = source.document.run.settings.threshold_ratio
        if asked is not None and not math.isclose(asked, here):
            found.append(
                f"{source.path}: its rounds ended when cases were decided by a threshold of "
                f"{100 * asked:.3g} %; here it is {100 * here:.3g} % (--threshold)"
            )
    return found


def mixed(side: Side) -> list[str]:
    """Return sentences on settings that the documents of one side do not share, though they
    must."""
    sentences = []
    for name, read in MUST_AGREE.items():
        values = {read(source.document) for source in side.sources} - {None}
        if len(values) > 1:
            sentences.append(f"{side.label}: its documents mix {name} {_joined(values)}")
    return sentences
