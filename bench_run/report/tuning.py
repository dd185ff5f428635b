"""The record of a tuning as a table: default, winner and gain of every graph, and of the whole."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from bench_schema.tuning import default_quality
from bench_schema.units import NOTHING, count_text, is_too_noisy
from tabulate import tabulate

from bench_run.text import one_line, shorten, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.document import Document
    from bench_schema.tuning import Candidate, DefaultQuality, Ratio, Total, Tuned

NAME_WIDTH = 40
VARIANT_WIDTH = 48


def tuning_table(document: Document) -> str:
    """Return all entries, the whole, how good the default is, and what was tried."""
    tuned = document.tuned
    assert tuned is not None, "it is a record"
    rows = []
    for entry in tuned.entries:
        tied = ", ".join(map(str, entry.tied_with[:6])) + (" …" if entry.tied_with[6:] else "")
        rows.append(
            (
                shorten(one_line(entry.name), NAME_WIDTH),
                time_text(entry.default.time_ns),
                time_text(entry.chosen.time_ns),
                _name(entry.chosen),
                gain_text(entry.gain) if entry.winner else "–",
                tied or "–",
                one_line(entry.reason),
            )
        )
    head = ("graph", "default", "winner", "", "gain", "tied with", "why")
    parts = [tabulate(rows, head, tablefmt="simple", disable_numparse=True), *_whole(tuned)]
    quality = default_quality(tuned)
    if quality:
        parts.append(quality_table(quality))
    parts += [f"note: {one_line(note)}" for note in document.run.notes]
    every = [candidate for entry in tuned.entries for candidate in entry.candidates]
    counts = Counter(candidate.status for candidate in every)
    kinds = ", ".join(f"{count} {status}" for status, count in counts.items())
    rounds = {candidate.rounds for candidate in every if candidate.case is not None}
    confirmed = sum(candidate.case is not None for candidate in every)
    spread = f"{min(rounds)} to {max(rounds)}" if len(rounds) > 1 else f"{max(rounds, default=0)}"
    kinds = f"{kinds}; {confirmed} in {spread} ordinary rounds"
    parts.append(f"{count_text(len(every), 'candidate')}: {kinds}")
    return "\n\n".join(parts)


def quality_table(quality: Sequence[DefaultQuality]) -> str:
    """Return how good the library's own choice is, a row a family."""
    rows = [
        (
            each.family,
            f"{each.beaten} of {each.graphs}",
            f"{each.mean_ratio:.3f}×",
            f"{each.worst_ratio:.3f}×",
            shorten(one_line(each.worst), NAME_WIDTH) if each.worst_ratio > 1 else "–",
        )
        for each in quality
    ]
    head = ("how good is the default?", "beaten", "mean", "worst", "")
    return tabulate(rows, head, disable_numparse=True)


def _name(candidate: Candidate) -> str:
    text = " ".join(f"{axis}={value}" for axis, value in candidate.variant.items())
    return shorten(one_line(text), VARIANT_WIDTH) or "the default"


def gain_text(gain: Ratio | None) -> str:
    """Format a gain: ``1.234× (1.210 to 1.258)``."""
    if gain is None:
        return "not known"
    if gain.low is None or gain.high is None:
        return f"{gain.estimate:.3f}×"
    if is_too_noisy(gain.low, gain.high):
        return NOTHING
    return f"{gain.estimate:.3f}× ({gain.low:.3f} to {gain.high:.3f})"


def verified_table(
    rows: Sequence[tuple[str, Ratio | None, Ratio | None, str | None]], holds: Sequence[bool]
) -> str:
    """Return the table of winners' present gains next to those of the record."""
    lines = [
        (
            shorten(one_line(name), NAME_WIDTH),
            "–" if recorded is None else gain_text(recorded),
            gain_text(measured),
            "holds" if fine else one_line(problem or "not shown to be faster"),
        )
        for (name, recorded, measured, problem), fine in zip(rows, holds, strict=True)
    ]
    return tabulate(lines, ("graph", "recorded", "measured now", ""), disable_numparse=True)


def _whole(tuned: Tuned) -> Iterator[str]:
    whole = tuned.whole
    is_moved = any(entry.winner for entry in tuned.entries)
    if is_moved and whole.default_ns is not None and whole.tuned_ns is not None:
        times = f"{time_text(whole.default_ns)} by default, {time_text(whole.tuned_ns)} tuned"
        yield f"the whole, each graph as often as it occurs: {times}, {gain_text(whole.gain)}"
    if whole.totals and tuned.scope == "global":
        rows = [
            (
                " ".join(f"{a}={v}" for a, v in total.variant.items()) or "the default",
                time_text(total.time_ns),
                "confirmed" if total.confirmed else "estimate",
                "chosen" if total.chosen else "",
                f"not for {len(total.missing)} graphs" if total.missing else "",
            )
            for total in sorted(whole.totals, key=_total_ns)
        ]
        yield tabulate(rows, ("for all graphs", "total", "", "", ""), disable_numparse=True)


def _total_ns(total: Total) -> float:
    return math.inf if total.time_ns is None else total.time_ns
