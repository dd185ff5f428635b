"""The journal of an unfinished run: ``OUT.json.journal`` beside ``OUT.json``.

Lines of JSON, each an object with a field that says what it adds, and a checksum (`lines`):

    {"journal": Document}   the first line: a document without cases, not complete; a copy of it
                            follows the first record that each process appends
    {"case": Case}          the rounds of one visit to a case
    {"engine": Engine}      an engine that became known, or is known better (same key)
    {"machine": Machine}    the machine, now known better

A line counts once its newline is there, so a crash costs the line that was being written and
nothing else; a line that is damaged later costs what it held. Saving costs the size of the line,
never that of the document.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import orjson

from bench_schema.checks.acceptor import check_integers, decoder
from bench_schema.checks.validator import check
from bench_schema.codec import (
    build,
    case_of,
    check_rounds,
    encode,
    from_tree,
    parse,
    whole_numbers,
)
from bench_schema.document import SCHEMA_VERSION, Case, Document, EngineRecord, Machine
from bench_schema.errors import SchemaError, UnreadableError, UnwritableError
from bench_schema.merge import (
    find_device,
    merge_cases,
    with_rates,
    with_shortfall,
    without_rounds,
    without_voided,
)
from bench_schema.packing import read_bytes, write_bytes
from bench_schema.upgrade import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

__all__ = ["Journal", "document_of", "journal_path", "merge_cases", "read_journal", "seal"]


# The lines of a journal: each carries a checksum, so that damage costs what it hit and no more.
#
# A line is an object with the field that it adds and the CRC-32 of all bytes before the checksum:
#
#     {"case":{...},"crc32":"9f86d081"}
#
# Journals of older versions have no checksums: there a line is whole if it is JSON.

FIELDS = ("journal", "case", "engine", "machine")
JOURNAL_START = b'{"journal":'
NO_HEADER = "not a journal, or cut off within its first line: no case was finished"
DAMAGED_HEADER = "the header is damaged, and so are its copies: what was measured is not known"
SECOND_HEADER = "a second header, unlike the first"
OPENING = re.compile(rb'\{"(\w+)":')
ENDING = re.compile(rb',"crc32":"([0-9a-f]{8})"\}')
ENDING_LENGTH = len(b',"crc32":"00000000"}')
CHECKED = re.compile(ENDING.pattern + rb"\n")


@dataclass(frozen=True)
class Line:
    field: str
    text: bytes
    """JSON of the value."""
    place: str


def line(field: str, text: bytes) -> bytes:
    """Return one line, its checksum and newline included."""
    begin = b'{"%s":%s' % (field.encode(), text)
    return b'%s,"crc32":"%08x"}\n' % (begin, zlib.crc32(begin))


def is_journal(data: bytes) -> bool:
    """Return True if the data begin like a journal or, for a damaged first line, if any line ends
    with a checksum."""
    return data.startswith(JOURNAL_START) or CHECKED.search(data) is not None


def read_lines(data: bytes, where: str, damage: list[str]) -> Iterator[Line]:
    """Yield every whole line, the header first; lines that were left out are added to ``damage`` in
    sentences.

    A last line without newline was being written when the run ended: it does not count. Copies of
    the header count where the first line is damaged.
    """
    if not is_journal(data) or b"\n" not in data:
        raise UnreadableError(where, NO_HEADER)
    checked = CHECKED.search(data) is not None
    header = _header(data, where) if checked else None
    if header is not None:
        yield header
    for number, text in enumerate(_split(data), 1):
        place = f"{where}: line {number}"
        found = _checked(text, place) if checked else _unchecked(text, place)
        if header is None:  # of an older journal, which has no copies of it
            if found is None or found.field != "journal":
                raise UnreadableError(place, DAMAGED_HEADER)
            header = found
            yield header
        elif found is not None:
            yield from _other_than(header, found)
        else:
            damage.append(
                f"line {number} of the journal ({len(text)} bytes) is damaged and was left out"
            )


def _header(data: bytes, where: str) -> Line:
    """Return the first undamaged header."""
    start = -1
    while (start := data.find(JOURNAL_START, start + 1)) >= 0:
        end = data.find(b"\n", start)
        number = data.count(b"\n", 0, start) + 1
        found = _checked(data[start:end], f"{where}: line {number}")
        if found is not None:
            return found
    raise UnreadableError(f"{where}: line 1", DAMAGED_HEADER)


def _other_than(header: Line, found: Line) -> Iterator[Line]:
    """Yield the lines that are not copies of the header."""
    if found.field != "journal":
        yield found
    elif found.text != header.text:
        raise SchemaError(found.place, SECOND_HEADER)


def _split(data: bytes) -> Iterator[bytes]:
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        yield data[start:end]
        start = end + 1


def _checked(text: bytes, place: str) -> Line | None:
    """Return a line whose checksum is right."""
    begin, ending = text[:-ENDING_LENGTH], ENDING.fullmatch(text[-ENDING_LENGTH:])
    opening = OPENING.match(begin)
    if ending is None or opening is None or zlib.crc32(begin) != int(ending[1], 16):
        return None
    return _known(opening[1].decode(), begin[opening.end() :], place)


def is_whole(text: bytes) -> bool:
    """Return True if a line, without its newline, is complete and unchanged."""
    return _checked(text, "") is not None


def _unchecked(text: bytes, place: str) -> Line | None:
    """Return a line of an older journal."""
    opening = OPENING.match(text)
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    field, start = ("", 0) if opening is None else (opening[1].decode(), opening.end())
    return _known(field, text[start:-1], place)


def _known(field: str, text: bytes, place: str) -> Line:
    if field not in FIELDS:
        raise SchemaError(place, f"expected an object with one field of {', '.join(FIELDS)}")
    return Line(field, text, place)


PathLike: TypeAlias = str | os.PathLike[str]

LINES = {
    "journal": ("", Document),
    "case": ("Case", Case),
    "engine": ("Engine", EngineRecord),
    "machine": ("Machine", Machine),
}
"""Field of a line → definition of the schema that its value follows, and its class."""


def journal_path(output: PathLike) -> Path:
    """Return the path of an output's journal."""
    return Path(f"{os.fspath(output)}.journal")


