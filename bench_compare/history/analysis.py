"""An archive → what its history says: the pure core behind the command."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.units import change_text

from bench_compare.history import series
from bench_compare.history.attribution import build_infos
from bench_compare.history.events import Context, decide, from_states, from_step
from bench_compare.history.model import (
    EventInfo,
    History,
    LevelBand,
    Noise,
    Suggestion,
    Unclear,
)
from bench_compare.history.states import state_changes
from bench_compare.history.steps.detect import Odd, detect, odd_heads
from bench_compare.history.steps.hidden import Hidden, hidden
from bench_compare.history.steps.segments import inflation
from bench_compare.history.steps.track import p_value
from bench_compare.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.history.accepted import Placed
    from bench_compare.history.archive import Archive
    from bench_compare.history.steps.detect import Findings

SENSITIVE_DOCUMENTS = 4
POWER_Z = 1.2816
"""Normal quantile of 90 %."""
LEAST_BUILDS = 4
"""Two levels of two documents."""


@dataclass(frozen=True)
class HistorySettings:
    """Settings for judging an archive."""

    threshold_ratio: float = 0.01
    since: int = 0
    """First build whose events are reported and gate."""
    suggestions: int = 3


def analyse(
    archive: Archive,
    accepted: Sequence[Placed],
    settings: HistorySettings,
    remarks: Sequence[str] = (),
) -> History:
    least = math.log1p(settings.threshold_ratio)
    pins: dict[int, list[int]] = {}
    for placed in accepted:
        if placed.first == placed.last:  # a level that begins with a single build does not move
            column = int(np.searchsorted(archive.grid.build, placed.first))
            for row, one in enumerate(archive.series):
                if placed.entry.covers(one.name):
                    pins.setdefault(row, []).append(column)
    findings = detect(archive.grid, least, pins)
    context = Context(archive, findings, tuple(accepted), least, settings.since)
    events = [from_step(context, event) for event in findings.events]
    events += from_states(context, state_changes(archive))
    events.sort(key=lambda event: (-event.build, -abs(math.log(event.cost_ratio)), event.sentence))
    newest = (event for event in events if event.latest >= settings.since)
    reported = [replace(event, id=f"e{n}") for n, event in enumerate(newest, start=1)]
    rows = len(archive.series)
    odd = odd_heads(findings.tracks[:rows], findings.steps, len(archive.builds) - 1, least)
    blind = hidden(findings.tracks[:rows], findings.steps, len(archive.builds) - 1, least)
    table = series.infos(context, [*(one.row for one in odd), *(one.row for one in blind)])
    names = {series.identifier(row): one.name for row, one in enumerate(archive.series)}
    unused = [
        f"{placed.entry.where}: no event of the archive is there"
        for placed in accepted
        if not any(
            placed.first <= event.latest
            and placed.last >= event.earliest
            and (
                not event.changes
                or any(placed.entry.covers(names[change.series]) for change in event.changes)
            )
            for event in events
        )
    ]
    unfinished = [
        f"{doc.path}: the run was not finished; cases may be missing"
        for doc in archive.builds[-1].documents
        if not doc.complete
    ]
    first, last = archive.builds[0], archive.builds[-1]
    count = len(archive.builds)
    return History(
        title=f"{count} build{'' if count == 1 else 's'}, {first.name} to {last.name}",
        metric=archive.metric,
        unit=METRICS[archive.metric].unit,
        builds=build_infos(archive),
        series=tuple(table),
        events=tuple(reported),
        unclear=tuple(
            Unclear(series.identifier(one.row), math.exp(one.shift), one.needed) for one in odd
        ),
        suggestions=_suggestions(context, reported, odd)[: settings.suggestions],
        bands=tuple(LevelBand(p.first, p.last, p.entry.kind, p.entry.note) for p in accepted),
        noise=_noise(findings, rows),
        counts=series.counts(table),
        remarks=(*remarks, *unused, *_other_unit(archive), *unfinished),
        problems=(*_problems(archive), *_blind(blind, rows, archive)),
    )


def _suggestions(
    context: Context, events: Sequence[EventInfo], odd: Sequence[Odd]
) -> tuple[Suggestion, ...]:
    """Return the measurements that decide most: unclear newest cases, then gating events by
    cost."""
    found: list[Suggestion] = []
    if odd:
        doc = context.archive.columns[odd[0].columns[-1]].doc
        repeat = decide(doc, len(odd), max(one.needed for one in odd))
        found += [repeat] if repeat is not None else []
    for event in sorted(events, key=lambda one: (not one.gates, -one.cost_ratio)):
        if event.acknowledged is None and event.undone is None:
            found += event.suggestions
    return tuple({one.command: one for one in reversed(found)}.values())[::-1]


def _other_unit(archive: Archive) -> Iterator[str]:
    """Yield a sentence for each build from which on no document is from the hardware of those
    before."""
    seen: dict[str, int] = {}
    for column in archive.columns:
        seen[column.unit] = column.build
    first = 0
    for build in sorted({column.build for column in archive.columns})[1:]:
        ended = {unit for unit, last in seen.items() if last < build}
        before = {c.unit for c in archive.columns if first <= c.build < build}
        if before and before <= ended:
            new = sorted({c.unit for c in archive.columns if c.build >= build})
            yield (
                f"from {archive.builds[build].name} on no document is of the hardware before "
                f"({', '.join(sorted(before))}; now {', '.join(new)}): levels across are not "
                "held against each other"
            )
            first = build


def _noise(findings: Findings, rows: int) -> Noise:
    noise, correlation = findings.noise, findings.noise.guess.correlation
    known = np.isfinite(noise.variance)
    count = max((len(track) for track in findings.tracks[:rows]), default=0)
    sensitivity = None
    if known.any() and count >= LEAST_BUILDS and findings.limit > 0:
        # The step that four documents show in nine of ten archives.
        low, high = 0.0, 38.0
        for _ in range(50):
            middle = (low + high) / 2
            is_noise = p_value(middle, "head", count) > findings.limit
            low, high = (middle, high) if is_noise else (low, middle)
        sides = np.array([max(count - SENSITIVE_DOCUMENTS, 1)]), np.array([SENSITIVE_DOCUMENTS])
        variance = float(inflation(*sides, correlation)[0])
        variance *= sum(1 / float(side[0]) for side in sides)
        spread = math.sqrt(float(np.median(noise.variance[known])))
        sensitivity = math.exp(min((high + POWER_Z) * spread * math.sqrt(variance), 10.0))
    return Noise(correlation, noise.shared, noise.odd_share, sensitivity)


def _blind(blind: Sequence[Hidden], rows: int, archive: Archive) -> Iterator[str]:
    """Yield the reason for UNDECIDED where noise may hide a step."""
    if not blind:
        return
    worst = max(blind, key=lambda one: one.most)
    documents = len({column.doc.id for column in archive.columns})
    spread = 100 * math.expm1(min(worst.spread, 10.0))
    yield (
        f"{len(blind)} of {rows} case{'' if rows == 1 else 's'} may hide a step of up to "
        f"{change_text(math.exp(min(worst.most, 10.0)))} ({archive.series[worst.row].name}): "
        f"{documents} documents that differ by {spread:.2g} % exclude no less; "
        "more documents of the newest build decide it"
    )


def _problems(archive: Archive) -> tuple[str, ...]:
    documents = len({column.doc.id for column in archive.columns})
    if documents < LEAST_BUILDS:
        return (
            f"{documents} document{'' if documents == 1 else 's'}: a history needs "
            f"{LEAST_BUILDS}, two on either side of a step",
        )
    if not np.isfinite(archive.grid.values).any():
        return (f"no completed case has {METRICS[archive.metric].title}",)
    if archive.columns[-1].build < len(archive.builds) - 1:
        return (f"the newest build, {archive.builds[-1].name}, holds no case",)
    return ()
