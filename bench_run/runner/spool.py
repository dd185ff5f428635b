"""Folders of what a run keeps only while it lasts, and can make again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SPOOL_BYTES = 8 << 30
"""Most that expected outputs may take on disk, and most that inputs may; the oldest make room and
are computed again."""


def make_room(folder: Path, most_bytes: int = SPOOL_BYTES) -> None:
    """Remove the oldest of what lies in the folder until the rest is small enough."""
    oldest_first = sorted(folder.iterdir(), key=_changed_at)
    sizes = {path: _bytes_of(path) for path in oldest_first}
    total = sum(sizes.values())
    for path, size in sizes.items():
        if total <= most_bytes:
            return
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        total -= size


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _bytes_of(path: Path) -> int:
    """0 for what is gone meanwhile: workers put files in their places all the time."""
    total = 0
    with suppress(FileNotFoundError):
        for file in path.iterdir() if path.is_dir() else (path,):
            total += file.stat().st_size
    return total
