"""The record of a tuning as a table: default, winner and gain of every graph, and of the whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench_schema.units import NOTHING, is_too_noisy
from tabulate import tabulate

from bench_run.text import one_line, shorten, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.tuning import Candidate, Ratio, TunedRecord

NAME_WIDTH = 40
VARIANT_WIDTH = 48


def tuning_table(record: TunedRecord) -> str:
    """Return all entries, the whole, and the cost."""
    rows = []
    for entry in record.entries:
        default, winner = entry.candidates[entry.default], entry.candidates[entry.winner]
        tied = ", ".join(map(str, entry.tied_with[:6])) + (" …" if entry.tied_with[6:] else "")
        rows.append(
            (
                shorten(one_line(entry.name), NAME_WIDTH),
                time_text(default.time_ns),
                time_text(winner.time_ns),
                _name(winner),
                gain_text(entry.gain) if entry.winner != entry.default else "–",
                tied or "–",
                one_line(entry.reason),
            )
        )
    head = ("graph", "default", "winner", "", "gain", "tied with", "why")
    parts = [tabulate(rows, head, tablefmt="simple", disable_numparse=True), *_whole(record)]
    parts += [f"note: {one_line(note)}" for note in record.notes]
    counts = Counter(each.status for entry in record.entries for each in entry.candidates)
    kinds = ", ".join(f"{count} {status}" for status, count in counts.items())
    cost = record.cost
    parts.append(
        f"{sum(counts.values())} candidates: {kinds}\n"
        f"{cost.builds} builds and {cost.executions} executions in the race, "
        f"{cost.race_s:.0f} s; {cost.confirm_s:.0f} s to confirm"
    )
    return "\n\n".join(parts)


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


def _whole(record: TunedRecord) -> Iterator[str]:
    whole = record.whole
    if whole.default_ns is not None and whole.tuned_ns is not None:
        times = f"{time_text(whole.default_ns)} by default, {time_text(whole.tuned_ns)} tuned"
        yield f"the whole, each graph as often as it occurs: {times}, {gain_text(whole.gain)}"
    if whole.totals and record.settings.scope == "global":
        rows = [
            (
                " ".join(f"{a}={v}" for a, v in total.variant.items()) or "the default",
                time_text(total.time_ns),
                "confirmed" if total.confirmed else "estimate",
                "chosen" if total.chosen else "",
                f"not for {len(total.missing)} graphs" if total.missing else "",
            )
            for total in whole.totals
        ]
        yield tabulate(rows, ("for all graphs", "total", "", "", ""), disable_numparse=True)
