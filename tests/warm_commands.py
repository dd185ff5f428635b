"""`bench-run` in processes of their own that start in milliseconds: each is forked from one that
has imported what the command imports, which is a third of the processor time of a short run.

Run as a program, ``python -m tests.warm_commands DESCRIPTOR``, it serves a socket over which words,
folder and environment come, with the descriptors of stdout and stderr.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

MESSAGE_BYTES = 1 << 18
PRELOADED = (
    "docopt",
    "bench_run.cli",
    "bench_run.commands.run",
    "bench_run.runner.benchmark",
    "bench_run.runner.early",
)


class WarmCommands:
    """The server, seen from the tests."""

    def __init__(self, environment):
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        subprocess.run(
            [sys.executable, "-m", "tests.warm_commands", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            env=environment,
            check=True,
        )
        theirs.close()

    def run(self, words, folder, environment, timeout):
        """As `subprocess.run` does it with captured text."""
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        request = pickle.dumps((words, str(folder), environment))
        socket.send_fds(self._control, [request], [out_end, err_end])
        for end in (out_end, err_end):
            os.close(end)
        pid = int(self._control.recv(MESSAGE_BYTES))
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(_read, end) for end in (out, err)]
            code = self._code(pid, timeout)
        stdout, stderr = (text.result() for text in texts)
        if code is None:
            raise subprocess.TimeoutExpired(words, timeout, stdout, stderr)
        return subprocess.CompletedProcess(words, code, stdout, stderr)

    def _code(self, pid, timeout):
        """The exit code; None for one that has been killed for its time."""
        self._control.settimeout(timeout)
        try:
            return int(self._control.recv(MESSAGE_BYTES))
        except BaseException as error:  # the time limit of a test among them
            os.kill(pid, signal.SIGKILL)
            self._control.settimeout(None)
            self._control.recv(MESSAGE_BYTES)
            if not isinstance(error, TimeoutError):
                raise
            return None
        finally:
            self._control.settimeout(None)

    def close(self):
        self._control.close()


def _read(descriptor):
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def serve(control):
    """Fork for each request, and tell pid and exit code. Returns in each forked process what is to
    be run there, and None when the other side is gone."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 2)
        if not message:
            return None
        pid = os.fork()
        if pid == 0:
            for number, descriptor in enumerate(descriptors, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            control.close()
            return pickle.loads(message)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(pid).encode())
        control.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def become(words, folder, environment, before):
    """What a fresh interpreter does with them. `before`: entries of the path that this one found in
    its own environment."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    named = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [folder, *filter(None, named), *(p for p in sys.path if p not in before)]
    sys.argv[1:] = words
    runpy.run_module("bench_run", run_name="__main__", alter_sys=True)


def main(descriptor):
    if os.fork():
        os._exit(0)  # what serves is no child of the tests: some look at all that they have
    before = {os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    request = serve(socket.socket(fileno=descriptor))
    if request is not None:
        become(*request, before)


if __name__ == "__main__":
    main(int(sys.argv[1]))
