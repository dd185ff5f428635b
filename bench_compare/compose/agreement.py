"""One device and one way of measuring: what documents must share before their times are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.provenance import Settings
from bench_schema.settings import rows_of

from bench_compare.compose.model import Surroundings
from bench_compare.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from bench_schema.document import Document

    from bench_compare.model import Source

NOT_SET = "not set"
FREE = ("cache", "rounds", "threads")
"""Settings that the table below leaves to others."""


def facts(document: Document, engines: Collection[str]) -> Iterator[tuple[str, str, str | None]]:
    """Yield what must agree: its name among all documents, the field, and the value as text; None
    where the document does not tell it."""
    for engine in document.engines:
        if engine.key in engines:
            where = f"engines.{engine.key}"
            yield "device", f"{where}.device", engine.device
            yield "device_kind", f"{where}.device_kind", engine.device_kind
            yield f"{where}.plugin", f"{where}.plugin_sha256", engine.plugin_sha256
    machine, settings = document.machine, document.run.settings
    yield "host", "machine.host", machine.host
    for row in rows_of(Settings).values():
        if row.agree == "must" and row.name not in FREE:
            value = row.text(vars(settings)[row.name])
            yield row.name, f"run.settings.{row.name}", value
    limit = None if settings.threads is None else str(settings.threads)
    if limit is None and settings.worker_start is not None:
        limit = "no limit"
    yield "threads", "run.settings.threads", limit
    for place, case in enumerate(document.cases):
        for one in case.rounds if case.engine in engines else ():
            yield "unit", f"cases[{place}].rounds.device_uuid", one.device_uuid
            yield "host", f"cases[{place}].rounds.host", one.host


def tables(document: Document, engines: Collection[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield tables of texts that must be equal, with their fields."""
    yield "machine.environment", document.machine.environment
    for engine in document.engines:
        if engine.key in engines:
            yield f"engines.{engine.key}.libraries", engine.libraries
            yield f"engines.{engine.key}.knobs", engine.knobs


def refuse_unlike(sources: Sequence[Source], engines: Mapping[str, Collection[str]]) -> None:
    """Raise `InputError`, which names file and field, if two documents differ. `engines`: keys that
    count, by path."""
    seen: dict[str, tuple[str, str]] = {}
    told: dict[str, tuple[Mapping[str, str], str]] = {}
    for source in sources:
        document, own = source.document, engines[source.path]
        for name, field, value in facts(document, own):
            if value is None:
                continue
            first, where = seen.setdefault(name, (value, source.path))
            if value != first:
                raise InputError(f"{source.path}: {field}: {value}, but {where} has {first}")
        for field, table in tables(document, own):
            before, where = told.setdefault(field, (table, source.path))
            for key in sorted({*before, *table}):
                one, two = before.get(key, NOT_SET), table.get(key, NOT_SET)
                if one != two:
                    here = f"{source.path}: {field}: {key} {two}"
                    raise InputError(f"{here}, but {where} has {key} {one}")


def surroundings(
    sources: Sequence[Source], engines: Mapping[str, Collection[str]], cache: str
) -> Surroundings:
    """Return what the documents share."""
    document = sources[0].document
    used = [e for s in sources for e in s.document.engines if e.key in engines[s.path]]
    device = used[0].device
    drivers = [one.driver for one in document.machine.devices if one.uuid in (None, device)]
    return Surroundings(
        device_kind=used[0].device_kind,
        device=device,
        host=document.machine.host,
        driver=drivers[0] if drivers else None,
        cache=cache,
        settings={
            name: value
            for name, field, value in facts(document, ())
            if field.startswith("run.settings.") and value is not None
        },
        libraries={
            e.key: ", ".join(f"{k} {v}" for k, v in sorted(e.libraries.items())) for e in used
        },
    )
