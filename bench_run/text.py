"""Text for people: numbers in the unit that fits, and names out of files without the control
characters that a terminal would obey."""

from __future__ import annotations

from bench_schema import units


def time_text(ns: float | None) -> str:
    """Format nanoseconds with four significant digits in the unit that fits: ``12.35 µs``."""
    return "–" if ns is None else units.time_text(ns)


def size_text(size_bytes: int | None) -> str:
    return "–" if size_bytes is None else units.value_text(size_bytes, "bytes")


def rate_text(value: float | None) -> str:
    return "–" if value is None else units.significant(value, 3)


NOISY = "noisy"
NOISY_MEANS = (
    "noisy: the 95 % interval of the time is wider than ± 100 %; close other programs, or measure "
    "more with --rounds 20"
)


def percent_text(ratio: float | None) -> str:
    """Return half the width of an interval, as a share of its middle; a word if it exceeds the
    middle."""
    if ratio is None:
        return "–"
    return f"{100 * ratio:.1f}%" if ratio <= 1 else NOISY


def shorten(text: str, width: int) -> str:
    """Shorten a text to `width` characters by cutting the middle: both ends distinguish graphs."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def plain_text(text: str) -> str:
    """Return text that UTF-8 can encode: surrogates, as in file names that are not UTF-8, are
    spelled out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


SIGN = "\N{REPLACEMENT CHARACTER}"
"""Stands where a control character was."""


def visible(text: str) -> str:
    """Return the text without control characters, except line ends and tabs."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(SIGN if _is_control(sign) and sign not in "\n\t" else sign for sign in text)


def one_line(name: str) -> str:
    """Return the same without line ends and tabs: for a cell of a table."""
    return name if name.isprintable() else "".join(SIGN if _is_control(s) else s for s in name)


def _is_control(sign: str) -> bool:
    """Return True for control characters of ASCII and ISO 6429, line ends, and changes of writing
    direction."""
    import unicodedata

    return unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp")
