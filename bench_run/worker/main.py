"""The child's end of a worker process: receive requests, run them, answer.

Output of an engine goes to the pipe that the run drains, never into the answers. An unexpected
exception is reported and ends the process with its traceback: the case is *crashed*.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, TypeVar

from bench_run.engines import engine_module
from bench_run.engines.base import FORKED, EngineFacts
from bench_run.engines.reported import converted, listed
from bench_run.errors import BenchRunError, EngineError, message_of
from bench_run.machine.affinity import pin_process, stay_near
from bench_run.machine.memory import become_victim, limit_own_memory
from bench_run.measure.clock import read_clock
from bench_run.text import shorten
from bench_run.worker import messages
from bench_run.worker.guardian import start_guardian
from bench_run.worker.messages import Answered, AnswerT, PhaseStarted, Refusal, Request, Told
from bench_run.worker.wire import Pipe, decode_request, encode, encode_reply, pipe_of

if TYPE_CHECKING:
    from bench_schema.document import Case

    from bench_run.engines.base import Engine
    from bench_run.measure.budget import Ceilings

HEAP_BYTES = 100_000
"""Size up to which C libraries take memory from the heap."""
NICE = "BENCH_RUN_NICE"
"""Variable: by how much a worker gives way to others that want the processor."""
LONGEST_TEXT = 300
REFERENCE_THREADS = "BENCH_RUN_REFERENCE_THREADS"
"""Variable: how many threads compute a reference."""


Handler = Callable[[Any, Any], object]
HANDLERS: dict[type[Request[Any]], Handler] = {}
"""Methods of `EngineServer` by the requests that they answer."""
RequestT = TypeVar("RequestT", bound=Request[Any])


def answers(
    kind: Callable[..., Request[AnswerT]],
) -> Callable[[Callable[[Any, RequestT], AnswerT]], Callable[[Any, RequestT], AnswerT]]:
    """Enter a method as the one that answers requests of this kind: the types agree only where it
    returns the request's answer."""

    def enter(
        method: Callable[[Any, RequestT], AnswerT],
    ) -> Callable[[Any, RequestT], AnswerT]:
        assert isinstance(kind, type)
        HANDLERS[kind] = method
        return method

    return enter


