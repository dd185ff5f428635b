"""The page of a history: one file that opens offline, without a library.

Everything from documents travels as escaped JSON and reaches the page as text; a content security
policy allows exactly our script, by its hash, and no connection to anywhere. Points travel as
logarithms over the last level in steps of 0.01 %, so that 365 documents of 150 series stay small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench_compare.report.history.words import (
    headline,
    noise_text,
    series_text,
    size_text,
    state_of,
)
from bench_compare.report.html import asset, code_of, framed
from bench_compare.report.units import change_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.history.model import EventInfo, History, Level, SeriesInfo, Suggestion

ENTRY = "history_main"
STEPS = 1e4
DIGITS = 6
LEAST_COST = 1.0005
"""Below it an event's cost for the suite is not told."""


def render(history: History, width: int = 80) -> str:  # noqa: ARG001 - a page has no columns
    return framed(
        "history.html",
        title=f"{headline(history)}: {history.title}",
        style=asset("page.css") + asset("history.css"),
        data=page_data(history),
        code=code_of(ENTRY),
    )


def page_data(history: History) -> dict[str, Any]:
    place = {one.id: number for number, one in enumerate(history.series)}
    unclear = {one.series for one in history.unclear}
    return {
        "headline": headline(history),
        "title": history.title,
        "about": series_text(history),
        "unit": history.unit,
        "noise": noise_text(history),
        "counts": dict(history.counts),
        "problems": history.problems,
        "remarks": history.remarks,
        "suggestions": _commands(history.suggestions),
        "builds": {
            "names": [build.name for build in history.builds],
            "documents": [build.documents for build in history.builds],
            "changes": {str(n): b.changes for n, b in enumerate(history.builds) if b.changes},
        },
        "bands": [(band.first, band.last, band.kind, band.note) for band in history.bands],
        "events": [_event(event, history, place) for event in history.events],
        "series": [_series(one, unclear) for one in history.series],
    }


def _commands(suggestions: Sequence[Suggestion]) -> list[tuple[str, str]]:
    return [(one.reason, one.command) for one in suggestions]


def _event(event: EventInfo, history: History, place: dict[str, int]) -> dict[str, Any]:
    known = event.acknowledged
    large = not 1 / LEAST_COST < event.cost_ratio < LEAST_COST
    return {
        "id": event.id,
        "direction": event.direction,
        "build": event.build,
        "sentence": event.sentence,
        "size": size_text(event),
        "state": state_of(event, history),
        "cost": abs(math.log(event.cost_ratio)),
        "costText": change_text(event.cost_ratio) if large else "",
        "gates": event.gates,
        "known": None if known is None else {"note": known.note, "link": known.link},
        "causes": event.causes,
        "suggestions": _commands(event.suggestions),
        "changes": [
            (place[c.series], c.ratio, c.text, _rounded(c.old), _rounded(c.new))
            for c in event.changes
        ],
    }


def _series(one: SeriesInfo, unclear: set[str]) -> dict[str, Any]:
    reference = _reference(one)
    numbers = [point.build for point in one.points]
    units = [point.unit for point in one.points]
    return {
        "id": one.id,
        "name": one.name,
        "engine": one.engine,
        "variant": one.variant,
        "family": one.family,
        "dtype": one.data_type,
        "settings": one.settings,
        "shown": "unclear" if one.id in unclear else one.verdict,
        "spread": one.spread_ratio,
        "accepted": one.accepted_ratio,
        "reference": reference,
        "builds": None if numbers == list(range(len(numbers))) else numbers,
        "steps": [_step(point.value / reference) for point in one.points],
        "halves": [_step(1 + point.half) for point in one.points],
        "units": None if len(set(units)) < 2 else units,
        "levels": [_level(level) for level in one.levels],
    }


def _reference(one: SeriesInfo) -> float:
    if one.levels:
        return one.levels[-1].value
    return one.points[-1].value if one.points else 1.0


def _step(ratio: float) -> int:
    return round(STEPS * math.log(ratio)) if ratio > 0 else 0


def _level(level: Level) -> tuple[Any, ...]:
    values = (level.value, level.low, level.high, level.end_value)
    return (level.first, level.last, *(_rounded(value) for value in values))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
