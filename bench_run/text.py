"""Text of files as a terminal may show it: names may hold control characters, which it would
obey."""

from __future__ import annotations

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
