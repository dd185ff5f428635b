"""Values of other tools' files that may be missing or of another kind: absent and null are
unknown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from bench_schema.document import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_schema.document import Samples

Table: TypeAlias = "Mapping[str, Any]"
UNKNOWN = "unknown"
NS_PER: Mapping[str, float] = {
    **dict.fromkeys(("ns", "nsec"), 1.0),
    **dict.fromkeys(("us", "µs", "μs", "usec"), 1e3),
    **dict.fromkeys(("ms", "msec"), 1e6),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1e9),
}
"""Nanoseconds of a unit of time."""
MOST_NS = 1e18
"""Longer times, of thirty years, are not measured."""
FRACTIONS_BELOW_NS = 1000
"""Shorter times keep fractions of a nanosecond, which are more than 0.1 % of them."""


def table(value: Any) -> Table:
    """Return the value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> Sequence[Table]:
    """Return the objects of a list; no rows for any other value."""
    return [table(one) for one in value] if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Return a finite number, also of text; None for any other value."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else round(found)


def text(*values: Any) -> str | None:
    """Return the first value that is text and not empty; None without one."""
    return next((one for one in values if isinstance(one, str) and one), None)


def texts(found: Table, **names: str) -> dict[str, str]:
    """Return the texts of an object under other names: ``commit="commit_hash"``."""
    return {key: one for key, name in names.items() if (one := text(found.get(name))) is not None}


def samples(values: Iterable[Any], unit: str) -> Samples:
    """Convert times in a unit of `NS_PER` to nanoseconds, without values that are not finite
    numbers. Values from `FRACTIONS_BELOW_NS` on become whole numbers."""
    numbers = [found for one in values if (found := number(one)) is not None]
    times = np.array(numbers, np.float64) * NS_PER[unit]
    times = times[np.abs(times) < MOST_NS]
    short = times.size and np.median(times) < FRACTIONS_BELOW_NS
    return cast("Samples", times if short else np.rint(times).astype(np.int64))


def summary(stats: Table, unit: str) -> Summary | None:
    """Return statistics with the keys ``median mean std min max p95 p99 iqr p25 p75 n`` in a unit
    of `NS_PER`; NaN for those that are not stored. None without a centre."""
    scale = NS_PER[unit]
    numbers = {name: number(one) for name, one in stats.items()}
    known = {k: x * scale for k, x in numbers.items() if x is not None and abs(x) * scale < MOST_NS}
    centre = known.get("median", known.get("mean"))
    if centre is None:
        return None
    iqr = known.get("iqr", known.get("p75", math.nan) - known.get("p25", math.nan))
    names = ("min", "p5", "p90", "p95", "p99", "max")
    return Summary(
        count=whole(stats.get("n")) or 0,  # 0: unknown
        mean=known.get("mean", math.nan),
        std=known.get("std"),
        median=centre,
        mad=iqr / 2,
        median_ci_low=None,
        median_ci_high=None,
        **{name: known.get(name, math.nan) for name in names},
    )
