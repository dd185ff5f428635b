"""Text of other tools: tables with any separator, in the spellings of spreadsheets."""

from __future__ import annotations

import csv
import re

SEPARATORS = (";", "\t", ",")
DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")
DECIMAL_POINT = re.compile(r"\s*-?\d+\.\d+\s*")


def cells_of(text: str) -> list[list[str]]:
    """Return the cells of each row of a table that is not empty, none of text that is not a table.
    Its separator is that of the header. With semicolons or tabs a comma is a decimal comma, in a
    table without decimal points."""
    lines = [line for line in text.splitlines() if line.strip(" ;,\t")]
    comma = next((one for one in SEPARATORS if lines and one in lines[0]), ",")
    try:
        cells = list(csv.reader(lines, delimiter=comma))
    except csv.Error:
        return []
    if comma == "," or any(DECIMAL_POINT.fullmatch(one) for row in cells for one in row):
        return cells
    return [
        [one.replace(",", ".") if DECIMAL_COMMA.fullmatch(one) else one for one in row]
        for row in cells
    ]


def titles_of(text: str) -> list[str]:
    """Return the titles of a table: the cells of the first line that is not empty."""
    rows = cells_of(text.lstrip().partition("\n")[0])
    return rows[0] if rows else []
