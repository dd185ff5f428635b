"""Numbers as people read them: units chosen per value, ratios as changes.

Every text gets its numbers here. Tables have `change_text` and its interval; sentences have
`change_words`.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Sequence

TIMES: tuple[tuple[float, str], ...] = ((1e9, " s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
SIZES: tuple[tuple[float, str], ...] = (
    (2.0**40, "TiB"),
    (2.0**30, "GiB"),
    (2.0**20, "MiB"),
    (2.0**10, "KiB"),
    (1.0, "B"),
)
ENERGIES: tuple[tuple[float, str], ...] = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"))
STEPS: dict[str, Sequence[tuple[float, str]]] = {
    "ns": TIMES,
    "bytes": SIZES,
    "B": SIZES,
    "joules": ENERGIES,
}
"""Unit of a metric to the units it is shown in, largest first."""

PERCENT_BELOW = 1.1
"""A change by less than this factor reads as a percentage, a larger one as a factor."""
WIDE_INTERVAL = 1.25
"""An interval beyond this factor reads as factors, and so does one that lies beyond
`PERCENT_BELOW`."""
MOST_RATIO = 2.0
"""An interval that reaches beyond this factor both ways tells nothing."""
MOST_FACTOR = 1000.0
"""Larger factors are printed as "and more"."""
UNKNOWN = "-"


def count_text(count: int, noun: str) -> str:
    """Format a number with its noun: ``1 case``, ``2 cases``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


NOTHING = "too noisy to tell"
COUNT_BELOW = 1e9
"""A whole number without a unit is a count up to here, and shown as one."""


def significant(value: float, digits: int = 4) -> str:
    """Format `value` with that many significant digits, without exponent if it stays short."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    magnitude = int(f"{value:.{digits - 1}e}".partition("e")[2])
    if not -4 <= magnitude <= 6:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(digits - 1 - magnitude, 0)}f}"


def value_text(value: float | None, unit: str) -> str:
    """Return a metric's value with its unit, scaled to the largest unit that leaves it at least
    1."""
    if value is None:
        return UNKNOWN
    if unit not in STEPS:
        count = not unit and abs(value) < COUNT_BELOW and value == round(value)
        return f"{round(value) if count else significant(value)} {unit}".rstrip()
    steps = STEPS[unit]
    factor, name = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    if float(significant(value / factor)) >= 1000 and factor == 1.0 and unit == "ns":
        factor, name = TIMES[-2]
    scaled = value / factor
    exact = scaled == round(scaled) and (factor == 1.0 or steps is SIZES)
    return f"{round(scaled) if exact else significant(scaled)} {name}"


def share_text(ratio: float, digits: int = 3) -> str:
    """Return a part of something, or how far values scatter: ``0.5 %``, ``more than 100 %``."""
    if ratio > 1:
        return "more than 100 %"
    text = significant(100 * ratio, digits)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


TIME = ("slower", "faster")
"""Words for a ratio of times above and below 1."""
RATE = ("faster", "slower")
AMOUNT = ("more", "less")


def change_text(ratio: float | None, words: tuple[str, str] = TIME) -> str:
    """Format a change: ``+3.1%``, and from a factor of 1.1 on ``1.56× slower`` or ``2.41×
    faster``."""
    return UNKNOWN if ratio is None else _change(ratio, words, "%")


def change_words(ratio: float, words: tuple[str, str] = TIME) -> str:
    """Return the same within a sentence: ``+3.1 %``, ``+0.27 %``, ``2.4× faster``."""
    return _change(ratio, words, " %")


def _change(ratio: float, words: tuple[str, str], percent: str) -> str:
    if ratio <= 0 or not math.isfinite(ratio):
        return f"{ratio:g}×"
    if not 1 / PERCENT_BELOW < ratio < PERCENT_BELOW:
        digits = 3 if percent == "%" else None  # a table has room for one more
        return f"{factor_text(ratio, digits)} {words[ratio < 1]}"
    change = 100 * (ratio - 1)
    return f"{change:+.1f}%" if percent == "%" else f"{change:+.2g} %"


def size_text(ratio: float) -> str:
    """Return the size of a slow-down: ``2.1 %``, ``32 %``, from a factor of two on ``2.4×``."""
    if ratio >= MOST_RATIO:
        return factor_text(ratio)
    return f"{significant(100 * (ratio - 1), 2)} %"


def factor_text(ratio: float, digits: int | None = None) -> str:
    """Format the size of a factor either way: ``1.56×``, ``2.4×``, ``123×``, ``1000+×``."""
    if ratio <= 0 or not math.isfinite(ratio):
        return f"{ratio:g}×"
    size = max(ratio, 1 / ratio)
    if size >= MOST_FACTOR:
        return f"{MOST_FACTOR:.0f}+×"
    if digits is None:
        digits = 3 if size < MOST_RATIO or size >= 100 else 2
    return f"{_bare(significant(size, digits))}×"


def _bare(text: str) -> str:
    """Remove zeros at the end: ``4``."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_too_noisy(low: float | None, high: float | None) -> bool:
    """Return True for an interval that reaches beyond `MOST_RATIO` both ways."""
    if low is None or high is None:
        return False
    if low <= 0 or not math.isfinite(high):
        return True
    return high > MOST_RATIO and low < 1 / MOST_RATIO


