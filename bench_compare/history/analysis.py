"""An archive → what its history says: the pure core behind the command."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.units import change_words

from bench_compare.comparison.judge import FLOORS, on
from bench_compare.comparison.reasons import HIDDEN_RATIO, HIDDEN_SHARE
from bench_compare.history import series
from bench_compare.history.attribution import build_infos
from bench_compare.history.events import again, from_states, from_step
from bench_compare.history.model import History, Noise, Suggestion, Unclear
from bench_compare.history.states import state_changes
from bench_compare.history.steps.detect import ALONE, detect
from bench_compare.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.history.accepted import Placed
    from bench_compare.history.archive import Archive
    from bench_compare.history.model import EventInfo
    from bench_compare.history.steps.detect import Findings

LEAST_DOCUMENTS = 4
"""Two levels of two documents."""
USUAL = 0.1
"""Expected number of odd values in a build from which on one more is usual."""


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
                if placed.covers(one.name):
                    pins.setdefault(row, []).append(column)
    findings = detect(archive.grid, least, pins, FLOORS[on(archive.metric)])
    context = series.Context(archive, findings, tuple(accepted), least, settings.since)
    events = [from_step(context, event) for event in findings.events]
    events += from_states(context, state_changes(archive))
    events.sort(key=lambda event: (-event.build, -abs(math.log(event.cost_ratio)), event.sentence))
    newest = (event for event in events if event.latest >= settings.since)
    reported = [replace(event, id=f"e{n}") for n, event in enumerate(newest, start=1)]
    unclear = tuple(_unclear(findings))
    open_ = {one.series for one in unclear}
    rows = [row for row in range(len(archive.series)) if series.identifier(row) in open_]
    table = series.infos(context, rows)
    clear = [one.hidden_ratio for one in table if one.hidden_ratio and one.id not in open_]
    first, last = archive.builds[0], archive.builds[-1]
    count = len(archive.builds)
    repeat = None
    if unclear:
        repeat = again(archive, len(unclear), max(one.needed for one in unclear))
    return History(
        title=f"{count} build{'' if count == 1 else 's'}, {first.name} to {last.name}",
        metric=archive.metric,
        unit=METRICS[archive.metric].unit,
        builds=build_infos(archive),
        shared=series.apart_and_shared(archive)[1],
        series=tuple(table),
        events=tuple(reported),
        unclear=unclear,
        repeat=repeat,
        suggestions=_suggestions(reported, repeat)[: settings.suggestions],
        accepted=tuple(accepted),
        noise=Noise(
            correlation=float(np.median([one.correlation for one in findings.tracks])),
            odd_ratio=findings.tracks[0].share(0.0),
            hidden_ratio=max(clear, default=None),
        ),
        counts=series.counts(table),
        remarks=(
            *remarks,
            *_unused(archive, accepted, events),
            *_other_unit(archive),
            *(
                f"{doc.path}: the run was not finished; cases may be missing"
                for doc in last.documents
                if not doc.held.complete
            ),
        ),
        problems=(*_problems(archive, findings), *_doubts(archive, findings, unclear)),
    )


def _unclear(findings: Findings) -> Iterator[Unclear]:
    """Yield series whose single newest document stands out, or whose documents may hide much, the
    worst first."""
    for one in sorted(findings.newest, key=lambda one: (-one.shift, -one.hidden)):
        wide = one.hidden > math.log(HIDDEN_RATIO) or one.point > ALONE
        if one.shift or wide:
            ratio = math.exp(one.shift or min(one.hidden, 50.0))
            yield Unclear(series.identifier(one.row), ratio, bool(one.shift), one.needed)


def _suggestions(events: Sequence[EventInfo], repeat: Suggestion | None) -> tuple[Suggestion, ...]:
    """Return the measurements that decide most: unclear newest cases, then gating events by
    cost."""
    found = [] if repeat is None else [repeat]
    for event in sorted(events, key=lambda one: (not one.gates, -one.cost_ratio)):
        if event.acknowledged is None and event.undone is None:
            found += event.suggestions
    return tuple({one.command: one for one in reversed(found)}.values())[::-1]


def _unused(
    archive: Archive, accepted: Sequence[Placed], events: Sequence[EventInfo]
) -> Iterator[str]:
    names = {series.identifier(row): one.name for row, one in enumerate(archive.series)}
    for placed in accepted:
        if not any(
            placed.overlaps(event.earliest, event.latest)
            and any(placed.covers(names[change.series]) for change in event.changes)
            for event in events
        ):
            yield f"{placed.entry.where}: no event of the archive is there"


def _other_unit(archive: Archive) -> Iterator[str]:
    """Yield a sentence for each build from which on no document is from the hardware of those
    before."""
    seen = {column.unit: column.build for column in archive.columns}
    first = 0
    for build in sorted({column.build for column in archive.columns})[1:]:
        before = {c.unit for c in archive.columns if first <= c.build < build}
        if before and all(seen[unit] < build for unit in before):
            new = sorted({c.unit for c in archive.columns if c.build >= build})
            yield (
                f"from {archive.builds[build].name} on no document is of the hardware before "
                f"({', '.join(sorted(before))}; now {', '.join(new)}): levels across are not "
                "held against each other"
            )
            first = build


def _problems(archive: Archive, findings: Findings) -> Iterator[str]:
    """Yield why nothing can be said."""
    documents = len({column.doc.path for column in archive.columns})
    newest = archive.builds[-1].name
    held = archive.grid.values[:, archive.grid.build == len(archive.builds) - 1]
    if documents < LEAST_DOCUMENTS:
        count = f"{documents} document{'' if documents == 1 else 's'}"
        yield f"{count}: a history needs {LEAST_DOCUMENTS}, two on either side of a step"
    elif not np.isfinite(archive.grid.values).any():
        yield f"no completed case has {METRICS[archive.metric].title}"
    elif archive.columns[-1].build < len(archive.builds) - 1:
        yield f"the newest build, {newest}, holds no case"
    elif not findings.newest and not findings.events and np.isfinite(held).any():
        yield f"no case has two documents before {newest} on its hardware"


def _doubts(archive: Archive, findings: Findings, unclear: Sequence[Unclear]) -> Iterator[str]:
    """Yield what the newest documents leave open."""
    names = {series.identifier(row): one.name for row, one in enumerate(archive.series)}
    newest = archive.builds[-1].name
    alone = [
        one
        for one in unclear
        if one.alone
        and one.ratio >= math.exp(ALONE)
        and findings.tracks[0].share(math.log(one.ratio) / 2) * len(archive.series) < USUAL
    ]
    if alone:
        more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
        what = f"{names[alone[0].series]}{more}"
        yield f"one document of {newest} is {change_words(alone[0].ratio)} ({what}): repeat it"
    hidden = [one for one in unclear if not one.alone]
    if len(hidden) > HIDDEN_SHARE * len(findings.newest):
        worst = hidden[0]
        yield (
            f"{len(hidden)} of {len(findings.newest)} cases may hide a slow-down "
            f"{worst.limit} ({names[worst.series]}): measure {newest} again"
        )
