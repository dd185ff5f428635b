"""Grouping of documents: repeats of one configuration are one side."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.identity import REPEATS, CaseKey, case_key, without_device

from bench_compare.errors import InputError, UsageError
from bench_compare.model import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench_schema.document import Case, Document

    from bench_compare.model import Source


GROUPINGS = ("label", "tag:KEY", "engine", "unit", "machine", "file")


@dataclass(frozen=True)
class Grouping:
    """Rule that makes sides of documents; ``labels`` rename them in order, ``base`` picks the
    first."""

    by: str | None = None
    """None: two documents are the two sides, more are grouped by label."""
    labels: tuple[str, ...] = ()
    base: str | None = None


def group(sources: Sequence[Source], grouping: Grouping) -> tuple[Side, list[Side]]:
    """Return base and the others, in the order of the documents.

    Raises `UsageError` for an unknown grouping and `InputError` if there is only one side.
    """
    by = "label" if grouping.by is None else grouping.by
    if by.split(":")[0] not in {name.split(":")[0] for name in GROUPINGS} or by == "tag":
        raise UsageError(f"--group-by: no grouping {by!r}; choose from {', '.join(GROUPINGS)}")
    if grouping.by is None and len(sources) == 2:
        named = {source.document.run.label for source in sources} - {None}
        sides = [
            _side((len(named) == 2 and source.document.run.label) or source.path, [source])
            for source in sources
        ]
        _refuse_on_two(sides)
    elif by == "unit":
        refuse_twice(sources)
        sides = sides_by_unit(sources)
    elif by == "engine":
        keys = dict.fromkeys(e.key for source in sources for e in source.document.engines)
        sides = [
            _side(key, [s for s in sources if key in {e.key for e in s.document.engines}], (key,))
            for key in keys
        ]
    else:
        sides = _by_name(sources, by)
    sides = _renamed(sides, grouping.labels)
    if not sides:
        raise InputError("no documents to compare")
    labels = [side.label for side in sides]
    if grouping.base not in (None, *labels):
        known = ", ".join(labels)
        raise UsageError(f"--base: no side {grouping.base!r}; choose from {known}")
    first = sides[0 if grouping.base is None else labels.index(grouping.base)]
    others = [side for side in sides if side is not first]
    if not others:
        raise InputError(_alone(first, by))
    return first, others


def pair(a: Sequence[Source], b: Sequence[Source], labels: tuple[str, ...]) -> tuple[Side, Side]:
    """Return the two sides of ``--a`` and ``--b``."""
    labels_of = [{source.document.run.label for source in side} for side in (a, b)]
    names = [found.pop() if len(found) == 1 else None for found in labels_of]
    if None in names or names[0] == names[1]:
        names = ["a", "b"]
    sides = [_side(str(name), side) for name, side in zip(names, (a, b), strict=True)]
    _refuse_on_two(sides)
    first, second = _renamed(sides, labels)
    return first, second


def refuse_twice(sources: Sequence[Source]) -> None:
    """Refuse one run in two files, which would count twice."""
    seen: dict[str, Source] = {}
    for source in sources:
        for run in _runs(source):
            first = seen.setdefault(run, source)
            if first is not source:
                raise InputError(
                    f"{source.path}: the same run as {first.path}; it must not count twice"
                )


def _refuse_on_two(sides: Sequence[Side]) -> None:
    """Refuse a run on two sides, which would be paired with itself and always be the same."""
    seen: dict[str, tuple[Side, str]] = {}
    for side in sides:
        for source in side.sources:
            for run in _runs(source):
                first, path = seen.setdefault(run, (side, source.path))
                if first is not side:
                    same = "" if path == source.path else f"the same run as {path}, "
                    raise InputError(
                        f"{source.path}: {same}on two sides: it would be compared with itself"
                    )


def _runs(source: Source) -> set[str]:
    """Return the ids of the run of a document, of those that were merged into it, and of its
    samples: a copy under another id is the same run."""
    document = source.document
    return {document.run.id, *(part.run.id for part in document.parts), *_samples(source)}


LEAST_VALUES = 20
"""Different times, from which on no two runs take the same ones by chance."""
LOOKED_AT = 8
"""Cases that tell a copy."""


def _samples(source: Source) -> Iterator[str]:
    """Yield a word for the samples of a document; none if there are too few."""
    taken = [
        samples.tobytes()
        for case in source.document.cases[:LOOKED_AT]
        for one in case.rounds
        for samples in one.series.values()
    ]
    joined = b"".join(taken)
    if np.unique(np.frombuffer(joined, np.int64)).size >= LEAST_VALUES:
        yield f"samples {hashlib.sha256(joined).hexdigest()}"


def _side(label: str, sources: Sequence[Source], engines: Iterable[str] | None = None) -> Side:
    refuse_twice(sources)
    keys = (engine.key for source in sources for engine in source.document.engines)
    return Side(label, tuple(sources), tuple(dict.fromkeys(keys if engines is None else engines)))


def _by_name(sources: Sequence[Source], by: str) -> list[Side]:
    groups: dict[str, list[Source]] = {}
    for source in sources:
        run = source.document.run
        if by == "file":
            name = source.path
        elif by == "machine":
            name = source.document.machine.host
        elif by == "label":
            name = _original(source, sources).path if run.label is None else run.label
        else:
            key = by.partition(":")[2]
            if key not in run.tags:
                known = ", ".join(run.tags) or "none"
                raise InputError(f"{source.path}: no tag {key!r} to group by; its tags: {known}")
            name = run.tags[key]
        groups.setdefault(name, []).append(source)
    sides = [_side(name, members) for name, members in groups.items()]
    _refuse_on_two(sides)
    return sides


def _original(source: Source, sources: Sequence[Source]) -> Source:
    """Return the document that this one repeats (``bench-run --rerun-from``), among those that are
    given; itself where it repeats none."""
    others = {one.document.run.id: one for one in sources if one.document.run.label is None}
    while (first := others.pop(source.document.run.tags.get(REPEATS, ""), None)) is not None:
        source = first
    return source


def _renamed(sides: list[Side], labels: tuple[str, ...]) -> list[Side]:
    """Rename sides; without labels, those named by their path get the file's name, if that is
    unique."""
    if not labels:
        paths = [[source.path for source in side.sources] for side in sides]
        labels = tuple(
            Path(side.label).name if some == [side.label] else side.label
            for side, some in zip(sides, paths, strict=True)
        )
        if len(set(labels)) != len(sides):
            return sides
    if len(labels) != len(sides):
        names = ", ".join(side.label for side in sides)
        raise UsageError(f"--label: {len(labels)} for {len(sides)} sides ({names})")
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise UsageError(f"--label: {twice!r} names two sides")
    return [replace(side, label=label) for label, side in zip(labels, sides, strict=True)]


def _alone(side: Side, by: str) -> str:
    if by == "engine":
        return f"only one engine, {side.label}: nothing to compare it with"
    paths = ", ".join(source.path for source in side.sources)
    if len(side.sources) > 1:
        what = "tag" if by.startswith("tag:") else by
        return (
            f"all documents have the {what} {side.label!r} ({paths}): they are repeats of one "
            "thing; use --group-by file, or --a and --b"
        )
    if len(side.engines) > 1:
        return f"{paths}: one document; add another, or compare its engines by --group-by engine"
    return f"{paths}: one document; a second one is needed to compare it with"


# ``--group-by unit``: each unit of hardware, a host and its device, is a side.
#
# Two units of one kind run the same plan up to 18 % apart. What a document holds of several units,
# by rounds or by engines with a device of their own, is taken apart; the engine's name then stands
# for the same engine on each.

Unit = tuple[str, str]
"""Host and device."""
NO_OVERLAP = (
    "no case ran on each of the {} units ({}): measure the same graphs on each, with "
    "bench-run --device all or with a run on each host"
)


def sides_by_unit(sources: Sequence[Source]) -> list[Side]:
    """Return a side for each unit, with the cases that all units have. Raises `InputError` if they
    share none, or if there is one unit."""
    parts = _by_unit(sources)
    names = unit_names(parts)
    if len(parts) < 2:
        raise InputError(f"everything ran on one unit, {next(iter(names.values()), 'unknown')}")
    shared = set.intersection(*map(set, map(_names_of, parts.values())))
    if not shared:
        raise InputError(NO_OVERLAP.format(len(parts), ", ".join(names.values())))
    sides = []
    for unit, part in parts.items():
        kept = []
        for source in part:
            cases = tuple(case for case in source.document.cases if case_key(case) in shared)
            if cases:
                kept.append(replace(source, document=replace(source.document, cases=cases)))
        engines = (engine.key for source in kept for engine in source.document.engines)
        of_unit = tuple(dict.fromkeys(engines))
        sides.append(Side(names[unit], tuple(kept), of_unit, is_unit=True))
    return sides


def missing_on_units(sources: Sequence[Source]) -> list[str]:
    """Return a sentence for each unit that did not run what others ran."""
    parts = _by_unit(sources)
    names, known = unit_names(parts), {unit: _names_of(part) for unit, part in parts.items()}
    every = {key: name for found in known.values() for key, name in found.items()}
    sentences = []
    for unit, found in known.items():
        missing = [name for key, name in every.items() if key not in found]
        if missing:
            more = "" if len(missing) == 1 else f" and {len(missing) - 1} more"
            sentences.append(
                f"unit {names[unit]} did not run {missing[0]}{more}, which others ran: not compared"
            )
    return sentences


def _by_unit(sources: Sequence[Source]) -> dict[Unit, list[Source]]:
    parts: dict[Unit, list[Source]] = defaultdict(list)
    for source in sources:
        for unit, document in split_document(source.document).items():
            parts[unit].append(replace(source, document=document))
    return parts


def _names_of(part: Sequence[Source]) -> dict[CaseKey, str]:
    """Return names of the graphs of a unit, by what tells their cases from others."""
    return {case_key(c): c.graph.name for one in part for c in one.document.cases}


def unit_names(units: Iterable[Unit]) -> dict[Unit, str]:
    """Return the name of each unit: host and device, or only one of them if the other is the same
    for all."""
    listed = list(units)
    hosts = len({host for host, _ in listed}) > 1
    devices = len({device for _, device in listed}) > 1 or not hosts
    return {
        unit: " ".join(part for part, told in zip(unit, (hosts, devices), strict=True) if told)
        for unit in listed
    }


def split_document(document: Document) -> dict[Unit, Document]:
    """Return a document for each unit, with the rounds that were measured there."""
    devices = {engine.key: engine.device for engine in document.engines}
    cases: dict[Unit, list[Case]] = defaultdict(list)
    for case in document.cases:
        for unit, part in _split_case(case, document.machine.host, devices[case.engine]):
            cases[unit].append(replace(part, engine=without_device(part.engine)))
    split = {}
    for unit, found in cases.items():
        used = {case.engine for case in found}
        engines = {}  # those that ran on the unit, called the same on each
        for engine in document.engines:
            key = without_device(engine.key)
            if key in used and (key not in engines or engine.device == unit[1]):
                engines[key] = replace(engine, key=key, device=unit[1])
        split[unit] = replace(
            document,
            machine=replace(document.machine, host=unit[0]),
            engines=tuple(engines.values()),
            cases=tuple(found),
            parts=(),
        )
    return split


def _split_case(case: Case, host: str, device: str) -> Iterator[tuple[Unit, Case]]:
    """Yield the case by unit; fields that a round lacks are taken from its document."""
    from bench_schema.merge import summaries  # loads NumPy

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