class Journal:
    """An open journal; every append is one write that reaches the operating system at once."""

    def __init__(self, path: PathLike, header: Document) -> None:
        self.path = Path(path)
        self._engines = {engine.key for engine in header.engines}
        self._copy = b""
        """Second copy of the header, so that damage in one place of the file leaves the other."""
        try:
            self._file = self.path.open("r+b", buffering=0)
        except OSError as error:
            raise UnwritableError(str(path), f"cannot be written: {error.strerror}") from None
        self._file.seek(0, os.SEEK_END)

    @classmethod
    def create(cls, path: PathLike, header: Document, cases: Sequence[Case] = ()) -> Journal:
        """Return a new journal, there as a whole or not at all, with the cases that are known
        already.

        Refuse to overwrite one, for it holds measurements.
        """
        if header.cases:
            raise ValueError("the header of a journal has no cases: append them")
        if Path(path).exists():
            raise UnwritableError(str(path), "an unfinished run is there already")
        return cls._written(path, header, cases)

    @classmethod
    def reopen(cls, path: PathLike) -> Journal:
        """Return an existing journal to go on with; a torn last line is dropped from the file.

        One of an older version, or with a damaged header, is written anew in the present form.
        """
        data = read_bytes(path)
        first = data[: data.find(b"\n")]
        begin = JOURNAL_START + b'{"schema_version":%d,' % SCHEMA_VERSION
        if not (first.startswith(begin) and is_whole(first)):
            document = document_of(data, str(path))
            return cls._written(path, replace(document, cases=()), document.cases)
        journal = cls(path, _collect(data, str(path), [])[0])
        whole = data.rfind(b"\n") + 1
        journal._file.truncate(whole)
        journal._file.seek(whole)
        journal._copy = data[: data.find(b"\n") + 1]
        return journal

    @classmethod
    def _written(cls, path: PathLike, header: Document, cases: Sequence[Case]) -> Journal:
        # in one atomic step: a run that is killed meanwhile leaves no journal, or all of it
        run = replace(header.run, complete=False, finished=None)
        first = _line("journal", replace(header, run=run), str(path))
        write_bytes(path, b"".join([first, *(_line("case", case, str(path)) for case in cases)]))
        journal = cls(path, header)
        journal._copy = first
        return journal

    def append_case(self, case: Case) -> None:
        """Save a case with just the rounds that this visit adds; its engine must be known."""
        if case.engine not in self._engines:
            raise SchemaError(str(self.path), f"new case: no engine {case.engine!r} was added")
        self._write(_line("case", case, str(self.path)))

    def append_engine(self, engine: EngineRecord) -> None:
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
        """Add one line, the first time with a copy of the header; if that fails or is interrupted
        the journal stays as it was."""
        line += self._copy
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
            else:
                self._copy = b""


def _line(field: str, value: Case | EngineRecord | Machine | Document, where: str) -> bytes:
    """Return one line, sure to be readable: it is checked as in reading."""
    data = encode(value)
    read_value(field, data, f"{where}: new {field}")
    return line(field, data)


def read_journal(path: PathLike) -> Document:
    """Return the document that a journal holds so far; a torn last line is left out."""
    return document_of(read_bytes(path), str(path))


