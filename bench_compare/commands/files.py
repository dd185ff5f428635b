"""Reports to files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench_compare.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a report."""
    if path.exists() and not path.is_file():
        partial = path  # a device or a pipe
    else:
        partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        partial.write_text(text, encoding="utf-8")
        if partial is not path:
            partial.replace(path)
    except OSError as error:
        if partial is not path:
            partial.unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