class EngineServer:
    """The engine this process holds, and how each request is met."""

    def __init__(self, pipe: Pipe, guardian: int | None = None) -> None:
        """`guardian`: id of the process above this one, below which all that it starts stays."""
        self._pipe, self._guardian = pipe, guardian
        self._engine: Engine | None = None
        self._name = ""
        self._import_ns = 0
        self._threads: int | None = None
        self._thread_failures: list[str] = []

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise EngineError("the first request is Open")
        return self._engine

    @property
    def computes_on_host(self) -> bool:
        """True if its engine uses only the processor."""
        return self._engine is not None and self._engine.facts.device == "cpu"

    def is_worn(self) -> bool:
        """Return True if the gate that a new process has is gone in this one."""
        is_gone = None if self._engine is None else self._engine.stream.abilities.gate_is_gone
        return is_gone is not None and is_gone()

    def announce(self, phase: str, checked_ns: int = 0) -> None:
        self._pipe.send(encode(PhaseStarted(phase, checked_ns)))

    def ask(self, question: messages.Question) -> Any:
        """Wait for the run's answer."""
        self._pipe.send(encode(question))
        reply = _incoming(self._pipe)
        if not isinstance(reply, Told):
            raise EOFError  # the run is ending
        return reply.value

    @answers(messages.Open)
    def open(self, request: messages.Open) -> messages.EngineOpened:
        begin = read_clock()
        engine = engine_module(request.spec.name).open(request.spec, request.options)
        self._import_ns = read_clock() - begin
        if REFERENCE_THREADS not in os.environ:  # here several workers may do it at the same time
            from bench_run.worker import run_case  # noqa: F401

        self._engine, self._name = engine, request.spec.text
        facts: EngineFacts = converted(self._name, "facts", engine.facts, EngineFacts)
        devices = converted(self._name, "devices", engine.abilities.devices, int | None)
        if request.options.near_device:
            stay_near(facts.device)
        threads = request.options.threads
        if threads is not None and request.options.hold_threads and facts.device == "cpu":
            self._threads = threads
            pin_process(threads)
        return messages.EngineOpened(facts, engine.stream.clock, self._import_ns, devices)

    @answers(messages.RunCase)
    def run_case(self, request: messages.RunCase) -> Case:
        from bench_run.worker.run_case import RunHooks, run_case

        gc.collect()
        gc.freeze()  # a collection beside PyTorch's modules takes 0.15 s, now none is searched
        run = RunHooks(self.announce, self.ask, self._threads, self._guardian)
        case = run_case(self.engine, request, self._import_ns, run)
        failures, self._thread_failures = dict.fromkeys(self._thread_failures), []
        return replace(case, notes=(*case.notes, *(f"a thread ended by {f}" for f in failures)))

    def note_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Report an exception that ended a thread of the engine."""
        threading.__excepthook__(failure)
        if failure.exc_value is not None and not isinstance(failure.exc_value, SystemExit):
            self._thread_failures.append(exception_text(failure.exc_value))

    @answers(messages.Variants)
    def variants(self, request: messages.Variants) -> tuple[Mapping[str, str], ...]:
        return listed(self._name, "variants()", self.engine.variants(request.graph))

    @answers(messages.Plans)
    def plans(self, request: messages.Plans) -> tuple[Mapping[str, str], ...] | None:
        plans = self.engine.abilities.plans
        return None if plans is None else listed(self._name, "plans()", plans(request.graph))

    @answers(messages.KnobValues)
    def knob_values(self, request: messages.KnobValues) -> Mapping[str, tuple[str, ...]]:
        ask = self.engine.abilities.knob_values
        values = {} if ask is None else ask(request.graph, request.variant)
        kind = dict[str, tuple[str, ...]]
        found: Mapping[str, tuple[str, ...]] = converted(self._name, "knob_values()", values, kind)
        return found

    @answers(messages.Choices)
    def choices(self, request: messages.Choices) -> tuple[Mapping[str, str], ...]:
        ask = self.engine.abilities.choices or self.engine.variants
        return listed(self._name, "choices()", tuple(ask(request.graph)))

    @answers(messages.Attempt)
    def attempt(self, request: messages.Attempt) -> None:
        from bench_run.worker.evaluate import attempt

        attempt(self.engine, request)

    @answers(messages.Evaluate)
    def evaluate(self, request: messages.Evaluate) -> messages.Evaluated:
        from bench_run.reference.threads import use_threads
        from bench_run.worker.evaluate import evaluate

        use_threads(int(os.environ.get(REFERENCE_THREADS, "1")))
        return evaluate(self.engine if request.engine else None, request)

    @answers(messages.Judge)
    def judge(self, request: messages.Judge) -> messages.Judged:
        from bench_run.reference.threads import use_threads
        from bench_run.worker.judge import judge

        use_threads(int(os.environ.get(REFERENCE_THREADS, "1")))
        return judge(self.engine if request.engine else None, request)

    @answers(messages.ReadDevice)
    def read_device(self, request: messages.ReadDevice) -> None:
        from bench_run.streams.cuda_ipc import read_shared
        from bench_run.tensors.slots import Slots

        slots = Slots(request.outputs_file, request.graph, request.slots, write=True)
        copies = [
            (offset, int(storage.ctypes.data), storage.nbytes)
            for slot, offsets in request.shared.offsets.items()
            for uid, storage in slots.slot(slot).items()
            for offset in (offsets[uid],)
        ]
        read_shared(request.device, request.shared.handle, copies)

    @answers(messages.Trace)
    def trace(self, request: messages.Trace) -> None:
        from bench_run.measure.prepared import prepare_plan
        from bench_run.profilers.trace import leave_part

        graph, variant = request.graph, request.variant
        with prepare_plan(self.engine, graph, request.data, variant) as prepared:
            leave_part(self.engine, prepared.plan, request.case_id, request.folder)

    @answers(messages.Attack)
    def attack(self, request: messages.Attack) -> messages.Attacked:
        from bench_run.worker.adversarial import attack

        return attack(self.engine, request)

    @answers(messages.MeasureCeilings)
    def measure_ceilings(self, _: messages.MeasureCeilings) -> Ceilings:
        from bench_run.measure.ceilings import measure_ceilings

        return measure_ceilings(self.engine)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()


def answer(server: EngineServer, request: Request[Any]) -> Answered[Any] | Refusal:
    """Return the answer to a request; errors of ours travel back to be raised where the request was
    made."""
    if server.computes_on_host:
        limit_own_memory()
    try:
        return Answered(HANDLERS[type(request)](server, request), server.is_worn())
    except BenchRunError as error:
        return Refusal(error)
    except MemoryError as error:
        words = ": ".join(filter(None, ("out of memory on the host", message_of(error))))
        return Refusal(EngineError(words))


def _incoming(pipe: Pipe) -> object:
    """Wait for the next message of the run."""
    data = pipe.receive()
    assert data is not None, "without a limit"
    return decode_request(data)[1]


def end_by(error: BaseException, pipe: Pipe) -> int:
    """Report an unexpected exception; return the exit code."""
    sys.excepthook(type(error), error, error.__traceback__)
    with suppress(OSError):  # the engine closed it, or the run is gone
        pipe.send(encode(messages.Uncaught(exception_text(error))))
    return error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1


def exception_text(error: BaseException) -> str:
    """Return the type and message in one line: of a long message both ends."""
    words = " ".join("".join(format_exception_only(error)).split())
    return shorten(words.encode("utf-8", "replace").decode(), LONGEST_TEXT)


def scattered() -> list[bytearray]:
    """Return memory of random sizes, to be kept: processes that are forked on a processor would
    else have one heap, and the time of an execution depends on where its memory lies."""
    return [bytearray(secrets.randbelow(HEAP_BYTES)) for _ in range(8)]


def main(descriptor: int) -> int:
    """Serve requests from the pipe until a close request, or until the run is gone."""
    _kept = scattered() if FORKED in os.environ else []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's to handle
    os.nice(int(os.environ.get(NICE, "0")))
    guardian = start_guardian()
    faulthandler.enable(2, all_threads=False)  # says in which call the process died
    become_victim()
    pipe = pipe_of(descriptor)
    server = EngineServer(pipe, guardian)
    threading.excepthook = server.note_thread
    while True:
        try:
            data = pipe.receive()
        except EOFError:
            return 0
        assert data is not None, "without a limit"
        number, request = decode_request(data)
        if not isinstance(request, Request):
            server.close()
            return 0
        try:
            reply = encode_reply(number, answer(server, request))
        except BaseException as error:  # foreign: whatever an engine raises ends this process
            return end_by(error, pipe)
        pipe.send(reply)


def leave(code: int) -> None:
    """End now: the engine is closed. Taking PyTorch apart takes 0.45 s of a worker's 1.7 s, and a
    library of a device may hang or crash in it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main(int(sys.argv[1])))
