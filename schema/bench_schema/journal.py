"""The journal of an unfinished run: ``OUT.json.journal`` beside ``OUT.json``.

Lines of JSON, each an object with the field that it adds, and the CRC-32 of all bytes before the
checksum:

    {"journal": Document, "crc32": "9f86d081"}   the first line: no cases, not complete
    {"case": Case, "crc32": "8a1b22c0"}          the rounds of one visit to a case

A line counts once its newline is there, so a crash costs the line that was being written and
nothing else; a line that is damaged later costs its round. Saving costs the size of the line,
never that of the document.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bench_schema.checks.acceptor import check_integers, decoder
from bench_schema.checks.validator import check
from bench_schema.codec import build, case_of, check_rounds, encode, parse, whole_numbers
from bench_schema.document import SCHEMA_VERSION, Case, Document
from bench_schema.errors import SchemaError, UnreadableError, UnwritableError
from bench_schema.merge import find_device, merge_cases, with_rates, with_shortfall
from bench_schema.packing import read_bytes, write_bytes
from bench_schema.upgrade import version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

__all__ = ["Journal", "document_of", "journal_path", "merge_cases", "read_journal", "seal"]

PathLike: TypeAlias = str | os.PathLike[str]

LINES: dict[str, tuple[str, type]] = {"journal": ("", Document), "case": ("Case", Case)}
"""Field of a line → definition of the schema that its value follows, and its class."""
JOURNAL_START = b'{"journal":'
_OPENING = re.compile(rb'\{"(\w+)":')
_ENDING = re.compile(rb',"crc32":"([0-9a-f]{8})"\}')
_ENDING_LENGTH = len(b',"crc32":"00000000"}')


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
    return data.startswith(JOURNAL_START)


def read_lines(data: bytes, where: str, damage: list[str]) -> Iterator[Line]:
    """Yield every whole line, the header first; lines that were left out are added to ``damage`` in
    sentences. A last line without newline was being written when the run ended: it does not
    count."""
    if not is_journal(data) or b"\n" not in data:
        what = "not a journal, or cut off within its first line: no case was finished"
        raise UnreadableError(where, what)
    for number, text in enumerate(data[: data.rfind(b"\n")].split(b"\n"), 1):
        place = f"{where}: line {number}"
        found = _checked(text, place)
        if found is not None:
            yield found
        elif number == 1:
            raise UnreadableError(place, "the header is damaged: what was measured is not known")
        else:
            damage.append(
                f"line {number} of the journal ({len(text)} bytes) is damaged and was left out"
            )


def _checked(text: bytes, place: str) -> Line | None:
    """Return a line whose checksum is right."""
    begin, ending = text[:-_ENDING_LENGTH], _ENDING.fullmatch(text[-_ENDING_LENGTH:])
    opening = _OPENING.match(begin)
    if ending is None or opening is None or zlib.crc32(begin) != int(ending[1], 16):
        return None
    field = opening[1].decode()
    if field not in LINES:
        raise SchemaError(place, f"expected an object with one field of {', '.join(LINES)}")
    return Line(field, begin[opening.end() :], place)


def journal_path(output: PathLike) -> Path:
    """Return the path of an output's journal."""
    return Path(f"{os.fspath(output)}.journal")


