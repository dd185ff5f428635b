"""Whether an unfinished run and the present one measure the same, as ``--resume`` requires.

A case is its graph's meaning, its engine with everything that is known of it, its variant, and
every setting that shapes a sample.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Case, Document

    from bench_run.plan.cases import PlannedCase

UNKNOWN_IN_VERSION_1 = ("init", "executions", "knobs")
"""Settings that this tool always writes, but that older documents do not have."""

UNIT = ("device", "device_index")
"""Which unit an engine ran on: in a fleet it stands for many, and each round names its own."""

Difference = tuple[str, Any, Any]
"""What differs, as it was and as it is."""


def refuse_other_work(earlier: Document, header: Document, cases: Sequence[PlannedCase]) -> None:
    """Raises `UsageError`, which names the first difference."""
    for name, before, now in differences(earlier, header, cases):
        raise UsageError(
            f"--resume: the unfinished run has {name} {_text(before)}, this one {_text(now)}: "
            "continue with the same options, or choose another output"
        )


def differences(
    earlier: Document, header: Document, cases: Sequence[PlannedCase]
) -> Iterator[Difference]:
    yield from _settings(earlier, header)
    yield from _changed("label", earlier.run.label, header.run.label)
    yield from _changed("tags", dict(earlier.run.tags), dict(header.run.tags))
    yield from _engines(earlier, header)
    yield from _changed("shard", earlier.run.shard, header.run.shard)
    environments = (dict(d.machine.environment) for d in (earlier, header))
    yield from _entries("environment", *environments)
    yield from _cases(earlier.cases, cases)


def _settings(earlier: Document, header: Document) -> Iterator[Difference]:
    before = asdict(earlier.run.settings)
    for name, value in asdict(header.run.settings).items():
        if name == "device_parallelism" and header.parts:
            continue
        unknown = before[name] is None and name in UNKNOWN_IN_VERSION_1
        if not unknown:
            yield from _changed(name, before[name], value)


def _engines(earlier: Document, header: Document) -> Iterator[Difference]:
    before, now = ({engine.key: engine for engine in d.engines} for d in (earlier, header))
    yield from _changed("engines", sorted(before), sorted(now))
    for key, engine in now.items():
        facts = asdict(before[key])
        for name, value in asdict(engine).items():
            unknown = name == "abilities" and facts[name] is None
            unknown = unknown or (name in UNIT and bool(header.parts))
            if not unknown and facts[name] != value:
                what = f"engine {key} with {name}"
                mappings = isinstance(value, dict) and isinstance(facts[name], dict)
                compare = _entries if mappings else _changed
                yield from compare(what, facts[name], value)


def _cases(before: Sequence[Case], now: Sequence[PlannedCase]) -> Iterator[Difference]:
    """Graphs with measured rounds; one that could not be read may have been repaired since."""
    planned = {case.id: case for case in now}
    for case in before:
        if case.id in planned:
            graph = planned[case.id].graph.id
            what = f"case {case.id!r} with the fingerprint"
            yield from _changed(what, case.graph.fingerprint, graph.fingerprint)
            variant = dict(planned[case.id].variant)
            yield from _changed(f"case {case.id!r} with variant", dict(case.variant), variant)
        elif case.rounds:
            yield f"case {case.id!r} of graph", case.graph.path, "no such case"


def _entries(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """Entries of two mappings that differ, one by one."""
    for name in sorted({*before, *now}):
        yield from _changed(f"{what} {name}", before.get(name), now.get(name))


def _changed(name: str, before: object, now: object) -> Iterator[Difference]:
    if _plain(before) != _plain(now):
        yield name, before, now


def _plain(value: object) -> object:
    """As it is after a journey through JSON: tuples are lists."""
    return json.loads(json.dumps(value))


def _text(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
