"""A template process: it imports an engine's libraries once, never opens the device, and forks
workers, which then start in milliseconds where importing PyTorch takes seconds.

Only for engines that say so (`preload`): a GPU's context must not exist before the fork, and
on the processor every worker is to have an address layout of its own. Run as a program:
``python -m bench_run.worker.template DESCRIPTOR``, a Unix socket that speaks `Preload`, then the
descriptors of a worker's pipe and output for each fork. Answers are `Ready`, `Forked` and `Ended`.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import sys

from bench_run.engines import engine_module
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError
from bench_run.worker.guardian import die_with_parent
from bench_run.worker.main import leave, main
from bench_run.worker.template_messages import (
    FORK,
    MESSAGE_BYTES,
    Ended,
    Forked,
    Preload,
    Ready,
    decode,
    encode,
)

REAP_S = 0.05
"""Interval between searches for ended workers."""


def preload(request: Preload) -> bool:
    """Preload; return True if workers of this spec may be forked from here."""
    try:
        spec = parse_spec(request.spec)
        preload_engine = engine_module(spec.name).ABILITIES.preload
        if preload_engine is None or not preload_engine(spec):
            return False
    except BenchRunError:
        return False  # a fresh worker says why
    from bench_run import reference
    from bench_run.worker import evaluate, run_case

    return all((reference, evaluate, run_case))


def serve(control: socket.socket) -> None:
    """Fork on request and report ends, until the other side is gone."""
    request = decode(control.recv(MESSAGE_BYTES))
    control.send(encode(Ready(isinstance(request, Preload) and preload(request))))
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            if selector.select(REAP_S):
                message, descriptors, _, _ = socket.recv_fds(control, len(FORK), 2)
                if not message:
                    return
                _fork(control, *descriptors)
            _reap(control)


def _fork(control: socket.socket, pipe: int, output: int) -> None:
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        control.close()
        become_worker(pipe, output)
    with contextlib.suppress(OSError):  # both do it, so that neither has to wait for the other
        os.setpgid(pid, pid)
    os.close(pipe)
    os.close(output)
    control.send(encode(Forked(pid)))


def become_worker(pipe: int, output: int) -> None:
    """Set up a worker as `subprocess` does, then run its program. Never returns."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = 1
    try:
        code = main(pipe)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # foreign: whatever an engine raises ends a fresh process so too
        sys.excepthook(*sys.exc_info())
    leave(code)


def _reap(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        control.send(encode(Ended(pid, os.waitstatus_to_exitcode(status))))


def run(descriptor: int) -> None:
    die_with_parent()
    control = socket.socket(fileno=descriptor)
    if is_left(control):  # before the kernel was asked: what is imported may hang
        leave(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(control)
    leave(0)


def is_left(control: socket.socket) -> bool:
    """Return True if the run is gone."""
    poll = select.poll()
    poll.register(control, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


if __name__ == "__main__":
    run(int(sys.argv[1]))
