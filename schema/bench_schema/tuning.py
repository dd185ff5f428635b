"""The record of a tuning as values: every variant of every graph, which was chosen, and why.

Frozen dataclasses, no I/O. A record has a version of its
own. Times are nanoseconds and come from ordinary rounds only; what the race knows of a candidate is
how far it is behind, as a ratio. ``None`` means "not known".
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Mapping  # noqa: TC003  annotations are read at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from bench_schema.checks.acceptor import VERSIONS, Compiler
from bench_schema.checks.validator import path_text, sentence
from bench_schema.codec import build, encode, parse
from bench_schema.errors import FutureVersionError, SchemaError
from bench_schema.packing import read_bytes, write_bytes
from bench_schema.provenance import Tool  # noqa: TC001

if TYPE_CHECKING:
    import os

    from jsonschema.protocols import Validator


TUNING_VERSION = 1
KIND = "bench-run tune"

Stage: TypeAlias = Literal["listed", "built", "screened", "raced", "confirmed"]
"""Last stage of a candidate: only listed; built and validated; dropped after one or two blocks;
dropped in the race; measured in ordinary rounds."""

Fate: TypeAlias = Literal[
    "ok",
    "unsupported",
    "failed",
    "crashed",
    "timed out",
    "wrong",
    "duplicate",
    "over a limit",
    "not tried",
]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of times, with its 95 % interval where that is known."""

    estimate: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    index: int
    """Position in the order of enumeration; 0 is the default."""
    variant: Mapping[str, str]
    """Varied values by axis; empty for the default."""
    case_variant: Mapping[str, str]
    """The same for the engine, in its own words: the variant of the case."""
    engine: str
    """Key of the engine in the result document."""
    fingerprint: str
    """Hash of the graph that ran, which differs from the entry's if type or layout were varied."""
    stage: Stage
    status: Fate
    reason: str | None = None
    """Always there unless ok."""
    blocks: int = 0
    """Blocks of the race that it was in."""
    behind: Ratio | None = None
    """Its time in that of the winner, in blocks that both were in; from the race."""
    time_ns: float | None = None
    """Time over the rounds of a confirmed candidate (`bench_schema.estimate`); of one that was only
    raced, the mean of its blocks, without an interval."""
    time_low_ns: float | None = None
    time_high_ns: float | None = None
    error: float | None = None
    """Largest relative L2 error of an output."""
    deterministic: bool | None = None
    workspace_bytes: int | None = None
    energy_j: float | None = None
    case: str | None = None
    """Id of its case in the result document."""
    plan: Mapping[str, str] = field(default_factory=dict)
    """Choices of the engine."""


@dataclass(frozen=True, slots=True)
class TunedEntry:
    """A graph, its candidates, and which of them won."""

    name: str
    path: str
    fingerprint: str
    """Hash of the meaning of the original graph."""
    family: str
    repeat: int
    candidates: tuple[Candidate, ...]
    default: int
    winner: int
    """Index of a candidate; that of the default where nothing is known to be better."""
    reason: str
    """Why it won, in a sentence."""
    gain: Ratio | None = None
    """Time of the default in that of the winner, from ordinary rounds; 1 if they are one."""
    tied_with: tuple[int, ...] = ()
    pareto: tuple[int, ...] = ()
    """Candidates that none beats in everything, in older records; empty today."""
    stopped_by: str | None = None
    """Reason that ended the race: clear, most blocks, budget; None without a race."""


@dataclass(frozen=True, slots=True)
class TunedEngine:
    """An engine as a later run must find it."""

    key: str
    spec: str
    name: str
    math: str
    libraries: Mapping[str, str]
    device: str
    device_kind: str
    plugin_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """Machine and library that were tuned on, and the method of measuring."""

    host: str
    device_kind: str
    device_uuid: str | None
    """The very unit: units of one kind differ."""
    arch: str | None
    driver: str | None
    engines: tuple[TunedEngine, ...]
    math: str
    cache: str
    timer: str
    duty: str


@dataclass(frozen=True, slots=True)
class Limits:
    error: float | None = None
    workspace_bytes: int | None = None
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class TuneSettings:
    space: tuple[str, ...]
    scope: Literal["layer", "global"]
    margin_ratio: float
    limits: Limits
    budget_s: float | None
    seed: int
    objective: Literal["time", "energy", "edp"] = "time"
    """The time; others in older records."""


