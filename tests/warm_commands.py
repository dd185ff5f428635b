"""The two commands, and the workers of runs, in processes that start in milliseconds: each is
forked from one that has imported what it needs, and then takes folder and variables as given.

Run as a program, ``python -m tests.warm_commands DESCRIPTOR [MODULE...]``, it imports these modules
and serves a socket over which the requests come.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from bench_run.machine.affinity import thread_environment
from bench_run.worker import life as start
from tests.forking import Forked, serve
from tests.forking import __file__ as FORKING

OF_WORKERS = (
    "bench_run.engines.numpy_engine.engine",
    "bench_run.reference",
    "bench_run.validate.measured",
    "bench_run.worker.evaluate",
    "bench_run.worker.run_case",
    "bench_run.worker.life",
)
OF_COMMANDS = (
    "docopt",
    "bench_run.cli",
    "bench_run.commands.run",
    "bench_run.runner.benchmark",
    "bench_run.runner.early",
    "bench_compare.commands.compare",
    "bench_compare.comparison.compare",
    "bench_schema.report.text",
    "bench_compare.report.html",
)
SCRIPTS = {"bench-run": "bench_run", "bench-compare": "bench_compare", "python": ""}
"""Names of the commands on a path, and the module that each runs."""
READ_AT_THE_START = ("GOTO", "LD_", "MALLOC", "MKL", "OMP", "OPENBLAS", "PYTHON")
"""Variables that are read before the first line of a worker runs, by their beginnings."""
ONE_THREAD = thread_environment(1)
"""Variables of workers with one thread, with which servers start: most workers have them."""


class WarmCommands:
    """Runs commands, and their workers, in forks."""

    def __init__(self, environment):
        self._control = _start_server(environment, (*OF_COMMANDS, *OF_WORKERS))

    def run(self, words, folder, environment, timeout):
        """``bench-run`` with these words, as `subprocess.run` does it with captured text."""
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        request = (str(folder), environment, ("bench_run", *words))
        process = Forked(self._control, request, [0, out_end, err_end])
        for end in (out_end, err_end):
            os.close(end)
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(_read, end) for end in (out, err)]
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:  # the time limit of a test may have ended the wait
                process.kill()
        stdout, stderr = (text.result() for text in texts)
        if code is None:
            raise subprocess.TimeoutExpired(words, timeout, stdout, stderr)
        return subprocess.CompletedProcess(words, code, stdout, stderr)

    def write_scripts(self, folder):
        """Write the commands as programs into a folder, for a shell's path. They need `descriptors`
        of this object: pass them to the shell."""
        folder.mkdir(parents=True)
        ask = f'"{sys.executable}" -I -S "{FORKING}" {self._control.fileno()}'
        for name, words in SCRIPTS.items():
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {ask} {words} "$@"\n')
            script.chmod(0o755)

    @property
    def descriptors(self):
        return [self._control.fileno()]

    def close(self):
        self._control.close()


class WarmWorkers:
    """Starts workers in forks of a server, which starts when the first is asked for. As their
    parent it ends with the run, and they end with it. Their BLAS has one thread, also where a fresh
    worker would have all: what needs more asks for `fresh_workers`."""

    def __init__(self, start_server):
        self._start_server = start_server
        self._control, self._lock = None, threading.Lock()
        self._start_afresh = start.start_module

    def start_module(self, module, environment, pipe, output, python=None):
        """In the place of the function of this name. Templates, and workers that are given what is
        read before their first line, are started afresh."""
        is_special = any(
            name.startswith(READ_AT_THE_START) and ONE_THREAD.get(name) != value
            for name, value in environment.items()
        )
        if module != start.WORKER or is_special or python is not None:
            return self._start_afresh(module, environment, pipe, output, python)
        with self._lock:
            if self._control is None:
                self._control = self._start_server()
        request = (os.getcwd(), {**os.environ, **environment}, None)
        return Forked(self._control, request, [pipe, output])

    def close(self):
        if self._control is not None:
            self._control.close()


def warm_workers(environment):
    """For the workers of this process."""
    return WarmWorkers(lambda: _start_server(environment, OF_WORKERS))


def _start_server(environment, modules):
    """Our end of the socket of a fresh server."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.run(
            [sys.executable, "-m", "tests.warm_commands", str(theirs.fileno()), *modules],
            pass_fds=(theirs.fileno(),),
            env={**environment, **ONE_THREAD},
            check=True,
        )
    return ours


def _read(descriptor):
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def serve_forks(control, before):
    """Until the other side is gone; the forked processes return when they have done what was
    asked. `before`: entries of the path that this process found in its own environment."""
    asked = serve(control)
    if asked is None:
        return
    (folder, environment, words), descriptors = asked
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    named = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*named, *(p for p in sys.path if p not in before)]
    if words is None:
        become_worker(descriptors)
    become_command(words, descriptors, named)


def become_worker(descriptors):
    from bench_run.worker import life as template

    os.setsid()
    template.become_worker(*descriptors)


def become_command(words, descriptors, named):
    """Do what a fresh interpreter does with these words, but for its workers: they are forked from
    a child of this process. The words begin with a module, with ``-c`` and a program, or are ``-``.
    `named`: entries of the path that are this process's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        for given in descriptors:
            os.close(given)
        serve_forks(theirs, set(named))
        os._exit(0)
    theirs.close()
    for number, given in enumerate(descriptors):
        os.dup2(given, number)
        os.close(given)
    start.start_module = WarmWorkers(lambda: ours).start_module
    if words[0] in ("-", "-c"):
        program = words[1] if words[0] == "-c" else sys.stdin.read()
        sys.argv[:] = [words[0], *words[2:]]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        return
    sys.argv[1:] = words[1:]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def main(descriptor, *modules):
    if os.fork():
        os._exit(0)  # what serves is no child of the tests: some look at all that they have
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    before = {os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    for name in modules:
        importlib.import_module(name)
    gc.freeze()
    serve_forks(socket.socket(fileno=int(descriptor)), before)


if __name__ == "__main__":
    main(*sys.argv[1:])
