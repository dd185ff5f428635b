"""A CUDA stream without a framework: device events, a gate, cold caches, a clock probe.

The gate is a kernel that waits for a word of pinned host memory to reach a generation
(`cuda_driver.py`). Closing it launches that kernel, leaving the block opens it. It also opens by
itself after `GATE_LIMIT_S`, on the device, whatever state the host is in: the host blocks once
about 1000 launches wait, and an engine that waits for the device inside would wait for ever. Then
`forced_gates` counts up, and the gate stays open until the next plan.

Cold caches are made by reading twice the L2 cache before each iteration: reading leaves clean
lines, whose eviction costs the next kernel nothing. Lines that persist, in a part of the L2 cache
that a program set aside, survive that: if there is such a part they are released before each read,
which waits for the device and so excludes a gate. `rotate` is the plan's work: it cycles through
copies of its buffers.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from ctypes import c_float, c_size_t, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.errors import EngineError, EngineUnavailableError, UsageError
from bench_run.streams import cuda_ipc, cupti
from bench_run.streams.base import (
    CACHES,
    FEWEST,
    LEAD,
    PAIR_COMMANDS,
    REPLAY,
    REPLAY_COMMANDS,
    TAIL,
    TOO_MANY,
    WAITED,
    DeviceMemory,
    DeviceWatch,
    EmptyKernel,
    StreamAbilities,
    flushed_bytes,
)
from bench_run.streams.cuda_driver import RELAXED_CAPTURE, DeviceFacts, Driver, driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt


SMALL_BYTES = 16
"""Bytes up to which a copy within the device is a kernel's."""


