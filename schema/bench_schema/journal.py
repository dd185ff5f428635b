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
    read_bytes,
    save,
    whole_numbers,
)
from bench_schema.document import SCHEMA_VERSION, Case, Document, Engine, Machine
from bench_schema.errors import DocumentError, SchemaError, UnreadableError, UnwritableError
from bench_schema.merge import find_device, merge_cases, with_rates
from bench_schema.upgrade import version_of
from bench_schema.validator import check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["Journal", "document_of", "journal_path", "merge_cases", "read_journal", "seal"]

PathLike: TypeAlias = str | os.PathLike[str]

LINES = {
    "journal": ("", Document),
    "case": ("Case", Case),
    "engine": ("Engine", Engine),
    "machine": ("Machine", Machine),
}
"""Field of a line → definition of the schema that its value follows, and its class."""
OPENING = re.compile(rb'\{"(\w+)":')


def journal_path(output: PathLike) -> Path:
    """Where the journal of an output lies."""
    return Path(f"{os.fspath(output)}.journal")


class Journal:
    """An open journal; every append is one write that reaches the operating system at once."""

    def __init__(self, path: PathLike, mode: str) -> None:
        self.path = Path(path)
        try:
            self._file = self.path.open(mode, buffering=0)
        except FileExistsError:
            raise UnwritableError(str(path), "an unfinished run is there already") from None
        except OSError as error:
            raise UnwritableError(str(path), f"cannot be written: {error.strerror}") from None

    @classmethod
    def create(cls, path: PathLike, header: Document) -> Journal:
        """A new journal; refuses to overwrite one, for it holds measurements."""
        if header.cases or header.run.complete:
            raise ValueError("the header of a journal is an unfinished document without cases")
        journal = cls(path, "xb")
        journal._append("journal", header)
        return journal

    @classmethod
    def reopen(cls, path: PathLike) -> Journal:
        """An existing journal to go on with; a torn last line is dropped from the file."""
        journal = cls(path, "r+b")
        data = journal.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if not data.startswith(b'{"journal":') or whole == 0:
            journal.close()
            raise UnreadableError(str(path), "not a journal, or cut off within its first line")
        journal._file.truncate(whole)
        journal._file.seek(whole)
        return journal

    def append_case(self, case: Case) -> None:
        """Save a case with just the rounds that this visit adds."""
        self._append("case", case)

    def append_engine(self, engine: Engine) -> None:
        """Add an engine, or replace the one with the same key."""
        self._append("engine", engine)

    def set_machine(self, machine: Machine) -> None:
        self._append("machine", machine)

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

    def _append(self, field: str, value: Case | Engine | Machine | Document) -> None:
        """Write one line, valid by the schema; if the disk is full the file stays as it was."""
        data = encode(value)
        read_value(field, data, f"{self.path}: new {field}")
        line = b'{"%s":%s}\n' % (field.encode(), data)
        start = self._file.tell()
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError as error:
            self._file.truncate(start)
            self._file.seek(start)
            raise UnwritableError(str(self.path), f"cannot be written: {error.strerror}") from None


def read_journal(path: PathLike) -> Document:
    """The document that a journal holds so far; a torn last line is left out."""
    return document_of(read_bytes(path), str(path))


def document_of(data: bytes, where: str) -> Document:
    """The document that the text of a journal holds so far."""
    with collector_paused():
        lines = list(_lines(data, where))
        if not lines or lines[0][0] != "journal":
            raise UnreadableError(where, "not a journal, or cut off within its first line")
        header, parts = _collect(lines, where)
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
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        place = f"{where}: line {number}"
        opening = OPENING.match(line)
        field = opening[1].decode() if opening else ""
        if opening is None or field not in LINES or not line.endswith(b"}"):
            raise SchemaError(place, f"expected an object with one field of {', '.join(LINES)}")
        yield field, line[opening.end() : -1], place


def _collect(lines: list[tuple[str, bytes, str]], where: str) -> tuple[Document, list[Case]]:
    """The header with engines and machine as known last, and the parts of cases."""
    field, text, place = lines[0]
    if version_of(parse(text, place), place) < SCHEMA_VERSION:
        document = from_tree(_tree(lines), where)
        return document, list(document.cases)
    header: Document = read_value(field, text, place)
    engines = {engine.key: engine for engine in header.engines}
    machine, parts = header.machine, []
    for field, text, place in lines[1:]:
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


def read_value(field: str, text: bytes, where: str) -> Any:
    """What one line adds, valid by the present schema."""
    name, kind = LINES[field]
    try:
        return build(decoder(SCHEMA_VERSION, name)(text), kind)
    except msgspec.MsgspecError:
        tree = parse(text, where)
        check(tree, SCHEMA_VERSION, where, name)
        return build(whole_numbers(tree), kind)


def _tree(lines: list[tuple[str, bytes, str]]) -> dict[str, Any]:
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


def seal(journal: PathLike, output: PathLike, *, finished: str, complete: bool = True) -> Document:
    """Turn a journal into the document, by one atomic replace; then the journal goes."""
    document = read_journal(journal)
    run = replace(document.run, finished=finished, complete=complete)
    document = replace(document, run=run)
    save(output, document)
    try:
        Path(journal).unlink()
    except OSError as error:
        raise DocumentError(str(journal), f"cannot be removed: {error.strerror}") from None
    return document
