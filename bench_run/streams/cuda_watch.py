"""Single bytes of device memory, looked at and overwritten in stream order: see
`bench_run.measure.canaries`. What was seen stays on the device until nothing is enqueued any more.
"""

from __future__ import annotations

from ctypes import c_uint64, c_void_p
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from bench_run.streams.cuda_driver import Driver

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
