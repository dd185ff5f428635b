"""One measurement at a time on a device, across all runs.

Every process that works on a device holds its lock: shared for copies and first runs, exclusive for
measuring. The locks are files of the host under the device's uuid; the system releases them however
a run ends. No process waits for ever: a process that wants to measure closes a door behind which
later ones wait.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.files import try_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

POLL_S = 0.002
TOLD_S = 20.0
"""Waiting time after which the reason is printed; a stopped run (Ctrl-Z) keeps its locks."""
FOLDER = "bench-run-locks"
ENVIRONMENT = "BENCH_RUN_LOCKS"
"""Names another folder, for hosts whose runs do not share one."""
SHARED = Path("/dev/shm")  # noqa: S108 - for everyone on purpose
"""Folder that is the same for every user, whatever their ``TMPDIR``, and empty after a reboot. Lock
files stay: removing one while it is opened would let two processes hold it."""


def lock_folder(shared: Path = SHARED) -> Path:
    """Return the folder of this host's locks, writable by every user."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    for_everyone = stat.S_ISVTX | stat.S_IWOTH
    with contextlib.suppress(OSError):
        if shared.stat().st_mode & for_everyone == for_everyone:
            return shared / FOLDER
    return Path(tempfile.gettempdir()) / FOLDER


class Held:
    """Locks that are held until `release`."""

    def __init__(self, files: Sequence[int] = ()) -> None:
        self._files = list(files)

    def __bool__(self) -> bool:
        return bool(self._files)

    def __iadd__(self, other: Held) -> Held:
        """Add the locks of the other one."""
        self._files += other._files
        other._files = []
        return self

    def release(self) -> None:
        while self._files:
            os.close(self._files.pop())


class DeviceLock:
    """The lock of one device or of several. Where the folder cannot be used it holds nothing, and
    `problem` says why."""

    def __init__(
        self,
        names: Sequence[str],
        folder: Path | None = None,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        """`tell` hears once that another run is waited for, in any thread."""
        self._tell = tell
        self._folder = lock_folder() if folder is None else folder
        self.names = sorted({re.sub(r"[^\w.-]", "_", name) for name in names})
        self.problem: str | None = None
        try:
            if self.names:
                _make_folder(self._folder)
        except OSError as error:
            self.problem = f"no lock in {self._folder}: {error.strerror}"

    def acquire(self, *, alone: bool, stopped: Callable[[], bool] = lambda: False) -> Held:
        """Wait until the devices are free for this use; hold nothing once `stopped` returns
        True."""
        files: list[int] = []
        if self.problem is not None:
            return Held()
        try:
            # In the same order for everyone, so that no two wait for each other.
            files.extend(self._pass(name, alone, stopped) for name in self.names)
        except OSError as error:
            Held(files).release()
            self.problem = f"no lock in {self._folder}: {error.strerror}"
            return Held()
        return Held(files)

    def _pass(self, name: str, alone: bool, stopped: Callable[[], bool]) -> int:
        """Return the locked file of one device, after passing its door, which a measuring process
        keeps closed until the others have left."""
        door = self._open(f"{name}.door")
        try:
            self._wait(door, True, stopped)
            room = self._open(f"{name}.lock")
            with contextlib.ExitStack() as undo:
                undo.callback(os.close, room)
                self._wait(room, alone, stopped)
                undo.pop_all()
            return room
        finally:
            os.close(door)

    def _wait(self, file: int, alone: bool, stopped: Callable[[], bool]) -> None:
        begin = time.monotonic()
        while not stopped() and not try_lock(file, alone=alone):
            if time.monotonic() - begin > TOLD_S:
                tell, self._tell = self._tell, None
                if tell is not None:
                    tell(
                        f"note: another run has used {', '.join(self.names)} for {TOLD_S:g} s and "
                        f"is waited for (locks in {self._folder})"
                    )
            time.sleep(POLL_S)

    def _open(self, name: str) -> int:
        """Open the file, made only if it is missing: in a folder for everyone the kernel refuses to
        "create" a file of another user (fs.protected_regular)."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._folder / name, flags)
        except FileNotFoundError:
            file = os.open(self._folder / name, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):  # another user made it meanwhile
            os.fchmod(file, 0o666)
        return file


def _make_folder(folder: Path) -> None:
    """Make a folder for every user of the host, like that for temporary files."""
    try:
        folder.mkdir(parents=True)
        folder.chmod(0o777 | stat.S_ISVTX)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(20, "it is not a folder") from None
