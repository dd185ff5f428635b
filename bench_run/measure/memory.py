"""Peak memory of a section of work in this process, where the kernel reports it (Linux)."""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from pathlib import Path

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Written to `RESET`: the peak of the resident set starts again at what it is now (proc(5))."""


class ProcessPeak:
    """Begins a stretch of work: memory that was freed earlier is given back first, so that what
    the work takes shows even where it would have been taken from there."""

    def __init__(self) -> None:
        self._base_bytes: int | None = None
        with suppress(OSError, AttributeError):  # another system, another C library
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):
            RESET.write_text(RESET_PEAK)
            self._base_bytes = _status_bytes("VmRSS")

    def taken_bytes(self) -> int | None:
        """Return the largest growth of resident memory since the beginning; None if it is
        unknown."""
        peak = None if self._base_bytes is None else _status_bytes("VmHWM")
        if peak is None or self._base_bytes is None:
            return None
        return max(0, peak - self._base_bytes)


def _status_bytes(key: str) -> int | None:
    try:
        found = re.search(rf"^{key}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024
