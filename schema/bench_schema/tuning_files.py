"""Records of tunings: text to values and back, checked against the schema of their version.

`tuned_read`, `tuned_save`, `tuned_decode`, `tuned_encode`.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import msgspec

from bench_schema.checks.acceptor import VERSIONS, Compiler
from bench_schema.checks.validator import path_text, sentence
from bench_schema.codec import build, encode, parse
from bench_schema.errors import FutureVersionError, SchemaError
from bench_schema.packing import read_bytes, write_bytes
from bench_schema.tuning import KIND, TUNING_VERSION, TunedRecord

if TYPE_CHECKING:
    import os

    from jsonschema.protocols import Validator


def tuned_read(path: str | os.PathLike[str]) -> TunedRecord:
    """The record in a file, plain or packed."""
    return tuned_decode(read_bytes(path), str(path))


def tuned_save(path: str | os.PathLike[str], record: TunedRecord) -> None:
    """Write the record in one atomic step; ``.gz`` and ``.zst`` choose the packing."""
    write_bytes(path, tuned_encode(record))


def tuned_encode(record: TunedRecord) -> bytes:
    return encode(record)


def tuned_decode(data: bytes, where: str) -> TunedRecord:
    """Raises `DocumentError` for what is no record of a known version."""
    tree = parse(data, where)
    _check_version(tree, where)
    tuned_check(tree, where)
    record: TunedRecord = build(tree, TunedRecord)
    _check_places(record, where)
    return record


def _check_version(tree: Any, where: str) -> None:
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise SchemaError(where, "is no record of bench-run tune")
    version = tree.get("tuning_version")
    if type(version) is not int or version < 1:
        raise SchemaError(f"{where}: tuning_version", f"expected a whole number, found {version!r}")
    if version > TUNING_VERSION:
        known = f"this tool knows up to {TUNING_VERSION}"
        raise FutureVersionError(where, f"is a record of version {version}; {known}")


def tuned_check(tree: Any, where: str) -> None:
    """Raises `SchemaError` that names the first field that is not as the schema says."""
    if _is_surely_valid(tree):
        return
    from jsonschema.exceptions import best_match

    error = best_match(tuned_validator(tree["tuning_version"]).iter_errors(tree))
    if error is not None:
        raise SchemaError(f"{where}: {path_text(error.absolute_path)}", sentence(error))


def _is_surely_valid(tree: Any) -> bool:
    """Whether the compiled schema takes it: that is a hundred times as fast, and every run with a
    record waits for it. What it does not take goes the standard's way."""
    try:
        msgspec.convert(tree, _accepted(tree["tuning_version"]))
    except (msgspec.ValidationError, OverflowError):
        return False
    return True


@functools.cache
def _accepted(version: int) -> Any:
    return Compiler(_schema(version), text=False).named("")


def _schema(version: int) -> Any:
    return json.loads((VERSIONS / f"tuned_v{version}.json").read_bytes())


@functools.cache
def tuned_validator(version: int) -> Validator:
    """An ordinary validator of one version of the record."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_schema(version))


def _check_places(record: TunedRecord, where: str) -> None:
    """What a schema cannot say: indices that name candidates."""
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
