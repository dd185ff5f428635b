"""The text of a large document in parts that can be read apart.

Parts are cut where our own writer puts the border of two cases. What is no border after all makes
a part that is no list of cases, and the document is read as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

CASES = b',"cases":['
AFTER_CASES = b'],"parts":['
BORDER = b'},{"id":'


@dataclass(frozen=True)
class Layout:
    """Where the cases of a document are in its text."""

    first: int
    last: int
    frame: bytes
    """The document without its cases."""


def layout(data: bytes) -> Layout | None:
    """None where it is written in another way than ours."""
    first, last = data.find(CASES), data.rfind(AFTER_CASES)
    if first < 0 or last < first + len(CASES):
        return None
    first += len(CASES)
    return Layout(first, last, data[:first] + data[last:])


def pieces(data: bytes, found: Layout, count: int) -> list[tuple[int, int]]:
    """Ranges of the text of about equal length, `count` at most, each of whole cases."""
    borders = {found.first, found.last}
    for part in range(1, count):
        place = found.first + (found.last - found.first) * part // count
        border = data.find(BORDER, place, found.last)
        if border >= 0:
            borders.add(border + 2)
    ordered = sorted(borders)
    ends = [*(border - 1 for border in ordered[1:-1]), found.last]
    return list(zip(ordered[:-1], ends, strict=True))
