"""Reads a block of details as the page does: each case with its series and sides."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np


def unblocked(text):
    """The cases of a block, in order."""
    told, numbers = (zlib.decompress(base64.b64decode(part)) for part in text.split(" "))
    block = json.loads(told)
    cases = [rows(block["cases"], at) for at in range(len(block["cases"]["reason"]))]
    for at, case in enumerate(cases):
        case["sides"] = [side(block["sides"], row) for row in (2 * at, 2 * at + 1)]
        case["metrics"] = {name: rows(one, at) for name, one in block["metrics"].items()}
        case["series"] = {}
    add_series(cases, block["series"], np.frombuffer(numbers, np.uint8))
    return cases


def rows(columns, at):
    return {name: column[at] for name, column in columns.items()}


def side(columns, row):
    if columns.get("name", [None] * (row + 1))[row] is None:
        return None
    return {name: value for name, value in rows(columns, row).items() if value not in EMPTY}


EMPTY = (None, "", [], {})


def add_series(cases, groups, numbers):
    count = sum(len(group["of"]) * sum(group["widths"].values()) for group in groups)
    planes = numbers.reshape(-1, max(count, 1)).astype(np.int64)
    flat = sum((plane << 8 * place for place, plane in enumerate(planes)), np.zeros(count, int))
    for group in groups:
        several = {"docs": group["docs"]} if "docs" in group else {}
        columns = {}
        for name, width in group["widths"].items():
            size = len(group["of"]) * width
            columns[name], flat = flat[:size].reshape(-1, width).tolist(), flat[size:]
        for row, (at, name, place) in enumerate(group["of"]):
            one = {key: group[key][row] for key in ("offset", "step")}
            one |= {key: column[row] for key, column in columns.items()}
            held = cases[at]["series"].setdefault(name, {})
            held[str(place)] = {"n": group["n"], **several, "buckets": group["buckets"], **one}
