"""The folder for what a run keeps on disk only while it lasts.

A run that is killed cannot remove its own, so the next one does: a folder whose lock nobody holds
belongs to nobody. The kernel gives a lock back however its process ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "bench-run-"
LOCK = "lock"


class Scratch:
    """A new folder, and its lock, until it is closed."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        unlocked = self.path / "unlocked"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / LOCK)  # under this name it was always locked

    def folder(self, name: str) -> Path:
        """A new folder in it."""
        path = self.path / name
        path.mkdir()
        return path

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(parent: Path) -> None:
    """Remove folders of runs that are no more; those of other users and systems are let be."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
