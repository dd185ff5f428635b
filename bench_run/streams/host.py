"""The host's clock as a stream: work is done when the call returns, nothing has to be waited for.

Cache states (`base.py`): ``cold`` reads a buffer twice as large as the last-level cache before
each iteration (reading leaves clean lines, whose eviction costs the next iteration nothing),
``pass`` one as large as what a pass of the pipeline touches, as far as that is less. Where the
layers that come before are at hand they run in its place (`run_before`): they leave the caches of
instructions and branches as a pass does, which no reading of data can.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from bench_run.streams.base import StreamAbilities, flushed_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}
_ASSUMED_CACHE_BYTES = 64 * 1024**2  # where the system does not tell
_MOST_FLUSH_BYTES = 1024**3
LEAST_READ_BYTES = 64 * 1024
"""Smallest read; a loop for less would leave its own traces in the caches."""


class HostStream:
    """Stream of the host. Marks are `time.perf_counter_ns` instants; there is neither queue nor
    gate."""

    clock = "host"
    gate_depth = 0
    mark = staticmethod(perf_counter_ns)
    flush: Callable[[], None]

    def __init__(
        self, cache: str = "hot", cache_bytes: int | None = None, pass_bytes: int | None = None
    ) -> None:
        """`cache_bytes`: size of the last-level cache, read from the system if it is None."""
        self.flush = self.synchronize
        size = last_level_cache_bytes() if cache_bytes is None else cache_bytes
        flushed = flushed_bytes(cache, min(2 * size, _MOST_FLUSH_BYTES), pass_bytes)
        self._flushed = flushed or 0
        if flushed is not None:
            self.flush = _reader(flushed)

    @property
    def abilities(self) -> StreamAbilities:
        return StreamAbilities(
            flushes=self.flushes,
            without_flush=self.without_flush,
            run_before=self.run_before,
        )

    @contextmanager
    def run_before(self, run: Callable[[], None], left_bytes: int) -> Iterator[None]:
        """`left_bytes` of other memory are read before that, no more than for ``pass`` alone."""
        alone = self.flush
        read = _reader(min(left_bytes, self._flushed)) if left_bytes >= LEAST_READ_BYTES else None

        def flush() -> None:
            if read is not None:
                read()
            run()

        self.flush = flush
        try:
            yield
        finally:
            self.flush = alone

    @contextmanager
    def without_flush(self) -> Iterator[None]:
        alone, self.flush = self.flush, self.synchronize
        try:
            yield
        finally:
            self.flush = alone

    def flushes(self) -> bool:
        return self.flush != self.synchronize

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        return int(end - begin)

    def gate(self) -> AbstractContextManager[None]:
        return nullcontext()

    def synchronize(self) -> None:
        return None


def last_level_cache_bytes(root: Path = _SYSFS) -> int:
    """Return the size of the largest cache that the system reports; 64 MiB if it reports none."""
    sizes = [_bytes(path.read_text().strip()) for path in root.glob("index*/size")]
    return max(sizes, default=_ASSUMED_CACHE_BYTES)


def _bytes(text: str) -> int:
    """Parse a size of sysfs: ``32768K``."""
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text)


def _reader(size: int) -> Callable[[], None]:
    import numpy as np

    buffer = np.ones(max(1, size // 8), np.int64)

    def read() -> None:
        buffer.sum()

    return read
