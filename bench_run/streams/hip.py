"""A HIP stream: events of whatever binding has them, and a stall gate where there is one.

The gate holds back the stream while work is enqueued, so that launch costs stay out of the
samples. It opens by itself after a while: an engine that waits for the device inside `execute`
would hang behind it. That is tried once for each plan (`attach`); with such a plan, and with a
cache flush that may wait, there is no gate, and events then also hold the host's delays.

The bindings offer no empty kernel, so what two marks cost cannot be told from what a kernel
costs: nothing is subtracted.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from bench_run.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GATE_DEPTH = 64
"""Iterations behind one gate: a few launches each stay far below what a queue holds."""
_FOREIGN = (RuntimeError, TypeError, ValueError, OSError)


class Events(Protocol):
    """Instants on the device's clock."""

    name: str

    def record(self) -> Any:
        """Enqueue an instant."""

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """Between two instants that are over."""


class StallGate(Protocol):
    def arm(self, stream: int = 0) -> None: ...

    def release(self) -> None: ...

    def timed_out(self) -> bool: ...


class HipStream:
    """The default stream. Without events its clock is the host's and only `synchronize` matters."""

    def __init__(
        self,
        wait: Callable[[], None],
        events: Events | None,
        gate: StallGate | None = None,
        flush: Callable[[], None] | None = None,
        *,
        flush_may_wait: bool = True,
    ) -> None:
        self._wait, self._events = wait, events
        self._gate = None if events is None or (flush is not None and flush_may_wait) else gate
        self._flush = flush
        self._untried: Callable[[], None] | None = None
        self.gate_depth = 0
        self.clock = "host" if events is None else "events"

    @property
    def timing(self) -> str:
        """How device time is taken, in words."""
        if self._events is None:
            return "host clock around synchronised runs"
        return f"{self._events.name}, " + ("behind a stall gate" if self.gate_depth else "no gate")

    def attach(self, run: Callable[[], None]) -> None:
        """Take note of a new plan: its first gated use tries whether it can be held back."""
        self._untried = run
        self.gate_depth = 0 if self._gate is None else GATE_DEPTH

    def detach(self, run: Callable[[], None]) -> None:
        """A plan that is closed cannot be tried any more."""
        if self._untried == run:
            self._untried = None

    def mark(self) -> Any:
        if self._events is None:
            return perf_counter_ns()
        try:
            return self._events.record()
        except _FOREIGN as error:
            raise _failure("event record", error) from error

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        if self._events is None:
            return int(end - begin)
        try:
            return round(self._events.elapsed_ms(begin, end) * 1e6)
        except _FOREIGN as error:
            raise _failure("event elapsed_time", error) from error

    @contextmanager
    def gate(self) -> Iterator[None]:
        if self._gate is None or not self.gate_depth:
            yield
            return
        try:
            self._gate.arm(0)
        except _FOREIGN as error:
            raise _failure("HipStallGate.arm", error) from error
        try:
            yield
        finally:
            self._gate.release()

    def flush(self) -> None:
        if self._flush is not None:
            self._flush()

    def synchronize(self) -> None:
        try:
            self._wait()
        except _FOREIGN as error:
            raise _failure("synchronise", error) from error

    def correction_ns(self) -> float:
        """Nothing; the first call for a plan finds out whether it runs behind a gate."""
        if self._untried is not None and self.gate_depth:
            run, self._untried = self._untried, None
            if not self._survives_gate(run):
                self.gate_depth = 0
        return 0.0

    def _survives_gate(self, run: Callable[[], None]) -> bool:
        assert self._gate is not None
        with self.gate():
            run()
        self.synchronize()
        return not self._gate.timed_out()


def _failure(step: str, error: Exception) -> EngineError:
    return EngineError(f"hip: {step}: {error}", detail=str(error))
