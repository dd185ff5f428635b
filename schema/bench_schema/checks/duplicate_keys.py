"""Keys that one JSON object has twice: refused, as a parser would keep the last one silently.

Parsers that are fast enough do not tell. So the text itself is looked at, in NumPy: where keys
stand, and in which object, 6 ms for a megabyte, which is too much for large ones (a third of their
decoding). Of a text of more than 4 MiB only pieces are looked at, spread evenly over it: what a
tool writes twice in each case is found there, a single one may not be. Where two keys look alike,
Python's parser reads the text up to the first that is there twice and has the last word.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_schema.checks.validator import path_text
from bench_schema.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]

WHOLE_BYTES = 1 << 22
PIECES, PIECE_BYTES = 32, 1 << 17
BORDER = re.compile(rb"\}\s*,\s*\{\s*\"")
"""Between two objects of an array."""

QUOTE, COLON, OPEN, CLOSE = b'":{}'
SPACE = b" \t\r\n"
ESCAPED = re.compile(rb"\\.", re.DOTALL)
WORD = 8
"""Bytes of a key's head and of its tail that are compared."""
MIX = np.uint64(0x9E3779B97F4A7C15)


def refuse_duplicate_keys(data: bytes, where: str) -> None:
    """Raise `SchemaError` where an object of the text, which is valid JSON, has a key twice."""
    if not may_repeat_keys(data):
        return
    found = next(_repeated(data.decode("utf-8", "surrogatepass")), None)
    if found is not None:
        path, key, case = found
        named = f" ({case})" if case else ""
        raise SchemaError(f"{where}: {path_text(path)}{named}", f"the key {key!r} is there twice")


def may_repeat_keys(data: bytes | bytearray) -> bool:
    """False where no object of the text that is looked at has a key twice."""
    return may_repeat(lambda first, last: data[first:last], len(data))


def may_repeat(fetch: Callable[[int, int], bytes | bytearray], size: int) -> bool:
    """The same of a text that is fetched range by range."""
    return any(map(_may_repeat, _pieces(fetch, size)))


def _pieces(
    fetch: Callable[[int, int], bytes | bytearray], size: int
) -> Iterator[bytes | bytearray]:
    """The text, or pieces of it; each begins with an object."""
    if size <= WHOLE_BYTES:
        yield fetch(0, size)
        return
    yield fetch(0, PIECE_BYTES)
    for start in np.linspace(0, size - PIECE_BYTES, PIECES).astype(int).tolist():
        piece = fetch(start, start + PIECE_BYTES)
        border = BORDER.search(piece)
        if border is not None:
            yield piece[piece.rfind(b"{", 0, border.end()) :]


def _may_repeat(data: bytes | bytearray) -> bool:
    """False where surely no object of the text has a key twice."""
    if b"\\" in data:
        data = ESCAPED.sub(b"__", data)
    data += bytes(WORD)
    text = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero((text == QUOTE) | (text == OPEN) | (text == CLOSE))
    quoted = text[marks] == QUOTE
    quotes, braces = marks[quoted], marks[~quoted]
    starts, ends = quotes[: len(quotes) // 2 * 2].reshape(-1, 2).T
    places = ends + 1
    # The first byte from each place on that is no white space.
    while (blank := np.isin(text[places], np.frombuffer(SPACE, np.uint8))).any():
        places = places + blank
    keys = text[places] == COLON
    starts, ends = starts[keys] + 1, ends[keys]
    if not len(starts):
        return False
    braces = braces[np.searchsorted(quotes, braces) % 2 == 0]
    objects = _objects(text[braces] == OPEN)[np.searchsorted(braces, starts) - 1]
    codes = _codes(data, starts, ends) + objects.astype(np.uint64) * MIX
    codes.sort()
    return bool((codes[1:] == codes[:-1]).any())


def _codes(data: bytes | bytearray, starts: Ints, ends: Ints) -> Codes:
    """A number for each key; equal keys have equal ones."""
    words: Codes = np.ndarray((len(data) - WORD + 1,), "<u8", data, strides=(1,))
    size = ends - starts
    beyond = 8 * np.clip(WORD - size, 0, WORD - 1).astype(np.uint64)
    kept = np.where(size > 0, ~np.uint64(0) >> beyond, 0).astype(np.uint64)
    head = words[starts] & kept
    tail = words[np.maximum(ends - WORD, starts)] & kept
    return head * MIX ^ (tail + size.astype(np.uint64)) * (MIX >> np.uint64(7))


def _objects(opens: Mask) -> Ints:
    """For each brace the number of the object that what follows it is in."""
    depth = np.cumsum(np.where(opens, 1, -1))
    order = np.argsort(depth.astype(np.int16), kind="stable")  # no parser takes so deep a text
    level = depth[order]
    begins = opens[order] | (np.diff(level, prepend=level[:1] - 1) > 0)
    number = np.empty_like(order)
    number[order] = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    return number


class _Members(list[tuple[str, Any]]):
    """The members of an object, in the order of the text."""


Path: TypeAlias = "tuple[str | int, ...]"
Repeated: TypeAlias = "tuple[Path, str, str | None]"
"""Where an object has a key twice, the key, and the name of the case that it is in."""

STEPS = 2
"""So deep a document is read value by value: case by case, that is."""
GAP = re.compile(r"[\s:,]*")
"""Between two values of a valid text."""
_decode = json.JSONDecoder(object_pairs_hook=_Members).raw_decode


def _repeated(text: str) -> Iterator[Repeated]:
    """In the order of the text, which is read no further than whoever asks wants to know."""
    yield from _within(text, _skip(text, 0), ())


def _skip(text: str, place: int) -> int:
    found = GAP.match(text, place)
    assert found is not None
    return found.end()


def _within(text: str, place: int, path: Path) -> Generator[Repeated, None, int]:
    """Of the value that begins there; returns where it ends."""
    if len(path) >= STEPS or text[place] not in "{[":
        value, end = _decode(text, place)
        found = _first(value, path)
        if found is not None:
            is_case = path[:-1] == ("cases",) and isinstance(value, _Members)
            yield (*found[:2], _name(dict(value))) if is_case else found
        return end
    closing = "}" if text[place] == "{" else "]"
    names: set[str | int] = set()
    index, place = 0, _skip(text, place + 1)
    while text[place] != closing:
        name: str | int = index
        if closing == "}":
            name, place = _decode(text, place)
            place = _skip(text, place)
            if name in names:
                yield path, str(name), None
            names.add(name)
        place = _skip(text, (yield from _within(text, place, (*path, name))))
        index += 1
    return place + 1


def _first(tree: Any, path: Path) -> Repeated | None:
    if isinstance(tree, _Members):
        names: set[str] = set()
        for key, _ in tree:
            if key in names:
                return (path, key, None)
            names.add(key)
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(tree, list):
        items = tree if isinstance(tree, _Members) else enumerate(tree)
    for name, value in items:
        found = _first(value, (*path, name))
        if found is not None:
            return found
    return None


def _name(case: dict[str, Any]) -> str | None:
    graph = case.get("graph")
    return dict(graph).get("name") if isinstance(graph, _Members) else None
