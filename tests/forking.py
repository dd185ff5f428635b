"""Processes that are forked on request from one that has imported what they need: they start in
milliseconds, where importing is a third of the processor time of a short run.

One end of a socket belongs to `serve`, in the process that is forked from. The other end asks it
for `Forked` processes, from any thread and several at a time.

Run as a program, ``python -I -S forking.py DESCRIPTOR WORD...``, it asks over the socket that it
inherits for a command with these words, in its own folder and with its own variables and streams.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys

MESSAGE_BYTES = 1 << 18
MOST_DESCRIPTORS = 4
CODE_BYTES = 32


class Forked:
    """A process that was asked for, with what `subprocess.Popen` offers."""

    def __init__(self, control, request, descriptors):
        """`request`: what `serve` returns in the process, with copies of the descriptors."""
        self._status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            wanted = [theirs.fileno(), *descriptors]
            socket.send_fds(control, [pickle.dumps(request)], wanted)
        self.pid, self.returncode = int(self._status.recv(CODE_BYTES)), None

    def wait(self, timeout=None):
        """The exit code, to any number of threads. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                code = self._status.recv(CODE_BYTES, socket.MSG_PEEK)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("forked", timeout or 0.0) from None
            # Without a code: what it was forked from is gone, and it with that.
            self.returncode = int(code or -signal.SIGKILL)
        return self.returncode

    def __del__(self):
        self._status.close()

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def serve(control):
    """Fork for each request and tell its pid, then its exit code. Returns, in each forked process,
    the request and its descriptors; in this one None, when the other side is gone."""
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    askers = {}
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if woken in ready:
                woken.recv(MESSAGE_BYTES)
                _tell_ends(askers)
            if control not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MOST_DESCRIPTORS)
            if not message:
                return None
            status, *others = descriptors
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, before)
                for end in (control, woken, wakes, *askers.values()):
                    end.close()
                os.close(status)
                return pickle.loads(message), others
            for descriptor in others:
                os.close(descriptor)
            askers[pid] = socket.socket(fileno=status)
            askers[pid].send(str(pid).encode())


def _tell_ends(askers):
    """Tell the exit codes of the processes that have ended."""
    while askers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with askers.pop(pid) as asker, contextlib.suppress(OSError):  # nobody waits any more
            asker.send(str(os.waitstatus_to_exitcode(status)).encode())


def main(descriptor, *words):
    control = socket.socket(fileno=int(descriptor))
    code = Forked(control, (os.getcwd(), dict(os.environ), words), [0, 1, 2]).wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