class CudaMemory:
    """Every method but `allocate` and `free` enqueues; copies to and from memory of the host that
    is not pinned return when they are done. Raises `EngineError`."""

    def __init__(self, driver: Driver, handle: c_void_p) -> None:
        self.driver, self.handle = driver, handle
        self._steps: int | None = None
        """Address of the numbers from 0, once a few bytes were copied."""

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes of device memory, which `free` gives back; return the address."""
        return int(self.driver.number("cuMemAlloc_v2", max(1, size), kind=c_uint64))

    def free(self, address: int) -> None:
        self.driver.call("cuMemFree_v2", address)

    def fill(self, address: int, byte: int, size: int) -> None:
        self.driver.call("cuMemsetD8Async", address, byte, size, self.handle)

    def copy_in(self, address: int, host: int, size: int) -> None:
        self.driver.call("cuMemcpyHtoDAsync_v2", address, host, size, self.handle)

    def copy_out(self, host: int, address: int, size: int) -> None:
        self.driver.call("cuMemcpyDtoHAsync_v2", host, address, size, self.handle)

    def copy(self, to: int, address: int, size: int) -> None:
        if 0 < size <= SMALL_BYTES:
            self._copy_small(to, address, size)
        else:
            self.driver.call("cuMemcpyDtoDAsync_v2", to, address, size, self.handle)

    def handle_of(self, address: int) -> str:
        return cuda_ipc.handle_of(self.driver, address)

    def _copy_small(self, to: int, address: int, size: int) -> None:
        """Copy by a kernel. The driver's own copy leaves the host's caches so that launches after
        it take a fifth longer."""
        if self._steps is None:
            self._steps = self.allocate(8 * SMALL_BYTES)
            steps = np.arange(SMALL_BYTES, dtype=np.int64)
            self.copy_in(self._steps, int(steps.ctypes.data), steps.nbytes)
            self.driver.call("cuStreamSynchronize", self.handle)
        kernel = self.driver.kernel("bench_put")
        places = (c_uint64(to), c_uint64(self._steps), c_uint64(address))
        self.driver.launch(kernel, self.handle, *places, threads=size)


# Single bytes of device memory, looked at and overwritten in stream order: see
# `measure/canaries.py`. What was seen stays on the device until nothing is enqueued any
# more.

SLOTS = 1024
"""Looks that are kept until they are drained; more than fit behind a closed gate."""


class CudaWatch:
    """`offsets` from an address, and the bytes to put there, both of the shape (bytes,)."""

    def __init__(
        self,
        driver: Driver,
        stream: c_void_p,
        offsets: npt.NDArray[np.int64],
        values: npt.NDArray[np.uint8],
    ) -> None:
        self._driver, self._stream, self._count = driver, stream, len(values)
        self._looks, self._kept = driver.kernel("bench_look"), 0
        self._puts = driver.kernel("bench_put")
        sizes = (offsets.nbytes, values.nbytes, SLOTS * self._count)
        self._memory = [driver.number("cuMemAlloc_v2", size, kind=c_uint64) for size in sizes]
        for place, data in zip(self._memory, (offsets, values), strict=False):
            data = np.ascontiguousarray(data)
            driver.call("cuMemcpyHtoDAsync_v2", place, data.ctypes.data, data.nbytes, stream)
            driver.call("cuStreamSynchronize", stream)
        self._seen: list[npt.NDArray[np.uint8]] = []

    def look(self, address: int) -> None:
        if self._kept == SLOTS:
            self._take()
        kept = self._memory[2] + self._kept * self._count
        self._launch(self._looks, address, kept)
        self._kept += 1

    def put_out(self, address: int) -> None:
        self._launch(self._puts, address, self._memory[1])

    def _launch(self, kernel: c_void_p, address: int, other: int) -> None:
        arguments = (c_uint64(address), c_uint64(self._memory[0]), c_uint64(other))
        self._driver.launch(kernel, self._stream, *arguments, threads=self._count)

    def _take(self) -> None:
        found = np.empty((self._kept, self._count), np.uint8)
        if self._kept:
            place = found.ctypes.data
            self._driver.call(
                "cuMemcpyDtoHAsync_v2", place, self._memory[2], found.nbytes, self._stream
            )
            self._driver.call("cuStreamSynchronize", self._stream)
        self._seen += list(found)
        self._kept = 0

    def drain(self) -> list[npt.NDArray[np.uint8]]:
        self._take()
        seen, self._seen = self._seen, []
        return seen

    def close(self) -> None:
        for place in self._memory:
            self._driver.call("cuMemFree_v2", place)
        self._memory.clear()


QUEUE_LAUNCHES = 900
"""Launches that fit behind a closed gate with room to spare; the host blocks at 1022."""
GATE_LIMIT_S = 2.0
EVENTS = 2048
"""Events in the ring: more than two for each launch that fits behind the gate."""
EVENTS_BOUND_NS = 200.0
"""Largest difference between corrected events and the records of single kernels of 1 to 180 µs
(H200: `tests/benchmarks/gpu_truth.py`)."""
PROBE_NS = 30_000


class Gate:
    """Two words of pinned memory: the generation that may pass, and the last that timed out."""

    def __init__(self, driver: Driver, stream: c_void_p) -> None:
        self._driver, self._stream = driver, stream
        self._kernel = driver.kernel("bench_gate")
        self._memory = driver.pointer("cuMemHostAlloc", 64, 0)
        self._words = (c_uint32 * 2).from_address(self._memory.value or 0)
        self._words[0] = self._words[1] = 0
        self._generation = 0
        self._limit = c_uint64(round(GATE_LIMIT_S * 1e9))

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._generation = (self._generation + 1) & 0xFFFFFFFF
        word, generation = c_uint64(self._memory.value or 0), c_uint32(self._generation)
        self._driver.launch(self._kernel, self._stream, word, generation, self._limit)
        try:
            yield
        finally:
            self._words[0] = self._generation

    def timed_out(self) -> bool:
        """Return True, once, if the gate of the last block opened by itself; its work must be done.
        The next plan of the process has a gate again."""
        found = self._generation != 0 and self._words[1] == self._generation
        if found:
            self._words[1] = 0
        return found

    def close(self) -> None:
        self._driver.call("cuMemFreeHost", self._memory)


class ClockProbe:
    """The SM clock at this moment, from a kernel that reads its cycle counter and the global
    timer."""

    def __init__(self, driver: Driver, stream: c_void_p) -> None:
        self._driver, self._stream = driver, stream
        self._result = driver.number("cuMemAlloc_v2", 16, kind=c_uint64)

    def megahertz(self) -> float:
        target, duration = c_uint64(self._result), c_uint64(PROBE_NS)
        self._driver.launch(self._driver.kernel("bench_clock"), self._stream, target, duration)
        counts = (c_uint64 * 2)()
        self._driver.call("cuMemcpyDtoHAsync_v2", counts, self._result, 16, self._stream)
        self._driver.call("cuStreamSynchronize", self._stream)
        return float(counts[0]) / float(counts[1]) * 1e3


PERSISTING_L2_BYTES = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
PERSISTING = "lines that persist in the L2 cache are let go before each iteration"


class PersistingLines:
    """Lines in the part of the L2 cache that a program set aside: no flush evicts them. HIP does
    not have them.

    Drivers set some aside for every program (12 MB on an H200). Caches are cold unless this
    process has such lines.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        with suppress(EngineError):  # a device without such a part
            driver.call("cuCtxSetLimit", PERSISTING_L2_BYTES, 0)
        self._usual = self._size()

    def _size(self) -> int:
        try:
            size = self._driver.number("cuCtxGetLimit", PERSISTING_L2_BYTES, kind=c_size_t)
        except EngineError:  # older devices have none
            return 0
        return int(size)

    def may_be(self) -> bool:
        """Return True if a program has set any of the cache aside since."""
        return self._size() != self._usual

    def let_go(self) -> None:
        """Release the lines; the device must be idle."""
        self._driver.call("cuCtxResetPersistingL2Cache")


