"""Nothing that an engine started outlives its worker: a guardian ends the worker's process group.

The run itself may be killed with SIGKILL: then the kernel ends the worker (`die_with_parent`), and
no process would be left to end the worker's children. The guardian is forked before the engine is
loaded, waits for the worker's end, and kills the group that both lead. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
WAKE = signal.SIGUSR1


def die_with_parent(signal_number: int = signal.SIGKILL) -> None:
    """Ask the kernel for a signal to this process when its parent dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)


def start_guardian() -> None:
    """Fork the guardian of this process; it must lead a process group of its own."""
    if sys.platform != "linux" or os.getpgrp() != os.getpid():
        return
    worker = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {WAKE})
    if os.fork() == 0:
        _guard(worker)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {WAKE})


def _guard(worker: int) -> None:
    """Wait for the worker's end, then end everything in its group, this process included."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    die_with_parent(WAKE)
    if os.getppid() == worker:
        signal.sigwait({WAKE})
    os.killpg(worker, signal.SIGKILL)
    os._exit(0)
