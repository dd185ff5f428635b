"""Memory of the host that lies in place before something is copied into it.

Memory fresh from the system is given page by page at its first use. A copy from a GPU that does so
takes 29 ms for 103 MB, one into pages that are in place 7 (H200, PCIe 5), and 97 by way of an array
of PyTorch, whose pages are small.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from bench_run.tensors.layout import Storage

    Bytes: TypeAlias = npt.NDArray[np.uint8]

PAGE_BYTES = 4096
SCRATCH_BYTES = 16 << 20


def in_place(elements: int, dtype: npt.DTypeLike) -> Storage:
    """Return an array of any values, every page of which was touched."""
    array: Storage = np.empty(elements, dtype)
    array.view(np.uint8)[::PAGE_BYTES] = 0
    return array


@lru_cache(maxsize=1)
def _scratch() -> Bytes:
    return in_place(SCRATCH_BYTES, np.uint8)


def holds_same_bytes(given: Storage, read: Callable[[Bytes, int], None]) -> bool:
    """Return True if the bytes that `read` copies from each offset equal those of `given`: piece by
    piece, in memory that is reused."""
    raw, scratch = np.ascontiguousarray(given).reshape(-1).view(np.uint8), _scratch()
    for begin in range(0, raw.size, scratch.size):
        piece = raw[begin : begin + scratch.size]
        found = scratch[: piece.size]
        read(found, begin)
        if not np.array_equal(found, piece):
            return False
    return True
