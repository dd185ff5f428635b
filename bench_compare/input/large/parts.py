"""The text of a large document, and the parts of it that can be read apart.

Parts are cut where our own writer puts the border of two cases. What is no border after all makes
a part that is no list of cases, and the document is read as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from bench_schema.errors import UnreadableError
from bench_schema.packing import GZIP_MAGIC, ZSTD_MAGIC, read_bytes

if TYPE_CHECKING:
    from pathlib import Path

CASES = re.compile(rb',"cases":\[')
AFTER_CASES = b'],"parts":['
BORDER = re.compile(rb'\},\{"id":')
WINDOW_BYTES = 1 << 16
"""What stands around the cases is found in so much of either end, or else in all of the text."""
STEP_BYTES = 1 << 14
"""The border of two cases is looked for in so much at a time."""
LONGEST_BORDER = 16
OPEN, CLOSE = ord("["), ord("]")


@dataclass(frozen=True)
class Layout:
    """Where the cases of a document are in its text."""

    first: int
    last: int
    frame: bytes
    """The document without its cases."""


Span: TypeAlias = "tuple[int, int]"
"""Of a text: its first byte, and the one after its last."""
Fetch: TypeAlias = Callable[[int, int], bytearray]
"""A range of a text, as memory of the caller's own."""


class Reread:
    """Ranges of a file that stays as it is: nothing of it has to be in memory."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.state = _state(file)

    def __call__(self, first: int, last: int) -> bytearray:
        """Raises `UnreadableError` where it is no longer the file that it was."""
        found = bytearray(last - first)
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(first)
                whole = file.readinto(found) == len(found)
                same = _state(file) == self.state
        except OSError as error:
            raise UnreadableError(str(self.path), f"cannot be read: {error.strerror}") from None
        if not (same and whole):
            raise UnreadableError(str(self.path), "it was changed while it was read")
        return found


def _state(file: BinaryIO) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def open_text(path: Path) -> tuple[int, Fetch]:
    """How long the text of a file is, unpacked, and how to come by ranges of it."""
    with path.open("rb") as file:
        if not file.peek(4).startswith((GZIP_MAGIC, ZSTD_MAGIC)):
            return os.fstat(file.fileno()).st_size, Reread(path, file)
    data = read_bytes(path)
    return len(data), lambda first, last: bytearray(data[first:last])


def layout(fetch: Fetch, size: int) -> Layout | None:
    """None where it is written in another way than ours."""
    for window in (min(WINDOW_BYTES, size), size):
        head, tail = fetch(0, window), fetch(size - window, size)
        begin, end = CASES.search(head), tail.rfind(AFTER_CASES)
        if begin is not None and end >= 0:
            first, last = begin.end(), size - window + end
            return Layout(first, last, bytes(head[:first] + tail[end:])) if first <= last else None
    return None


def pieces(fetch: Fetch, found: Layout, count: int) -> list[Span]:
    """Ranges of the text of about equal length, `count` at most, each of whole cases."""
    starts = [found.first]
    for part in range(1, count):
        place = found.first + (found.last - found.first) * part // count
        border = _border(fetch, max(place, starts[-1]), found.last)
        if border is None:
            break  # nor is there one behind a later place
        starts.append(border)
    ends = [*(start - 1 for start in starts[1:]), found.last]
    return list(zip(starts, ends, strict=True))


def _border(fetch: Fetch, first: int, last: int) -> int | None:
    """Where the next case begins."""
    for start in range(first, last, STEP_BYTES):
        text = fetch(start, min(start + STEP_BYTES + LONGEST_BORDER, last))
        border = BORDER.search(text)
        if border is not None:
            return start + border.start() + 2
    return None


def as_list(fetch: Fetch, span: Span) -> bytearray:
    """The text of a piece as that of a list: what parts it from its neighbours is a bracket."""
    first, last = span
    text = fetch(first - 1, last + 1)
    text[0], text[-1] = OPEN, CLOSE
    return text
