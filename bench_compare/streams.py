"""Text to stdout and stderr, whatever became of them: closed, full, of another encoding."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

SPELLED = str.maketrans(
    {"÷": "/", "×": "x", "µ": "u", "±": "+-", "°": "", "–": "-", "−": "-", "…": "...",
     "→": "->", "≥": ">=", "≤": "<=", "≈": "~", "·": "*"}
)  # fmt: skip
"""For terminals that lack them."""


def write_text(stream: TextIO | None, text: str) -> str | None:
    """The reason where it cannot be written, else None. Raises `BrokenPipeError` where nobody
    reads."""
    if stream is None:
        return "it is closed"
    try:
        stream.write(_showable(text, stream.encoding))
        stream.flush()
    except BrokenPipeError:
        _give_up(stream)
        raise
    except OSError as error:
        _give_up(stream)
        return error.strerror
    return None


def _showable(text: str, encoding: str | None) -> str:
    """The text in signs that the encoding has."""
    if encoding is None:
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        spelled = text.translate(SPELLED)
        return spelled.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _give_up(stream: TextIO) -> None:
    """Python must not flush what is left into the stream when it ends."""
    if stream is sys.stdout:
        sys.stdout = None
    elif stream is sys.stderr:
        sys.stderr = None
