"""The device memory that executions scribble in, one for plans that take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_run.streams.cuda import CudaStream


class Workspace:
    """As large as the largest plan that asked for it, for as long as a plan uses it. Its `address`
    may change with each `grow`, so that plans look it up for every execution; what is captured
    keeps the address, so captured plans have one that nobody else grows."""

    def __init__(self, stream: CudaStream) -> None:
        self._stream = stream
        self._bytes: int | None = None
        self._users = 0
        self.address = 0

    def grow(self, size: int) -> None:
        """Make it hold `size` bytes at least; what it held is lost."""
        if self._bytes is not None and size <= self._bytes:
            return
        self.close()
        self.address = self._stream.allocate(size)
        self._bytes = size

    def enter(self) -> None:
        """One more plan uses it."""
        self._users += 1

    def leave(self) -> None:
        """One does no more; with the last one its memory goes."""
        self._users -= 1
        if self._users == 0:
            self.close()

    def close(self) -> None:
        if self._bytes is not None:
            self._stream.synchronize()
            self._bytes = None
            self._stream.free(self.address)
            self.address = 0
