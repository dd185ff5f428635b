"""Names for narrow places: safe for a terminal, shortened without losing what sets them apart."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ELLIPSIS = "…"
TAIL_SHARES = (0.5, 0.3, 0.7, 0.1, 0.9, 0.0, 1.0)
"""Share of the room that the end of a name gets; tried in turn until no two names look alike."""


def safe(text: str) -> str:
    """Spell out control and direction characters, so that a name cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def cut(name: str, width: int, tail_share: float = 0.5) -> str:
    """Shorten `name` to at most `width` characters by cutting its middle."""
    if len(name) <= width:
        return name
    room = width - len(ELLIPSIS)
    tail = round(room * tail_share)
    return name[: room - tail] + ELLIPSIS + (name[-tail:] if tail else "")


def shortened(names: Iterable[str], width: int) -> Mapping[str, str]:
    """Shorten each name to `width` characters (at least 8); different names stay different.

    The middle goes first. Names that then look alike are cut elsewhere, next around the first place
    where they differ, and if nothing else helps they are numbered.
    """
    width = max(width, 8)
    unique = list(dict.fromkeys(names))
    short = {name: cut(name, width) for name in unique}
    for share in TAIL_SHARES[1:]:
        for name in _alike(short):
            short[name] = cut(name, width, share)
    alike = _alike(short)
    if alike:
        # Number of leading characters that all names share.
        first, last = min(alike), max(alike)
        pairs = zip(first, last, strict=False)
        start = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))
        head = width // 3
        for name in alike:
            if len(name) > width:  # a head, then the part that begins at `start`
                rest = cut(name[max(start - 2, head) :], width - head - len(ELLIPSIS), 0.3)
                short[name] = name[:head] + ELLIPSIS + rest
            else:
                short[name] = name
    taken = set(short.values())
    for number, name in enumerate(_alike(short), start=1):
        marks = (f"~{n}" for n in count(number))
        texts = (cut(name, width - len(mark)) + mark for mark in marks)
        short[name] = next(text for text in texts if text not in taken)
        taken.add(short[name])
    return short


def _alike(short: Mapping[str, str]) -> list[str]:
    """Return names whose short form is that of another name."""
    seen: dict[str, list[str]] = {}
    for name, text in short.items():
        seen.setdefault(text, []).append(name)
    return [name for group in seen.values() if len(group) > 1 for name in group]
