"""Nothing that an engine started outlives its worker: a guardian ends whatever is left.

A worker is two processes: the guardian, which the run started and waits for, and its child, which
serves the engine. The guardian is a *subreaper*: processes below it that lose their parent become
its children, also those in sessions of their own and with another environment (compiler daemons,
``setsid``). When the server has ended, or the run asks with SIGTERM, or the run is gone, it kills
its children until all are gone, and ends as the server did. It does nothing else and keeps nothing
open. Linux only: on other systems, or without a list of children, the process group is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
WAKE = signal.SIGUSR1
"""Signal from the kernel to the guardian when the run is gone."""
STOP = signal.SIGTERM
"""Signal from the run to end everything."""
HEARD = (signal.SIGCHLD, WAKE, STOP)


def die_with_parent(signal_number: int = signal.SIGKILL) -> None:
    """Ask the kernel for a signal to this process when its parent dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)


def start_guardian() -> int | None:
    """Fork; this process becomes the guardian, and only the child returns, with the guardian's id.
    It must lead a process group of its own; None: it does not."""
    if sys.platform != "linux" or os.getpgrp() != os.getpid():
        return None
    run, guardian = os.getppid(), os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored ones would leave no status
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = os.fork()
    if server:
        _guard(server, run)
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if os.getppid() != guardian:
        os._exit(1)
    return guardian


def _guard(server: int, run: int) -> None:
    """Wait for an end, end everything below, and end in the same way. Never returns."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    die_with_parent(WAKE)
    status: int | None = None
    while status is None and os.getppid() == run:
        if signal.sigwait(HEARD) == STOP:
            status = int(STOP)  # of a process that this signal ended
            break
        # All children that have ended are let go.
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == server:
                    status = ended[1]
    _end_children()
    # As the server ended, its signal included.
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to be reset
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _end_children() -> None:
    """Kill children until there are none: those of the killed become ours."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        try:
            children = [int(word) for word in listed.read_text().split()]
        except OSError:
            os.killpg(0, signal.SIGKILL)  # and this process
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
