"""A GPU stream of PyTorch (CUDA or ROCm build): device events, and a gate where the driver has one.

The gate holds the stream on a 32-bit word of pinned host memory (`cuStreamWaitValue32`, waiting for
"at least"): closing it enqueues a wait for the next generation, opening it writes that generation.
It is opened however the block ends, and by a watchdog where the host itself hangs behind a full
queue, which happens at about 1000 launches: `gate_depth` stays below. On ROCm builds and where the
driver lacks the call there is no gate (`gate_depth` 0): events then also hold the host's delays.

Two events around an empty kernel measure more than the kernel takes; `correction_ns` is that
excess, measured in the same mode.
"""

from __future__ import annotations

import statistics
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from bench_run.errors import UsageError
from bench_run.streams.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from bench_run.engines.base import EngineOptions

QUEUE_LAUNCHES = 900
"""Launches that fit behind a closed gate with room to spare; the host blocks at 1022."""
WATCHDOG_S = 5.0
EMPTY_KERNEL_NS = 540.0
"""What an empty kernel takes by the device's own records (CUPTI, H200)."""
CALIBRATIONS = 64
cuda: Any = torch.cuda  # partly without types
CACHES = ("hot", "cold", "rotate")


class Gate:
    """A word that the stream waits on; at most one thread closes it."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._word = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._seen = self._word.numpy()
        self._generation = 0
        self.forced = 0
        """How often the watchdog had to open it: the host waited for the device inside."""

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._generation += 1
        watchdog = threading.Timer(WATCHDOG_S, self._force)
        watchdog.daemon = True
        watchdog.start()
        try:
            self._driver.wait_value(self._stream, self._word.data_ptr(), self._generation)
            yield
        finally:
            self._open()
            watchdog.cancel()

    def _open(self) -> None:
        self._seen[0] = self._generation

    def _force(self) -> None:
        self.forced += 1
        self._open()


class TorchStream:
    """Runs on a stream of its own, which it makes the current one. `clock` is ``events``, or
    ``host`` where the host's timer was asked for: then only `synchronize` matters."""

    def __init__(self, device: torch.device, options: EngineOptions) -> None:
        if options.cache not in CACHES:
            raise UsageError(f"no cache state {options.cache!r}; choose from {', '.join(CACHES)}")
        self.clock = "host" if options.timer == "host" else "events"
        self._device = device
        self._stream = cuda.Stream(device)
        cuda.set_stream(self._stream)
        self._driver = None if torch.version.hip else Driver.load()
        self._gate = None
        if self.clock == "events" and self._driver is not None and self._driver.waits:
            self._gate = Gate(self._driver, self._stream.cuda_stream)
        self._flush = _reader(device) if options.cache == "cold" else None
        self._correction_ns: float | None = None
        self.gate_depth = 0
        self.expect(1)

    def expect(self, launches: int) -> None:
        """Sets `gate_depth` for iterations of so many kernel launches."""
        around = 2 + (2 if self._flush is not None else 0)
        self.gate_depth = 0 if self._gate is None else max(1, QUEUE_LAUNCHES // (launches + around))

    @property
    def forced_gates(self) -> int:
        """Gates that the watchdog opened."""
        return 0 if self._gate is None else self._gate.forced

    def mark(self) -> Any:
        event = cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        elapsed_ms: float = begin.elapsed_time(end)
        return round(elapsed_ms * 1e6)

    def gate(self) -> AbstractContextManager[None]:
        return nullcontext() if self._gate is None else self._gate.closed()

    def flush(self) -> None:
        if self._flush is not None:
            self._flush()

    def synchronize(self) -> None:
        self._stream.synchronize()

    def correction_ns(self) -> float:
        if self._correction_ns is None:
            self._correction_ns = self._calibrate()
        return self._correction_ns

    def _calibrate(self) -> float:
        """Median over empty kernels between two marks, less what an empty kernel takes."""
        kernel = self._empty_kernel()
        kernel()  # loads what loading behind a closed gate could hang on
        self.flush()
        self.synchronize()
        for _ in range(2):  # the first pass loads and warms up
            marks = []
            with self.gate():
                for _ in range(CALIBRATIONS):
                    self.flush()
                    begin = self.mark()
                    kernel()
                    marks.append((begin, self.mark()))
            self.synchronize()
        measured = statistics.median(self.elapsed_ns(*pair) for pair in marks)
        return max(0.0, measured - EMPTY_KERNEL_NS)

    def _empty_kernel(self) -> Callable[[], None]:
        launch = (
            None if self._driver is None else self._driver.empty_kernel(self._stream.cuda_stream)
        )
        return _shortest_sleep if launch is None else launch


def open_stream(device: torch.device, options: EngineOptions) -> TorchStream:
    """Takes the device: makes its context, and the stream the current one of this thread."""
    cuda.set_device(device)
    cuda.init()
    return TorchStream(device, options)


def l2_bytes(device: torch.device) -> int:
    """Size of the L2 cache; 64 MiB where PyTorch does not tell."""
    found = int(getattr(cuda.get_device_properties(device), "L2_cache_size", 0))
    return found if found > 0 else 64 * 1024**2


def _shortest_sleep() -> None:
    """Nearly empty: PyTorch's spinning kernel, told to spin for no cycle."""
    cuda._sleep(0)


def _reader(device: torch.device) -> Callable[[], None]:
    """Reads twice the L2 cache: reading leaves clean lines, whose eviction costs the next kernel
    nothing."""
    buffer = torch.ones(2 * l2_bytes(device) // 4, dtype=torch.float32, device=device)
    total = torch.zeros((), dtype=torch.float32, device=device)

    def read() -> None:
        torch.sum(buffer, dim=0, out=total)

    return read
