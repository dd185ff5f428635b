"""Which counters a set stands for on which AMD chip: a table by the beginning of its name.

Derived counters differ between generations. `L2CacheHit` does not exist on gfx940 to gfx950, where
hits and misses of the L2 are counters of their own. What a chip lacks in spite of this table costs
itself: each counter is a pass of its own, since one that is unknown ends rocprofv3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MEMORY = ("FETCH_SIZE", "WRITE_SIZE", "MemUnitStalled")
COMPUTE = ("VALUBusy", "VALUUtilization", "OccupancyPercent")
HIT_RATE, HITS_AND_MISSES = ("L2CacheHit",), ("TCC_HIT_sum", "TCC_MISS_sum")
MATRIX = ("MfmaUtil",)


def _sets(memory: tuple[str, ...], compute: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    memory, compute = (*MEMORY, *memory), (*COMPUTE, *compute)
    return {"memory": memory, "compute": compute, "basic": (*memory, *compute)}


BY_ARCH: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gfx90": _sets(HIT_RATE, MATRIX),
    "gfx94": _sets(HITS_AND_MISSES, MATRIX),
    "gfx95": _sets(HITS_AND_MISSES, MATRIX),
    "gfx1": _sets(HIT_RATE, ()),
}
"""CDNA 1 and 2, CDNA 3, CDNA 4, RDNA."""
UNKNOWN = _sets((*HIT_RATE, *HITS_AND_MISSES), MATRIX)
"""The counters of any chip, for a chip that is not known."""


def counters_of(name: str, arch: str | None) -> tuple[str, ...]:
    """The counters of a set (``memory``, ``compute``, ``basic``) on a chip such as ``gfx942``."""
    rows = (row for start, row in BY_ARCH.items() if arch is not None and arch.startswith(start))
    return next(rows, UNKNOWN)[name]
