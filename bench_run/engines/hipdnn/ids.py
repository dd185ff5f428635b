"""Engine ids of hipDNN: a name's hash, or the number that old releases used.

The id of a name is FNV-1a, 64 bit, of its UTF-8 bytes, read as a signed number; the empty name is
0. Ids before that scheme are small numbers (1 was MIOpen) and pass through as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench_run.errors import UsageError

OFFSET_BASIS = 0xCBF29CE484222325
PRIME = 0x100000001B3

KNOWN_NAMES = (
    "MIOPEN_ENGINE",
    "MIOPEN_ENGINE_DETERMINISTIC",
    "HIPBLASLT_ENGINE",
    "HIP_MLOPS_ENGINE",
    "ASM_SDPA_ENGINE",
    "ROCKE_ENGINE",
    "HIP_KERNEL_ENGINE",
    "HIP_FLASH2_ENGINE",
    "hipkernel:Gfx950AttentionDense",
    "FUSILLI_ENGINE",
    "MIOPEN_PLUGIN",
)
"""Names for ids that the installed hipDNN does not name itself; any other name is taken too."""

ALL, TUNED = "all", "autotune"
FORMS = "a name, a decimal or hexadecimal number, 'all' or 'autotune'"
_NUMBER = re.compile(r"[+-]?[0-9]+|0[xX][0-9a-fA-F]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")


@dataclass(frozen=True)
class Choice:
    """The engine that a spec asks for. Without an id hipDNN chooses."""

    id: int | None = None
    name: str | None = None
    """As it was given; None for a number."""
    every: bool = False
    """Each engine that accepts the graph, as variants."""
    tuned: bool = False
    """The one that hipDNN's own tuner finds fastest."""


def engine_id(name: str) -> int:
    """The signed id that hipDNN gives to an engine of this name."""
    if not name:
        return 0
    value = OFFSET_BASIS
    for byte in name.encode():
        value = (value ^ byte) * PRIME % 2**64
    return signed(value)


def signed(value: int) -> int:
    """An unsigned 64-bit number as the signed one of the same bits; signed ones as they are."""
    return value - 2**64 if value >= 2**63 else value


def parse_choice(text: str | None) -> Choice:
    """``MIOPEN_ENGINE``, ``1``, ``-6748551569128940061``, ``0x15b46865c717a122``, ``all``."""
    if text is None:
        return Choice()
    if text in (ALL, TUNED):
        return Choice(every=text == ALL, tuned=text == TUNED)
    if _NUMBER.fullmatch(text):
        value = int(text, 16 if text[:2].lower() == "0x" else 10)
        if not -(2**63) <= value < 2**64:
            raise UsageError(f"engine 'hipdnn:{text}': the number does not fit into 64 bits")
        return Choice(id=signed(value))
    if _NAME.fullmatch(text):
        return Choice(id=engine_id(text), name=text)
    raise UsageError(f"engine 'hipdnn:{text}': no engine has this id; give {FORMS}")


NAMES_BY_ID = {engine_id(name): name for name in KNOWN_NAMES}
