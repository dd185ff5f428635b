"""Which clock, which gate, which wait and which cache flush this release of hipDNN allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.errors import FOREIGN, failure, foreign_errors
from bench_run.errors import EngineError, EngineUnavailableError, UsageError
from bench_run.streams.hip import GATE_DEPTH, HipStream
from bench_run.streams.hip_runtime import (
    HipError,
    HipPythonEvents,
    RuntimeEvents,
    hip_python,
    loaded_runtime,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.engines.base import EngineOptions
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.streams.hip import Events, StallGate

TIMERS = ("auto", "events", "host")
EVENTS = 2 * (GATE_DEPTH + 1)
"""Marks that wait for their turn to be read at most."""
FLUSH_BYTES = 1 << 29
"""Twice the 256 MiB of the largest last-level cache (MI300)."""


class OwnEvents:
    """hipDNN's own `HipEvent`, made once and used in turn."""

    name = "hipDNN events"

    def __init__(self, event: Callable[[], Any]) -> None:
        self._events, self._turn = [event() for _ in range(EVENTS)], 0

    def record(self) -> Any:
        self._turn = (self._turn + 1) % len(self._events)
        event = self._events[self._turn]
        event.record(0)
        return event

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end))


def open_stream(library: Library, options: EngineOptions) -> HipStream:
    """The default stream with the best clock there is, or the one that was asked for."""
    if options.timer not in TIMERS:
        raise UsageError(f"--timer {options.timer}: engine hipdnn knows {', '.join(TIMERS)}")
    events = None if options.timer == "host" else find_events(library)
    if events is None and options.timer == "events":
        raise EngineUnavailableError(
            f"hipdnn: --timer events: {library.version} has no HipEvent, and neither the HIP "
            "runtime nor hip-python could be used in its place"
        )
    flush, may_wait = _flush(library) if options.cache == "cold" else (None, False)
    gate = None if events is None else find_gate(library)
    return HipStream(waiter(library), events, gate, flush, flush_may_wait=may_wait)


def find_events(library: Library) -> Events | None:
    """hipDNN's own events, else those of the runtime below it, else `hip-python`'s."""
    if library.can.HipEvent:
        with foreign_errors("HipEvent"):
            return OwnEvents(library.module.HipEvent)
    runtime = loaded_runtime()
    try:
        if runtime is not None:
            return RuntimeEvents(runtime, EVENTS)
        hip = hip_python()
        return None if hip is None else HipPythonEvents(hip, EVENTS)
    except (HipError, AttributeError):
        return None


def find_gate(library: Library) -> StallGate | None:
    """A gate that was seen to close and open; None where the driver lacks stream waits."""
    can_wait = getattr(library.module, "hip_can_use_stream_wait_value", None)
    if not library.can.HipStallGate:
        return None
    wait = waiter(library)
    try:
        if can_wait is not None and not can_wait():
            return None
        gate: StallGate = library.module.HipStallGate()
        gate.arm(0)
        gate.release()
        wait()
    except FOREIGN:
        return None
    return gate


def waiter(library: Library) -> Callable[[], None]:
    """Waits for the default stream, by the narrowest function there is.

    Without any, a copy from the device is a barrier for that stream.
    """
    module = library.module
    if library.can.hip_stream_synchronize:
        stream_synchronize = module.hip_stream_synchronize
        return lambda: stream_synchronize(0)
    device_synchronize = getattr(module, "hip_device_synchronize", None)
    if device_synchronize is not None:
        wait: Callable[[], None] = device_synchronize
        return wait
    with foreign_errors("DeviceBuffer"):
        barrier = module.DeviceBuffer(1)
    return lambda: barrier.copy_to_host() and None


def _flush(library: Library) -> tuple[Callable[[], None], bool]:
    """Overwrites more than the caches hold, and whether that may wait for the device: hipDNN's
    own memset may."""
    with foreign_errors(f"DeviceBuffer of {FLUSH_BYTES} bytes to flush caches"):
        buffer = library.module.DeviceBuffer(FLUSH_BYTES)
    runtime = loaded_runtime()
    if runtime is not None:
        address = int(buffer.ptr())
        return lambda: _guarded(lambda: runtime.memset(address, 0, FLUSH_BYTES)), False
    if not hasattr(buffer, "zeros"):
        raise EngineError("hipdnn: --cache cold needs DeviceBuffer.zeros or the HIP runtime")
    return lambda: _guarded(buffer.zeros), True


def _guarded(action: Callable[[], Any]) -> None:
    try:
        action()
    except FOREIGN as error:
        raise failure("cache flush", error) from error
