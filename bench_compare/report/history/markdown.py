"""Markdown for an issue or a job's summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_compare.report.history.words import (
    change_of,
    counts_text,
    headline,
    noise_text,
    place_text,
    series_text,
    size_text,
    state_of,
)
from bench_compare.report.markdown import prose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_compare.history.model import EventInfo, History, SeriesInfo

MOST_EVENTS, MOST_CHANGES = 50, 20


def render(history: History, width: int = 80) -> str:  # noqa: ARG001
    return "\n".join(_lines(history)) + "\n"


def _lines(history: History) -> Iterator[str]:
    by_id = {one.id: one for one in history.series}
    yield f"## {prose(headline(history))}"
    yield ""
    yield f"{prose(history.title)}, {series_text(history)}. "
    yield f"Newest build, against the last accepted level: {counts_text(history)}."
    noise = noise_text(history)
    if noise:
        yield f"Sensitivity: {noise}."
    for problem in history.problems:
        yield f"\n**{prose(problem)}**"
    if history.events:
        yield "\n| | build | what | change | state | why |"
        yield "| --- | --- | --- | --- | --- | --- |"
    for event in history.events[:MOST_EVENTS]:
        yield _row(event, history)
    if len(history.events) > MOST_EVENTS:
        yield f"\n{len(history.events) - MOST_EVENTS} older events are not shown."
    for event in history.events[:MOST_EVENTS]:
        yield from _details(event, by_id)
    yield from _next(history)


def _row(event: EventInfo, history: History) -> str:
    cells = (
        event.id,
        place_text(event, history),
        event.sentence,
        size_text(event),
        state_of(event, history),
        event.causes[0] if event.causes else "",
    )
    return f"| {' | '.join(prose(cell) for cell in cells)} |"


def _details(event: EventInfo, by_id: dict[str, SeriesInfo]) -> Iterator[str]:
    if len(event.changes) < 2 and len(event.causes) < 2:
        return
    yield f"\n<details><summary>{event.id}: {prose(event.sentence)}</summary>\n"
    for change in event.changes[:MOST_CHANGES]:
        one = by_id[change.series]
        yield f"- {prose(change_of(change))} {prose(one.name)} ({prose(one.engine)})"
    if len(event.changes) > MOST_CHANGES:
        yield f"- and {len(event.changes) - MOST_CHANGES} more"
    for cause in event.causes:
        yield f"- why? {prose(cause)}"
    yield "\n</details>"


def _next(history: History) -> Iterator[str]:
    if history.suggestions:
        yield "\n### Next"
    for one in history.suggestions:
        fence = "```" if "```" not in one.command else "~~~~"
        yield f"\n{prose(one.reason)}\n\n{fence}sh\n{one.command}\n{fence}"
