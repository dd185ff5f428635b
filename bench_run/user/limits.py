"""Limits of errors that a user writes: in TOLERANCE of a file, or in a sidecar of a graph."""

from __future__ import annotations

import math
from numbers import Real

LIMITS = ("rtol", "atol", "rms", "matched", "cosine")
SHARES = ("matched", "cosine")


def problem_of(name: str, value: object) -> str | None:
    """Return what is wrong with the value of a limit; None if it is one."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return f"expected a number, got {value!r}"
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        return f"expected a finite number of at least 0, got {value!r}"
    if name in SHARES and not 0 < number <= 1:
        return f"expected a number above 0, at most 1, got {value!r}"
    return None
