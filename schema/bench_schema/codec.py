"""Bytes and files to documents and back.

Reading: text → valid by the schema of its own version → upgraded → frozen dataclasses, series as
int64 arrays. What cannot be read is a `DocumentError` of one sentence. Writing refuses every
value that JSON cannot hold, so no file is ever invalid.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import orjson

from bench_schema.acceptor import decoder
from bench_schema.document import SCHEMA_VERSION, Document, Real
from bench_schema.errors import NotJsonError, SchemaError, UnreadableError, UnwritableError
from bench_schema.finite import non_finite
from bench_schema.upgrade import upgrade, version_of
from bench_schema.validator import check, path_text

T = TypeVar("T")

GZIP_LEVEL = 1
ZSTD_LEVEL = 3
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
JOURNAL_START = b'{"journal":'
SPELLINGS: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def spell(value: float) -> Real:
    """A number as a document holds it: NaN and the infinities by name."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unspell(value: Real) -> float:
    """The number that a document holds."""
    return SPELLINGS[value] if isinstance(value, str) else value


# --- values from text ---


def decode(data: bytes, where: str) -> Document:
    """The document that JSON text holds; ``where`` names the text in errors."""
    with collector_paused():
        try:
            document = build(decoder(SCHEMA_VERSION, "")(data), Document)
        except msgspec.MsgspecError:
            document = from_tree(parse(data, where), where)
        check_references(document, where)
        return document


def parse(data: bytes, where: str) -> Any:
    """JSON text as plain values."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if not data.strip():
            raise UnreadableError(where, "the file is empty") from None
        if error.pos >= len(data.decode("utf-8", "replace").rstrip()):
            raise UnreadableError(where, "the text ends too early: the file is cut off") from None
        place = f"line {error.lineno}, column {error.colno}"
        raise NotJsonError(where, f"not JSON: {error.msg.split(':')[0]} ({place})") from None


def from_tree(tree: Any, where: str) -> Document:
    """The document that plain values hold: validated by their own version, then upgraded."""
    version = version_of(tree, where)
    check(tree, version, where)
    return build(whole_numbers(upgrade(tree, version)), Document)


def check_references(document: Document, where: str) -> None:
    """Refuse what a schema cannot: keys that are there twice, a case of no engine."""
    engines = [engine.key for engine in document.engines]
    _refuse_twice(engines, f"{where}: engines", "key")
    _refuse_twice([case.id for case in document.cases], f"{where}: cases", "id")
    for index, case in enumerate(document.cases):
        if case.engine not in engines:
            what = f"no engine {case.engine!r} in this document; known are {', '.join(engines)}"
            raise SchemaError(f"{where}: cases[{index}].engine", what)


def _refuse_twice(names: list[str], where: str, field: str) -> None:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if first.setdefault(name, index) != index:
            raise SchemaError(f"{where}[{index}].{field}", f"{name!r} is [{first[name]}] already")


def whole_numbers(tree: Any) -> Any:
    """Plain values with 2.0 as 2: JSON Schema calls both an integer."""
    if isinstance(tree, float) and tree.is_integer():
        return int(tree)
    if isinstance(tree, dict):
        return {name: whole_numbers(value) for name, value in tree.items()}
    return [whole_numbers(value) for value in tree] if isinstance(tree, list) else tree


def build(value: object, kind: type[T]) -> T:
    """Frozen dataclasses from valid values: a tree, or what a `decoder` gave."""
    return msgspec.convert(value, kind, from_attributes=True, dec_hook=_samples)


def _samples(_kind: type, value: Any) -> Any:
    return np.asarray(value, dtype=np.int64)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection while many small values are made; they hold no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# --- text from values ---


def encode(value: object) -> bytes:
    """JSON text of a document or of a part of one, compact, in UTF-8."""
    offender = non_finite(value)
    if offender is not None:
        path, what = offender
        raise UnwritableError(path_text(path), f"JSON has no {what}; see codec.spell")
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise UnwritableError("document", f"cannot be written as JSON: {error}") from None


def _plain(value: object) -> object:
    """Values that orjson leaves to us: arrays that are not contiguous, read-only mappings."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value, dtype=np.int64)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


# --- files ---


def read(path: str | os.PathLike[str]) -> Document:
    """The document in a file: plain, gzip, Zstandard or an unfinished journal, told by content."""
    data = read_bytes(path)
    if data.startswith(JOURNAL_START):
        from bench_schema.journal import document_of

        return document_of(data, str(path))
    return decode(data, str(path))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The contents of a file, unpacked if it is packed."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UnreadableError(str(path), f"cannot be read: {error.strerror}") from None
    if data.startswith(GZIP_MAGIC):
        return _gunzip(data, str(path))
    if data.startswith(ZSTD_MAGIC):
        return _unzstd(data, str(path))
    return data


def _gunzip(data: bytes, where: str) -> bytes:
    import gzip
    import zlib

    try:
        return gzip.decompress(data)
    except EOFError:
        raise UnreadableError(where, "the gzip data ends too early: the file is cut off") from None
    except (OSError, zlib.error) as error:
        raise UnreadableError(where, f"the gzip data is damaged: {error}") from None


def _unzstd(data: bytes, where: str) -> bytes:
    import zstandard

    parts = []
    try:
        while data:
            frame = zstandard.ZstdDecompressor().decompressobj()
            parts.append(frame.decompress(data))
            if not frame.eof:
                raise UnreadableError(
                    where, "the Zstandard data ends too early: the file is cut off"
                )
            data = frame.unused_data
    except zstandard.ZstdError as error:
        raise UnreadableError(where, f"the Zstandard data is damaged: {error}") from None
    return b"".join(parts)


def save(path: str | os.PathLike[str], document: Document) -> None:
    """Write the document in one atomic step: a reader sees the old file or the whole new one.

    ``.gz`` and ``.zst`` at the end of the name choose the packing.
    """
    target = Path(path)
    data = encode(document)
    if target.suffix == ".gz":
        import gzip

        data = gzip.compress(data, GZIP_LEVEL, mtime=0)
    elif target.suffix == ".zst":
        import zstandard

        data = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data)
    try:
        _replace(target, data)
    except OSError as error:
        raise UnwritableError(str(path), f"cannot be written: {error.strerror}") from None


def _replace(target: Path, data: bytes) -> None:
    if target.exists() and not target.is_file():  # a device or a pipe is written to, not replaced
        target.write_bytes(data)
        return
    target = target.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)  # there only if something went wrong
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself survive a power cut, where the system lets folders be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
