"""The parent's end of a worker process: start it, send requests, survive its crashes and hangs.

Each engine runs in a process of its own, so that a crash, a hang or a poisoned device costs one
case. The answers travel over a private pipe; what the process prints is drained by a thread that
keeps its end. A refusal raises the error that the worker met. A worker that dies raises
`WorkerCrashedError`, one that is silent too long is killed with everything it started and raises
`WorkerTimeoutError`.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

from bench_run.errors import TemplateLostError, WorkerCrashedError, WorkerTimeoutError
from bench_run.worker.guardian import STOP
from bench_run.worker.life import ForkedProcess
from bench_run.worker.messages import (
    Answered,
    AnswerT,
    Close,
    Outgoing,
    PhaseStarted,
    Question,
    Refusal,
    Refused,
    Reply,
    Request,
    Told,
    Uncaught,
)
from bench_run.worker.parent.death import MemoryKills, describe_death, detail_of, thread_failure
from bench_run.worker.wire import Pipe, WireError, decode_outgoing, encode_request, read_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.worker.life import ProcessHandle

OUTPUT_TAIL_BYTES = 1 << 16
GUARDIAN_S = 5.0
"""Time that a guardian has to end everything; a driver may hold processes longer."""
POLL_S = 0.2
"""Interval of looks at a silent worker's process, because a child of it may hold the pipe open."""


BUILD_PHASES = ("build", "plan")
"""Phases in which an engine makes and compiles its plan; the inputs are drawn between them."""
GATE_PHASE, GATE_LIMIT_S = "gate", 6.0
"""The trial of a plan behind the closed gate: one run, with watchdogs of 2 and 4 s. Longer
than that, it will not open any more; the case is run again without a gate."""


class Deadline(NamedTuple):
    """An instant of the monotonic clock, and the reason that is given once it has passed."""

    at: float
    reason: str

    @classmethod
    def after(cls, limit_s: float | None, words: str) -> Deadline:
        if limit_s is None:
            return cls(math.inf, words)
        return cls(time.monotonic() + limit_s, f"{words} {limit_s:g} s")

    def later(self, seconds: float) -> Deadline:
        return Deadline(self.at + seconds, self.reason)


class Turn(Protocol):
    """Answers of a run to a worker that is at work."""

    def answer(self, root: int, question: Question) -> object:
        """Return the answer to a question, which may take long. `root`: id of the process above
        the worker."""


