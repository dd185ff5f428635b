"""Memory of the current context's device by address, copied in the order of a stream."""

from __future__ import annotations

from ctypes import c_uint64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctypes import c_void_p

    from bench_run.streams.cuda_driver import Driver


class CudaMemory:
    """Every method but `allocate` and `free` enqueues; copies to and from memory of the host that
    is not pinned return when they are done. Raises `EngineError`."""

    def __init__(self, driver: Driver, handle: c_void_p) -> None:
        self.driver, self.handle = driver, handle

    def allocate(self, size: int) -> int:
        """Device memory of `size` bytes, which `free` gives back."""
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
        self.driver.call("cuMemcpyDtoDAsync_v2", to, address, size, self.handle)