@dataclass(frozen=True, slots=True)
class Total:
    """One combination for the whole suite; times weighted by how often each graph occurs."""

    variant: Mapping[str, str]
    time_ns: float | None
    """None if some graph has no time in it."""
    confirmed: bool
    """False if the time is an estimate from the race's ratios and was not measured."""
    missing: tuple[str, ...] = ()
    """Names of the graphs that it cannot run."""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class TunedWhole:
    """All graphs, each as often as it occurs."""

    default_ns: float | None
    tuned_ns: float | None
    gain: Ratio | None
    totals: tuple[Total, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    builds: int
    executions: int
    race_s: float
    confirm_s: float


@dataclass(frozen=True, slots=True)
class TunedEvidence:
    """The result document that the times come from."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class TunedRecord:
    kind: str
    tuning_version: int
    tool: Tool
    started: str
    finished: str
    command: tuple[str, ...]
    settings: TuneSettings
    environment: Environment
    entries: tuple[TunedEntry, ...]
    whole: TunedWhole
    cost: Cost
    document: TunedEvidence
    notes: tuple[str, ...] = ()


# Records of tunings: text to values and back, checked against the schema of their version.
#
# `tuned_read`, `tuned_save`, `tuned_decode`, `tuned_encode`.


def tuned_read(path: str | os.PathLike[str]) -> TunedRecord:
    """Return the record in a file, plain or packed."""
    return tuned_decode(read_bytes(path), str(path))


def tuned_save(path: str | os.PathLike[str], record: TunedRecord) -> None:
    """Write the record in one atomic step; ``.gz`` and ``.zst`` choose the packing."""
    write_bytes(path, tuned_encode(record))


def tuned_encode(record: TunedRecord) -> bytes:
    return encode(record)


def tuned_decode(data: bytes, where: str) -> TunedRecord:
    """Decode a record. Raises `DocumentError` if the data is not a record of a known version."""
    tree = parse(data, where)
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise SchemaError(where, "is not a record of bench-run tune")
    version = tree.get("tuning_version")
    if type(version) is not int or version < 1:
        raise SchemaError(f"{where}: tuning_version", f"expected a whole number, found {version!r}")
    if version > TUNING_VERSION:
        known = f"this tool knows up to {TUNING_VERSION}"
        raise FutureVersionError(where, f"is a record of version {version}; {known}")
    tuned_check(tree, where)
    record: TunedRecord = build(tree, TunedRecord)
    _check_places(record, where)
    return record


def tuned_check(tree: Any, where: str) -> None:
    """Check a tree. Raises `SchemaError` that names the first field that breaks the schema."""
    with contextlib.suppress(msgspec.ValidationError, OverflowError):
        # a hundred times as fast as the standard's way, and every run with a record waits for it
        msgspec.convert(tree, _accepted(tree["tuning_version"]))
        return
    from jsonschema.exceptions import best_match

    error = best_match(tuned_validator(tree["tuning_version"]).iter_errors(tree))
    if error is not None:
        raise SchemaError(f"{where}: {path_text(error.absolute_path)}", sentence(error))


@functools.cache
def _accepted(version: int) -> Any:
    return Compiler(_schema(version)).named("")


def _schema(version: int) -> Any:
    return json.loads((VERSIONS / f"tuned_v{version}.json").read_bytes())


@functools.cache
def tuned_validator(version: int) -> Validator:
    """Return an ordinary validator of one version of the record."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_schema(version))


def _check_places(record: TunedRecord, where: str) -> None:
    """Check what a schema cannot express: indices that name candidates."""
    for number, entry in enumerate(record.entries):
        here = f"{where}: entries[{number}] ({entry.name})"
        indices = [candidate.index for candidate in entry.candidates]
        if indices != list(range(len(indices))):
            raise SchemaError(f"{here}.candidates", "their indices do not count from 0")
        for index in (entry.default, entry.winner, *entry.tied_with, *entry.pareto):
            if not 0 <= index < len(indices):
                raise SchemaError(here, f"names candidate {index}, and there are {len(indices)}")
        winner = entry.candidates[entry.winner]
        if entry.winner != entry.default and winner.status != "ok":
            raise SchemaError(here, f"its winner, candidate {winner.index}, is {winner.status!r}")