def interval_text(low: float | None, high: float | None, words: tuple[str, str] = TIME) -> str:
    """Format both ends as changes, ``+1.2% to +2.4%``; as factors, ``1.3× to 1.5× slower``, once
    one of them leaves ±25 %."""
    return UNKNOWN if low is None or high is None else _interval(low, high, words, "%")


def interval_words(low: float, high: float, words: tuple[str, str] = TIME) -> str:
    """Format both ends of an interval within a sentence, as changes, such as ``+2.4 % to +3.8 %``,
    or as factors."""
    return _interval(low, high, words, " %")


def _interval(low: float, high: float, words: tuple[str, str], percent: str) -> str:
    if is_too_noisy(low, high):
        return NOTHING
    is_far = low >= PERCENT_BELOW or high <= 1 / PERCENT_BELOW
    if low >= 1 / WIDE_INTERVAL and high <= WIDE_INTERVAL and not is_far:
        return " to ".join(
            f"{100 * (end - 1):+.1f}%" if percent == "%" else f"{100 * (end - 1):+.2g} %"
            for end in (low, high)
        )
    if low < 1 < high:
        return f"{factor_text(low)} {words[1]} to {factor_text(high)} {words[0]}"
    ends = (low, high) if low >= 1 else (high, low)
    return f"{factor_text(ends[0])} to {factor_text(ends[1])} {words[low < 1]}"


def change_with_interval(
    ratio: float, low: float, high: float, name: str = "", words: tuple[str, str] = TIME
) -> str:
    """Return a change and the interval around it: ``+3.1% (+2.4% to +3.8%)``. `name` stands before
    the interval; `words` are those for a ratio above and below 1."""
    return f"{change_text(ratio, words)} ({name}{interval_text(low, high, words)})"


def margin_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """Return the wider half of the interval relative to the ratio: ``±0.4%``."""
    if ratio is None or low is None or high is None or not 0 < ratio < math.inf:
        return ""
    if is_too_noisy(low, high):
        return NOTHING
    return f"±{100 * (max(high / ratio, ratio / low) - 1):.1f}%"


def time_text(value: float | None) -> str:
    """Format nanoseconds within a sentence, in which seconds have one blank."""
    return value_text(value, "ns").replace("  ", " ")


def span_text(low: float | None, high: float | None, unit: str = "ns") -> str:
    """Format both ends, or one value if they read the same."""
    if low is None or high is None:
        return UNKNOWN
    first, last = (value_text(end, unit).replace("  ", " ") for end in (low, high))
    return first if first == last else f"{first} to {last}"