class Journal:
    """An open journal; every append is one write that reaches the operating system at once. What it
    holds is kept here too: a file that another process deletes or changes is written again."""

    def __init__(self, path: PathLike, header: Document, text: bytes) -> None:
        """`text`: what the file holds."""
        self.path, self._text = Path(path), [text]
        self.was_changed = False
        """True once something else had changed the file."""
        self._engines = {engine.key for engine in header.engines}
        self._open()

    def _open(self) -> None:
        try:
            self._file = self.path.open("r+b", buffering=0)
        except OSError as error:
            raise UnwritableError(str(self.path), f"cannot be written: {error.strerror}") from None
        self._size = self._file.seek(0, os.SEEK_END)

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
        run = replace(header.run, complete=False, finished=None)
        first = _line("journal", replace(header, run=run), str(path))
        text = b"".join([first, *(_line("case", case, str(path)) for case in cases)])
        write_bytes(path, text)
        return cls(path, header, text)

    @classmethod
    def reopen(cls, path: PathLike) -> Journal:
        """Return an existing journal to go on with; a torn last line is dropped from the file."""
        data = read_bytes(path)
        whole = data.rfind(b"\n") + 1
        journal = cls(path, _collect(data, str(path), [])[0], data[:whole])
        journal._file.truncate(whole)
        journal._size = journal._file.seek(whole)
        return journal

    def append_case(self, case: Case) -> None:
        """Save a case with just the rounds that this visit adds. Raises `UnwritableError`: the
        journal is then as it was."""
        if case.engine not in self._engines:
            raise SchemaError(str(self.path), f"new case: no engine {case.engine!r} was added")
        text = _line("case", case, str(self.path))
        if not self._is_there():
            self.restore()
        start, written = self._size, 0
        try:
            while written < len(text):
                written += self._file.write(text[written:])
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise UnwritableError(str(self.path), what) from None
        finally:
            if written < len(text):
                self._file.seek(start)
                with contextlib.suppress(OSError):
                    self._file.truncate()
        self._text.append(text)
        self._size += len(text)

    def _is_there(self) -> bool:
        """Return True if the path still names this file, and it is as long as it was left."""
        with contextlib.suppress(OSError):
            named = self.path.stat()
            return os.path.samestat(named, os.fstat(self._file.fileno())) and (
                named.st_size == self._size
            )
        return False

    def restore(self) -> None:
        """Write the file again if it does not hold what was written."""
        text = b"".join(self._text)
        with contextlib.suppress(OSError):
            if self.path.read_bytes() == text:
                return
        self.was_changed = True
        self._file.close()
        write_bytes(self.path, text)
        self._open()

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


def _line(field: str, value: Case | Document, where: str) -> bytes:
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
    header, parts = _collect(data, where, damage)
    by_id: dict[str, list[Case]] = {}
    for part in parts:
        by_id.setdefault(part.id, []).append(part)
    devices = {e.key: find_device(header.machine, e.device) for e in header.engines}
    processors = {e.key: header.machine.cpu for e in header.engines if e.device == "cpu"}
    cases = tuple(
        with_rates(
            with_shortfall(merge_cases(visits), header.run.settings),
            devices.get(visits[0].engine),
            processors.get(visits[0].engine),
        )
        for visits in by_id.values()
    )
    for number, case in enumerate(cases):
        check_rounds(case, f"{where}: cases[{number}]")
    return replace(header, cases=cases, run=replace(header.run, notes=(*header.run.notes, *damage)))


def _collect(data: bytes, where: str, damage: list[str]) -> tuple[Document, list[Case]]:
    """Return the header and the parts of cases."""
    lines = read_lines(data, where, damage)
    first = next(lines)
    version = version_of(parse(first.text, first.place), first.place)
    if version < SCHEMA_VERSION:
        what = f"a journal of schema version {version}: finish it with the bench-run that began it"
        raise UnreadableError(first.place, what)
    header: Document = read_value(first.field, first.text, first.place)
    rest = list(lines)
    if any(each.field != "case" for each in rest):
        raise SchemaError(where, "a second header")
    return header, [read_value(each.field, each.text, each.place) for each in rest]


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
    notes: Sequence[str] = (),
) -> Document:
    """Turn a journal into the document, by one atomic replace; then the journal goes.

    Cases stand in the order of their ids in ``order``; those it does not name come last, as they
    first appeared. ``notes`` are added to those of the run.
    """
    document = read_journal(journal)
    said = (*document.run.notes, *notes)
    run = replace(document.run, finished=finished, complete=complete, notes=said)
    document = replace(document, run=run, cases=ordered(document.cases, order))
    write_bytes(output, encode(document))
    try:
        Path(journal).unlink()
    except OSError as error:
        raise UnwritableError(str(journal), f"cannot be removed: {error.strerror}") from None
    return document
