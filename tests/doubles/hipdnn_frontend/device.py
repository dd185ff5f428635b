"""The device: memory at made-up addresses, one queue, a clock of its own, stall gates.

Work is enqueued and done when somebody waits, so that whoever forgets to wait sees old data. Each
execution advances the device's clock by what its plugin says, with a little noise, and keeps the
host waiting as long.

A gate opens after ``HIPDNN_DOUBLE_WATCHDOG_S`` (2, as upstream's), says so, and none closes again
in that process. In *sweep* it is used as it is; later ones have to be closed. With
``HIPDNN_DOUBLE_GATE=locked`` none ever opens and whoever waits behind a closed one keeps Python's
lock; with ``unsupported`` none can be made, with ``unasked`` the function that tells fails.
``HIPDNN_DOUBLE_EVENT`` names what fails of events.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import time

from .surface import namespace, profile

LATENCY_MS = 0.001
MARK_MS, DEEP, DEEP_MARK_MS = 0.0027, 30, 0.0034
"""What two events cost, and where more than so many commands follow in the queue: as on an H200."""
WATCHDOG_S = float(os.environ.get("HIPDNN_DOUBLE_WATCHDOG_S", "2"))
STREAM = int(os.environ.get("HIPDNN_DOUBLE_STREAM", "0"))
"""The stream that every handle without one of its own works on."""
HOST_MEMORY = profile in ("newest", "attested")

SPACING = 1 << 40
_addresses = itertools.count(0x7F0000000000, SPACING)
_noise = random.Random(20)
buffers = {}  # by address; the values are `Memory`
queue = []
clock_ms = 1000.0
gates = []
disabled = False


def memory_at(pointer):
    """The buffer that a pointer leads into and how far, as HIP lets one; None where there is
    none."""
    begin = pointer - pointer % SPACING
    return buffers.get(begin), pointer - begin


def enqueue(action):
    queue.append(action)


def advance(duration_ms):
    """Let the device be busy: its clock and the host's go on together."""
    global clock_ms
    duration_ms *= 1 + 0.004 * _noise.random()
    clock_ms += duration_ms + LATENCY_MS
    end = time.perf_counter() + duration_ms / 1000
    while time.perf_counter() < end:
        pass


def synchronize():
    """Wait for everything: first until the closed gate is open."""
    begin = time.monotonic()
    while gates:
        if os.environ.get("HIPDNN_DOUBLE_GATE") == "locked":
            ctypes.PyDLL(None).sleep(1000)  # holds the lock, as a binding may
        if time.monotonic() - begin > WATCHDOG_S:
            gates[0]._force()
        time.sleep(0.001)
    while queue:
        queue.pop(0)()


def can_stall():
    return not (disabled or os.environ.get("HIPDNN_DOUBLE_NO_GATE"))


def hip_device_synchronize():
    synchronize()


def hip_stream_synchronize(stream):
    _expect_stream(stream)
    synchronize()


def hip_can_use_stream_wait_value():
    if os.environ.get("HIPDNN_DOUBLE_GATE") == "unasked":
        raise RuntimeError("hipDeviceGetAttribute failed: invalid argument")
    return not os.environ.get("HIPDNN_DOUBLE_NO_GATE")


def hip_get_device_count():
    """As HIP counts: those that the variable names, as long as they are there."""
    found = range(int(os.environ.get("HIPDNN_DOUBLE_DEVICES", "1")))
    named = os.environ.get("HIP_VISIBLE_DEVICES")
    return len(found if named is None else [n for n in named.split(",") if int(n) in found])


def _expect_stream(stream):
    """Marks and gates on another stream than the work's would measure nothing."""
    if stream != STREAM:
        raise RuntimeError(f"hipErrorInvalidHandle: no stream {stream}")


def _get_data_ptr(value):
    """The address that a value of a variant pack means, by what the state takes."""
    if isinstance(value, bool):
        raise TypeError("a pointer cannot be a bool")
    if hasattr(value, "__index__"):
        return value.__index__()
    if isinstance(value, namespace["DeviceBuffer"]):
        return value.ptr()
    if HOST_MEMORY and hasattr(value, "data_ptr"):
        return value.data_ptr()
    if hasattr(value, "__dlpack__"):
        if not HOST_MEMORY:
            raise ValueError("the DLPack capsule holds no memory of a ROCm device")
        return value.ctypes.data
    raise TypeError(f"unsupported variant-pack value {type(value).__name__}")


