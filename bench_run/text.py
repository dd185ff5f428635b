"""Text for people: numbers in the unit that fits (the only place where units change), and names out
of files without the control characters that a terminal would obey."""

from __future__ import annotations

TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
SIZE_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def time_text(ns: float | None) -> str:
    """Nanoseconds with four significant digits in the unit that fits: ``12.35 µs``."""
    if ns is None:
        return "–"
    factor, unit = next(((f, u) for f, u in TIME_UNITS if abs(ns) >= f), TIME_UNITS[-1])
    return f"{significant(ns / factor)} {unit}"


def size_text(size_bytes: int | None, digits: int = 4) -> str:
    if size_bytes is None:
        return "–"
    factor, unit = next(((f, u) for f, u in SIZE_UNITS if size_bytes >= f), SIZE_UNITS[-1])
    return f"{significant(size_bytes / factor, digits)} {unit}"


def rate_text(value: float | None) -> str:
    return "–" if value is None else significant(value, 3)


NOISY = "noisy"
NOISY_MEANS = (
    "noisy: the 95 % interval of the time is wider than ± 100 %; close other programs, or measure "
    "more with --rounds 20"
)


def percent_text(ratio: float | None) -> str:
    """Half the width of an interval, as a share of its middle; a word where it is more than all."""
    if ratio is None:
        return "–"
    return f"{100 * ratio:.1f}%" if ratio <= 1 else NOISY


def significant(value: float, digits: int = 4) -> str:
    """Four significant digits without an exponent for everyday sizes."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if abs(value) < 1e-4:
        return f"{value:.0e}"
    return f"{value:.0f}" if "e" in text and abs(value) < 1e6 else text


def shorten(text: str, width: int) -> str:
    """At most `width` characters: the middle is left out, both ends tell graphs apart."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def plain_text(text: str) -> str:
    """In characters that UTF-8 has: surrogates, as in names of files that are not UTF-8, are
    spelled."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


SIGN = "\N{REPLACEMENT CHARACTER}"
"""Stands where a control character was."""


def visible(text: str) -> str:
    """Without control characters, line ends and tabs apart."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(SIGN if _is_control(sign) and sign not in "\n\t" else sign for sign in text)


def one_line(name: str) -> str:
    """The same without line ends and tabs: for a cell of a table."""
    return name if name.isprintable() else "".join(SIGN if _is_control(s) else s for s in name)


def _is_control(sign: str) -> bool:
    """Those of ASCII and ISO 6429, those that end lines, and those that turn the direction of
    writing."""
    import unicodedata

    return unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp")
