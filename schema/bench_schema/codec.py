"""JSON text to documents and back.

Reading: text → valid by the schema of its own version → upgraded → frozen dataclasses, series as
int64 arrays. Text that cannot be read raises a `DocumentError` of one sentence. Writing refuses
every value that JSON cannot hold, so the text is always valid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import orjson

from bench_schema.checks.acceptor import check_integers, decoder
from bench_schema.checks.validator import check_document, path_text
from bench_schema.document import SCHEMA_VERSION, Case, Document, Round
from bench_schema.errors import NotJsonError, SchemaError, UnreadableError, UnwritableError
from bench_schema.rounds import StoredRounds
from bench_schema.tuning import check_tuned
from bench_schema.upgrade import upgrade, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# Finds what JSON cannot hold before it is written: orjson would put null in its place.
#
# Walking over every value in Python takes eight times as long as writing them (1,000 cases of 5
# rounds: 0.36 s beside 0.05 s). So a case is packed by msgspec first, in a form where numbers keep
# their bits (0.02 s), and only if those of a NaN or an infinity show up in it (or bytes that happen
# to look like them) is it walked over.

CONVERTING = threading.RLock()
"""Held while msgspec converts to dataclasses: two threads that need a class for the first time end
the process with a segmentation fault (msgspec 0.22.0)."""
T = TypeVar("T")
Path: TypeAlias = tuple[str | int, ...]

NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)
"""A double in MessagePack whose exponent has all bits set."""


def non_finite(value: object) -> tuple[Path, str] | None:
    """Return path and key of the first number that is not finite, or of the first array of samples
    that is not of integers; None if there are none."""
    parts: list[tuple[Path, object]] = [((), value)]
    if isinstance(value, Document):  # by its cases: one that is suspicious costs no others
        parts = [((), dataclasses.replace(value, cases=()))]
        parts += [(("cases", index), case) for index, case in enumerate(value.cases)]
    for path, part in parts:
        try:
            packed = PACKER.encode(part)
        except OverflowError:  # an integer beyond 64 bits: JSON will not take it either
            continue
        found = next(_offenders(part, path), None) if NOT_FINITE.search(packed) else None
        if found is not None:
            return found
    return None


def _pack(value: object) -> object:
    """Replace values that msgspec does not know; integers and rounds that were read are finite."""
    if isinstance(value, np.ndarray):
        return None if value.dtype.kind in "iu" else math.nan
    if isinstance(value, StoredRounds):
        return None
    if isinstance(value, np.floating):
        return float(value)
    return dict(value) if isinstance(value, Mapping) else None


PACKER = msgspec.msgpack.Encoder(enc_hook=_pack)


def _offenders(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            yield path, f"number {float(value)}"
    elif isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu":
            yield path, f"place for samples of type {value.dtype}"
    else:
        for name, item in _inside(value):
            yield from _offenders(item, (*path, name))


def _inside(value: Any) -> Iterable[tuple[str | int, Any]]:
    """Return the members of a value with their indexes or names; empty if it does not have
    members."""
    if isinstance(value, (tuple, list)):
        return enumerate(value)
    if isinstance(value, Mapping):
        return ((str(name), item) for name, item in value.items())
    if dataclasses.is_dataclass(value):
        return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return ()


def decode(data: bytes, where: str) -> Document:
    """Read the document that JSON text holds; ``where`` names the text in errors.

    Its rounds are `StoredRounds`. What the acceptor refuses is parsed and checked as a whole, for
    the sentence, and because JSON Schema accepts 2.0 as an integer.
    """
    try:
        shell = decoder(SCHEMA_VERSION, "", raw="cases")(data)
        texts, shell.cases = shell.cases, []
        document = build(shell, Document)
        cases = map(decoder(SCHEMA_VERSION, "Case"), texts)
        document = dataclasses.replace(document, cases=_stored(map(case_of, cases), where))
    except msgspec.MsgspecError:
        document = from_tree(parse(data, where), where)
    check_keys(document, where)
    return document


def _stored(cases: Iterable[Case], where: str) -> tuple[Case, ...]:
    """Return the cases with their rounds checked and packed, one case at a time."""
    made = []
    for index, case in enumerate(cases):
        check_rounds(case, f"{where}: cases[{index}]")
        made.append(dataclasses.replace(case, rounds=StoredRounds.of(case.rounds)))
    return tuple(made)


def parse(data: bytes, where: str) -> Any:
    """Parse JSON text as plain values."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if not data.strip():
            raise UnreadableError(where, "the file is empty") from None
        if error.pos >= len(data.decode("utf-8", "replace").rstrip()):
            raise UnreadableError(where, "the text ends too early: the file is cut off") from None
        if "infinity" in error.msg or b"NaN" in data or b"Infinity" in data:
            refuse_not_finite(data, where)
        place = f"line {error.lineno}, column {error.colno}"
        if "UTF-8" in error.msg:
            raise NotJsonError(where, "not JSON: it is not text") from None
        raise NotJsonError(where, f"not JSON: {error.msg.split(':')[0]} ({place})") from None


def refuse_not_finite(data: bytes, where: str) -> None:
    """Name the field of a number that no double holds; orjson names its column only."""
    import json

    with contextlib.suppress(ValueError, RecursionError):
        found = _not_finite(json.loads(data))
        if found is not None:
            path, number = found
            if number != number:
                raise NotJsonError(where, f"not JSON: NaN at {path_text(path)}")
            raise SchemaError(f"{where}: {path_text(path)}", "the number is too large")


