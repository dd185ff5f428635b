"""Words of other tools on the command line, and what does the same here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WRITTEN = "--markdown, --csv, --json, --junit and --html FILE write the results ('-' is stdout)"
FLAGS = {
    "--format": WRITTEN,
    "--output": WRITTEN,
    "-o": WRITTEN,
    "--baseline": "--base NAME names the side that the others are compared with",
    "--confidence": "intervals are of 95 %; --threshold T is the smallest change of interest",
    "--alpha": "intervals are of 95 %; --threshold T is the smallest change of interest",
}
"""Flags of other tools, and what does the same here."""
WORDS = ("diff", "cmp", "show", "report")
"""Words of other tools for what happens without a word."""


def mistaken_word(documents: Sequence[str]) -> str | None:
    """Return a sentence about a word that is not needed here; None if the first is a document."""
    if not documents or documents[0] not in WORDS or os.path.lexists(documents[0]):
        return None
    rest = " ".join(documents[1:]) or "A.json B.json"
    return (
        f"{documents[0]}: no such file; documents are compared without a word: bench-compare {rest}"
    )
