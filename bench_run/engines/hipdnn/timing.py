"""Which clock, which gate, which wait and which cache flush this release of hipDNN allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.errors import failure
from bench_run.errors import EngineError, EngineUnavailableError, UsageError
from bench_run.streams.base import flushed_bytes
from bench_run.streams.hip import (
    GATE_DEPTH,
    HipPythonEvents,
    HipStream,
    RuntimeEvents,
    WatchedGate,
    hip_python,
    loaded_runtime,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.engines.base import EngineOptions
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.streams.hip import Events

GATE = ("HipStallGate", "HipStallGate.arm", "HipStallGate.release")
TIMERS = ("auto", "events", "host")
EVENTS = 2 * (GATE_DEPTH + 1)
"""Marks that wait for their turn to be read at most."""
FLUSH_BYTES = 1 << 29
"""Twice the 256 MiB of the largest last-level cache (MI300)."""


class OwnEvents:
    """hipDNN's own `HipEvent`, made once and used in turn."""

    name = "hipDNN events"

    def __init__(self, event: Callable[[], Any], stream: int) -> None:
        self._events, self._turn = [event() for _ in range(EVENTS)], 0
        self._stream = stream

    def record(self) -> Any:
        self._turn = (self._turn + 1) % len(self._events)
        event = self._events[self._turn]
        event.record(self._stream)
        return event

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end))


def stream_of(library: Library, handle: Any) -> int:
    """The stream that the handle's work goes to; the default one where the release does not tell.

    A handle that has none before it is given one gets the default one.
    """
    can, module = library.can, library.module
    step = next((name for name in ("Handle.get_stream", "get_stream") if can.has(name)), None)
    if step is None:
        return 0
    try:
        stream = handle.get_stream() if step.startswith("Handle") else module.get_stream(handle)
    except Exception as error:  # foreign: a handle without a stream
        if not can.has("Handle.set_stream"):
            raise failure(step, error, library.version) from error
        with library.calling("Handle.set_stream"):
            handle.set_stream(0)
        return 0
    return pointer_of(stream, step)


def pointer_of(value: Any, step: str) -> int:
    """A stream's pointer: releases give a number, None for the default stream, or an object that
    turns into a number."""
    if value is None:
        return 0
    try:
        return int(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise EngineUnavailableError(
            f"hipdnn: {step} gives a {kind}, from which no pointer can be read: events would "
            "be recorded on another stream"
        ) from None


def open_stream(library: Library, handle: Any, options: EngineOptions) -> HipStream:
    """The handle's stream with the best clock there is, or the one that was asked for."""
    if options.timer not in TIMERS:
        raise UsageError(f"--timer {options.timer}: engine hipdnn knows {', '.join(TIMERS)}")
    number = stream_of(library, handle)
    events = None if options.timer == "host" else find_events(library, number)
    if events is None and options.timer == "events":
        raise EngineUnavailableError(
            f"hipdnn: --timer events: {library.version} has no HipEvent that works, and neither "
            "the HIP runtime nor hip-python could be used in its place"
        )
    size = flushed_bytes(options.cache, FLUSH_BYTES, options.pass_bytes)
    flush, may_wait = (None, False) if size is None else _flush(library, number, size)
    gate = None if events is None else find_gate(library, number)
    return HipStream(
        waiter(library, number),
        events,
        gate,
        flush,
        flush_may_wait=may_wait,
        wait_for_device=device_waiter(library),
        library=f"hipdnn {library.version}",
    )


def find_events(library: Library, stream: int) -> Events | None:
    """hipDNN's own events, else those of the runtime below it, else `hip-python`'s."""
    own = _own_events(library, stream)
    if own is not None:
        return own
    runtime = loaded_runtime()
    try:
        if runtime is not None:
            return RuntimeEvents(runtime, EVENTS, stream)
        hip = hip_python()
        return None if hip is None else HipPythonEvents(hip, EVENTS, stream)
    except Exception:  # foreign: then the host's clock is left
        return None


def _own_events(library: Library, stream: int) -> Events | None:
    """hipDNN's `HipEvent`, tried once; None where this release has none, or one that fails."""
    if not library.can.events:
        return None
    try:
        events = OwnEvents(library.module.HipEvent, stream)
        events.record()
    except Exception:  # foreign: a driver's words; other clocks are left
        return None
    return events


def find_gate(library: Library, stream: int) -> WatchedGate | str:
    """The gate, not tried yet, or why there is none: one that this driver cannot have raises in
    its constructor, or in the function that tells."""
    if not library.can.gate:
        return f"{library.version} has no {library.lacks(*GATE)}"
    ask = "hip_can_use_stream_wait_value"
    try:
        if library.can.has(ask) and not library.module.hip_can_use_stream_wait_value():
            return "the driver cannot wait for a value on a stream"
        gate = library.module.HipStallGate()
    except Exception as error:  # foreign: a driver's words; without a gate it is measured too
        return str(failure("HipStallGate", error, library.version))
    watched = library.can.has("HipStallGate.timed_out")
    return WatchedGate(gate, stream, gate.timed_out if watched else None)


def waiter(library: Library, stream: int) -> Callable[[], None]:
    """Waits for the stream, by the narrowest function there is.

    Without any, a copy from the device is a barrier for the default stream.
    """
    module = library.module
    if library.can.has("hip_stream_synchronize"):
        stream_synchronize = module.hip_stream_synchronize
        return lambda: stream_synchronize(stream)
    if library.can.has("hip_device_synchronize"):
        wait: Callable[[], None] = module.hip_device_synchronize
        return wait
    if stream:
        raise EngineUnavailableError(
            f"hipdnn: {library.version} has neither hip_stream_synchronize nor "
            "hip_device_synchronize, and its handle works on a stream of its own"
        )
    with library.calling("DeviceBuffer"):
        barrier = module.DeviceBuffer(1)
    return lambda: barrier.copy_to_host() and None


def device_waiter(library: Library) -> Callable[[], None] | None:
    """Waits for every stream of the device; None where neither the bindings nor a loaded runtime
    can."""
    runtime, version = loaded_runtime(), library.version
    if library.can.has("hip_device_synchronize"):
        wait = library.module.hip_device_synchronize
    elif runtime is not None:
        wait = runtime.wait
    else:
        return None
    return lambda: _guarded(wait, version)


def _flush(library: Library, stream: int, size: int) -> tuple[Callable[[], None], bool]:
    """Overwrites so many bytes, and whether that may wait for the device: hipDNN's
    own memset may."""
    with library.calling(f"DeviceBuffer of {size} bytes to flush caches"):
        buffer = library.module.DeviceBuffer(size)
        address = int(buffer.ptr())
    runtime, version = loaded_runtime(), library.version
    if runtime is not None:
        fill = runtime.memset
        return lambda: _guarded(lambda: fill(address, 0, size, stream), version), False
    if not library.can.has("DeviceBuffer.zeros"):
        raise EngineError("hipdnn: --cache cold needs DeviceBuffer.zeros or the HIP runtime")
    return lambda: _guarded(buffer.zeros, version), True


def _guarded(action: Callable[[], Any], version: str) -> None:
    try:
        action()
    except Exception as error:  # foreign: a driver's words
        raise failure("cache flush", error, version) from error