def _not_finite(tree: Any) -> tuple[tuple[str | int, ...], float] | None:
    """Return the path of the first number that is not finite, and the number; None if all are
    finite."""
    if isinstance(tree, int | float):
        return None if abs(tree) <= sys.float_info.max else ((), tree)
    if not isinstance(tree, dict | list):
        return None
    items: Any = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for name, value in items:
        found = _not_finite(value)
        if found is not None:
            return (name, *found[0]), found[1]
    return None


def from_tree(tree: Any, where: str) -> Document:
    """Return the document that plain values hold: validated by their own version, then upgraded."""
    version = version_of(tree, where)
    check_document(tree, version, where)
    upgraded = whole_numbers(upgrade(tree, version))
    check_integers(upgraded, SCHEMA_VERSION, where)
    document = build(upgraded, Document)
    return dataclasses.replace(document, cases=_stored(document.cases, where))


def check_keys(document: Document, where: str) -> None:
    """Refuse engines and cases that are there twice, and cases without an engine."""
    engines = [engine.key for engine in document.engines]
    _refuse_twice(engines, f"{where}: engines", "key")
    _refuse_twice([case.id for case in document.cases], f"{where}: cases", "id")
    for index, case in enumerate(document.cases):
        if case.engine not in engines:
            what = f"no engine {case.engine!r} in this document; known are {', '.join(engines)}"
            raise SchemaError(f"{where}: cases[{index}].engine", what)
    if document.tuned is not None:
        check_tuned(document.tuned, frozenset(case.id for case in document.cases), where)


MOST_ROUNDS = 1 << 20
"""Rounds are counted from 0; so large an index is damage."""


def check_rounds(case: Case, where: str) -> None:
    """Refuse rounds that are there twice, and cuts beyond the samples."""
    seen = {one.index for one in case.rounds}
    distinct = len(seen) == len(case.rounds) and max(seen, default=0) < MOST_ROUNDS
    if distinct and not any([any(one.cut.values()) for one in case.rounds]):  # noqa: C419 - quicker
        return
    first: dict[int, int] = {}
    for place, one in enumerate(case.rounds):
        found = _unsound(one, place, first)
        if found is not None:
            field, what = found
            raise SchemaError(f"{where} ({case.graph.name}).rounds[{place}].{field}", what)


def _unsound(one: Round, place: int, first: dict[int, int]) -> tuple[str, str] | None:
    """Return a field of a round, and what is wrong with it; `first`: rounds by their index."""
    if first.setdefault(one.index, place) != place:
        return "index", f"{one.index} is that of rounds[{first[one.index]}] already"
    if one.index >= MOST_ROUNDS:
        return "index", f"{one.index} is not a number of a round"
    for name, cut in one.cut.items():
        samples = one.series.get(name) if cut else None
        if samples is not None and cut > samples.size:
            return f"cut.{name}", f"{cut} samples are cut off, and there are {samples.size}"
    return None


def _refuse_twice(names: list[str], where: str, field: str) -> None:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if first.setdefault(name, index) != index:
            raise SchemaError(f"{where}[{index}].{field}", f"{name!r} is [{first[name]}] already")


def whole_numbers(tree: Any) -> Any:
    """Replace 2.0 by 2 in plain values: JSON Schema calls both an integer."""
    if isinstance(tree, float) and tree.is_integer():
        return int(tree)
    if isinstance(tree, dict):
        return {name: whole_numbers(value) for name, value in tree.items()}
    return [whole_numbers(value) for value in tree] if isinstance(tree, list) else tree


def build(value: object, kind: type[T]) -> T:
    """Convert valid values to frozen dataclasses: a tree, or the value of a `decoder`."""
    with CONVERTING:
        return msgspec.convert(
            value,
            kind,
            from_attributes=True,
            dec_hook=lambda _kind, samples: np.asarray(samples, dtype=np.int64),
        )


def case_of(accepted: Any) -> Case:
    """Convert the value of a case's `decoder`; of its series those that are there."""
    for one in accepted.rounds:
        one.series, one.warmup = _given(one.series), _given(one.warmup)
        one.blocks, one.placements = _given(one.blocks), _given(one.placements)
    return build(accepted, Case)


def _given(fields: msgspec.Struct) -> dict[str, Any]:
    every = msgspec.structs.asdict(fields)
    return {name: value for name, value in every.items() if value is not msgspec.UNSET}


def encode(value: object) -> bytes:
    """Encode a document or a part of one as JSON text, compact, in UTF-8."""
    try:
        offender = non_finite(value)
    except UnicodeEncodeError:  # a name of the file system, or of a foreign library
        value = _spelled(value)
        offender = non_finite(value)
    if offender is not None:
        path, what = offender
        raise UnwritableError(path_text(path), f"JSON has no {what}; see document.spell")
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise UnwritableError("document", f"cannot be written as JSON: {error}") from None


def _spelled(value: Any) -> Any:
    """Return the value with surrogates, which UTF-8 does not have, spelled."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_spelled(name): _spelled(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_spelled, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {
            each.name: _spelled(getattr(value, each.name)) for each in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **found)
    return value


def _plain(value: object) -> object:
    """Convert values that orjson does not know: other arrays, mappings, rounds."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value, dtype=np.int64)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, StoredRounds):
        return list(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
