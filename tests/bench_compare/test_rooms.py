"""The rooms of bench_compare: who may import whom, read from the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "bench_compare"

MAY_IMPORT = {
    "errors": (),
    "model": (),
    "parallel": (),
    "units": (),
    "metrics": (),
    "input": ("errors", "model", "parallel"),
    "policy": ("errors", "model", "metrics"),
    "comparison": (
        "units",
        "errors",
        "model",
        "parallel",
        "metrics",
        "input",
        "policy",
    ),
    "history": (
        "units",
        "errors",
        "model",
        "metrics",
        "parallel",
        "input",
        "policy",
        "comparison",
    ),
    "compose": (
        "units",
        "errors",
        "model",
        "metrics",
        "input",
        "policy",
        "comparison",
    ),
    "report": (
        "units",
        "errors",
        "model",
        "metrics",
        "policy",
        "parallel",
        "comparison",
        "history",
        "compose",
    ),
    "options": ("errors", "model", "metrics", "policy", "input", "report"),
    "effect": ("options",),
    "commands": (
        "effect",
        "errors",
        "model",
        "metrics",
        "input",
        "policy",
        "comparison",
        "history",
        "compose",
        "report",
        "options",
    ),
    "notebook": ("errors", "model", "input", "policy", "comparison", "report", "commands"),
    "cli": ("commands", "errors", "model"),
    "__main__": ("cli",),
    "__init__": ("notebook",),
}
"""Room to the rooms below it; a room may use only what stands above it in this table, so there is
no circle."""
ROOMS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})


def room(dotted):
    return dotted.split(".")[1] if "." in dotted else "__init__"


def used(name):
    """Rooms that the modules of a room import, wherever in them."""
    place = PACKAGE / name
    paths = place.rglob("*.py") if place.is_dir() else [place]
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench_compare"):
                yield room(node.module)


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_imports_only_the_rooms_below_it(name):
    own = name.removesuffix(".py")
    assert set() == set(used(name)) - {own, *MAY_IMPORT[own]}


def test_the_table_has_no_circle():
    order = list(MAY_IMPORT)
    upward = [(a, b) for a in order for b in MAY_IMPORT[a] if order.index(b) >= order.index(a)]
    assert [] == upward
