"""The text of a large document, and the parts of it that can be read apart.

Parts are cut where our own writer puts the border of two cases. What is no border after all makes
a part that is no list of cases, and the document is read as a whole.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from bench_schema.errors import UnreadableError
from bench_schema.packing import GZIP_MAGIC, ZSTD_MAGIC, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Memory: TypeAlias = mmap.mmap

CASES = re.compile(rb',"cases":\[')
AFTER_CASES = b'],"parts":['
BORDER = re.compile(rb'\},\{"id":')
TAIL_BYTES = 1 << 16
"""What stands after the cases is found in so much of the end, or else in all of the text."""
OPEN, CLOSE = ord("["), ord("]")


@dataclass(frozen=True)
class Layout:
    """Where the cases of a document are in its text."""

    first: int
    last: int
    frame: bytes
    """The document without its cases."""


Fetch: TypeAlias = Callable[[int, int], bytes]
"""A range of a text."""


class Reread:
    """Ranges of a file that was read before: nothing of it has to stay in memory."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.state = _state(file)

    def __call__(self, first: int, last: int) -> bytes:
        """Raises `UnreadableError` where it is no longer the file that was read."""
        try:
            with self.path.open("rb") as file:
                same = _state(file) == self.state
                file.seek(first)
                found = file.read(last - first)
        except OSError as error:
            raise UnreadableError(str(self.path), f"cannot be read: {error.strerror}") from None
        if not same or len(found) < last - first:
            raise UnreadableError(str(self.path), "it was changed while it was read")
        return found


def _state(file: BinaryIO) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read_text(path: Path) -> tuple[Memory, Fetch] | None:
    """The text of a file, unpacked, in memory of its own, and how to come by ranges of it later;
    None where the file is none to read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not file.peek(4).startswith((GZIP_MAGIC, ZSTD_MAGIC)):
            memory, fetch = _memory(size), Reread(path, file)
            whole = file.readinto(memory) == size and not file.read(1)
            return (memory, fetch) if whole and _state(file) == fetch.state else None
    data = read_bytes(path)
    memory = _memory(len(data))
    memory[:] = data
    return memory, lambda first, last: memory[first:last]


def _memory(size: int) -> Memory:
    """In large pages, where the system has them: to touch 140 MB in small ones takes 0.1 s."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def layout(data: Memory) -> Layout | None:
    """None where it is written in another way than ours."""
    begin, last = CASES.search(data), _rfind(data, AFTER_CASES)
    if begin is None or last < begin.end():
        return None
    return Layout(begin.end(), last, data[: begin.end()] + data[last:])


def _rfind(data: Memory, text: bytes) -> int:
    """Place of the last one, -1 where there is none."""
    before = max(len(data) - TAIL_BYTES, 0)
    found = data[before:].rfind(text)
    return data.rfind(text) if found < 0 else before + found


def pieces(data: Memory, found: Layout, count: int) -> list[tuple[int, int]]:
    """Ranges of the text of about equal length, `count` at most, each of whole cases."""
    starts = [found.first]
    for part in range(1, count):
        place = found.first + (found.last - found.first) * part // count
        border = BORDER.search(data, max(place, starts[-1]), found.last)
        if border is not None:
            starts.append(border.start() + 2)
    ends = [*(start - 1 for start in starts[1:]), found.last]
    return list(zip(starts, ends, strict=True))


@contextlib.contextmanager
def as_list(data: Memory, first: int, last: int) -> Iterator[memoryview]:
    """The text of a piece as that of a list, where it stands: what parts it from its neighbours
    is a bracket meanwhile."""
    around = data[first - 1], data[last]
    data[first - 1], data[last] = OPEN, CLOSE
    try:
        yield memoryview(data)[first - 1 : last + 1]
    finally:
        data[first - 1], data[last] = around
