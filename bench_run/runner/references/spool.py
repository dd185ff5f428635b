"""Folders of what can be made again: what a run keeps while it lasts, and references that are kept
across runs."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from bench_run.errors import UsageError

OFF = "off"

SPOOL_BYTES = 8 << 30
"""Most that expected outputs may take on disk, and most that inputs may; the oldest make room and
are computed again."""


def cache_folder(asked: str | None) -> str | None:
    """Where references are kept across runs: as asked, by default the user's; None for nowhere."""
    if asked is not None:
        return None if asked == OFF else asked
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "bench-run", "references") if os.path.isabs(base) else None


def check_cache(asked: str | None) -> None:
    """Raises `UsageError` for a folder that was asked for and cannot be."""
    if asked is None or asked == OFF:
        return
    try:
        Path(asked).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--reference-cache {asked}: {error.strerror or error}") from None


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
