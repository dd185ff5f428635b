"""Events for people: the series, the size, the cause, whether it was accepted, whether it gates."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.reasons import run_again
from bench_compare.history.attribution import causes
from bench_compare.history.model import (
    BAD_STATES,
    Acknowledgement,
    EventInfo,
    LevelChange,
    Suggestion,
)
from bench_compare.history.series import identifier, outgrown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.history.accepted import Placed
    from bench_compare.history.archive import Archive
    from bench_compare.history.builds import Doc
    from bench_compare.history.states import StateChange
    from bench_compare.history.steps.detect import Event, EventMember, Findings


MOST_DOCUMENTS = 9
PLACE_Z = 3.0
"""Standard deviations by which repeats should tell the levels on either side of a build apart."""


def look(archive: Archive, before: int, after: int, names: Sequence[str]) -> Suggestion:
    """Return the suggestion to compare the documents next to an event."""
    paths = [archive.columns[column].doc.path for column in (before, after)]
    words = ["bench-compare", *paths, "--all"]
    if len(names) == 1:
        words += ["--filter", names[0]]
    place = archive.builds[archive.columns[after].build].name
    return Suggestion(f"all metrics of the documents before and at {place}", shlex.join(words))


def narrow(
    archive: Archive, earliest: int, latest: int, shift: float, spread: float
) -> Suggestion | None:
    """Return the suggestion of the builds of a gap to measure again, and how often, to place the
    event; None if that is not possible."""
    builds = archive.builds[max(earliest - 1, 0) : latest + 1]
    number = documents_for(shift, spread)
    newest = builds[-1].documents[-1]
    command = run_again(newest.command, newest.path)
    if len(builds) < 2 or command is None:
        return None
    names = f"{builds[0].name} to {builds[-1].name}"
    reason = (
        f"its place: each of the {len(builds)} builds from {names} "
        f"{number} time{'' if number == 1 else 's'} more, with that build installed"
    )
    return Suggestion(reason, command)


def documents_for(shift: float, spread: float) -> int:
    """Return the number of documents of one build that separate two levels."""
    if not shift:
        return MOST_DOCUMENTS
    return max(1, min(MOST_DOCUMENTS, math.ceil(2 * (PLACE_Z * spread / abs(shift)) ** 2)))


def decide(doc: Doc, cases: int, needed: int) -> Suggestion | None:
    """Return the suggestion to repeat the newest build `needed` times; None if its command cannot
    be run again."""
    command = run_again(doc.command, doc.path)
    if command is None:
        return None
    reason = (
        f"{cases} case{' is' if cases == 1 else 's are'} unclear in the newest build: "
        f"measure it {needed} time{'' if needed == 1 else 's'} more"
    )
    return Suggestion(reason, command)


MOST_NAMES = 3


@dataclass(frozen=True, eq=False)
class Context:
    archive: Archive
    findings: Findings
    accepted: tuple[Placed, ...]
    least: float
    """Smallest step of interest, a logarithm."""
    since: int


def from_step(context: Context, event: Event) -> EventInfo:
    rows = len(context.archive.series)
    members = [member for member in event.members if member.row < rows]
    known = {m.row: _entry(context, m.row, event.earliest, event.latest) for m in members}
    grown: dict[int, float] = {}
    for row, placed in known.items():
        if placed is not None:
            track, steps = context.findings.tracks[row], context.findings.steps[row]
            more = outgrown(track, steps, placed, context.least)
            grown |= {row: more} if more is not None else {}
    known |= dict.fromkeys(grown)
    changes = tuple(_change(context, m, known[m.row] is not None) for m in members)
    slower = [m for m in members if m.shift > 0] if members else []
    undone = _undone(context, slower)
    open_ = [m for m in slower if known[m.row] is None]
    alone = not members and event.shift > 0  # only the suite as a whole stepped
    entry = next((one for one in known.values() if one is not None), None)
    if alone:
        entry = next(
            (
                placed
                for placed in context.accepted
                if placed.first <= event.latest
                and placed.last >= event.earliest
                and "*" in placed.entry.cases
            ),
            None,
        )
    bad = bool(open_) or (alone and entry is None)
    signs = {member.shift > 0 for member in members} or {event.shift > 0}
    # Logarithm of what it does to the geometric mean over all series.
    cost = sum(m.shift for m in members) / max(rows, 1) if members else event.shift
    return EventInfo(
        id="",
        kind="slope" if event.slope else "step",
        direction="both" if len(signs) == 2 else "slower" if True in signs else "faster",
        build=event.build,
        earliest=event.earliest,
        latest=event.latest,
        ratio=math.exp(event.shift),
        low=math.exp(event.low),
        high=math.exp(event.high),
        p=event.p,
        all_cases=len(members) < len(event.members),
        changes=changes,
        cost_ratio=math.exp(cost),
        acknowledged=None if entry is None or bad else _acknowledged(entry),
        undone=undone,
        gates=bad and undone is None and event.latest >= context.since,
        causes=tuple(_causes(context, event, grown)),
        suggestions=tuple(_suggestions(context, event, members)),
        sentence=_sentence(context, event, members),
    )


def _entry(context: Context, row: int, earliest: int, latest: int) -> Placed | None:
    """Return the entry of the events file for a series at that place."""
    name = context.archive.series[row].name
    return next(
        (
            placed
            for placed in context.accepted
            if placed.first <= latest and placed.last >= earliest and placed.entry.covers(name)
        ),
        None,
    )


def _acknowledged(placed: Placed) -> Acknowledgement:
    entry = placed.entry
    return Acknowledgement(entry.kind, entry.note, entry.link, entry.where)


def _change(context: Context, member: EventMember, acknowledged: bool) -> LevelChange:
    values = context.archive.grid.values[member.row]
    old = float(np.median(values[list(member.before)])) if member.before else math.nan
    return LevelChange(
        series=identifier(member.row),
        ratio=math.exp(member.shift),
        low=math.exp(member.low),
        high=math.exp(member.high),
        old=math.exp(old) if math.isfinite(old) else None,
        new=math.exp(old + member.shift) if math.isfinite(old) else None,
        text=None,
        acknowledged=acknowledged,
    )


def _undone(context: Context, slower: Sequence[EventMember]) -> int | None:
    """Return the build from which all slower series are back at the level before; None if one is
    not."""
    ends = []
    for member in slower:
        track = context.findings.tracks[member.row]
        moved = member.shift
        back = None
        for step in context.findings.steps[member.row]:
            if track.column[step.split] > member.split:
                moved += step.shift
                if moved > context.least:
                    back = None
                elif back is None:
                    back = int(track.build[step.split])
        if back is None:
            return None
        ends.append(back)
    return max(ends, default=None)


def _causes(context: Context, event: Event, grown: Mapping[int, float]) -> Iterator[str]:
    """Yield causes from the documents on either side of the event, at each series' own step; for a
    slope, from those before and after it. `grown`: row → more than was accepted."""
    archive = context.archive
    if grown:
        row = max(grown, key=lambda one: grown[one])
        yield (
            f"accepted, but {archive.series[row].name} grew by "
            f"{100 * math.expm1(grown[row]):.2g} % right after that build: the next one needs an "
            "entry of its own"
        )
    columns = archive.columns
    last = event.earliest if event.slope else event.build
    first = event.latest if event.slope else event.build
    before = {m.row: [c for c in m.before if columns[c].build < last] for m in event.members}
    after = {m.row: [c for c in m.after if columns[c].build >= first] for m in event.members}
    rows = [row for row in before if row < len(archive.series)]
    yield from causes(archive, rows, before, after)


def _suggestions(
    context: Context, event: Event, members: Sequence[EventMember]
) -> list[Suggestion]:
    lead = min(members or event.members, key=lambda member: member.p)
    names = sorted({context.archive.series[m.row].name for m in members})
    found = [look(context.archive, lead.before[-1], lead.after[0], names)]
    if event.latest > event.earliest and not event.slope:
        spread = math.sqrt(float(np.median(context.findings.tracks[lead.row].variance)))
        more = narrow(context.archive, event.earliest, event.latest, lead.shift, spread)
        found = [more, *found] if more is not None else found
    return found


def _sentence(context: Context, event: Event, members: Sequence[EventMember]) -> str:
    names = sorted({context.archive.series[m.row].name for m in members})
    who = _who(names, len(members))
    builds = context.archive.builds
    if event.slope:
        place = f"gradually from {builds[event.earliest].name} to {builds[event.latest].name}"
    elif event.earliest == event.latest:
        place = f"with {builds[event.build].name}"
    else:
        place = (
            f"with {builds[event.build].name} "
            f"(or between {builds[event.earliest].name} and {builds[event.latest].name})"
        )
    if not members:
        return f"all cases together {_word(event.shift)} {place}"
    up = sum(member.shift > 0 for member in members)
    if 0 < up < len(members):
        return f"{who}: {up} slower, {len(members) - up} faster {place}"
    return f"{who} {_word(event.shift)} {place}"


def _word(shift: float) -> str:
    return "slower" if shift > 0 else "faster"


def _who(names: Sequence[str], count: int) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{count} cases ({', '.join(names[:2])} …)"


def from_states(context: Context, changes: Sequence[StateChange]) -> list[EventInfo]:
    """Return state changes as events: cases that change with the same build and reason are one
    event."""
    groups: dict[tuple[str, str, int, int], list[StateChange]] = {}
    for change in changes:
        # First and last build that may have brought it.
        latest = context.archive.columns[change.after].build
        earliest = min(context.archive.columns[change.before].build + 1, latest)
        groups.setdefault((change.kind, change.text, earliest, latest), []).append(change)
    archive, events = context.archive, []
    for (kind, text, earliest, latest), group in groups.items():
        rows = [change.row for change in group]
        known = [_entry(context, row, earliest, latest) for row in rows]
        entry = next((one for one in known if one is not None), None)
        bad = kind in BAD_STATES and None in known
        names = sorted({archive.series[row].name for row in rows})
        before = {change.row: [change.before] for change in group}
        after = {change.row: [change.after] for change in group}
        lead, series = group[0], archive.series[rows[0]]
        who = f"{series.name} on {series.about}" if len(group) == 1 else _who(names, len(group))
        events.append(
            EventInfo(
                id="",
                kind=lead.kind,
                direction="none",
                build=latest,
                earliest=earliest,
                latest=latest,
                ratio=None,
                low=None,
                high=None,
                p=None,
                all_cases=False,
                changes=tuple(
                    LevelChange(
                        identifier(row), None, None, None, None, None, text, one is not None
                    )
                    for row, one in zip(rows, known, strict=True)
                ),
                cost_ratio=1.0,
                acknowledged=None if entry is None or bad else _acknowledged(entry),
                undone=None,
                gates=bad and latest >= context.since,
                causes=tuple(causes(archive, rows, before, after)),
                suggestions=(look(archive, lead.before, lead.after, names),),
                sentence=f"{who}: {text}, since {archive.builds[latest].name}",
            )
        )
    return events
