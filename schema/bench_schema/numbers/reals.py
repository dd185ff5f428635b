"""Numbers that JSON cannot hold, by name: NaN and the infinities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_schema.document import Real

SPELLINGS: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def spell(value: float) -> Real:
    """A number as a document holds it: NaN and the infinities by name."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unspell(value: Real) -> float:
    """The number that a document holds."""
    return SPELLINGS[value] if isinstance(value, str) else value
