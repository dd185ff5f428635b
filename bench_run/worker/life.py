"""The start of a worker's process, and how it comes to be: from nothing, or forked from a template
of its engine.

A template imports an engine's libraries once, never opens the device, and forks workers, which then
start in milliseconds where importing PyTorch takes seconds. Only for engines that say so
(`preload`): a GPU's context must not exist before the fork, and on the processor every worker is to
have an address layout of its own. This module is its program as well: ``python -m
bench_run.worker.life DESCRIPTOR``, a Unix socket that speaks `Preload`, then the descriptors of a
worker's pipe and output for each fork. Answers are `Ready`, `Forked` and `Ended`.

Nothing that takes long is imported here, so that templates can import while the run does
(`runner/early.py`).
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from bench_schema.identity import without_device

from bench_run.engines import engine_module
from bench_run.engines.base import FORKED
from bench_run.machine.affinity import thread_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.plan.engines import PlannedEngine


WORKER, TEMPLATE = "bench_run.worker.main", "bench_run.worker.life"
WAIT_STEP_S = 0.02


# Messages between a run and a template.

MESSAGE_BYTES = 65536
FORK = b"fork"


class Preload(msgspec.Struct, frozen=True, tag=True):
    spec: str
    """Spec as text for `parse_spec`."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Everything is imported, or not: then workers have to be started afresh."""

    fit: bool


class Forked(msgspec.Struct, frozen=True, tag=True):
    pid: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    pid: int
    code: int
    """Exit code as in `subprocess.Popen.returncode`."""


encode = msgspec.msgpack.encode
decode = msgspec.msgpack.Decoder(Preload | Ready | Forked | Ended).decode


# The end of the run.