class Memory:
    """Bytes, and how often they were written: a cheap stand-in for comparing contents."""

    def __init__(self, size):
        self.data, self.writes = bytearray(size), 0

    def write(self, data):
        self.data[:] = data
        self.writes += 1


class DeviceBuffer:
    def __init__(self, size_bytes):
        if size_bytes < 0:
            raise TypeError("DeviceBuffer(): incompatible function arguments")
        if size_bytes > 1 << 36:
            raise RuntimeError("hipMalloc failed: out of memory")
        self._size = size_bytes
        self._address = next(_addresses) if size_bytes else 0
        if size_bytes:
            buffers[self._address] = Memory(size_bytes)

    def __del__(self):
        buffers.pop(getattr(self, "_address", None), None)

    def ptr(self):
        return self._address

    def size(self):
        return self._size

    def zeros(self):
        synchronize()
        if self._size:
            buffers[self._address].write(bytes(self._size))

    def copy_from_host(self, data):
        self._expect_bytes()
        if len(data) != self._size:
            raise RuntimeError(f"copy_from_host: {len(data)} bytes for a buffer of {self._size}")
        synchronize()
        buffers[self._address].write(data)

    def copy_to_host(self):
        self._expect_bytes()
        synchronize()
        return bytes(buffers[self._address].data)

    def _expect_bytes(self):
        if not self._size:
            raise RuntimeError("hipMemcpy failed: hipErrorInvalidValue (a copy of zero bytes)")


class HipEvent:
    def __init__(self):
        if os.environ.get("HIPDNN_DOUBLE_EVENT") == "made":
            raise RuntimeError("hipEventCreate failed: out of memory")
        self._at_ms, self._pending, self._alive = None, False, True

    def _expect_alive(self):
        if not self._alive:
            raise RuntimeError("HIP event has been destroyed")

    def ptr(self):
        self._expect_alive()
        return id(self)

    __int__ = __index__ = ptr

    def __repr__(self):
        return f"<HipEvent {self.ptr():#x}>"

    def record(self, stream):
        self._expect_alive()
        _expect_stream(stream)
        if os.environ.get("HIPDNN_DOUBLE_EVENT") == "recorded":
            raise RuntimeError("hipEventRecord failed: invalid resource handle")
        self._pending = True
        enqueue(self._reach)

    def _reach(self):
        global clock_ms
        half_ms = (DEEP_MARK_MS if len(queue) > DEEP else MARK_MS) / 2
        self._at_ms, self._pending = clock_ms + half_ms, False
        clock_ms += 2 * half_ms

    def synchronize(self):
        self._expect_alive()
        synchronize()

    def elapsed_time(self, stop):
        for event in (self, stop):
            event._expect_alive()
            if event._pending or event._at_ms is None:
                raise RuntimeError("hipEventElapsedTime failed: hipErrorNotReady")
        elapsed_ms = stop._at_ms - self._at_ms
        if elapsed_ms < 0 and HOST_MEMORY:
            raise RuntimeError("HIP event elapsed time is negative or not finite")
        return elapsed_ms

    def destroy(self):
        self._alive = False


class HipStallGate:
    def __init__(self):
        if os.environ.get("HIPDNN_DOUBLE_GATE") == "unsupported":
            raise RuntimeError("hipStreamWaitValue32 unsupported on this device")
        self._forced, self._alive = False, True

    def _expect_alive(self):
        if not self._alive:
            raise RuntimeError("HipStallGate is closed")

    def arm(self, stream):
        self._expect_alive()
        _expect_stream(stream)
        self._forced = False
        if disabled:
            words = "disabled after a stall watchdog timeout"
            first = "HIP stall gate is" if profile == "sweep" else "HIP stall gate declined arm:"
            raise RuntimeError(f"{first} {words}")
        gates.append(self)

    def _force(self):
        global disabled
        self._forced = disabled = True
        gates.remove(self)

    def release(self):
        self._expect_alive()
        if self in gates:
            gates.remove(self)

    def timed_out(self):
        self._expect_alive()
        return self._forced

    def close(self):
        if self in gates:
            gates.remove(self)
        self._alive = False

    def __enter__(self):
        self._expect_alive()
        return self

    def __exit__(self, *_):
        self.close()
