"""A GPU stream of PyTorch (CUDA or ROCm build): device events, and a gate if the driver has one.

On CUDA the gate, the empty kernel and the clock probe are those of `streams/cuda.py`: PyTorch works
in the same context. ROCm builds lack a gate (`gate_depth` 0): events then include the host's
delays.
"""

from __future__ import annotations

from ctypes import c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import torch

from bench_run.errors import EngineUnavailableError, UsageError
from bench_run.streams.base import CACHES, WAITED, flushed_bytes
from bench_run.streams.cuda import (
    ClockProbe,
    CudaMemory,
    CudaWatch,
    Gate,
    GatedStream,
    PersistingLines,
    clock_of,
)
from bench_run.streams.cuda_driver import Driver, driver

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

cuda: Any = torch.cuda  # partly without types


class TorchStream(GatedStream):
    """Runs on a stream of its own, which it makes the current one. `clock` is ``host`` where the
    host's timer was asked for: then only `synchronize` matters."""

    FLUSH_LAUNCHES = 2

    def __init__(
        self,
        device: torch.device,
        cache: str = "hot",
        timer: str = "auto",
        pass_bytes: int | None = None,
    ) -> None:
        if cache not in CACHES:
            raise UsageError(f"no cache state {cache!r}; choose from {', '.join(CACHES)}")
        self.timer, self.clock = timer, clock_of(timer)
        self._device = device
        self._stream = cuda.Stream(device)
        cuda.set_stream(self._stream)
        self._driver = _driver()
        self._gate: Gate | None = None
        self._handle = c_void_p(self._stream.cuda_stream)
        self._probe: ClockProbe | None = None
        self._lines: PersistingLines | None = None
        if self._driver is not None:
            self._probe = ClockProbe(self._driver, self._handle)
            if self.clock != "host":
                self._gate = Gate(self._driver, self._handle)
        size = flushed_bytes(cache, 2 * l2_bytes(device), pass_bytes)
        self._flush = None if size is None else self._reader(size)
        if self._flush is not None and self._driver is not None:
            self._lines = PersistingLines(self._driver)
        self._prepare()

    def _reader(self, size: int) -> Callable[[], None]:
        """Return a function that reads `size` bytes: reading leaves clean lines, whose eviction
        costs the next kernel nothing. On CUDA by a kernel of ours, which records leave out."""
        device = self._device
        buffer = torch.ones(size // 4, dtype=torch.float32, device=device)
        if self._driver is None:
            total = torch.zeros((), dtype=torch.float32, device=device)

            def reduce() -> None:
                torch.sum(buffer, dim=0, out=total)

            return reduce
        scratch = torch.zeros(64, dtype=torch.uint8, device=device)
        kept = (buffer, scratch)  # the kernel knows addresses only
        words = (buffer.data_ptr(), size // 16, scratch.data_ptr())
        blocks = 8 * int(cuda.get_device_properties(device).multi_processor_count)
        kernel, driver, handle = self._driver.kernel("bench_read"), self._driver, self._handle

        def read() -> None:
            assert kept
            driver.launch(kernel, handle, *map(c_uint64, words), blocks=blocks, threads=256)

        return read

    def probe_clock_mhz(self) -> float | None:
        return None if self._probe is None else self._probe.megahertz()

    def mark(self) -> Any:
        event = cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        elapsed_ms: float = begin.elapsed_time(end)
        return round(elapsed_ms * 1e6)

    def synchronize(self) -> None:
        self._stream.synchronize()
        if self._gated and self._gate is not None and self._gate.timed_out():
            self.forced_gates += 1
            self.leave_gate_open(WAITED)

    def wait_for_device(self) -> None:
        cuda.synchronize(self._device)

    def watch(
        self, offsets: npt.NDArray[np.int64], values: npt.NDArray[np.uint8]
    ) -> CudaWatch | None:
        if self._driver is None:
            return None
        return CudaWatch(self._driver, self._handle, offsets, values)

    def memory(self) -> CudaMemory | None:
        return None if self._driver is None else CudaMemory(self._driver, self._handle)

    def make_empty(self) -> Callable[[], None]:
        driver, queue = self._driver, self._handle
        assert driver is not None, "without it there is no gate"
        kernel = driver.kernel("bench_empty")
        return lambda: driver.launch(kernel, queue)


def _driver() -> Driver | None:
    """Return NVIDIA's driver, which an ROCm build does not use."""
    if torch.version.hip:
        return None
    try:
        return driver()
    except EngineUnavailableError:
        return None


def open_stream(
    device: torch.device, cache: str = "hot", timer: str = "auto", pass_bytes: int | None = None
) -> TorchStream:
    """Take the device: make its context, and the stream the current one of this thread."""
    cuda.set_device(device)
    cuda.init()
    return TorchStream(device, cache, timer, pass_bytes)


def l2_bytes(device: torch.device) -> int:
    """Return the size of the L2 cache; 64 MiB if PyTorch does not report it."""
    size = int(getattr(cuda.get_device_properties(device), "L2_cache_size", 0))
    return size if size > 0 else 64 * 1024**2
