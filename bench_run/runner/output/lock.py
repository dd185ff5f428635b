"""One run for each output: a lock beside it, held until its document is written.

The lock belongs to the open file, so the system gives it back however a run ends; what a killed
run leaves is an unlocked file, which the next one takes over.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

from bench_run.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems say that have no locks; there a run goes on without."""


def lock_path(output: Path) -> Path:
    """Where the lock of an output lies."""
    return output.with_name(f"{output.name}.lock")


class OutputLock:
    """Refuses a second run for the same output. Raises `OutputError`."""

    def __init__(self, output: Path) -> None:
        self._path = lock_path(output)
        self._file = self._open(output)
        while not self._is_there():  # its owner removed it between our opening and locking it
            os.close(self._file)
            self._file = self._open(output)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()}\n".encode(), 0)

    def _open(self, output: Path) -> int:
        """The lock file, locked."""
        try:
            file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise OutputError(f"cannot write {output}: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                owner = os.pread(file, 100, 0).decode("utf-8", "replace").strip()
                os.close(file)
                raise OutputError(
                    f"{output}: another run writes to it ({owner or 'just started'}): "
                    "wait until it has ended, or choose another output"
                ) from None
        return file

    def _is_there(self) -> bool:
        """Whether the locked file is still the one that others find under its name."""
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the file while it is still locked."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)
