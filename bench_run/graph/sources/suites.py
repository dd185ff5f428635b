"""Suites and pipelines (`bench_schema.pipeline`): TOML files that name a set of graphs and how
often each occurs in what they stand for; and those that come with this tool.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.errors import PipelineError
from bench_schema.pipeline import read_pipeline
from bench_schema.usage import nearest

from bench_run.errors import GraphError

if TYPE_CHECKING:
    from bench_schema.pipeline import Pipeline

SUFFIX = ".toml"
"""Suffix of suites on the command line."""

PREFIX = "suite:"
"""Before the name of graphs that come with this tool."""

_FOLDERS = (
    Path(__file__).parents[2] / "graphs",  # of the installed package
    Path(__file__).parents[3] / "graphs",  # of a checkout
)


def own_graphs(argument: str) -> str:
    """Return the path behind ``suite:NAME``: a suite file that comes with this tool, or the whole
    folder ``graphs``; any other argument as it is. Raises `GraphError` with the known names."""
    if not argument.startswith(PREFIX):
        return argument
    name = argument.removeprefix(PREFIX)
    known = suite_names()
    if name not in known:
        meant = nearest(name, sorted(known)) if known else "; none is installed"
        raise GraphError(argument, f"no suite of this name{meant}")
    return str(known[name])


def suite_names() -> dict[str, Path]:
    """Return the suites that come with this tool, with their files; ``graphs`` is the folder."""
    root = next((folder for folder in _FOLDERS if (folder / "suites").is_dir()), None)
    if root is None:
        return {}
    return {path.stem: path for path in sorted((root / "suites").glob(f"*{SUFFIX}"))} | {
        "graphs": root
    }


def read_suite(path: Path) -> Pipeline:
    """Return the suite or pipeline of a file. Raises `GraphError` that names the file and the
    entry."""
    try:
        return read_pipeline(path)
    except PipelineError as error:
        raise GraphError(error.where, error.what) from error
