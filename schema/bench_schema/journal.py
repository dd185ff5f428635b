"""The journal of an unfinished run: ``OUT.json.journal`` beside ``OUT.json``.

Lines of JSON, each an object with one field that says what it adds:

    {"journal": Document}   the first line: a document without cases, not complete
    {"case": Case}          the rounds of one visit to a case
    {"engine": Engine}      an engine that became known, or is known better (same key)
    {"machine": Machine}    the machine, now known better

A line counts once its newline is there, so a crash costs the line that was being written and
nothing else. Saving costs the size of the line, never that of the document.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bench_schema.acceptor import decoder
from bench_schema.codec import (
    build,
    collector_paused,
    encode,
    from_tree,
    parse,
    whole_numbers,
)
from bench_schema.document import SCHEMA_VERSION, Case, Document, Engine, Machine
from bench_schema.errors import SchemaError, UnreadableError, UnwritableError
from bench_schema.merge import find_device, merge_cases, with_rates
from bench_schema.packing import read_bytes, write_bytes
from bench_schema.upgrade import version_of
from bench_schema.validator import check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

__all__ = ["Journal", "document_of", "journal_path", "merge_cases", "read_journal", "seal"]

PathLike: TypeAlias = str | os.PathLike[str]

JOURNAL_START = b'{"journal":'
LINES = {
    "journal": ("", Document),
    "case": ("Case", Case),
    "engine": ("Engine", Engine),
    "machine": ("Machine", Machine),
}
"""Field of a line → definition of the schema that its value follows, and its class."""
NO_HEADER = "not a journal, or cut off within its first line: nothing was finished"
OPENING = re.compile(rb'\{"(\w+)":')


def journal_path(output: PathLike) -> Path:
    """Where the journal of an output lies."""
    return Path(f"{os.fspath(output)}.journal")


class Journal:
    """An open journal; every append is one write that reaches the operating system at once."""

    def __init__(self, path: PathLike, mode: str) -> None:
        self.path = Path(path)
        self._engines: set[str] = set()
        try:
            self._file = self.path.open(mode, buffering=0)
        except FileExistsError:
            raise UnwritableError(str(path), "an unfinished run is there already") from None
        except OSError as error:
            raise UnwritableError(str(path), f"cannot be written: {error.strerror}") from None

    @classmethod
    def create(cls, path: PathLike, header: Document) -> Journal:
        """A new journal; refuses to overwrite one, for it holds measurements."""
        if header.cases:
            raise ValueError("the header of a journal has no cases: append them")
        run = replace(header.run, complete=False, finished=None)
        line = _line("journal", replace(header, run=run), str(path))
        journal = cls(path, "xb")
        journal._write(line)
        journal._engines.update(engine.key for engine in header.engines)
        return journal

    @classmethod
    def reopen(cls, path: PathLike) -> Journal:
        """An existing journal to go on with; a torn last line is dropped from the file."""
        journal = cls(path, "r+b")
        data = journal.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if not data.startswith(JOURNAL_START) or whole == 0:
            journal.close()
            raise UnreadableError(str(path), NO_HEADER)
        journal._engines = _engine_keys(data, str(path))
        journal._file.truncate(whole)
        journal._file.seek(whole)
        return journal

    def append_case(self, case: Case) -> None:
        """Save a case with just the rounds that this visit adds; its engine must be known."""
        if case.engine not in self._engines:
            raise SchemaError(str(self.path), f"new case: no engine {case.engine!r} was added")
        self._write(_line("case", case, str(self.path)))

    def append_engine(self, engine: Engine) -> None:
        """Add an engine, or replace the one with the same key."""
        self._write(_line("engine", engine, str(self.path)))
        self._engines.add(engine.key)

    def set_machine(self, machine: Machine) -> None:
        """Replace what is known of the machine."""
        self._write(_line("machine", machine, str(self.path)))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        """Add one line; if that fails or is interrupted the journal stays as it was."""
        start = self._file.tell()
        written = 0
        try:
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise UnwritableError(str(self.path), what) from None
        finally:
            if written < len(line):
                self._file.seek(start)
                with contextlib.suppress(OSError):
                    self._file.truncate()


def _line(field: str, value: Case | Engine | Machine | Document, where: str) -> bytes:
    """One line, sure to be readable: it is checked as it will be on reading."""
    data = encode(value)
    read_value(field, data, f"{where}: new {field}")
    return b'{"%s":%s}\n' % (field.encode(), data)


def read_journal(path: PathLike) -> Document:
    """The document that a journal holds so far; a torn last line is left out."""
    return document_of(read_bytes(path), str(path))


def document_of(data: bytes, where: str) -> Document:
    """The document that the text of a journal holds so far."""
    with collector_paused():
        header, parts = _collect(data, where)
        by_id: dict[str, list[Case]] = {}
        for part in parts:
            by_id.setdefault(part.id, []).append(part)
        devices = {e.key: find_device(header.machine, e.device) for e in header.engines}
        cases = tuple(
            with_rates(merge_cases(visits), devices.get(visits[0].engine))
            for visits in by_id.values()
        )
        return replace(header, cases=cases)


def _lines(data: bytes, where: str) -> Iterator[tuple[str, bytes, str]]:
    """Field, text of its value and place of every whole line."""
    start = 0
    for number in itertools.count(1):
        end = data.find(b"\n", start)
        if end < 0:
            return
        opening = OPENING.match(data, start, end)
        field = opening[1].decode() if opening else ""
        place = f"{where}: line {number}"
        if opening is None or field not in LINES or data[end - 1 : end] != b"}":
            raise SchemaError(place, f"expected an object with one field of {', '.join(LINES)}")
        yield field, data[opening.end() : end - 1], place
        start = end + 1


def _collect(data: bytes, where: str) -> tuple[Document, list[Case]]:
    """The header with engines and machine as known last, and the parts of cases."""
    lines = _lines(data, where)
    field, text, place = next(lines, ("", b"", where))
    if field != "journal":
        raise UnreadableError(where, NO_HEADER)
    if version_of(parse(text, place), place) < SCHEMA_VERSION:
        document = from_tree(_tree(_lines(data, where)), where)
        return document, list(document.cases)
    header: Document = read_value(field, text, place)
    engines = {engine.key: engine for engine in header.engines}
    machine, parts = header.machine, list(header.cases)
    for field, text, place in lines:
        value = read_value(field, text, place)
        if isinstance(value, Case):
            parts.append(value)
        elif isinstance(value, Engine):
            engines[value.key] = value
        elif isinstance(value, Machine):
            machine = value
        else:
            raise SchemaError(place, "a second header")
    return replace(header, engines=tuple(engines.values()), machine=machine), parts


def _engine_keys(data: bytes, where: str) -> set[str]:
    """Keys of the engines that a journal has so far, without reading its cases."""
    keys: set[str] = set()
    for field, text, place in _lines(data, where):
        if field == "engine":
            keys.add(read_value(field, text, place).key)
        elif field == "journal":
            keys.update(engine["key"] for engine in parse(text, place)["engines"])
    return keys


def read_value(field: str, text: bytes, where: str) -> Any:
    """What one line adds, valid by the present schema."""
    name, kind = LINES[field]
    try:
        return build(decoder(SCHEMA_VERSION, name)(text), kind)
    except msgspec.MsgspecError:
        tree = parse(text, where)
        check(tree, SCHEMA_VERSION, where, name)
        return build(whole_numbers(tree), kind)


def _tree(lines: Iterator[tuple[str, bytes, str]]) -> dict[str, Any]:
    """The journal of an older version as one tree, so that it is upgraded as documents are."""
    values = [(field, parse(text, place)) for field, text, place in lines]
    tree: dict[str, Any] = values[0][1]
    engines = {engine["key"]: engine for engine in tree["engines"]}
    for field, value in values[1:]:
        if field == "engine":
            engines[value["key"]] = value
        elif field == "machine":
            tree["machine"] = value
    cases = [value for field, value in values if field == "case"]
    return {**tree, "engines": list(engines.values()), "cases": cases}


def ordered(cases: Sequence[Case], order: Sequence[str]) -> tuple[Case, ...]:
    """The cases in the order of their ids in ``order``, the others after them."""
    place = {case_id: index for index, case_id in enumerate(order)}
    return tuple(sorted(cases, key=lambda case: place.get(case.id, len(place))))


def seal(
    journal: PathLike,
    output: PathLike,
    *,
    finished: str,
    complete: bool = True,
    order: Sequence[str] = (),
) -> Document:
    """Turn a journal into the document, by one atomic replace; then the journal goes.

    Cases stand in the order of their ids in ``order``; those it does not name come last, as they
    first appeared.
    """
    document = read_journal(journal)
    run = replace(document.run, finished=finished, complete=complete)
    document = replace(document, run=run, cases=ordered(document.cases, order))
    write_bytes(output, encode(document))
    try:
        Path(journal).unlink()
    except OSError as error:
        raise UnwritableError(str(journal), f"cannot be removed: {error.strerror}") from None
    return document