def document_of(data: bytes, where: str) -> Document:
    """Return the document that the text of a journal holds so far; its run notes what was left
    out."""
    damage: list[str] = []
    header, parts, lost = _collect(data, where, damage)
    by_id: dict[str, list[Case]] = {}
    for part in parts:
        by_id.setdefault(part.id, []).append(part)
    devices = {e.key: find_device(header.machine, e.device) for e in header.engines}
    processors = {e.key: header.machine.cpu for e in header.engines if e.device == "cpu"}
    cases = tuple(
        with_rates(
            with_shortfall(
                merge_cases(_with_first_rounds(without_voided(visits), damage)),
                header.run.settings,
            ),
            devices.get(visits[0].engine),
            processors.get(visits[0].engine),
        )
        for visits in by_id.values()
    )
    for number, case in enumerate(cases):
        check_rounds(case, f"{where}: cases[{number}]")
    notes = (*header.run.notes, *damage, *lost)
    return replace(header, cases=cases, run=replace(header.run, notes=notes))


def _collect(data: bytes, where: str, damage: list[str]) -> tuple[Document, list[Case], list[str]]:
    """Return the header with the last engines and machine, the parts of cases, and sentences on
    parts of unknown engines."""
    lines = _without_repeated(read_lines(data, where, damage), damage)
    first = next(lines)
    if version_of(parse(first.text, first.place), first.place) < SCHEMA_VERSION:
        document = from_tree(_tree([first, *lines]), where)
        return replace(document, cases=()), *_of_engines(document.engines, document.cases)
    header: Document = read_value(first.field, first.text, first.place)
    engines = {engine.key: engine for engine in header.engines}
    machine, parts = header.machine, list(header.cases)
    for each in lines:
        value = read_value(each.field, each.text, each.place)
        if isinstance(value, Case):
            parts.append(value)
        elif isinstance(value, EngineRecord):
            engines[value.key] = value
        else:
            machine = value
    known = tuple(engines.values())
    return replace(header, engines=known, machine=machine), *_of_engines(known, parts)


def _without_repeated(lines: Iterable[Line], damage: list[str]) -> Iterator[Line]:
    """Yield records of cases once, however often they were written."""
    seen: set[bytes] = set()
    repeated = 0
    for each in lines:
        digest = hashlib.blake2b(each.text, digest_size=16).digest()
        if each.field == "case" and digest in seen:
            repeated += b'"rounds":[]' not in each.text  # each resume notes what failed to load
            continue
        seen.add(digest)
        yield each
    if repeated:
        damage.append(f"{repeated} lines of the journal repeat others and were left out")


def _with_first_rounds(parts: Sequence[Case], damage: list[str]) -> list[Case]:
    """Return the parts of a case with each round once, as it was first written."""
    seen: set[int] = set()
    kept = []
    for part in parts:
        before = frozenset(seen)
        seen.update(each.index for each in part.rounds)
        again = [each.index for each in part.rounds if each.index in before]
        if again:
            damage.append(f"round {again[0]} of {part.id} is there twice: the first is kept")
        if not again or len(again) < len(part.rounds):
            kept.append(without_rounds(part, lambda each: each.index in before))  # noqa: B023
    return kept


def _of_engines(
    engines: Sequence[EngineRecord], parts: Sequence[Case]
) -> tuple[list[Case], list[str]]:
    """Return the parts of known engines, and a sentence on the others: their engine's line is
    damaged."""
    keys = {engine.key for engine in engines}
    lost = Counter(part.engine for part in parts if part.engine not in keys)
    sentences = [
        f"{count} records of engine {key} were left out: what it is was in a damaged line"
        for key, count in lost.items()
    ]
    return [part for part in parts if part.engine in keys], sentences


def read_value(field: str, text: bytes, where: str) -> Any:
    """Return the content of one line, valid by the present schema."""
    name, kind = LINES[field]
    try:
        accepted = decoder(SCHEMA_VERSION, name)(text)
        return case_of(accepted) if kind is Case else build(accepted, kind)
    except msgspec.MsgspecError:
        tree = parse(text, where)
        check(tree, SCHEMA_VERSION, where, name)
        whole = whole_numbers(tree)
        check_integers(whole, SCHEMA_VERSION, where, name)
        return build(whole, kind)


def _tree(lines: Sequence[Line]) -> dict[str, Any]:
    """Return the journal of an older version as one tree, so that it is upgraded as documents
    are."""
    values = [(each.field, parse(each.text, each.place)) for each in lines]
    tree: dict[str, Any] = values[0][1]
    first = lines[0].place
    if not isinstance(tree, dict) or not isinstance(tree.get("engines"), list):
        raise SchemaError(first, "no header: expected an object with a list of engines")
    engines = {_key(engine, first): engine for engine in tree["engines"]}
    for (field, value), each in zip(values[1:], lines[1:], strict=True):
        if field == "engine":
            engines[_key(value, each.place)] = value
        elif field == "machine":
            tree["machine"] = value
    cases = [value for field, value in values if field == "case"]
    return {**tree, "engines": list(engines.values()), "cases": cases}


def _key(engine: Any, where: str) -> str:
    key = engine.get("key") if isinstance(engine, dict) else None
    if not isinstance(key, str):
        raise SchemaError(where, "an engine without a key")
    return key


def ordered(cases: Sequence[Case], order: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases in the order of their ids in ``order``, the others after them."""
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
