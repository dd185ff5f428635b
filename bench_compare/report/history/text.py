"""The terminal: what is new first, then all events, the newest first."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from bench_compare.report.history.words import (
    SIGNS,
    change_of,
    counts_text,
    headline,
    noise_text,
    series_text,
    size_text,
    state_of,
)
from bench_compare.report.names import cut, safe
from bench_compare.report.units import value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_compare.history.model import EventInfo, History, LevelChange, SeriesInfo

MOST_CHANGES, MOST_CAUSES, MOST_EVENTS = 6, 4, 30
INDENT = "  "


def render(history: History, width: int) -> str:
    """At most `width` columns, command lines excepted: those are copied as they stand."""
    by_id = {one.id: one for one in history.series}
    blocks = [list(_opening(history, width))]
    blocks += [_event(event, history, by_id, width) for event in history.events[:MOST_EVENTS]]
    if len(history.events) > MOST_EVENTS:
        blocks.append([f"{len(history.events) - MOST_EVENTS} older events: --json, --html"])
    blocks.append(list(_unclear(history, by_id, width)))
    blocks.append(list(_next(history, width)))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _opening(history: History, width: int) -> Iterator[str]:
    yield from _wrapped(f"{safe(headline(history))}", width)
    documents = sum(len(build.documents) for build in history.builds)
    yield from _wrapped(
        f"{safe(history.title)}: {documents} documents, {series_text(history)}",
        width,
    )
    yield from _wrapped(
        f"newest build, against the last accepted level: {counts_text(history)}", width
    )
    noise = noise_text(history)
    if noise and not history.problems:
        yield from _wrapped(noise, width)


def _event(
    event: EventInfo, history: History, by_id: dict[str, SeriesInfo], width: int
) -> list[str]:
    state = state_of(event, history)
    title = f"{SIGNS[event.direction]} {event.id} {safe(event.sentence)}"
    lines = _wrapped(title, width, hang=INDENT)
    facts = [size_text(event), state]
    if event.acknowledged is not None and event.acknowledged.note:
        facts.append(safe(event.acknowledged.note))
    lines += _wrapped(", ".join(fact for fact in facts if fact), width, first=INDENT)
    lines += [
        cut(f"{INDENT}{INDENT}{_change_line(change, by_id, history)}", width)
        for change in event.changes[:MOST_CHANGES]
        if len(event.changes) > 1
    ]
    if len(event.changes) > MOST_CHANGES:
        lines.append(f"{INDENT}{INDENT}and {len(event.changes) - MOST_CHANGES} more")
    for cause in event.causes[:MOST_CAUSES]:
        lines += _wrapped(f"why? {safe(cause)}", width, first=INDENT)
    return [line for line in lines if line]


def _change_line(change: LevelChange, by_id: dict[str, SeriesInfo], history: History) -> str:
    one = by_id[change.series]
    values = ""
    if change.old is not None:
        old, new = (value_text(value, history.unit) for value in (change.old, change.new))
        values = f"  {old} → {new}"
    return f"{change_of(change):>8}  {safe(one.name)} {safe(one.engine)}{values}"


def _unclear(history: History, by_id: dict[str, SeriesInfo], width: int) -> Iterator[str]:
    if not history.unclear:
        return
    yield "unclear in the newest build, a repeat decides:"
    for one in history.unclear[:MOST_CHANGES]:
        series = by_id[one.series]
        moved = 100 * (one.ratio - 1)
        yield cut(f"{INDENT}○ {moved:+.1f}%  {safe(series.name)} {safe(series.engine)}", width)
    if len(history.unclear) > MOST_CHANGES:
        yield f"{INDENT}and {len(history.unclear) - MOST_CHANGES} more"


def _next(history: History, width: int) -> Iterator[str]:
    if not history.suggestions:
        return
    yield "next:"
    for one in history.suggestions:
        yield from _wrapped(safe(one.reason), width, first=INDENT)
        yield f"{INDENT}{INDENT}{safe(one.command)}"


def _wrapped(text: str, width: int, first: str = "", hang: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=first if hang is None else hang,
        break_long_words=True,
        break_on_hyphens=False,
    )