def clock_of(timer: str) -> str:
    """Return the clock of the device series. Raises at once if CUPTI was requested and is
    missing."""
    if timer == "cupti":
        cupti.load()
    return {"host": "host", "cupti": "cupti"}.get(timer, "events")


class GatedStream(ABC):
    """Common base of streams on NVIDIA's driver, from any library: the gate, the flush, and the
    empty kernel."""

    FLUSH_LAUNCHES: int
    """Launches of a flush that the gate is to hold back as well."""
    clock: str
    timer: str
    gate_depth: int
    no_gate_because: str | None
    _flush: Callable[[], None] | None
    _gate: Gate | None
    _lines: PersistingLines | None

    def _prepare(self) -> None:
        """Prepare once flush and gate exist."""
        self._empty: EmptyKernel | None = None
        self.forced_gates = 0
        self._gated, self._is_closed = True, False
        self.gate_depth = 0
        self.expect(1)

    @property
    def abilities(self) -> StreamAbilities:
        return StreamAbilities(
            probe_clock_mhz=self.probe_clock_mhz,
            kernel_timer=self.timer,
            flushes=self.flushes,
            without_flush=self.without_flush,
            empty=self.empty,
            expect=self.expect,
            forced_gates=lambda: self.forced_gates,
            no_gate_because=lambda: self.no_gate_because,
            leave_gate_open=self.leave_gate_open,
            gate_settings=self.gate_settings,
            restore_gate=self.restore_gate,
            watch=self.watch,
            wait_for_device=self.wait_for_device,
            memory=self.memory,
        )

    @abstractmethod
    def mark(self) -> object: ...

    @abstractmethod
    def elapsed_ns(self, begin: Any, end: Any) -> int: ...

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for the device. Used in samples: complete in each class, without a further method
        call."""

    @abstractmethod
    def wait_for_device(self) -> None: ...

    @abstractmethod
    def make_empty(self) -> Callable[[], None]:
        """Return what launches an empty kernel."""

    @abstractmethod
    def probe_clock_mhz(self) -> float | None: ...

    @abstractmethod
    def watch(
        self, offsets: npt.NDArray[np.int64], values: npt.NDArray[np.uint8]
    ) -> DeviceWatch | None: ...

    @abstractmethod
    def memory(self) -> DeviceMemory | None: ...

    def expect(self, launches: int) -> None:
        """Prepare for a plan with this many launches in an iteration, or `REPLAY`: set the
        iterations behind the gate, and use the gate again, unless not even one fits."""
        pair = PAIR_COMMANDS + (REPLAY_COMMANDS if launches == REPLAY else 0)
        around = 2 + pair + (0 if self._flush is None else self.FLUSH_LAUNCHES)
        self._gated, self.no_gate_because = self._gate is not None, None
        launches = launches or REPLAY_COMMANDS
        fits = (QUEUE_LAUNCHES - pair * (LEAD + TAIL + FEWEST)) // (launches + around)
        self.gate_depth = 0 if self._gate is None else max(1, fits)
        if not fits:
            self.leave_gate_open(TOO_MANY)

    def leave_gate_open(self, why: str) -> None:
        if self._gated:
            self._gated, self.no_gate_because = False, why

    @contextmanager
    def gate(self) -> Iterator[None]:
        if self._gated and self._keeps_lines():
            # Letting lines go waits for the device. What was measured behind the gate is void.
            self.forced_gates += 1
            self.leave_gate_open(PERSISTING)
        gate = self._gate if self._gated else None
        if gate is None:
            yield
            return
        self._is_closed = True
        try:
            with gate.closed():
                yield
        finally:
            self._is_closed = False

    def _keeps_lines(self) -> bool:
        return self._flush is not None and self._lines is not None and self._lines.may_be()

    def flush(self) -> None:
        if self._flush is None:
            return
        if not self._is_closed and self._lines is not None and self._lines.may_be():
            self.synchronize()
            self._lines.let_go()
        self._flush()

    def empty(self) -> EmptyKernel:
        if self._empty is None:
            launch = self.make_empty()
            launch()  # loads what loading behind a closed gate could hang on
            self.synchronize()
            self._empty = EmptyKernel(launch, EVENTS_BOUND_NS)
        return self._empty

    def gate_settings(self) -> tuple[object, ...]:
        return self.gate_depth, self._gated, self.no_gate_because

    def restore_gate(self, settings: tuple[Any, ...]) -> None:
        self.gate_depth, self._gated, self.no_gate_because = settings

    def flushes(self) -> bool:
        return self._flush is not None

    @contextmanager
    def without_flush(self) -> Iterator[None]:
        kept, self._flush = self._flush, None
        try:
            yield
        finally:
            self._flush = kept


class CudaStream(CudaMemory, GatedStream):
    """A stream of the current context. One thread, one plan at a time."""

    FLUSH_LAUNCHES = 1

    def __init__(
        self,
        device: DeviceFacts,
        cache: str = "hot",
        timer: str = "auto",
        pass_bytes: int | None = None,
    ) -> None:
        if cache not in CACHES:
            raise UsageError(f"no cache state {cache!r}; choose from {', '.join(CACHES)}")
        self.device, self.timer = device, timer
        self.clock = clock_of(timer)
        cuda = driver()
        super().__init__(cuda, cuda.pointer("cuStreamCreate", 1))  # CU_STREAM_NON_BLOCKING
        self._events = [self.driver.pointer("cuEventCreate", 0) for _ in range(EVENTS)]
        self._next = 0
        self._gate = Gate(self.driver, self.handle)
        self._scratch = self.allocate(64)
        self._probe = ClockProbe(self.driver, self.handle)
        size = flushed_bytes(cache, 2 * device.l2_bytes, pass_bytes)
        self._lines = None if size is None else PersistingLines(self.driver)
        self._flush = None if size is None else self._reader(size)
        self._prepare()

    def probe_clock_mhz(self) -> float:
        return self._probe.megahertz()

    def mark(self) -> object:
        event = self._events[self._next]
        self._next = (self._next + 1) % EVENTS
        self.driver.call("cuEventRecord", event, self.handle)
        return event

    def elapsed_ns(self, begin: object, end: object) -> int:
        milliseconds: float = self.driver.number("cuEventElapsedTime", begin, end, kind=c_float)
        return round(milliseconds * 1e6)

    def synchronize(self) -> None:
        self.driver.call("cuStreamSynchronize", self.handle)
        if self._gated and self._gate is not None and self._gate.timed_out():
            self.forced_gates += 1
            self.leave_gate_open(WAITED)

    def wait_for_device(self) -> None:
        self.driver.call("cuCtxSynchronize")

    def make_empty(self) -> Callable[[], None]:
        kernel = self.driver.kernel("bench_empty")
        return lambda: self.driver.launch(kernel, self.handle)

    def capture(self, work: Callable[[], None]) -> CapturedGraph:
        """Capture the work that `work` enqueues as one CUDA graph, without running it."""
        self.driver.call("cuStreamBeginCapture_v2", self.handle, RELAXED_CAPTURE)
        graph = c_void_p()
        try:
            work()
        finally:
            self.driver.call("cuStreamEndCapture", self.handle, ctypes.byref(graph))
        return CapturedGraph(self, graph)

    def launches(self, work: Callable[[], None]) -> int:
        """Count the kernels, copies and fills that `work` enqueues, in a capture."""
        graph = self.capture(work)
        try:
            return max(1, graph.nodes)
        finally:
            graph.close()

    def watch(self, offsets: npt.NDArray[np.int64], values: npt.NDArray[np.uint8]) -> CudaWatch:
        return CudaWatch(self.driver, self.handle, offsets, values)

    def memory(self) -> CudaMemory:
        return self

    def _reader(self, size: int) -> Callable[[], None]:
        buffer = self.allocate(size)
        self.fill(buffer, 1, size)
        kernel = self.driver.kernel("bench_read")
        arguments = (c_uint64(buffer), c_uint64(size // 16), c_uint64(self._scratch))
        blocks = 8 * self.device.multiprocessors

        def read() -> None:
            self.driver.launch(kernel, self.handle, *arguments, blocks=blocks, threads=256)

        return read

    def close(self) -> None:
        if self._gate is not None:
            self._gate.close()


class CapturedGraph:
    """A CUDA graph of one execution; `launch` replays it."""

    def __init__(self, stream: CudaStream, graph: c_void_p) -> None:
        self._driver, self._stream, self._graph = stream.driver, stream.handle, graph
        self.again = stream.capture
        self._executable: c_void_p | None = None

    @property
    def nodes(self) -> int:
        count = ctypes.c_size_t(0)
        self._driver.call("cuGraphGetNodes", self._graph, None, ctypes.byref(count))
        return count.value

    def launch(self) -> None:
        if self._executable is None:
            made = self._driver.pointer("cuGraphInstantiateWithFlags", self._graph, 0)
            self._executable = made
        self._driver.call("cuGraphLaunch", self._executable, self._stream)

    def close(self) -> None:
        if self._executable is not None:
            self._driver.call("cuGraphExecDestroy", self._executable)
        self._driver.call("cuGraphDestroy", self._graph)


def open_stream(
    index: int, cache: str = "hot", timer: str = "auto", pass_bytes: int | None = None
) -> CudaStream:
    """Take the device and make a stream on it. Raises `EngineUnavailableError` without one."""
    cuda = driver()
    count = cuda.number("cuDeviceGetCount")
    if index >= count:
        raise EngineUnavailableError(f"there is no GPU {index}, only {count}")
    try:
        return CudaStream(cuda.take(index), cache, timer, pass_bytes)
    except EngineError as error:
        raise EngineUnavailableError(str(error)) from error
