"""Which documents stand together: repeats of one thing are one side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_compare.errors import InputError, UsageError
from bench_compare.model import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_compare.model import Source

GROUPINGS = ("label", "tag:KEY", "engine", "unit", "machine", "file")


@dataclass(frozen=True)
class Grouping:
    """How documents become sides; ``labels`` rename them in order, ``base`` picks the first."""

    by: str = "label"
    labels: tuple[str, ...] = ()
    base: str | None = None


def group(sources: Sequence[Source], grouping: Grouping) -> tuple[Side, list[Side]]:
    """Base and the others, in the order the documents were given.

    Raises `UsageError` for an unknown grouping and `InputError` where one side is all there is.
    """
    by = _known(grouping.by)
    if by == "unit":
        from bench_compare.input.units import sides_by_unit  # it needs NumPy

        refuse_twice(sources)
        sides = sides_by_unit(sources)
    else:
        sides = _by_engine(sources) if by == "engine" else _by_name(sources, by)
    sides = _renamed(sides, grouping.labels)
    first = _base(sides, grouping.base)
    others = [side for side in sides if side is not first]
    if not others:
        raise InputError(_alone(first, by))
    return first, others


def pair(a: Sequence[Source], b: Sequence[Source], labels: tuple[str, ...]) -> tuple[Side, Side]:
    """The two sides of ``--a`` and ``--b``."""
    names = [_shared_label(side) for side in (a, b)]
    if None in names or names[0] == names[1]:
        names = ["a", "b"]
    sides = [_side(str(name), side) for name, side in zip(names, (a, b), strict=True)]
    _refuse_on_two(sides)
    first, second = _renamed(sides, labels)
    return first, second


def _known(by: str) -> str:
    if by.split(":")[0] not in {name.split(":")[0] for name in GROUPINGS} or by == "tag":
        raise UsageError(f"--group-by: no grouping {by!r}; choose from {', '.join(GROUPINGS)}")
    return by


def refuse_twice(sources: Sequence[Source]) -> None:
    """One run in two files would count twice."""
    seen: dict[str, Source] = {}
    for source in sources:
        for run in _runs(source):
            first = seen.setdefault(run, source)
            if first is not source:
                raise InputError(
                    f"{source.path}: the same run as {first.path}; it must not count twice"
                )


def _refuse_on_two(sides: Sequence[Side]) -> None:
    """A run on two sides would be paired with itself, and all of it be the same."""
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
    """The run of a document, and those that were merged into it."""
    document = source.document
    return {document.run.id, *(part.run.id for part in document.parts)}


def _side(label: str, sources: Sequence[Source], engines: Iterable[str] | None = None) -> Side:
    refuse_twice(sources)
    keys = (engine.key for source in sources for engine in source.document.engines)
    return Side(label, tuple(sources), tuple(dict.fromkeys(keys if engines is None else engines)))


def _by_name(sources: Sequence[Source], by: str) -> list[Side]:
    groups: dict[str, list[Source]] = {}
    for source in sources:
        groups.setdefault(_name(source, by), []).append(source)
    sides = [_side(name, members) for name, members in groups.items()]
    _refuse_on_two(sides)
    return sides


def _name(source: Source, by: str) -> str:
    run = source.document.run
    if by == "file":
        return source.path
    if by == "machine":
        return source.document.machine.host
    if by == "label":
        return source.path if run.label is None else run.label
    key = by.partition(":")[2]
    if key not in run.tags:
        known = ", ".join(run.tags) or "none"
        raise InputError(f"{source.path}: no tag {key!r} to group by; its tags: {known}")
    return run.tags[key]


def _by_engine(sources: Sequence[Source]) -> list[Side]:
    keys = dict.fromkeys(e.key for source in sources for e in source.document.engines)
    return [
        _side(key, [s for s in sources if key in {e.key for e in s.document.engines}], (key,))
        for key in keys
    ]


def _renamed(sides: list[Side], labels: tuple[str, ...]) -> list[Side]:
    if not labels:
        return _told_apart(sides)
    if len(labels) != len(sides):
        names = ", ".join(side.label for side in sides)
        raise UsageError(f"--label: {len(labels)} for {len(sides)} sides ({names})")
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise UsageError(f"--label: {twice!r} names two sides")
    pairs = zip(labels, sides, strict=True)
    return [replace(side, label=label) for label, side in pairs]


def _told_apart(sides: list[Side]) -> list[Side]:
    """Sides named by their path get the file's name, where that is enough."""
    short = {side.label: Path(side.label).name for side in sides if _is_path(side)}
    taken = [short.get(side.label, side.label) for side in sides]
    if len(set(taken)) != len(sides):
        return sides
    named = zip(taken, sides, strict=True)
    return [replace(side, label=name) for name, side in named]


def _is_path(side: Side) -> bool:
    return len(side.sources) == 1 and side.label == side.sources[0].path


def _base(sides: Sequence[Side], name: str | None) -> Side:
    if not sides:
        raise InputError("no documents to compare")
    if name is None:
        return sides[0]
    found = next((side for side in sides if side.label == name), None)
    if found is None:
        known = ", ".join(side.label for side in sides)
        raise UsageError(f"--base: no side {name!r}; choose from {known}")
    return found


def _shared_label(sources: Sequence[Source]) -> str | None:
    labels = {source.document.run.label for source in sources}
    return labels.pop() if len(labels) == 1 else None


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
