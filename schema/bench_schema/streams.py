"""Text to stdout and stderr of both commands, whatever became of these: closed, full, without a
reader, of an encoding that lacks signs of ours. None of it is an error of ours."""

from __future__ import annotations

import os
import sys
from errno import EMFILE, ENAMETOOLONG, ENFILE, ENOENT

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

GONE = "its reader has gone"

PLAIN = str.maketrans(
    {
        "±": "+-",
        "×": "x",
        "µ": "u",
        "–": "-",
        "−": "-",
        "…": "...",
        "→": "->",
        "≥": ">=",
        "≤": "<=",
        "≈": "~",
        "÷": "/",
        "°": "",
        "·": "*",
        "²": "^2",
        "³": "^3",
        "⁵": "^5",
        "\N{REPLACEMENT CHARACTER}": "?",
    }
)

PIECE = 1 << 20
"""Characters."""


def pieces(text: str) -> Iterator[str]:
    """Yield parts to encode one after another, so that a text of 100 MB does not exist twice."""
    return (text[begin : begin + PIECE] for begin in range(0, len(text), PIECE))


def showable(text: str, encoding: str | None) -> str:
    """Return the text in characters of an encoding: others are spelled, as +- for ±, or ``?``."""
    encoding = encoding or "ascii"
    if _fits(text, encoding):
        return text
    spelled = "".join(sign if _fits(sign, encoding) else sign.translate(PLAIN) for sign in text)
    return spelled.encode(encoding, "replace").decode(encoding)


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def refusal(error: OSError) -> str:
    """Return the system's refusal in a line that names the file, if there is one."""
    if error.errno == ENAMETOOLONG:
        return f"{error.filename}: the name is too long for a file"
    if error.errno == ENOENT and error.filename is None:
        return "the working folder is not there any more"
    what = error.strerror or str(error) or type(error).__name__
    if error.errno in (EMFILE, ENFILE):
        return f"{what}: raise the limit of open files (ulimit -n)"
    return what if error.filename is None else f"{os.fsdecode(error.filename)}: {what}"


def write_text(stream: TextIO | None, text: str) -> str | None:
    """Write to stdout or stderr; return the reason if that did not work, otherwise None."""
    if stream is None:
        return "it is closed"
    try:
        for piece in pieces(text):
            stream.write(showable(piece, stream.encoding))
        stream.flush()
    except BrokenPipeError:
        _give_up(stream)
        return GONE
    except OSError as error:
        _give_up(stream)
        return error.strerror
    except ValueError as error:  # closed by a caller in Python
        _give_up(stream)
        return str(error)
    return None


def _give_up(stream: TextIO) -> None:
    """Give up a stream, so that Python does not flush the rest into it at its end."""
    if stream is sys.stdout:
        sys.stdout = None
    elif stream is sys.stderr:
        sys.stderr = None
