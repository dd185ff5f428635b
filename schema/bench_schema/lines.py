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
DAMAGED_HEADER = "the header is damaged: nothing after it can be understood"
OPENING = re.compile(rb'\{"(\w+)":')
ENDING = re.compile(rb',"crc32":"([0-9a-f]{8})"\}')
ENDING_LENGTH = len(b',"crc32":"00000000"}')


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


def read_lines(data: bytes, where: str, damage: list[str]) -> Iterator[Line]:
    """Every whole line, the header first; what was left out is added to ``damage`` in sentences.

    A last line without newline was being written when the run ended: it does not count.
    """
    end = data.find(b"\n")
    if not data.startswith(JOURNAL_START) or end < 0:
        raise UnreadableError(where, NO_HEADER)
    checked = ENDING.fullmatch(data[:end][-ENDING_LENGTH:]) is not None
    for number, text in enumerate(_split(data), 1):
        place = f"{where}: line {number}"
        found = _checked(text, place) if checked else _unchecked(text, place)
        if number == 1 and (found is None or found.field != "journal"):
            raise UnreadableError(place, DAMAGED_HEADER)
        if found is not None:
            yield found
            continue
        rescued = list(_inside(text, place)) if checked else []
        yield from rescued
        damage.append(_sentence(number, len(text), len(rescued)))


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
