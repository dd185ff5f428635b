"""``--group-by unit``: each unit of hardware, a host and its device, is a side.

Two units of one kind run the same plan up to 18 % apart. What a document holds of several units,
by rounds or by engines with a device of their own, is taken apart; the engine's name then stands
for the same engine on each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from bench_schema.merge import summaries

from bench_compare.errors import InputError
from bench_compare.model import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.document import Case, Document

    from bench_compare.model import Source

Unit = tuple[str, str]
"""Host and device."""
Identity = tuple[str, str, tuple[tuple[str, str], ...]]
"""What a case is on every unit: meaning, engine, variant."""

OWN_DEVICE = re.compile(r"\+device=\d+")
NO_OVERLAP = (
    "no case ran on each of the {} units ({}): measure the same graphs on each, with "
    "bench-run --device all or with a run on each host"
)


def sides_by_unit(sources: Sequence[Source]) -> list[Side]:
    """A side for each unit, with the cases that all units have. Raises `InputError` where they
    share none, or where there is one unit."""
    parts: dict[Unit, list[Source]] = defaultdict(list)
    for source in sources:
        for unit, document in split_document(source.document).items():
            parts[unit].append(replace(source, document=document))
    names = unit_names(parts)
    if len(parts) < 2:
        raise InputError(f"everything ran on one unit, {next(iter(names.values()), 'unknown')}")
    shared = set.intersection(*(_identities(part) for part in parts.values()))
    if not shared:
        raise InputError(NO_OVERLAP.format(len(parts), ", ".join(names.values())))
    return [_side(names[unit], part, shared) for unit, part in parts.items()]


def unit_names(units: Iterable[Unit]) -> dict[Unit, str]:
    """Host and device; just one of them where the other is the same for all."""
    listed = list(units)
    hosts = len({host for host, _ in listed}) > 1
    devices = len({device for _, device in listed}) > 1 or not hosts
    return {
        unit: " ".join(part for part, told in zip(unit, (hosts, devices), strict=True) if told)
        for unit in listed
    }


def split_document(document: Document) -> dict[Unit, Document]:
    """A document for each unit, with the rounds that were measured there."""
    devices = {engine.key: engine.device for engine in document.engines}
    cases: dict[Unit, list[Case]] = defaultdict(list)
    for case in document.cases:
        for unit, part in _split_case(case, document.machine.host, devices[case.engine]):
            cases[unit].append(replace(part, engine=OWN_DEVICE.sub("", part.engine)))
    return {unit: _document(document, unit, found) for unit, found in cases.items()}


def _split_case(case: Case, host: str, device: str) -> Iterator[tuple[Unit, Case]]:
    """What a round does not say is what the document says."""
    of_round = [(each.host or host, each.device_uuid or device) for each in case.rounds]
    units = dict.fromkeys(of_round or [(host, device)])
    for unit in units:
        mine = [number for number, where in enumerate(of_round) if where == unit]
        if len(mine) == len(of_round):
            yield unit, case
            continue
        init = {
            name: values[mine] if len(values) == len(of_round) else values
            for name, values in case.init.items()
        }
        rounds = tuple(case.rounds[number] for number in mine)
        yield unit, replace(case, rounds=rounds, init=init, summary=summaries(rounds))


def _document(document: Document, unit: Unit, cases: Sequence[Case]) -> Document:
    """With the engines that ran on the unit, called the same on each."""
    used = {case.engine for case in cases}
    engines = {}
    for engine in document.engines:
        key = OWN_DEVICE.sub("", engine.key)
        if key in used and (key not in engines or engine.device == unit[1]):
            engines[key] = replace(engine, key=key, device=unit[1])
    machine = replace(document.machine, host=unit[0])
    return replace(
        document, machine=machine, engines=tuple(engines.values()), cases=tuple(cases), parts=()
    )


def _identity(case: Case) -> Identity:
    return case.graph.fingerprint, case.engine, tuple(sorted(case.variant.items()))


def _identities(sources: Iterable[Source]) -> set[Identity]:
    return {_identity(case) for source in sources for case in source.document.cases}


def _side(name: str, sources: Sequence[Source], shared: set[Identity]) -> Side:
    kept = []
    for source in sources:
        cases = tuple(case for case in source.document.cases if _identity(case) in shared)
        if cases:
            kept.append(replace(source, document=replace(source.document, cases=cases)))
    keys = (engine.key for source in kept for engine in source.document.engines)
    return Side(name, tuple(kept), tuple(dict.fromkeys(keys)), is_unit=True)
