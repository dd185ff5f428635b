"""Locks of files: the kernel gives them back however their process ends.

They are `flock` locks. The package `filelock` has no lock that several share, does not say who
holds one, falls back to a lock that outlives its process where the file system has none, and
refuses a file of another user in a folder for everyone, which the locks of devices are.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems that have no locks."""


def try_lock(file: int, *, alone: bool = True) -> bool:
    """Lock an open file at once, `alone` or together with others who do not want it alone; false
    where somebody else holds it. Raises `OSError`."""
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
        """Raises `LockHeldError`, and `OSError` where the file cannot be made."""
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
