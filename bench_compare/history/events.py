"""Events for people: the series, the size, the cause, whether it was accepted, whether it gates."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.units import count_text

from bench_compare.comparison.reasons import run_again
from bench_compare.history.attribution import causes
from bench_compare.history.model import (
    BAD_STATES,
    EventInfo,
    LevelChange,
    Suggestion,
)
from bench_compare.history.series import identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_compare.history.accepted import AcceptedChange, Placed
    from bench_compare.history.archive import Archive
    from bench_compare.history.series import Context
    from bench_compare.history.states import Kind as StateKind
    from bench_compare.history.states import StateChange
    from bench_compare.history.steps.detect import Event, Step

MOST_NAMES = 3


def look(archive: Archive, before: int, after: int, names: Sequence[str]) -> Suggestion:
    """Return the suggestion to compare the documents next to an event."""
    paths = [archive.columns[column].doc.path for column in (before, after)]
    words = ["bench-compare", *paths, "--all"]
    if len(names) == 1:
        words += ["--filter", names[0]]
    place = archive.builds[archive.columns[after].build].name
    return Suggestion(f"all metrics of the documents before and at {place}", shlex.join(words))


def again(archive: Archive, cases: int, needed: int) -> Suggestion | None:
    """Return the suggestion to measure the newest build `needed` times more, so that the documents
    are of that build; None if its command cannot be run again."""
    doc = archive.columns[-1].doc
    command = run_again(doc.held.command, doc.path)
    if command is None:
        return None
    *words, path = shlex.split(command)
    words[-1:-1] = [] if doc.held.label is None else ["--label", doc.held.label]
    line = f"{shlex.join(words)} {shlex.quote(path.removesuffix('.json'))}"
    numbers = " ".join(map(str, range(1, needed + 1)))
    command = f"{line}.json" if needed == 1 else f"for n in {numbers}; do {line}-$n.json; done"
    times = "once more" if needed == 1 else f"{needed} times more"
    what = f"{count_text(cases, 'case')} unclear in the newest build: measure it {times}"
    return Suggestion(what, command)


def from_step(context: Context, event: Event) -> EventInfo:
    archive, lead = context.archive, event.members[0]
    known = {one.row: context.entry(one.row, one.earliest, one.latest) for one in event.members}
    slower = [one for one in event.members if one.shift > 0]
    bad = any(known[one.row] is None for one in slower)
    undone = _undone(context, slower)
    builds = archive.grid.build
    first, last = event.build - 1, event.build
    if lead.kind == "slope":
        first, last = event.earliest, event.latest
    before = {m.row: [c for c in m.before if builds[c] <= first] for m in event.members}
    after = {m.row: [c for c in m.after if builds[c] >= last] for m in event.members}
    names = sorted({archive.series[one.row].name for one in event.members})
    signs = {one.shift > 0 for one in event.members}
    return EventInfo(
        kind="slope" if lead.kind == "slope" else "step",
        direction="both" if len(signs) == 2 else "slower" if slower else "faster",
        build=event.build,
        earliest=event.earliest,
        latest=event.latest,
        changes=tuple(_change(context, m, known[m.row] is not None) for m in event.members),
        cost_ratio=math.exp(sum(one.shift for one in event.members) / len(archive.series)),
        acknowledged=_acknowledged(known.values(), bad),
        undone=undone,
        gates=bad and undone is None and event.latest >= context.since,
        causes=tuple(causes(archive, list(before), before, after)),
        suggestions=(look(archive, lead.before[-1], lead.after[0], names),),
        sentence=_sentence(context, event, names, len(slower)),
    )


def _acknowledged(entries: Iterable[Placed | None], bad: bool) -> AcceptedChange | None:
    return None if bad else next((one.entry for one in entries if one is not None), None)


def _change(context: Context, member: Step, acknowledged: bool) -> LevelChange:
    values = context.archive.grid.values[member.row, list(member.before)]
    old = math.exp(float(np.median(values)))
    ratio, low, high = (math.exp(one) for one in (member.shift, member.low, member.high))
    about = identifier(member.row), acknowledged, None
    return LevelChange(*about, ratio, low, high, member.p, old, old * ratio, len(member.after))


def _undone(context: Context, slower: Sequence[Step]) -> int | None:
    """Return the build from which all slower series are back at the level before; None if one is
    not."""
    ends = []
    for member in slower:
        steps, moved = context.findings.steps[member.row], member.shift
        back = None
        for step in steps[steps.index(member) + 1 :]:
            moved += step.shift
            if moved > context.least:
                back = None
            elif back is None:
                back = int(context.archive.grid.build[step.column])
        if back is None:
            return None
        ends.append(back)
    return max(ends, default=None)


def _sentence(context: Context, event: Event, names: Sequence[str], slower: int) -> str:
    builds, lead, count = context.archive.builds, event.members[0], len(event.members)
    who, first, last = _who(names, count), builds[event.earliest].name, builds[event.latest].name
    word = "slower" if slower else "faster"
    if 0 < slower < count:
        who, word = f"{who}: {slower} slower, {count - slower} faster", ""
    if lead.kind == "slope":
        drift = "drift" if count > 1 else "drifts"
        still = event.latest >= len(builds) - 2
        return f"{who} {drift if still else 'drifted'} {word}{' ' * bool(word)}" + (
            f"since {first}" if still else f"from {first} to {last}"
        )
    place = f"with {builds[event.build].name}"
    if event.earliest < event.latest:
        place += f" (or between {first} and {last})"
    if lead.kind == "alone":
        place += ", one document"
    return " ".join(filter(None, (who, word, place)))


def _who(names: Sequence[str], count: int) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{count} cases ({', '.join(names[:2])} …)"


def from_states(context: Context, changes: Sequence[StateChange]) -> list[EventInfo]:
    """Return state changes as events: cases that change with the same build and reason are one
    event."""
    archive = context.archive
    groups: dict[tuple[StateKind, str, int, int], list[StateChange]] = {}
    for change in changes:
        # First and last build that may have brought it.
        latest = archive.columns[change.after].build
        earliest = min(archive.columns[change.before].build + 1, latest)
        groups.setdefault((change.kind, change.text, earliest, latest), []).append(change)
    events = []
    for (kind, text, earliest, latest), group in groups.items():
        known = {change.row: context.entry(change.row, earliest, latest) for change in group}
        bad = kind in BAD_STATES and None in known.values()
        names = sorted({archive.series[row].name for row in known})
        before = {change.row: [change.before] for change in group}
        after = {change.row: [change.after] for change in group}
        series = archive.series[group[0].row]
        who = f"{series.name} on {series.about}" if len(group) == 1 else _who(names, len(group))
        events.append(
            EventInfo(
                kind=kind,
                direction="none",
                build=latest,
                earliest=earliest,
                latest=latest,
                changes=tuple(
                    LevelChange(identifier(row), one is not None, text)
                    for row, one in known.items()
                ),
                acknowledged=_acknowledged(known.values(), bad),
                gates=bad and latest >= context.since,
                causes=tuple(causes(archive, list(known), before, after)),
                suggestions=(look(archive, group[0].before, group[0].after, names),),
                sentence=f"{who}: {text}, since {archive.builds[latest].name}",
            )
        )
    return events
