"""Keeps the C library from giving freed memory back between runs.

On the CPU PyTorch has no cache of its own: a result of 32 MiB or more is a new mapping in every
run, and its first use is a page fault every 4 KiB. For a ReLU of 100 MB that is 40 of 46 ms.
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """For the rest of this process. False where the C library is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, LARGEST))
