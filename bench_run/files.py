"""Small things with files: errors of writing in one line, files replaced as a whole, and the folder
for what a run keeps only while it lasts.

A run that is killed cannot remove its own, so the next one does: a folder whose lock is free
belongs to no process. The kernel releases a lock however its process ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.errors import UnwritableError

from bench_run.errors import OutputError
from bench_run.locks import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "bench-run-"
LOCK = "lock"


class Scratch:
    """A new folder, and its lock, until it is closed."""

    def __init__(self) -> None:
        # Remove folders of runs that have ended; those of other users are left alone.
        for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
            with suppress(OSError):
                descriptor = os.open(lock, os.O_RDWR)
                try:
                    if try_lock(descriptor):
                        shutil.rmtree(lock.parent, ignore_errors=True)
                finally:
                    os.close(descriptor)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        unlocked = self.path / "unlocked"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        try_lock(self._lock)
        unlocked.rename(self.path / LOCK)  # under this name it was always locked

    def folder(self, name: str) -> Path:
        """A new folder in it."""
        path = self.path / name
        path.mkdir()
        return path

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to: it takes that place when the block ends well, else it goes.
    Whoever reads `path` finds the whole of one version."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        yield part
        part.replace(path)
    finally:
        with suppress(OSError):  # it is in its place, or never came to be
            part.unlink()


def write_text_file(path: str, text: str) -> None:
    """The whole text, or the file as it was; ``.gz`` and ``.zst`` choose a packing. Raises
    `OutputError`."""
    from bench_schema.packing import write_bytes

    with writing(path):
        write_bytes(path, text.encode("utf-8"))


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """A refusal to write as one line that names the file."""
    try:
        yield
    except UnwritableError as error:
        raise OutputError(str(error)) from error
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
