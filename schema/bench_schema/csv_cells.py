"""Cells of CSV that spreadsheets take for what they are."""

from __future__ import annotations

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a text for a formula; such names get an apostrophe in front."""


def plain_cell(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
