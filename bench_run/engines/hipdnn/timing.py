"""Clock, gate, wait and cache flush of a device, as hipDNN allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.errors import failure
from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.streams.base import flushed_bytes
from bench_run.streams.hip import GATE_DEPTH, HipStream, loaded_runtime

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


def open_stream(library: Library, handle: Any, options: EngineOptions) -> HipStream:
    """Return the handle's stream with the best clock, or the requested one."""
    if options.timer not in TIMERS:
        raise UsageError(f"--timer {options.timer}: engine hipdnn knows {', '.join(TIMERS)}")
    with library.calling("Handle.get_stream"):
        stream = int(handle.get_stream())
    events = None if options.timer == "host" else find_events(library, stream)
    if events is None and options.timer == "events":
        raise EngineUnavailableError(
            f"hipdnn: --timer events: {library.version} has no HipEvent that works on this device"
        )
    size = flushed_bytes(options.cache, FLUSH_BYTES, options.pass_bytes)
    flush, may_wait = (None, False) if size is None else _flush(library, stream, size)
    module, version = library.module, library.version
    return HipStream(
        lambda: module.hip_stream_synchronize(stream),
        events,
        None if events is None else find_gate(library),
        flush,
        number=stream,
        flush_may_wait=may_wait,
        wait_for_device=lambda: _guarded(module.hip_device_synchronize, version),
        library=f"hipdnn {version}",
    )


def find_events(library: Library, stream: int) -> Events | None:
    """Return hipDNN's events after one try; None if they fail."""
    try:
        events = OwnEvents(library.module.HipEvent, stream)
        events.record()
    except Exception:  # foreign: a driver's words; the host's clock is left
        return None
    return events


def find_gate(library: Library) -> StallGate | str:
    """Return the gate, not tried yet, or why there is none: one that this driver cannot have raises
    in its constructor, or in the function that tells."""
    try:
        if not library.module.hip_can_use_stream_wait_value():
            return "the driver cannot wait for a value on a stream"
        gate: StallGate = library.module.HipStallGate()
    except Exception as error:  # foreign: a driver's words; without a gate it is measured too
        return str(failure("HipStallGate", error, library.version))
    return gate


def _flush(library: Library, stream: int, size: int) -> tuple[Callable[[], None], bool]:
    """Return a function that overwrites `size` bytes, and True if it may wait for the device, as
    hipDNN's own memset may."""
    with library.calling(f"DeviceBuffer of {size} bytes to flush caches"):
        buffer = library.module.DeviceBuffer(size)
        address = int(buffer.ptr())
    runtime, version = loaded_runtime(), library.version
    if runtime is not None:
        fill = runtime.memset
        return lambda: _guarded(lambda: fill(address, 0, size, stream), version), False
    return lambda: _guarded(buffer.zeros, version), True


def _guarded(action: Callable[[], Any], version: str) -> None:
    try:
        action()
    except Exception as error:  # foreign: a driver's words
        raise failure("cache flush", error, version) from error
