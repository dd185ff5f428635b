"""Events and an asynchronous memset of the HIP runtime, for releases of hipDNN without their own.

Through ctypes on the very library that is in this process already (a second copy of the runtime
would have a device state of its own), else through `hip-python`.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

LIBRARY = "libamdhip64"


class HipError(RuntimeError):
    """A call of the runtime that did not return 0."""


class Runtime:
    """The runtime's functions; anything but success raises `HipError`."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise HipError(f"{name} failed with HIP error {code}")

    def memset(self, address: int, value: int, size_bytes: int, stream: int) -> None:
        """Enqueued on the stream; returns at once."""
        self.call(
            "hipMemsetAsync", ctypes.c_void_p(address), ctypes.c_int(value),
            ctypes.c_size_t(size_bytes), ctypes.c_void_p(stream),
        )  # fmt: skip


def loaded_runtime(maps: str = "/proc/self/maps") -> Runtime | None:
    """The runtime that this process has in memory; None where it has none."""
    try:
        lines = Path(maps).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    paths = (line.split(None, 5)[-1] for line in lines)
    path = next((path for path in paths if Path(path).name.startswith(LIBRARY)), None)
    if path is None:
        return None
    try:
        return Runtime(ctypes.CDLL(path))
    except OSError:
        return None


class RuntimeEvents:
    """hipEvent_t through ctypes, made once and used in turn."""

    name = "HIP runtime events"

    def __init__(self, runtime: Runtime, count: int, stream: int = 0) -> None:
        self._runtime, self._turn = runtime, 0
        self._stream = ctypes.c_void_p(stream)
        self._events = [ctypes.c_void_p() for _ in range(count)]
        for event in self._events:
            runtime.call("hipEventCreate", ctypes.byref(event))

    def record(self) -> ctypes.c_void_p:
        self._turn = (self._turn + 1) % len(self._events)
        event = self._events[self._turn]
        self._runtime.call("hipEventRecord", event, self._stream)
        return event

    def elapsed_ms(self, begin: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        elapsed = ctypes.c_float()
        self._runtime.call("hipEventElapsedTime", ctypes.byref(elapsed), begin, end)
        return elapsed.value


class HipPythonEvents:
    """Events of `hip-python`, whose functions return an error code first."""

    name = "hip-python events"

    def __init__(self, hip: Any, count: int, stream: int = 0) -> None:
        self._hip, self._turn = hip, 0
        self._stream = stream or None
        self._events = [self._call("hipEventCreate")[0] for _ in range(count)]

    def _call(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        code, *values = getattr(self._hip, name)(*arguments)
        if int(code) != 0:
            raise HipError(f"{name} failed with HIP error {int(code)}")
        return tuple(values)

    def record(self) -> Any:
        self._turn = (self._turn + 1) % len(self._events)
        self._call("hipEventRecord", self._events[self._turn], self._stream)
        return self._events[self._turn]

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        return float(self._call("hipEventElapsedTime", begin, end)[0])


def hip_python() -> Any:
    """The module, or None where it is not installed or does not load."""
    try:
        from hip import hip
    except Exception:  # foreign: importing it loads the HIP runtime
        return None
    return hip
