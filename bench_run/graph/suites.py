"""Suites: TOML files that name a set of graphs and how often each occurs in what they stand for.

about = "one forward pass of …"

[[graph]]
repeat = 3                                # 1 when left out
file = "../resnet50/conv_fwd_….json"      # below the suite's folder or beside it, or …
op = "conv_fwd: n=1 c=64 …"               # … an op spec; each graph it makes counts `repeat`
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_run.errors import GraphError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUFFIX = ".toml"
"""What tells a suite from a graph on the command line; `is_suite` looks inside."""

PREFIX = "suite:"
"""Before the name of graphs that come with this tool."""

_FOLDERS = (
    Path(__file__).parents[1] / "graphs",  # of the installed package
    Path(__file__).parents[2] / "graphs",  # of a checkout
)
_KEYS = ("file", "op", "repeat")
_MOST = 1_000_000


@dataclass(frozen=True)
class Entry:
    """One line of a suite: exactly one of `file` and `op` is there."""

    file: Path | None
    """Of a graph, as the suite's folder sees it."""
    op: str | None
    """An op spec, for `bench_run.graph.make.make_graphs`."""
    repeat: int
    """How often the graph occurs in one pass of what the suite stands for."""


@dataclass(frozen=True)
class Suite:
    name: str
    about: str
    entries: tuple[Entry, ...]


def own_graphs(argument: str) -> str:
    """The path behind ``suite:NAME``: a suite file or a folder of graphs that comes with this tool;
    any other argument as it is. Raises `GraphError` with the known names."""
    if not argument.startswith(PREFIX):
        return argument
    name = argument.removeprefix(PREFIX)
    known = _own()
    if name not in known:
        names = ", ".join(sorted(known)) or "none: they are not installed"
        raise GraphError(argument, f"no suite of this name; choose from {names}")
    return str(known[name])


def _own() -> dict[str, Path]:
    """Folders and suite files by name; a suite file goes before a folder of its name."""
    root = next((folder for folder in _FOLDERS if (folder / "suites").is_dir()), None)
    if root is None:
        return {}
    folders = {path.name: path for path in root.iterdir() if any(path.glob("*.json"))}
    return {**folders, **{path.stem: path for path in (root / "suites").glob(f"*{SUFFIX}")}}


def is_suite(data: bytes) -> bool:
    """Whether a file's content is a suite: TOML with a list named ``graph``."""
    try:
        return isinstance(tomllib.loads(data.decode()).get("graph"), list)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False


def read_suite(path: Path) -> Suite:
    """The suite of a file. Raises `GraphError` that names the file and the entry."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphError(str(path), f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GraphError(str(path), f"is not a suite: {error}") from error
    unknown = sorted(set(data) - {"about", "graph"})
    rows = data.get("graph")
    if unknown:
        raise GraphError(str(path), f"unknown key {unknown[0]!r}; known are about, graph")
    if not isinstance(rows, list) or not rows:
        raise GraphError(str(path), "is not a suite: expected a list of [[graph]] entries")
    about = data.get("about", "")
    if not isinstance(about, str):
        raise GraphError(f"{path}: about", "expected text")
    entries = tuple(_entry(row, path, index) for index, row in enumerate(rows))
    return Suite(path.stem, about, entries)


def _entry(row: Any, path: Path, index: int) -> Entry:
    where = f"{path}: graph[{index}]"
    if not isinstance(row, dict):
        raise GraphError(where, "expected a table with file or op")
    unknown = sorted(set(row) - set(_KEYS))
    if unknown:
        raise GraphError(where, f"unknown key {unknown[0]!r}; known are {', '.join(_KEYS)}")
    file, op, repeat = row.get("file"), row.get("op"), row.get("repeat", 1)
    if (file is None) == (op is None):
        raise GraphError(where, "expected one of file and op")
    if not isinstance(file or op, str):
        raise GraphError(where, "expected text for file or op")
    if type(repeat) is not int or not 1 <= repeat <= _MOST:
        raise GraphError(where, f"repeat={repeat!r}: expected a whole number from 1 to {_MOST}")
    return Entry(None if file is None else path.parent / file, op, repeat)
