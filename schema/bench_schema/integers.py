"""Texts of JSON arrays of integers → NumPy, many at a time: a call for each would cost more.

Neighbouring samples mostly have the same number of digits. Such arrays are joined and read as a
matrix of characters: eight characters are one word, and a dozen steps on whole columns of words
turn them into numbers. All others go through NumPy's own parser, five times slower.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

OPEN, CLOSE, COMMA = b"[],"
WIDEST = 8
"""Digits in a word; longer numbers are left to NumPy."""
MIXED = 0
"""Stands for arrays whose numbers have unlike widths, or wide ones, or signs, or spaces."""
MOST = 1 << 15
"""Numbers that are turned into one block of memory: they stay in the cache meanwhile."""
LEAST = 1 << 10
"""With fewer numbers of one width NumPy's parser is quicker."""


@dataclass
class Group:
    """Arrays that wait to be parsed together."""

    homes: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    texts: list[memoryview] = field(default_factory=list)
    size: int = 0
    """Numbers in them, if they are of one width as they seem to be."""


class Arrays:
    """Texts on their way to arrays; all share their limits. Each text is known to be JSON."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.widest = WIDEST if low <= 0 and high >= 10**WIDEST - 1 else MIXED
        self.clear()

    def clear(self) -> None:
        self.groups: dict[int, Group] = {}

    def add(self, home: dict[str, Any], name: str) -> None:
        """Take the text at ``home[name]``; the array comes into its place, at once or later."""
        text = memoryview(home[name])
        if text[0] != OPEN:
            raise ValueError("expected an array")
        width = bytes(text[1 : WIDEST + 2]).find(b",")
        count, rest = divmod(len(text) - 1, width + 1) if width > 0 else (len(text) // 2, 1)
        if rest or width > self.widest:
            width = MIXED
        group = self.groups.get(width)
        if group is None:
            group = self.groups[width] = Group()
        group.homes.append((home, name))
        group.texts.append(text)
        group.size += count
        if group.size > MOST:
            self._finish(width, self.groups.pop(width))

    def flush(self) -> None:
        """Put all arrays in the place of their texts."""
        groups, rest = self.groups, Group()
        self.clear()
        for width, group in groups.items():
            if width != MIXED and group.size >= LEAST:
                self._finish(width, group)
            else:
                rest.homes += group.homes
                rest.texts += group.texts
        self._finish(MIXED, rest)

    def _finish(self, width: int, group: Group) -> None:
        values = None if width == MIXED else same_width(group.texts, width)
        if values is None:
            ends = list(itertools.accumulate(map(_count, group.texts)))
            values = any_width(group.texts, (self.low, self.high), ends)
        else:
            ends = list(itertools.accumulate((len(t) - 1) // (width + 1) for t in group.texts))
        values.flags.writeable = False
        for (home, name), start, stop in zip(group.homes, [0, *ends], ends, strict=False):
            home[name] = values[start:stop]


def _count(text: memoryview) -> int:
    inside = bytes(text[1:-1])
    return inside.count(b",") + 1 if inside.strip() else 0


def any_width(texts: Sequence[memoryview], limits: tuple[int, int], ends: Sequence[int]) -> Ints:
    """The numbers of all arrays; raises ValueError unless they are integers within the limits."""
    low, high = limits
    parts = (bytes(text[1:-1]) for text in texts)
    # What is no integer ends the parsing early: then the number at the end is not reached.
    joined = b",".join([*filter(bytes.strip, parts), b"0"])
    values = np.fromstring(joined, dtype=np.int64, sep=",")
    # One unsigned comparison sees both limits, and numbers that do not fit 64 bits as well.
    offset = (values - low).view(np.uint64)
    if len(values) != (ends[-1] if ends else 0) + 1 or offset.max() > high - low:
        raise ValueError(f"expected integers from {low} to {high}")
    return values[:-1]


def same_width(texts: Sequence[memoryview], width: int) -> Ints | None:
    """The numbers of all arrays; None if one of them is not made of `width` digits each."""
    joined = b"".join([*(text[1:] for text in texts), bytes(WIDEST)])
    rows = (len(joined) - WIDEST) // (width + 1)
    signs = np.frombuffer(joined, np.uint8)[width : rows * (width + 1) : width + 1]
    if not ((signs == COMMA) | (signs == CLOSE)).all():
        return None
    words = np.ndarray(rows, "<u8", joined, 0, (width + 1,)).astype(np.uint64)
    return _numbers(words, width)


def _repeated(pattern: int, bits: int) -> np.uint64:
    """A word full of a pattern of so many bits."""
    return np.uint64(sum(pattern << place for place in range(0, 64, bits)))


ZEROS, TOP = _repeated(ord("0"), 8), _repeated(0x80, 8)
TO_TOP = _repeated(0x80 - 10, 8)
"""Added to bytes below 128, it sets the top bit of those that are ten or more."""
JOINS = (
    (np.uint64(8), np.uint64(10), _repeated(0xFF, 16)),
    (np.uint64(16), np.uint64(100), _repeated(0xFFFF, 32)),
    (np.uint64(32), np.uint64(10_000), _repeated(0xFFFF_FFFF, 64)),
)
"""Bits of a part, what its left neighbour counts, and a mask of every second part: digits become
pairs, pairs become fours, fours become the number."""


def _numbers(words: Words, width: int) -> Ints | None:
    """Values of words whose first `width` characters, lowest byte first, are digits; else None."""
    missing = np.uint64(8 * (WIDEST - width))
    words <<= missing  # what follows the number falls out, zeros come before it
    words ^= ZEROS << missing
    if np.bitwise_or.reduce((words + TO_TOP) | words) & TOP:
        return None
    right = np.empty_like(words)
    for bits, factor, mask in JOINS:
        np.right_shift(words, bits, out=right)
        words *= factor
        words += right
        words &= mask
    return words.view(np.int64)
