"""What outputs hold before a run that is checked: bytes that are no result.

NaN where the type has it (all bits set, or the one NaN of the fnuz types), else 0xA5, a pattern
rarely met. All bytes of an element are equal, so memory may be filled byte by byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.dtypes import DTYPES

if TYPE_CHECKING:
    from bench_run.tensors.storage import Storage

NAN, FNUZ_NAN, RARE = 0xFF, 0x80, 0xA5


def poison_byte(data_type: str) -> int:
    """The byte that all of a poisoned output consists of."""
    if data_type.endswith("fnuz"):
        return FNUZ_NAN
    return NAN if DTYPES[data_type].kind in ("float", "scale") else RARE


def fill_with_poison(storage: Storage, data_type: str) -> None:
    """A storage in the host's memory."""
    storage.view(np.uint8).fill(poison_byte(data_type))
