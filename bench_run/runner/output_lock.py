"""One run for each output: a lock beside it, held until its document is sealed.

The lock belongs to the open file, so the system gives it back however a run ends; what a killed
run leaves is an unlocked file, which the next one takes over.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from bench_run.errors import OutputError

UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems say that know no locks; there a run goes on without."""


def lock_path(output: Path) -> Path:
    """Where the lock of an output lies."""
    return output.with_name(f"{output.name}.lock")


class OutputLock:
    """Refuses a second run for the same output. Raises `OutputError`."""

    def __init__(self, output: Path) -> None:
        self._path = lock_path(output)
        self._file = self._acquire(output)

    def _acquire(self, output: Path) -> int:
        while True:
            try:
                file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise OutputError(f"cannot write {output}: {error.strerror}") from None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(file, 100, 0).decode("utf-8", "replace").strip()
                os.close(file)
                raise OutputError(
                    f"{output}: another run is writing it ({owner or 'just started'}): "
                    "wait for it, or choose another output"
                ) from None
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    os.close(file)
                    raise OutputError(f"cannot lock {self._path}: {error.strerror}") from None
            if self._is_there(file):
                os.ftruncate(file, 0)
                os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
                return file
            os.close(file)  # its owner removed it meanwhile

    def _is_there(self, file: int) -> bool:
        """Whether the locked file is still the one that others find under its name."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(file), self._path.stat())
        return False

    def release(self) -> None:
        """Remove the file while it is still locked."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)
