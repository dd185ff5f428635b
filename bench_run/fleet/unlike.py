"""In what the parts of a merged document differ, though they should not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench_schema.merge import find_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.document import Document, Engine

UNIT = ("device", "device_index", "key")
"""What may differ between engines of one key: which unit it was."""
ESSENTIAL = (
    "timer", "cache", "duty", "math", "replay", "warmup", "iterations", "rounds", "min_time_s",
    "max_time_s", "precision_ratio", "seed", "reference", "tolerance", "rtol", "atol",
    "check_budget_s", "init", "executions", "knobs", "until", "threads", "pass_bytes",
)  # fmt: skip
"""Settings of which a document has one value: parts that differ in them stay apart."""
LISTED = ("package ", "variable ")
"""Facts that are there or not."""
CHOICE_OF_DEVICES = "_VISIBLE_DEVICES"
"""Ends the names of variables that say which units a run gets: these differ in a fleet."""
SHOWN = 40
"""Characters of a value that a message repeats."""


@dataclass(frozen=True)
class Difference:
    what: str
    first: str
    """Its value, and the file that has it."""
    second: str
    essential: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.first}, {self.second}"


def differences(headers: Sequence[tuple[str, Document]]) -> list[Difference]:
    """Each fact that differs once, with the first two files that differ in it."""
    facts = [(path, dict(_facts(header))) for path, header in headers]
    names = dict.fromkeys(name for _, known in facts for name in known)
    return [found for name in names if (found := _difference(name, facts)) is not None]


def _difference(name: str, facts: Sequence[tuple[str, Mapping[str, Any]]]) -> Difference | None:
    """Where a part has no such package or variable, it differs; no such engine, it does not."""
    listed = name.startswith(LISTED)
    having = [(path, known.get(name)) for path, known in facts if listed or name in known]
    (where, first), *others = having
    for path, value in others:
        if value != first:
            essential = name.removeprefix("setting ") in ESSENTIAL
            return Difference(
                name, f"{_text(first)} in {where}", f"{_text(value)} in {path}", essential
            )
    return None


def _facts(header: Document) -> Iterator[tuple[str, Any]]:
    """What should agree, by its name in words; beside settings nothing that is not known."""
    run = header.run
    yield "label", run.label
    yield "number of shards", None if run.shard is None else int(run.shard.partition("/")[2])
    yield "graphs and engines of all shards", None if run.whole is None else run.whole.sha256[:12]
    yield "version of the tool", run.tool.version
    for name, value in asdict(run.settings).items():
        yield f"setting {name}", _plain(value)
    for name, value in _surroundings(header):
        if value is not None:
            yield name, value


def _surroundings(header: Document) -> Iterator[tuple[str, Any]]:
    machine, revision = header.machine, header.machine.graphs_revision
    yield "system", machine.os
    yield "kernel", machine.kernel
    yield "processor", machine.cpu.model
    yield "Python", machine.python
    yield "revision of the graphs", None if revision is None else _plain(asdict(revision))
    yield from ((f"package {name}", version) for name, version in machine.packages.items())
    for name, value in machine.environment.items():
        if not name.endswith(CHOICE_OF_DEVICES):
            yield f"variable {name}", value
    for engine in header.engines:
        yield from _engine_facts(header, engine)


def _engine_facts(header: Document, engine: Engine) -> Iterator[tuple[str, Any]]:
    for name, value in asdict(engine).items():
        if name not in UNIT:
            yield f"{name} of engine {engine.key}", _plain(value)
    device = find_device(header.machine, engine.device)
    if device is not None:
        for name in ("driver", "power_limit_w", "max_sm_clock_mhz", "max_memory_clock_mhz"):
            yield f"{name} of {device.name}", getattr(device, name)


def _plain(value: object) -> object:
    return json.loads(json.dumps(value))


def _text(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
