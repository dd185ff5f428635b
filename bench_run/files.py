"""Small things with files: errors of writing in one line, files replaced as a whole, and the folder
for what a run keeps only while it lasts.

A run that is killed cannot remove its own, so the next one does: a folder whose lock is free
belongs to no process. The kernel releases a lock however its process ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.errors import UnwritableError

from bench_run.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Locks of files: the kernel gives them back however their process ends.
#
# They are `flock` locks. The package filelock has no lock that several share, does not report
# which process holds one, falls back to a lock that outlives its process on file systems that lack
# locks, and refuses another user's file in a folder for everyone, where the locks of devices are.

UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems that have no locks."""


def try_lock(file: int, *, alone: bool = True) -> bool:
    """Lock an open file at once, `alone` or together with others that do not want it alone; return
    False if another process holds it. Raises `OSError`."""
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class LockHeldError(Exception):
    """Another process holds the lock; the text is its name for itself, if it has one already."""


class LockFile:
    """A file that names the process which holds its lock, and goes with it. Where the file system
    has no locks, the process goes on without."""

    def __init__(self, path: Path) -> None:
        """Open and lock the file. Raises `LockHeldError`, and `OSError` if it cannot be made."""
        self._path = path
        while True:
            self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
            try:
                is_ours = try_lock(self._file)
            except OSError as error:
                is_ours = error.errno in UNSUPPORTED
            if not is_ours:
                owner = os.pread(self._file, 100, 0).decode("utf-8", "replace").strip()
                os.close(self._file)
                raise LockHeldError(owner)
            try:
                if os.path.samestat(os.fstat(self._file), path.stat()):
                    break
            except FileNotFoundError:
                pass  # its owner removed it between our opening and locking it
            os.close(self._file)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Remove the file while it is still locked."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)


PREFIX = "bench-run-"
LOCK = "lock"


class Scratch:
    """A new folder, and its lock, until it is closed."""

    def __init__(self, parent: str | None = None) -> None:
        """`parent`: instead of the usual folder for temporary files."""
        parent = tempfile.gettempdir() if parent is None else parent
        # Remove folders of runs that have ended; those of other users are left alone.
        for lock in Path(parent).glob(f"{PREFIX}*/{LOCK}"):
            with suppress(OSError):
                descriptor = os.open(lock, os.O_RDWR)
                try:
                    if try_lock(descriptor):
                        shutil.rmtree(lock.parent, ignore_errors=True)
                finally:
                    os.close(descriptor)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        unlocked = self.path / "unlocked"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        try_lock(self._lock)
        unlocked.rename(self.path / LOCK)  # under this name it was always locked

    def folder(self, name: str) -> Path:
        """Return a new folder in it."""
        path = self.path / name
        path.mkdir()
        return path

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def cache_folder() -> Path | None:
    """Return the folder for what can be made again; None without a home. A relative path in the
    environment means nothing, as the XDG specification has it."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return Path(base, "bench-run") if os.path.isabs(base) else None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file next to `path` to write to: it replaces `path` when the block ends well,
    otherwise it is removed. Readers of `path` always find one whole version."""
    part = path.with_name(f"{path.name}.{os.urandom(4).hex()}")  # hosts share process ids
    try:
        yield part
        part.replace(path)
    finally:
        with suppress(OSError):  # it is in its place, or never came to be
            part.unlink()


def write_text_file(path: str, text: str) -> None:
    """Write the whole text, or leave the file as it was; ``.gz`` and ``.zst`` choose a packing.
    Raises `OutputError`."""
    from bench_schema.packing import write_bytes

    with writing(path):
        write_bytes(path, text.encode("utf-8"))


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Convert a refusal to write to one line that names the file."""
    try:
        yield
    except UnwritableError as error:
        raise OutputError(str(error)) from error
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def write_new(folder: Path, texts: Mapping[str, str], *, force: bool) -> None:
    """Write files of these names to a folder. Raises `OutputError` if one is there and is not to be
    replaced, before anything is written."""
    from bench_schema.places import Place, refuse_flag

    refuse_flag(Place("-o", str(folder)))
    for name in texts:
        if (folder / name).exists() and not force:
            raise OutputError(f"{folder / name}: is there already; --force replaces it")
    with writing(folder):
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")


class BoundedFolder:
    """A folder of what can be made again: its entries, files or folders, take at most so many
    bytes; those used longest ago, by the time of their last change, make room.

    It is listed, and room is made, for a part of the limit at a time: other processes write, too.
    """

    PARTS = 8

    def __init__(
        self,
        folder: Path,
        most_bytes: int,
        is_entry: Callable[[str], object] = bool,
        least_bytes: int = 0,
    ) -> None:
        """`is_entry` tells by the name what belongs here. An entry counts for `least_bytes` at
        least."""
        self.folder = folder
        self._most_bytes, self._least_bytes, self._is_entry = most_bytes, least_bytes, is_entry
        self._room_bytes = 0
        self._lock = threading.Lock()

    def make_room(self, upcoming_bytes: int) -> None:
        """Make room for an entry of at most `upcoming_bytes`."""
        size = max(upcoming_bytes, self._least_bytes)
        with self._lock:
            if size > self._room_bytes:
                self._remove_oldest(size)
            self._room_bytes -= size

    def _remove_oldest(self, upcoming_bytes: int) -> None:
        """Remove entries until the upcoming one fits, and others for a part of the limit."""
        entries = [(used, path, max(n, self._least_bytes)) for used, path, n in self.entries()]
        total = sum(size for _, _, size in entries)
        self._room_bytes = max(upcoming_bytes, self._most_bytes // self.PARTS)
        for _, path, size in sorted(entries):
            if total + self._room_bytes <= self._most_bytes:
                return
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):  # gone, or put there again by another process
                path.unlink()
            total -= size

    def entries(self) -> list[tuple[float, Path, int]]:
        """Return the time of the last change, the path and the bytes of each entry."""
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            with suppress(OSError):  # others put files in their places all the time
                if self._is_entry(path.name):
                    files = path.iterdir() if path.is_dir() else (path,)
                    size = sum(file.stat().st_size for file in files)
                    found.append((path.stat().st_mtime, path, size))
        return found
