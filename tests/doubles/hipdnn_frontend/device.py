"""The device: memory at made-up addresses, one queue, a clock of its own.

Work is enqueued and done when somebody waits, so that whoever forgets to wait sees old data. Each
execution advances the device's clock by what its plugin says, with a little noise, and keeps the
host waiting as long.
"""

from __future__ import annotations

import itertools
import random
import time

LATENCY_MS = 0.001

_addresses = itertools.count(0x7F0000000000, 1 << 40)
_noise = random.Random(20)
buffers = {}  # by address; the values are bytearrays
queue = []
clock_ms = 1000.0
gates = []
events_outstanding = 0


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
    """Wait for everything; a closed gate opens by force, since nobody else will open it."""
    for gate in gates:
        gate.force()
    while queue:
        queue.pop(0)()


def hip_device_synchronize():
    synchronize()


def expect_stream(stream):
    if isinstance(stream, bool) or not isinstance(stream, int) or stream != 0:
        raise TypeError(f"no such stream: {stream!r}")


class Memory:
    """Bytes, and how often they were written: a cheap stand-in for comparing contents."""

    def __init__(self, size):
        self.data, self.writes = bytearray(size), 0

    def write(self, data):
        self.data[:] = data
        self.writes += 1


class DeviceBuffer:
    def __init__(self, size_bytes):
        if isinstance(size_bytes, bool) or not isinstance(size_bytes, int) or size_bytes < 0:
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
        if type(data) is not bytes:
            raise TypeError("copy_from_host(): incompatible function arguments, expected bytes")
        if len(data) != self._size:
            raise RuntimeError(f"copy_from_host: {len(data)} bytes for a buffer of {self._size}")
        synchronize()
        if self._size:
            buffers[self._address].write(data)

    def copy_to_host(self):
        synchronize()
        return bytes(buffers[self._address].data) if self._size else b""


class HipEvent:
    def __init__(self):
        self._at_ms, self._pending, self._alive = None, False, True

    def ptr(self):
        return id(self)

    def record(self, stream=0):
        expect_stream(stream)
        if not self._alive:
            raise RuntimeError("HipEvent: used after destroy")
        self._pending = True
        enqueue(self._reach)

    def _reach(self):
        self._at_ms, self._pending = clock_ms, False

    def synchronize(self):
        synchronize()

    def elapsed_time(self, stop):
        for event in (self, stop):
            if event._pending or event._at_ms is None:
                raise RuntimeError("hipEventElapsedTime failed: hipErrorNotReady")
        elapsed_ms = stop._at_ms - self._at_ms
        if elapsed_ms < 0:
            raise RuntimeError("HipEvent.elapsed_time: negative time")
        return elapsed_ms

    def destroy(self):
        self._alive = False


class HipStallGate:
    def __init__(self):
        self._armed, self._forced = False, False

    def __enter__(self):
        self.arm()
        return self

    def __exit__(self, *_):
        self.release()

    def arm(self, stream=0):
        expect_stream(stream)
        if queue:
            raise RuntimeError("HipStallGate.arm: the stream must be synchronised first")
        self._armed, self._forced = True, False
        gates.append(self)

    def force(self):
        self._forced = True

    def release(self):
        if self._armed:
            self._armed = False
            gates.remove(self)

    def timed_out(self):
        return self._forced

    def close(self):
        self.release()
