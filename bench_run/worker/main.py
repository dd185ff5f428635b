"""A worker process, seen from inside: take requests, run them, answer.

Whatever an engine prints goes to the pipe that the run drains, never into the answers. An error
that nobody expected ends the process with its traceback: the run records it as *crashed*.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from bench_run.engines import engine_module
from bench_run.errors import (
    EngineError,
    EngineUnavailableError,
    GraphError,
    OutputError,
    UnsupportedGraphError,
    UsageError,
)
from bench_run.worker.messages import (
    Answer,
    Attempt,
    CaseResult,
    Choices,
    Close,
    Evaluate,
    MeasureCeilings,
    MeasuredCeilings,
    Open,
    Opened,
    PhaseStarted,
    Refused,
    Request,
    RunCase,
    Taken,
    Trace,
    Traced,
    Variants,
)

if TYPE_CHECKING:
    from bench_run.engines.base import Engine

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to end this process when the run's process dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class EngineServer:
    """The engine this process holds, and how requests are met."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._engine: Engine | None = None
        self._import_ns = 0
        self._name = ""
        self._timer = "auto"

    def phase(self, name: str, checked_ns: int = 0) -> None:
        self._pipe.send(PhaseStarted(name, checked_ns))

    def open(self, request: Open) -> Opened:
        self._name = request.spec.name
        begin = time.perf_counter_ns()
        self._engine = engine_module(request.spec.name).open(request.spec, request.options)
        self._import_ns = time.perf_counter_ns() - begin
        self._timer = request.options.timer
        devices = getattr(self._engine, "devices", None)
        return Opened(self._engine.facts, self._engine.stream.clock, self._import_ns, devices)

    def run_case(self, request: RunCase) -> CaseResult:
        from bench_run.worker.run_case import run_case

        gc.collect()
        gc.freeze()  # what imports left behind need not be searched before each case
        assert self._engine is not None
        return CaseResult(run_case(self._engine, request, self._import_ns, self.phase))

    def variants(self, request: Variants) -> Choices:
        assert self._engine is not None
        ask = getattr(self._engine, "choices", None) if request.in_full else None
        return Choices(tuple((ask or self._engine.variants)(request.graph)))

    def attempt(self, request: Attempt) -> Taken:
        from bench_run.worker.evaluate import attempt

        assert self._engine is not None
        attempt(self._engine, request)
        return Taken()

    def evaluate(self, request: Evaluate) -> Answer:
        from bench_run.worker.evaluate import evaluate

        return evaluate(self._engine if request.engine else None, request)

    def trace(self, request: Trace) -> Traced:
        from bench_run.profilers.trace import leave_part
        from bench_run.worker.evaluate import inputs_of

        assert self._engine is not None
        plan = self._engine.plan(self._engine.build(request.graph, request.variant))
        try:
            plan.upload(inputs_of(request.graph, request.data))
            plan.run()
            self._engine.stream.synchronize()
            leave_part(plan, self._engine.stream, self._name, request.case_id, request.folder)
        finally:
            plan.close()
        return Traced()

    def ceilings(self) -> MeasuredCeilings:
        from bench_run.measure.ceilings import measure_ceilings

        assert self._engine is not None
        return MeasuredCeilings(measure_ceilings(self._engine))

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()


def answer(server: EngineServer, request: Request) -> Answer:
    """The answer to a request; errors of ours become `Refused` with the class's name."""
    try:
        if isinstance(request, Open):
            return server.open(request)
        if isinstance(request, RunCase):
            return server.run_case(request)
        if isinstance(request, Variants):
            return server.variants(request)
        if isinstance(request, Attempt):
            return server.attempt(request)
        if isinstance(request, Trace):
            return server.trace(request)
        if isinstance(request, MeasureCeilings):
            return server.ceilings()
        assert isinstance(request, Evaluate)
        return server.evaluate(request)
    except (
        EngineError,
        EngineUnavailableError,
        GraphError,
        OutputError,
        UnsupportedGraphError,
        UsageError,
    ) as error:
        return Refused(type(error).__name__, str(error), getattr(error, "detail", None))
    except MemoryError as error:
        return Refused(
            "EngineError",
            f"out of memory on the host: {error}" if str(error) else "out of memory on the host",
        )


def main(descriptor: int) -> int:
    """Serve requests from the pipe until told to close, or until the run is gone."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's to handle
    pipe: Connection = Connection(descriptor)
    os.set_inheritable(descriptor, False)
    server = EngineServer(pipe)
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return 0
        if isinstance(request, Close):
            server.close()
            return 0
        pipe.send(answer(server, request))


def leave(code: int) -> None:
    """End now: the engine is closed, and taking a large library apart takes a while."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main(int(sys.argv[1])))
