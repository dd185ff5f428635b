"""The lines of a journal: each carries a checksum, so that damage costs what it hit and no more.

A line is an object with the field that it adds and the CRC-32 of all bytes before the checksum:

    {"case":{...},"crc32":"9f86d081"}

Journals of older versions have no checksums: there a line is whole if it is JSON.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from bench_schema.errors import SchemaError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """One line, its checksum and newline included."""
    begin = b'{"%s":%s' % (field.encode(), text)
    return b'%s,"crc32":"%08x"}\n' % (begin, zlib.crc32(begin))


def is_journal(data: bytes) -> bool:
    """Told by the first line or, where that is damaged, by any checksum at the end of a line."""
    return data.startswith(JOURNAL_START) or CHECKED.search(data) is not None


def read_lines(data: bytes, where: str, damage: list[str]) -> Iterator[Line]:
    """Every whole line, the header first; what was left out is added to ``damage`` in sentences.

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
            rescued = list(_inside(text, place)) if checked else []
            yield from (each for line in rescued for each in _other_than(header, line))
            damage.append(_sentence(number, len(text), len(rescued)))


def _header(data: bytes, where: str) -> Line:
    """The first whole one."""
    start = -1
    while (start := data.find(JOURNAL_START, start + 1)) >= 0:
        end = data.find(b"\n", start)
        number = data.count(b"\n", 0, start) + 1
        found = _checked(data[start:end], f"{where}: line {number}")
        if found is not None:
            return found
    raise UnreadableError(f"{where}: line 1", DAMAGED_HEADER)


def _other_than(header: Line, found: Line) -> Iterator[Line]:
    """What is no copy of the header."""
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
    """A line whose checksum is right."""
    begin, ending = text[:-ENDING_LENGTH], ENDING.fullmatch(text[-ENDING_LENGTH:])
    opening = OPENING.match(begin)
    if ending is None or opening is None or zlib.crc32(begin) != int(ending[1], 16):
        return None
    return _known(opening[1].decode(), begin[opening.end() :], place)


def is_whole(text: bytes) -> bool:
    """Whether a line, without its newline, is as it was written."""
    return _checked(text, "") is not None


def _unchecked(text: bytes, place: str) -> Line | None:
    """A line of an older journal."""
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


def _inside(text: bytes, place: str) -> Iterator[Line]:
    """Whole lines that lost the newline between them, found within a damaged one."""
    ends = [ending.end() for ending in ENDING.finditer(text)]
    for opening in OPENING.finditer(text):
        if opening[1].decode() in FIELDS:
            end = next((end for end in ends if end > opening.end()), opening.end())
            found = _checked(text[opening.start() : end], place)
            if found is not None:
                yield found


def _sentence(number: int, size: int, rescued: int) -> str:
    kept = f", but for {rescued} whole records in it" if rescued else ""
    return f"line {number} of the journal ({size} bytes) is damaged and was left out{kept}"
