"""Ends what Ray started on this host for a run that is gone, and removes the folder of it.

Ray's own agents notice that they are alone after a minute, and nobody removes their folder. So a
process beside the run waits until the pipe from it closes, however the run ends, and ends whoever
has a file of that folder open, as all of them have their logs. (Agents overwrite their command line
and environment, and are nobody's children by then.)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psutil

from bench_run.worker.parent.start import start_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONGEST_S = 10.0
STEP_S = 0.1


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Who has a file of `folder` open, this process apart, does not outlive the block, nor this
    process; the folder goes as well."""
    theirs, ours = os.pipe()
    process = start_module(__name__, {}, theirs, subprocess.DEVNULL)
    os.close(theirs)
    os.write(ours, os.fsencode(folder))
    try:
        yield
    finally:
        os.close(ours)
        process.wait()


def main(descriptor: int) -> None:
    run = os.getppid()
    with open(descriptor, "rb") as pipe:
        folder = os.fsdecode(pipe.read())  # ends with the run
    until = time.monotonic() + LONGEST_S
    while (left := list(_users(folder, run))) and time.monotonic() < until:
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(STEP_S)
    shutil.rmtree(folder, ignore_errors=True)


def _users(folder: str, run: int) -> Iterator[psutil.Process]:
    """Processes of this user, but the run, that have a file of the folder open."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            files = () if process.pid == run else process.open_files()
            if any(file.path.startswith(f"{folder}/") for file in files):
                yield process


if __name__ == "__main__":
    main(int(sys.argv[1]))
