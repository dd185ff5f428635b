"""A HIP stream: events of whatever binding has them, and a stall gate where there is one.

The gate holds back the stream while work is enqueued, so that launch costs stay out of the
samples (`hip_gate.py`). Where it opens by force, because an engine waits for the device inside
`execute`, `forced_gates` counts up, what was measured behind it is void, and the plan goes on
without a gate: then events also hold the host's delays, which the plan's facts say. That is tried
once for each plan, before its samples. A gate that opened by force may refuse to close in this
process from then on (`gate_is_gone`). With a cache flush that may wait there is no gate either.

The bindings offer no empty kernel, so what two marks cost cannot be told from what a kernel
costs: nothing is subtracted.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from bench_run.errors import BenchRunError, EngineError
from bench_run.streams.base import WAITED
from bench_run.streams.hip_gate import GateGoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.streams.hip_gate import Gate

GATE_DEPTH = 64
"""Iterations behind one gate: a few launches each stay far below what a queue holds."""


class Events(Protocol):
    """Instants on the device's clock."""

    name: str

    def record(self) -> Any:
        """Enqueue an instant."""

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """Between two instants that are over."""


class HipStream:
    """Without events its clock is the host's and only `synchronize` matters."""

    def __init__(
        self,
        wait: Callable[[], None],
        events: Events | None,
        gate: Gate | str | None = None,
        flush: Callable[[], None] | None = None,
        *,
        flush_may_wait: bool = True,
        library: str = "hip",
    ) -> None:
        """`gate`: or why there is none, where one was looked for."""
        self._wait, self._events, self._library = wait, events, library
        if flush is not None and flush_may_wait and gate is not None:
            gate = "flushing the caches may wait for the device"
        self._gate = None if events is None or isinstance(gate, str) else gate
        self._flush = flush
        self._untried: Callable[[], None] | None = None
        self._gated_block = False
        self.gate_depth = 0
        self.forced_gates = 0
        self._gate_missing = self.no_gate_because = gate if isinstance(gate, str) else None
        self._gate_closed_once = self.gate_is_gone = False
        self.gate_left_open = False
        self.clock = "host" if events is None else "events"

    @property
    def timing(self) -> str:
        """How device time is taken, in words."""
        if self._events is None:
            return "host clock around synchronised runs"
        if self.gate_depth:
            return f"{self._events.name}, behind a stall gate"
        why = "" if self.no_gate_because is None else f" ({self.no_gate_because})"
        return f"{self._events.name}, no gate: times hold the host's launch delays{why}"

    @contextmanager
    def without_flush(self) -> Iterator[None]:
        kept, self._flush = self._flush, None
        try:
            yield
        finally:
            self._flush = kept

    def attach(self, run: Callable[[], None]) -> None:
        """Take note of a new plan: its first gated use tries whether it can be held back."""
        self._untried, self.forced_gates, self.gate_left_open = run, 0, False
        self.no_gate_because = self._gate_missing
        self.gate_depth = 0 if self._gate is None else GATE_DEPTH

    def detach(self) -> None:
        """A plan that is closed cannot be tried any more."""
        self._untried = None

    def leave_gate_open(self, why: str) -> None:
        if self.gate_depth:
            self.gate_depth, self.no_gate_because = 0, why
            self.gate_left_open = True

    def gate_settings(self) -> tuple[object, ...]:
        return self.gate_depth, self.no_gate_because, self.gate_left_open

    def restore_gate(self, settings: tuple[Any, ...]) -> None:
        self.gate_depth, self.no_gate_because, self.gate_left_open = settings

    def mark(self) -> Any:
        if self._events is None:
            return perf_counter_ns()
        try:
            return self._events.record()
        except Exception as error:  # foreign: a driver's words
            raise self._failure("event record", error) from error

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        if self._events is None:
            return int(end - begin)
        try:
            return round(self._events.elapsed_ms(begin, end) * 1e6)
        except Exception as error:  # foreign: as above
            raise self._failure("event elapsed_time", error) from error

    @contextmanager
    def gate(self) -> Iterator[None]:
        if self._gate is None or not self.gate_depth:
            yield
            return
        held = self._gate.closed()
        try:
            held.__enter__()
        except GateGoneError as error:
            self._lose_gate(f"the gate does not close: {error}")
            yield
            return
        self._gated_block = self._gate_closed_once = True
        try:
            yield
        finally:
            self._release(held)

    def _release(self, held: Any) -> None:
        try:
            held.__exit__(None, None, None)
        except Exception as error:  # foreign: as above
            raise self._failure("HipStallGate.release", error) from error

    def _lose_gate(self, why: str) -> None:
        """No gate for the rest of this process; the block is void, since others were gated."""
        self._gate, self._gate_missing = None, why
        self.gate_is_gone = self._gate_closed_once
        self.forced_gates += 1
        self.leave_gate_open(why)

    def flush(self) -> None:
        if self._flush is not None:
            self._flush()

    def synchronize(self) -> None:
        try:
            self._wait()
        except BenchRunError:
            raise
        except Exception as error:  # foreign: as above
            raise self._failure("synchronise", error) from error
        if self._gated_block:
            self._gated_block = False
            self._judge_gate()

    def _judge_gate(self) -> None:
        """Asked after every gated block: a gate that opened by force voids what is behind it."""
        assert self._gate is not None
        try:
            forced = self._gate.was_forced()
        except Exception as error:  # foreign: as above
            self._lose_gate(str(self._failure("HipStallGate.timed_out", error)))
            return
        if forced:
            self.forced_gates += 1
            self.gate_is_gone = True
            self.leave_gate_open(WAITED)

    def correction_ns(self) -> float:
        """Nothing; the first call for a plan finds out whether it runs behind a gate."""
        if self._untried is not None and self.gate_depth:
            run, self._untried = self._untried, None
            with self.gate():
                run()
            self.synchronize()
        return 0.0

    def _failure(self, step: str, error: Exception) -> EngineError:
        text = str(error) or type(error).__name__
        return EngineError(f"{self._library}: {step}: {text}", detail=text)