class ProcessHandle(Protocol):
    """The process of a worker; `subprocess.Popen` is one."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


@cache
def _starter(_pid: int) -> ThreadPoolExecutor:
    """Return the thread that starts processes: the kernel ends them with it, and it lives as long
    as this program. A fork of this program has one of its own."""
    return ThreadPoolExecutor(1, "starter")


def start_module(
    module: str,
    environment: Mapping[str, str],
    descriptor: int,
    output: int,
    python: str | None = None,
) -> subprocess.Popen[bytes]:
    """Return a Python process in a session of its own that serves a descriptor and prints to
    `output`. `python`: its interpreter, by default that of this process."""
    return (
        _starter(os.getpid())
        .submit(
            subprocess.Popen,
            [python or sys.executable, "-m", module, str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(descriptor,),
            start_new_session=True,
            env={**os.environ, **environment},
        )
        .result()
    )


class Template:
    """The template process of one engine, seen from the run. `fit` is false where its workers have
    to be started afresh."""

    def __init__(
        self,
        spec: str,
        environment: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        """`spec`: the engine's, as text. `timeout_s`: how long importing, and a fork, may take."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(timeout_s)
        self._process = start_module(TEMPLATE, environment, theirs.fileno(), subprocess.DEVNULL)
        theirs.close()
        self._lock, self._importing = threading.Lock(), threading.Lock()
        self._ends: dict[int, int] = {}
        self._lost: set[int] = set()
        """Workers that ended with the template."""
        self._control.send(encode(Preload(spec)))
        self._fit: bool | None = None

    @property
    def fit(self) -> bool:
        """Waits until everything is imported. For any thread."""
        with self._importing:
            if self._fit is None:
                message = self._receive()
                self._fit = isinstance(message, Ready) and message.fit
            return self._fit

    def fork(self, pipe: int, output: int) -> ProcessHandle | None:
        """Return a forked worker; None if the template is lost or unfit."""
        with self._lock, contextlib.suppress(OSError, ValueError):  # another thread closed it
            if self.fit:
                socket.send_fds(self._control, [FORK], [pipe, output])
                while (message := self._receive()) is not None:
                    if isinstance(message, Forked):
                        return ForkedProcess(message.pid, self)
                    self._note(message)
        self._fit = False
        return None

    def end_of(self, pid: int) -> int | None:
        """Return the exit code of a worker; None while it lives."""
        with self._lock:
            while pid not in self._ends and self._has_message():
                message = self._receive()
                if message is None:  # the kernel ends the workers of a lost template
                    self._ends[pid] = -signal.SIGKILL
                    self._lost.add(pid)
                    self._fit = False
                self._note(message)
            return self._ends.get(pid)

    def was_lost_with(self, pid: int) -> bool:
        """Return True if the worker ended because the template did."""
        return pid in self._lost

    def _note(self, message: object) -> None:
        if isinstance(message, Ended):
            self._ends[message.pid] = message.code

    def _has_message(self) -> bool:
        if self._control.fileno() < 0:  # closed: what it started is ended
            return True
        return bool(select.select([self._control], [], [], 0)[0])

    def _receive(self) -> object:
        """Return the next message; None if the template is gone. One that is silent too long is
        ended: it must not fork what has been started otherwise."""
        try:
            data = self._control.recv(MESSAGE_BYTES)
        except OSError:
            self._process.kill()
            return None
        return decode(data) if data else None

    def close(self) -> None:
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class ForkedProcess:
    """A worker whose parent is the template, which tells when it ended."""

    def __init__(self, pid: int, template: Template) -> None:
        self.pid = pid
        self._template = template

    def poll(self) -> int | None:
        return self._template.end_of(self.pid)

    @property
    def lost_its_template(self) -> bool:
        """True if it ended because its template did."""
        return self._template.was_lost_with(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code. Raises `subprocess.TimeoutExpired`."""
        limit = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if limit is not None and time.monotonic() > limit:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            time.sleep(WAIT_STEP_S)
        return code


def own_environment(engine: PlannedEngine) -> Mapping[str, str]:
    """Return variables that the engine's process needs from its start."""
    environment = engine_module(engine.spec.name).ABILITIES.environment
    own = thread_environment(engine.options.threads)
    if engine.options.python is not None:
        own |= source_path()
    if environment is None:
        return own
    return {**environment(engine.spec, engine.options), **own}


def source_path() -> dict[str, str]:
    """Return variables with which another interpreter finds these packages, if they lie in a folder
    of their own and not among the packages of this environment."""
    import bench_schema

    folders = [Path(__file__).parents[2], Path(bench_schema.__file__).parents[1]]
    if any(folder.name == "site-packages" for folder in folders):
        return {}
    return {"PYTHONPATH": os.pathsep.join(map(str, dict.fromkeys(folders)))}


class Launcher:
    """Starts the workers of a run. An engine's copies on several devices share environment and
    template, because what is imported does not depend on the device. Thread-safe."""

    def __init__(
        self,
        fresh: str,
        timeout_s: float,
        environments: Mapping[str, Mapping[str, str]] | None = None,
        shared: Mapping[str, str] | None = None,
    ) -> None:
        """`fresh`: ``exec`` starts each worker from nothing; ``fork`` forks those of engines that
        allow it. `timeout_s`: limit for the imports of a template, and for a fork. `environments`:
        more variables, by engine key. `shared`: engines that are forked from another one's
        template, by key."""
        self._shared = shared or {}
        self._fresh, self._timeout_s = fresh, timeout_s
        self._given, self._environments = environments or {}, dict[str, "Mapping[str, str]"]()
        self._templates: dict[str, Template] = {}
        self._lock = threading.Lock()

    def _name_of(self, engine: PlannedEngine) -> str:
        """Return the name of its template."""
        name = without_device(engine.key)
        return self._shared.get(name, name)

    def environment(self, engine: PlannedEngine) -> Mapping[str, str]:
        """Return variables of the engine's workers, the same in each round."""
        name = self._name_of(engine)
        with self._lock:
            if name not in self._environments:
                given = self._given.get(engine.key, {})
                self._environments[name] = {**own_environment(engine), **given}
            return self._environments[name]

    def forks(self, engine: PlannedEngine) -> bool:
        """Return True if the engine's workers may be forked."""
        abilities = engine_module(engine.spec.name).ABILITIES
        if engine.options.python is not None:
            return False
        if abilities.runs_on_host and FORKED not in self.environment(engine):
            return False
        return self._fresh == "fork" and abilities.preload is not None

    def preload(self, engine: PlannedEngine) -> Template | None:
        """Start the engine's template; None if it started before, or its workers do not fork."""
        if not self.forks(engine):
            return None
        name, environment = self._name_of(engine), self.environment(engine)
        with self._lock:
            if name in self._templates:
                return None
            template = Template(engine.spec.text, environment, self._timeout_s)
            self._templates[name] = template
            return template

    def start(self, engine: PlannedEngine, pipe: int, output: int) -> ProcessHandle:
        """Return a worker that serves `pipe` and prints to `output`. The first one starts from
        nothing while its template imports."""
        name = self._name_of(engine)
        if self.preload(engine) is None and name in self._templates:
            forked = self._templates[name].fork(pipe, output)
            if forked is not None:
                return forked
        environment, python = self.environment(engine), engine.options.python
        return start_module(WORKER, environment, pipe, output, python)

    @property
    def worker_start(self) -> Literal["exec", "fork"]:
        """The way in which most workers start; waits for the templates."""
        return "fork" if any(template.fit for template in self._templates.values()) else "exec"

    def close(self) -> None:
        """End the templates."""
        with self._lock:
            for template in self._templates.values():
                template.close()
            self._templates.clear()


# The template's end.

REAP_S = 0.05
"""Interval between searches for ended workers."""


def preload(request: Preload) -> bool:
    """Preload; return True if workers of this spec may be forked from here."""
    from bench_run.engines.spec import parse_spec
    from bench_run.errors import BenchRunError

    try:
        spec = parse_spec(request.spec)
        preload_engine = engine_module(spec.name).ABILITIES.preload
        if preload_engine is None or not preload_engine(spec):
            return False
    except BenchRunError:
        return False  # a fresh worker says why
    from bench_run import reference
    from bench_run.worker import evaluate, main, run_case

    return all((reference, evaluate, main, run_case))


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
    from bench_run.worker.main import leave, main

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
    from bench_run.worker.guardian import die_with_parent
    from bench_run.worker.main import leave

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
