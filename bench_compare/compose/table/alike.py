"""Documents of one table share device, settings and libraries: else they are refused.

What a document does not tell (older versions) is not held against it. The cache may differ: its
states are rows of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.document import Settings
from bench_schema.settings import rows_of

from bench_compare.compose.model import Surroundings
from bench_compare.errors import InputError
from bench_compare.rounds.lazy import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_schema.document import Device, Document, Engine

    from bench_compare.model import Source

OWN_ROWS = ("cache", "check_budget_s")
"""Settings that must agree elsewhere: layers have a row for each state of the cache, and what is
checked between the samples is not in them."""
SETTINGS = tuple(
    name for name, row in rows_of(Settings).items() if row.agree == "must" and name not in OWN_ROWS
)
"""Fields of ``run.settings`` that change what a time means."""
ENGINE_FACTS: Mapping[str, Callable[[Engine], object]] = {
    "libraries": lambda e: dict(e.libraries),
    "plugin_sha256": lambda e: e.plugin_sha256,
    "knobs": lambda e: dict(e.knobs),
}
DEVICE_FACTS: Mapping[str, Callable[[Device], object]] = {
    "driver": lambda d: d.driver,
    "power_limit_w": lambda d: d.power_limit_w,
    "max_sm_clock_mhz": lambda d: d.max_sm_clock_mhz,
    "max_memory_clock_mhz": lambda d: d.max_memory_clock_mhz,
}


def check_alike(sources: Sequence[Source], engines: Mapping[int, frozenset[str]]) -> None:
    """Raises `InputError` that names the file and the first field that differs. `engines`: keys of
    those that count, by number of the document."""
    known: dict[str, tuple[object, str]] = {}
    for number, source in enumerate(sources):
        if source.imported:
            raise InputError(f"{source.path}: results of another tool are no table of layers")
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
    """(what must be one, its field in this document, value)."""
    for name in SETTINGS:
        yield name, f"run.settings.{name}", _told(document, name)
    for engine in document.engines:
        if engine.key in wanted:
            yield from _engine_facts(document, engine)
    for number, case in enumerate(document.cases):
        if case.engine in wanted:
            for uuid in {uuid for _, uuid in facts(case.rounds).places}:
                yield "device", f"cases[{number}].rounds.device_uuid", uuid
    yield "environment", "machine.environment", dict(document.machine.environment)


def _told(document: Document, name: str) -> object:
    """What a setting is; None where the document does not tell. Documents that say how their
    workers started say of `threads`, too, that these were not held to a number."""
    settings = document.run.settings
    value: object = getattr(settings, name)
    if name == "threads" and value is None and settings.worker_start is not None:
        return "no limit"
    return value


def _engine_facts(document: Document, engine: Engine) -> Iterator[tuple[str, str, object]]:
    where = f"engines.{engine.key}"
    yield "device kind", f"{where}.device_kind", engine.device_kind
    yield "device", f"{where}.device", engine.device
    if engine.device == "cpu":
        yield "host", "machine.host", document.machine.host
    for name, read in ENGINE_FACTS.items():
        yield f"{name} of {engine.key.split('@')[0]}", f"{where}.{name}", read(engine)
    device = device_of(document, engine)
    if device is not None:
        for name, get in DEVICE_FACTS.items():
            yield name, f"machine.devices.{name}", get(device)


def device_of(document: Document, engine: Engine) -> Device | None:
    """What the engine ran on, where the machine lists it."""
    devices = document.machine.devices
    return next((d for d in devices if engine.device in (d.uuid, str(d.index))), None)


def _text(value: object, other: object) -> str:
    """Of tables only what differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        keys = sorted(k for k in {*value, *other} if value.get(k) != other.get(k))
        return ", ".join(f"{key} {value.get(key, 'not set')}" for key in keys)
    return repr(value) if isinstance(value, bool) else str(value)


def surroundings(
    sources: Sequence[Source], engines: Mapping[int, frozenset[str]], cache: str
) -> Surroundings:
    """What all of them share. At least one document has an engine that counts."""
    used = [
        (s.document, e)
        for number, s in enumerate(sources)
        for e in s.document.engines
        if e.key in engines[number]
    ]
    document, engine = used[0]
    device = device_of(document, engine)
    return Surroundings(
        device_kind=engine.device_kind,
        device=engine.device,
        host=document.machine.host,
        driver=None if device is None else device.driver,
        cache=cache,
        settings={n: v for n in SETTINGS if (v := _setting(document, n)) is not None},
        libraries={
            e.key: ", ".join(f"{name} {version}" for name, version in sorted(e.libraries.items()))
            for _, e in used
        },
    )


def _setting(document: Document, name: str) -> str | None:
    value = getattr(document.run.settings, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, dict)):
        items = value.items() if isinstance(value, dict) else value
        return ", ".join(" ".join(i) if isinstance(i, tuple) else i for i in items) or None
    return None if value is None else str(value)
