"""One measurement at a time on a device, whichever run it belongs to.

Everybody who works on a device holds its lock: several who only touch it (copies, first runs)
together, one who measures alone. The locks are files of the host under the device's uuid; the
system gives them back however a run ends. Nobody waits for ever: those who want to measure close a
door behind which later ones wait.
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
"""After so much waiting it is said for what; a run that was stopped (Ctrl-Z) keeps its locks."""
FOLDER = "bench-run-locks"
ENVIRONMENT = "BENCH_RUN_LOCKS"
"""Names another folder, for hosts whose runs do not share one."""
SHARED = Path("/dev/shm")  # noqa: S108 - for everyone on purpose
"""The same for every user, whatever their ``TMPDIR``, and gone when the host starts again. Locks
stay there: one that is removed while somebody opens it would be held twice."""


def lock_folder(shared: Path = SHARED) -> Path:
    """Where the locks of this host lie; every user of the host may use it."""
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
        """Holds what the other one held."""
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
        """Waits until the devices are free for this; holds nothing once `stopped` says so."""
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
        """The locked file of one device: through its door, which whoever measures keeps closed
        until the others have left."""
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
        """Made where it is missing only: in a folder for everyone the kernel refuses to "create"
        what another user has (fs.protected_regular)."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._folder / name, flags)
        except FileNotFoundError:
            file = os.open(self._folder / name, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):  # another user made it meanwhile
            os.fchmod(file, 0o666)
        return file


def _make_folder(folder: Path) -> None:
    """For every user of the host, as the folder for temporary files is."""
    try:
        folder.mkdir(parents=True)
        folder.chmod(0o777 | stat.S_ISVTX)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(20, "it is not a folder") from None
