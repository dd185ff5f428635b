"""Reads a block of panels as the page does."""

from __future__ import annotations

import base64
import json
import zlib


def unblocked(text):
    """The panels of a block, in order."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def items(panel, kind):
    """All items of a kind: p, note, pre, tags, table, chart."""
    return [one[kind] for part in panel["sections"] for one in part["items"] if kind in one]


def section(panel, title):
    """The items of the section of that title; none if there is no such section."""
    return next((part["items"] for part in panel["sections"] if part["title"] == title), [])


def table(panel, title):
    """Rows of the first table of a section, by their heads."""
    found = next((one["table"] for one in section(panel, title) if "table" in one), {"rows": []})
    return {row[0]: row[1:] for row in found["rows"]}


def charts(panel):
    """Charts by their ids."""
    return {one.get("id", ""): one for one in items(panel, "chart")}