class OutputTail:
    """Drains what a process prints and keeps the end of it."""

    def __init__(self, descriptor: int) -> None:
        self._tail = b""
        self._thread = threading.Thread(target=self._drain, args=(descriptor,), daemon=True)
        self._thread.start()

    def _drain(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as pipe:
            while block := pipe.read(65536):
                self._tail = (self._tail + block)[-OUTPUT_TAIL_BYTES:]

    def text(self, wait_s: float = 0.5) -> str:
        """Return the end of the output, without control characters."""
        self._thread.join(wait_s)
        text = self._tail.decode("utf-8", "replace").strip()
        return "".join(c for c in text if c.isprintable() or c in "\n\t")


class Worker:
    """One process that runs cases of one engine, one request at a time."""

    def __init__(
        self,
        start: Callable[[int, int], ProcessHandle],
        announce: Callable[[str, int], object] | None = None,
    ) -> None:
        """`start` starts the process with its end of the pipe and of its output. `announce` is
        called with every phase that the worker enters, and the nanoseconds of the one before that
        went into checks."""
        ours, theirs = socket.socketpair()
        read_end, write_end = os.pipe()
        self._process = start(theirs.fileno(), write_end)
        os.close(write_end)
        theirs.close()
        self._pipe, self._number = Pipe(ours), 0
        self._tail = OutputTail(read_end)
        self._memory_kills = MemoryKills(self._process.pid)
        self._uncaught: str | None = None
        self.announce = announce
        self.phase, self.is_worn = "import", False

    def ask(
        self,
        request: Request[AnswerT],
        timeout_s: float | None,
        build_timeout_s: float | None = None,
        turn: Turn | None = None,
    ) -> AnswerT:
        """Return the answer. Raises the error that the worker met, or a `WorkerError`: after one
        the worker is gone. `build_timeout_s` limits each phase in which an engine builds
        (`BUILD_PHASES`). `turn` is asked for what the worker claims of its device; the time that
        this waits does not count."""
        self._memory_kills.start_again()
        try:
            self._number += 1
            self._send(request, timeout_s)
            message = self._reply(timeout_s, build_timeout_s, turn)
            if message.number != self._number:
                raise WireError(f"the answer to request {message.number}, not {self._number}")
            reply: Answered[AnswerT] | Refusal = read_reply(message, request)
        except WireError as error:
            self.kill()
            what = f"the worker sent something that is not a message: {error}"
            raise WorkerCrashedError(what, detail=detail_of(self._tail.text())) from None
        except (EOFError, OSError):
            how = self._how_it_died()
            process = self._process
            lost = isinstance(process, ForkedProcess) and process.lost_its_template
            kind = TemplateLostError if lost else WorkerCrashedError
            raise kind(how, detail=detail_of(self._tail.text())) from None
        if isinstance(reply, Refusal):
            raise reply.error
        self.is_worn = reply.worn
        return reply.value

    def _reply(
        self, timeout_s: float | None, build_timeout_s: float | None, turn: Turn | None
    ) -> Reply | Refused:
        """Return the worker's answer, after following its announcements of phases and its claims of
        the device. Raises if a phase exceeds its time limit."""
        whole = due = Deadline.after(timeout_s, "no answer within --timeout")
        while True:
            message = self._receive(due)
            if isinstance(message, PhaseStarted):
                self.phase = message.phase
                if self.phase == GATE_PHASE:
                    words = "the gate that holds the device back was closed for"
                    phase = Deadline.after(GATE_LIMIT_S, words)
                else:
                    limit_s = build_timeout_s if self.phase in BUILD_PHASES else None
                    phase = Deadline.after(limit_s, "longer than --build-timeout")
                due = min(whole, phase)
                if self.announce is not None:
                    self.announce(message.phase, message.checked_ns)
            elif isinstance(message, Question):
                begin = time.monotonic()
                told = None if turn is None else turn.answer(self._process.pid, message)
                self._send(Told(told), timeout_s)
                waited_s = time.monotonic() - begin
                whole, due = whole.later(waited_s), due.later(waited_s)
            elif isinstance(message, Uncaught):
                self._uncaught = message.text
                raise EOFError  # it may wait for its threads before it ends
            else:
                return message

    def _send(self, message: object, limit_s: float | None) -> None:
        self._pipe.send(encode_request(self._number, message), limit_s)

    def _receive(self, due: Deadline) -> Outgoing:
        data = None
        while data is None:
            if time.monotonic() > due.at:  # also where messages come without an end
                self._stop_for(due)
            data = self._pipe.receive(POLL_S)
            if data is None and self._process.poll() is not None:
                data = self._pipe.receive(0)  # what it sent before it ended
                if data is None:
                    raise EOFError
        return decode_outgoing(data)

    def _stop_for(self, due: Deadline) -> NoReturn:
        self.kill()
        printed = self._tail.text()
        failure = thread_failure(printed)
        ended = "" if failure is None else f"; one of its threads ended by {failure}"
        message = f"{due.reason} (during {self.phase}); it was stopped{ended}"
        raise WorkerTimeoutError(message, detail=detail_of(printed))

    def _how_it_died(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.poll()
        self.kill()
        if self._uncaught is not None:
            return f"{self._uncaught} (during {self.phase})"
        return describe_death(code, self.phase, self._tail.text(), self._memory_kills)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> str | None:
        """Ask it to end; make it end. Returns the signal by which it ended itself, if any: a
        library may abort when it is closed, after everything that counts was sent."""
        with contextlib.suppress(OSError):
            self._send(Close(), POLL_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        code = self._process.poll()
        self.kill()
        if code is None or code >= 0:
            return None
        known = {each.value: each.name for each in signal.Signals}
        return known.get(-code, f"signal {-code}")

    def kill(self) -> None:
        """End it and everything it started, now. Harmless when it is gone already."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.poll() is None:  # its guardian ends what it started, then itself
                os.kill(self._process.pid, STOP)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GUARDIAN_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(OSError):  # another thread, whose answer ended, closes it too
            self._pipe.close()
