"""Text of other tools: tables with any separator, in the spellings of spreadsheets."""

from __future__ import annotations

import csv

SEPARATORS = (";", "\t", ",")


def cells_of(text: str) -> list[list[str]]:
    """Return the cells of each row of a table that is not empty. Its separator is that of the
    header; with semicolons or tabs a comma is a decimal comma."""
    lines = [line for line in text.splitlines() if line.strip(" ;,\t")]
    head = lines[0] if lines else ""
    comma = next((one for one in SEPARATORS if one in head), ",")
    return list(csv.reader(lines, delimiter=comma))
