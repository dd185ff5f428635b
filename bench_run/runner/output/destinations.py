"""What a run is asked to write: whether it can be is known before anything is measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import OutputError
from bench_run.options.settings import STDOUT

if TYPE_CHECKING:
    from bench_run.options import Options

FILES = {
    "--output": "output",
    "--csv": "csv",
    "--csv-samples": "csv_samples",
    "--markdown": "markdown",
    "--trace": "trace",
}
DIRECTORIES = {
    "--write-golden": "write_golden",
    "--save-outputs": "save_outputs",
    "--save-graphs": "save_graphs",
}
OWN_KIND = "hipdnn:"
"""In front of the directory of ``--write-golden``."""


def check_destinations(options: Options) -> None:
    """Raises `OutputError`, which names the flag, the path and what is in the way."""
    for flag, field in FILES.items():
        path = getattr(options, field)
        problem = None if path in (None, STDOUT) else _file_problem(Path(path))
        if problem is not None:
            raise OutputError(f"{flag}: cannot write {path}: {problem}")
    for flag, field in DIRECTORIES.items():
        path = getattr(options, field)
        problem = None if path is None else _directory_problem(Path(path.removeprefix(OWN_KIND)))
        if problem is not None:
            raise OutputError(f"{flag}: cannot write {path}: {problem}")


def _file_problem(path: Path) -> str | None:
    if path.is_dir():
        return "it is a directory"
    if path.exists():
        return None if os.access(path, os.W_OK) else "permission denied"
    return _no_entry(path.parent)


def _directory_problem(path: Path) -> str | None:
    """A directory that is not there yet is made, with those above it."""
    while not path.exists():
        path = path.parent
    return _no_entry(path)


def _no_entry(directory: Path) -> str | None:
    """Why no file can be made in a directory."""
    if not directory.exists():
        return f"there is no directory {directory}"
    if not directory.is_dir():
        return f"{directory} is not a directory"
    return None if os.access(directory, os.W_OK | os.X_OK) else f"{directory} is not writable"
