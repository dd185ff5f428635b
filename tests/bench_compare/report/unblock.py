"""Reads a block of details as the page does: each case with its series and sides."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np


def unblocked(text):
    """The cases of a block, in order."""
    told, numbers, reals = (zlib.decompress(base64.b64decode(part)) for part in text.split(" "))
    block = with_numbers(json.loads(told), np.frombuffer(reals, np.uint8))
    cases = [rows(block["cases"], at) for at in range(len(block["cases"]["reason"]))]
    for at, case in enumerate(cases):
        case["sides"] = [side(block["sides"], row) for row in (2 * at, 2 * at + 1)]
        case["metrics"] = {name: rows(one, at) for name, one in block["metrics"].items()}
        case["series"] = {}
    add_series(cases, block["series"], np.frombuffer(numbers, np.uint8))
    return cases


def rows(columns, at):
    return {name: column[at] for name, column in columns.items()}


def with_numbers(block, planes):
    floats = np.ascontiguousarray(planes.reshape(4, -1).T).view("<f4").ravel()
    floats = [float(str(one)) for one in floats]

    def columns(count, length):
        nonlocal floats
        found = [floats[at * length : (at + 1) * length] for at in range(count)]
        floats = floats[count * length :]
        return found

    for metric in block["metrics"].values():
        metric["numbers"] = by_row(columns(7, len(metric["units"])))
    block["sides"] = every_column(**block["sides"])
    counts = [count or 0 for count in block["sides"].get("rounds", [])]
    told = by_row(columns(block["readings"], sum(counts)))
    ends = np.cumsum(counts).tolist()
    each = zip(counts, ends, strict=True)
    block["sides"]["rounds"] = [told[end - count : end] for count, end in each]
    return block


def every_column(columns, same):
    there = [name is not None for name in columns.get("name", [])]
    shared = {name: [value if has else None for has in there] for name, value in same.items()}
    found = columns | shared
    if "validation" in found:
        found["validation"] = [
            one and dict(zip(CHECKED, one, strict=True)) for one in found["validation"]
        ]
    return found


CHECKED = ("status", "reference", "reason", "checked", "wrong", "deterministic", "outputs")


def by_row(columns):
    """As JSON tells them."""
    return [
        [None if np.isnan(one) or np.isinf(one) else one for one in row]
        for row in zip(*columns, strict=True)
    ]


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
