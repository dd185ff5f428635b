"""The record of a tuning as tables: default, winner and gain of every graph, and of the whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench_schema.report import model as m
from bench_schema.tuning import default_quality
from bench_schema.units import NOTHING, is_too_noisy, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.tuning import Candidate, Ratio, Total, Tuned


def tuning_tables(tuned: Tuned) -> Iterator[m.Table]:
    """Yield the table of all graphs, and how good the library's own choices are."""
    columns = (
        *(m.Column("graph", least=24), m.Column("default", "right"), m.Column("winner", "right")),
        *(m.Column("runs as", least=12, optional=True), m.Column("gain", "right")),
        m.Column("why", least=12, spare=1),
    )
    rows = tuple(
        m.ReportRow(
            (
                m.Name(entry.name),
                m.Amount(entry.default.time_ns, "ns"),
                m.Amount(entry.chosen.time_ns, "ns"),
                variant_text(entry.chosen),
                gain_text(entry.gain) if entry.winner else "-",
                entry.reason,
            )
        )
        for entry in tuned.entries
    )
    yield m.Table(columns, rows, title="Tuning")
    quality = default_quality(tuned)
    if quality:
        heads = ("how good is the default?", "beaten", "mean ×", "worst ×", "graph")
        yield m.Table(
            tuple(m.Column(head, "right" if "×" in head else "left") for head in heads),
            tuple(
                m.ReportRow(
                    (
                        each.family,
                        f"{each.beaten} of {each.graphs}",
                        f"{each.mean_ratio:.3f}",
                        f"{each.worst_ratio:.3f}",
                        each.worst if each.worst_ratio > 1 else "-",
                    )
                )
                for each in quality
            ),
            title="The library's own choice",
        )

    if tuned.whole.totals and tuned.scope == "global":
        yield _totals(tuned.whole.totals)


def _totals(totals: Sequence[Total]) -> m.Table:
    """Return one combination for all graphs a row, the fastest first."""
    heads = ("for all graphs", "total", "how", "chosen", "missing")
    rows = [
        m.ReportRow(
            (
                " ".join(f"{axis}={value}" for axis, value in one.variant.items()) or "the default",
                m.Amount(one.time_ns, "ns"),
                "confirmed" if one.confirmed else "estimate",
                "chosen" if one.chosen else "",
                f"not for {len(one.missing)} graphs" if one.missing else "",
            )
        )
        for one in sorted(totals, key=lambda one: one.time_ns or math.inf)
    ]
    columns = (
        m.Column(head, "right" if head == "total" else "left", optional=True) for head in heads
    )
    return m.Table(tuple(columns), tuple(rows), title="All graphs together")


def whole_text(tuned: Tuned) -> Iterator[str]:
    """Yield a sentence on all graphs together, if tuning moved any."""
    whole = tuned.whole
    moved = any(entry.winner for entry in tuned.entries)
    if moved and whole.default_ns is not None and whole.tuned_ns is not None:
        times = f"{time_text(whole.default_ns)} by default, {time_text(whole.tuned_ns)} tuned"
        gain = gain_text(whole.gain)
        yield f"the whole, each graph as often as it occurs: {times}, {gain}"


def variant_text(candidate: Candidate) -> str:
    return " ".join(f"{axis}={value}" for axis, value in candidate.variant.items())


def gain_text(gain: Ratio | None) -> str:
    """Format a gain: ``1.234× (1.210 to 1.258)``."""
    if gain is None:
        return "not known"
    if gain.low is None or gain.high is None:
        return f"{gain.estimate:.3f}×"
    if is_too_noisy(gain.low, gain.high):
        return NOTHING
    return f"{gain.estimate:.3f}× ({gain.low:.3f} to {gain.high:.3f})"
