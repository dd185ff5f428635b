"""Sentences that the formats of a history share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench_compare.report.units import change_text, interval_text

if TYPE_CHECKING:
    from bench_compare.history.model import EventInfo, History, LevelChange

NOTABLE_RATIO = 0.02
"""Share of odd values that is worth a word."""
SIGNS = {"slower": "▲", "faster": "▼", "both": "◆", "none": "✕"}


def headline(history: History) -> str:
    gating = len(history.gating)
    if gating:
        return f"{gating} new regression{'' if gating == 1 else 's'}, not accepted"
    if history.problems:
        return "nothing can be said"
    if history.unclear:
        count = len(history.unclear)
        return f"no new regression; {count} case{'' if count == 1 else 's'} unclear"
    return "no new regression"


def counts_text(history: History) -> str:
    return ", ".join(f"{count} {state}" for state, count in history.counts.items()) or "no case"


def series_text(history: History) -> str:
    """``3 series of device_ns, 1 of e2e_ns``."""
    counts = Counter(one.metric for one in history.series).most_common()
    parts = [f"{count} series of {name}" for name, count in counts[:1]]
    return ", ".join([*parts, *(f"{count} of {name}" for name, count in counts[1:])]) or "no series"


def noise_text(history: History) -> str:
    """What could have been seen."""
    noise = history.noise
    parts = []
    if noise.sensitivity_ratio is not None:
        parts.append(
            f"a slow-down of {change_text(noise.sensitivity_ratio)} would be seen within four "
            "documents in nine of ten"
        )
    if noise.correlation > 0:
        parts.append(f"neighbouring documents correlate by {noise.correlation:.2f}")
    if noise.odd_ratio > NOTABLE_RATIO:
        parts.append(f"{100 * noise.odd_ratio:.0f} % of single values are odd")
    return "; ".join(parts)


def state_of(event: EventInfo, history: History) -> str:
    if event.gates:
        return "new"
    if event.acknowledged is not None:
        return event.acknowledged.kind
    if event.undone is not None:
        return f"undone by {history.builds[event.undone].name}"
    return ""


def size_text(event: EventInfo) -> str:
    """``+3.1% (+2.4% to +3.8%)``; empty where it is no time."""
    if event.ratio is None:
        return ""
    return f"{change_text(event.ratio)} ({interval_text(event.low, event.high)})"


def change_of(change: LevelChange) -> str:
    return change.text or change_text(change.ratio)


def place_text(event: EventInfo, history: History) -> str:
    names = [history.builds[at].name for at in (event.earliest, event.latest)]
    if event.kind == "slope" or event.earliest != event.latest:
        return f"{names[0]} to {names[1]}"
    return history.builds[event.build].name
