"""A history as a report: its events, what is unclear, what to run next."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from bench_schema import units
from bench_schema.report import model as m

from bench_compare.history.model import BAD_STATES
from bench_compare.metrics import METRICS
from bench_compare.model import Conclusion
from bench_compare.report.site import CaseEntry

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from bench_compare.history.model import (
        EventInfo,
        History,
        LevelChange,
        SeriesInfo,
        Unclear,
    )

KIND, VERSION = "bench-compare history", 2
DEFAULT_FAIL_ON = frozenset({"new-regression"})
MOST_CHANGES, MOST_CAUSES, MOST_EVENTS = 6, 4, 30
MOST_DETAILS = 20
TONES: dict[str, m.Tone] = {"slower": "bad", "faster": "good", "both": "odd", "none": "fatal"}
SIGNS = {"slower": "▲", "faster": "▼", "both": "◆", "none": "✕"}


def headline(history: History) -> str:
    gating = len(history.gating)
    if gating:
        return f"{gating} new regression{'' if gating == 1 else 's'}, not accepted"
    if history.problems and not history.unclear:
        return "nothing can be said"
    if history.unclear:
        count = len(history.unclear)
        return f"no new regression; {count} case{'' if count == 1 else 's'} unclear"
    return "no new regression"


def counts_text(history: History) -> str:
    return ", ".join(f"{count} {state}" for state, count in history.counts.items()) or "no case"


def series_text(history: History) -> str:
    """Return the counts of series as text: ``3 series of device time, 1 of end-to-end time``."""
    counts = Counter(METRICS[one.metric].title for one in history.series).most_common()
    parts = [f"{count} series of {name}" for name, count in counts[:1]]
    return ", ".join([*parts, *(f"{count} of {name}" for name, count in counts[1:])]) or "no series"


def noise_text(history: History) -> str:
    """Return a phrase on the largest slow-down that the newest documents may hide; empty if it is
    not known."""
    if history.noise.hidden_ratio is None:
        return ""
    limit = units.change_words(history.noise.hidden_ratio).removesuffix(" slower")
    return f"no slow-down above {limit} is hidden (99 %)"


def state_of(event: EventInfo, history: History) -> str:
    if event.gates:
        return "new"
    if event.acknowledged is not None:
        return event.acknowledged.kind
    if event.undone is not None:
        return f"undone by {history.builds[event.undone].name}"
    return ""


def size_text(event: EventInfo) -> str:
    """Format the size of an event, ``+3.1% (+2.4% to +3.8%)``; empty if it is not a time."""
    one = event.changes[0]
    if one.ratio is None or one.low is None or one.high is None:
        return ""
    too_noisy = units.is_too_noisy(one.low, one.high)
    return units.NOTHING if too_noisy else units.change_with_interval(one.ratio, one.low, one.high)


def change_of(change: LevelChange) -> str:
    return change.text or units.change_text(change.ratio)


def place_text(event: EventInfo, history: History) -> str:
    names = [history.builds[at].name for at in (event.earliest, event.latest)]
    if event.kind == "slope" or event.earliest != event.latest:
        return f"{names[0]} to {names[1]}"
    return history.builds[event.build].name


def conclude(
    history: History, fail_on: Container[str] = DEFAULT_FAIL_ON, *, allow_no_answer: bool = False
) -> Conclusion:
    """`fail_on`: words of the command's ``--fail-on``."""
    if history.gating and "new-regression" in fail_on:
        worst = max(history.gating, key=lambda event: event.cost_ratio)
        size = size_text(worst)
        parts = [f"{headline(history)}: {worst.sentence}", *([size] if size else [])]
        return Conclusion("FAIL", ", ".join(parts))
    hint = None if history.repeat is None else history.repeat.command
    if history.problems:
        return Conclusion("UNDECIDED", history.problems[0], hint, allow_no_answer)
    if history.unclear and "unclear" in fail_on:
        return Conclusion("UNDECIDED", headline(history), hint, allow_no_answer)
    told = f"{headline(history)} (not counted)" if history.gating else headline(history)
    parts = [told, noise_text(history)]
    return Conclusion("PASS", "; ".join(part for part in parts if part))


def report_of(history: History, conclusion: Conclusion) -> m.Report:
    return m.Report(
        conclusion=conclusion,
        body=partial(body_of, history),
        payload=lambda: m.Payload(record(history)),
        page=partial(page_of, history),
        suite=partial(suite_of, history),
    )


def record(history: History) -> dict[str, Any]:
    """Return the history as JSON values. ``rerun`` holds the open cases, with the path of the graph
    in the run, its fingerprint and the engine's key, for ``bench-run --rerun-from``."""
    changed = {change.series for event in history.gating for change in event.changes}
    wanted = changed | {one.series for one in history.unclear}
    rerun = [
        {"fingerprint": one.fingerprint, "engine": one.engine, "path": one.path}
        for one in history.series
        if one.id in wanted
    ]
    return {"kind": KIND, "version": VERSION, **asdict(history), "rerun": rerun}


def body_of(history: History) -> m.Body:
    by_id = {one.id: one for one in history.series}
    documents = sum(len(build.documents) for build in history.builds)
    noise = "" if history.problems else noise_text(history)
    events = m.Table(
        columns=tuple(map(m.Column, ("", "build", "what", "change", "state", "why"))),
        rows=tuple(_event_row(event, history, by_id) for event in history.events),
        entries=True,
        most=MOST_EVENTS,
        more="older events: --json, --html",
    )
    unclear = m.Table(
        columns=(m.Column("series", least=12), m.Column("engine"), m.Column("what")),
        rows=tuple(
            m.ReportRow((m.Name(by_id[one.series].name), by_id[one.series].engine, _open(one)))
            for one in history.unclear
        ),
        title="Unclear in the newest build, a repeat decides",
        lead="unclear in the newest build, a repeat decides:",
        most=MOST_CHANGES,
        more="more",
    )
    return m.Body(
        headline=headline(history),
        problems=tuple(history.problems),
        statements=(
            f"{history.title}: {units.count_text(documents, 'document')}, {series_text(history)}",
            *([f"all cases: {history.shared}"] if history.shared else []),
            f"newest build, against the last accepted level: {counts_text(history)}",
            *([noise] if noise else []),
        ),
        tables=(events, unclear),
        commands_title="Next",
        commands=tuple(m.Command(one.reason, one.command) for one in history.suggestions),
    )


def _event_row(event: EventInfo, history: History, by_id: dict[str, SeriesInfo]) -> m.ReportRow:
    known = event.acknowledged
    note = "" if known is None else known.note
    size, state = size_text(event), state_of(event, history)
    title = f"{event.id} {event.sentence}"
    lines = [", ".join(fact for fact in (size, state, note) if fact)]
    if len(event.changes) > 1:
        for change in event.changes[:MOST_CHANGES]:
            one, values = by_id[change.series], ""
            if change.old is not None:
                ends = (units.value_text(value, history.unit) for value in (change.old, change.new))
                values = f"  {' → '.join(ends)}"
            lines.append(f"  {change_of(change):>8}  {one.name} {one.engine}{values}")
    if len(event.changes) > MOST_CHANGES:
        lines.append(f"  and {len(event.changes) - MOST_CHANGES} more")
    lines += [f"why? {cause}" for cause in event.causes[:MOST_CAUSES]]
    details: list[str] = []
    if len(event.changes) > 1 or len(event.causes) > 1:
        for change in event.changes[:MOST_DETAILS]:
            one = by_id[change.series]
            details.append(f"{change_of(change)} {one.name} ({one.engine})")
        if len(event.changes) > MOST_DETAILS:
            details.append(f"and {len(event.changes) - MOST_DETAILS} more")
        details += [f"why? {cause}" for cause in event.causes]
    cause = event.causes[0] if event.causes else ""
    where = place_text(event, history)
    return m.ReportRow(
        (event.id, where, event.sentence, size, state, cause),
        m.State(event.direction, TONES[event.direction], SIGNS[event.direction]),
        name=f"{event.id}: {event.sentence}",
        entry=(title, *(line for line in lines if line)),
        details=tuple(details),
        commands=tuple(m.Command(one.reason, one.command) for one in event.suggestions),
        id=event.id,
    )


def _open(one: Unclear) -> str:
    """Return what the newest documents of a series leave open."""
    if one.alone:
        return f"one document is {units.change_words(one.ratio)}"
    return f"a slow-down {one.limit} may be hidden"


def suite_of(history: History) -> m.TestSuite:
    """Return the test suite: each series is a test; a new regression fails it, an unclear one is
    skipped."""
    name = f"bench-compare history: {history.title}"
    return m.TestSuite(name, _tests(history), output=(headline(history),))


def _tests(history: History) -> Iterator[m.Test]:
    for number, problem in enumerate(history.problems, start=1):
        yield m.Test("history", f"problem {number}", "error", problem, "no answer", problem)
    unclear = {one.series: _open(one) for one in history.unclear}
    for one in history.series:
        mine = [e for e in history.events if any(c.series == one.id for c in e.changes)]
        bad = [
            e
            for e in mine
            if e.gates
            and any(
                c.series == one.id and not c.acknowledged and (c.ratio is None or c.ratio > 1)
                for c in e.changes
            )
        ]
        result: dict[str, Any] = _failure(bad, history) if bad else {}
        if not bad and one.id in unclear:
            result = {"result": "skipped", "message": f"unclear: {unclear[one.id]}"}
        lines = [
            f"{e.id} {e.sentence} {size_text(e)} {state_of(e, history)}".rstrip() for e in mine
        ]
        name = f"{one.name} {one.apart}".rstrip()
        yield m.Test(f"{one.engine}.{one.family}", name, **result, output=tuple(lines))


def _failure(events: Sequence[EventInfo], history: History) -> dict[str, Any]:
    lines = [f"{e.sentence} {size_text(e)} {state_of(e, history)}".rstrip() for e in events]
    lines += [f"why? {cause}" for event in events for cause in event.causes]
    broken = any(event.kind in BAD_STATES for event in events)
    return {
        "result": "error" if any(event.kind == "broken" for event in events) else "failure",
        "message": lines[0],
        "kind": events[0].kind if broken else "slower",
        "text": "\n".join(lines),
    }


CHARTS_OPEN = 12
"""Series whose charts are open: those that moved last."""


def page_of(history: History) -> m.Page:
    """Return the report with a table of all series, and a chart for each."""
    newest = _newest_events(history)
    order = sorted(history.series, key=lambda one: -newest.get(one.id, -1))
    charts = [
        _chart(one, history, is_open=place < CHARTS_OPEN)
        for place, one in enumerate(one for one in order if one.points)
    ]
    first = 1 if charts and order[0].id in newest else 0
    return m.Page(
        kind="tables",
        title=history.title,
        tables=(*body_of(history).tables, series_table(history)),
        charts=charts[:first],
        more=charts[first:],
    )


def _newest_events(history: History) -> dict[str, int]:
    """Return the build of the newest event of each series."""
    found: dict[str, int] = {}
    for event in history.events:
        for change in event.changes:
            found[change.series] = max(found.get(change.series, -1), event.build)
    return found


STATES: dict[str, tuple[m.Tone, str]] = {
    "slower": ("bad", SIGNS["slower"]),
    "unclear": ("open", "?"),
    "faster": ("good", SIGNS["faster"]),
    "same": ("plain", "●"),
    "not measured": ("plain", "●"),
    "absent": ("plain", "–"),
}
"""Verdicts of series, the worst first; any other one is a case that failed."""
SERIES_ORDER = tuple(STATES)


def state_cell(verdict: str) -> m.State:
    return m.State(verdict, *STATES.get(verdict, ("fatal", SIGNS["none"])))


def series_table(history: History) -> m.Table:
    """Return the table of every series: its state in the newest build, last level, change and
    spread."""
    ranks = {word: place for place, word in enumerate(SERIES_ORDER)}
    rows = []
    for one in history.series:
        cells = (
            m.Name(one.name),
            state_cell(one.verdict),
            m.RatioCell(one.accepted_ratio if one.verdict in ("slower", "faster") else None),
            m.Amount(one.levels[-1].value if one.levels else None, history.unit),
            "" if one.spread_ratio is None else f"±{100 * one.spread_ratio:.2g} %",
        )
        link = f"chart-{one.id}" if one.points else ""
        row = m.ReportRow(cells, id=one.id, link=link, about=one.apart)
        rows.append((ranks.get(one.verdict, -1), row))
    rows.sort(key=lambda pair: pair[0])
    columns = (
        m.Column("series"),
        m.Column("state"),
        m.Column("change", "right"),
        m.Column("last level", "right"),
        m.Column("spread", "right"),
    )
    return m.Table(columns, tuple(row for _, row in rows), title="Series")


def _chart(one: SeriesInfo, history: History, *, is_open: bool) -> m.Chart:
    from bench_compare.report.figures.levels import levels

    mine = [e for e in history.events if any(change.series == one.id for change in e.changes)]
    return m.Chart(
        levels(one, history),
        title=one.name,
        note=", ".join(filter(None, (one.apart, *(e.id for e in mine)))),
        label=f"{one.name}: {len(one.points)} documents, {len(one.levels)} levels",
        id=f"chart-{one.id}",
        open=is_open,
    )


def case_entries(history: History, page: str) -> list[CaseEntry]:
    """Return the cases for the index of a site, the worst first; `page`: address of the charts."""
    found = []
    newest = max(len(history.builds) - 1, 1)
    ranks = {word: place for place, word in enumerate(SERIES_ORDER)}
    for one in sorted(history.series, key=lambda one: ranks.get(one.verdict, -1)):
        state = state_cell(one.verdict)
        moved = one.verdict in ("slower", "faster") and one.accepted_ratio is not None
        found.append(
            CaseEntry(
                name=one.name,
                about=one.apart,
                tone=state.tone,
                mark=state.mark,
                state=units.change_text(one.accepted_ratio) if moved else state.word,
                link=f"{page}#chart-{one.id}" if one.points else page,
                points=tuple((p.build / newest, math.log(p.value)) for p in one.points),
                levels=tuple(
                    (
                        level.first / newest,
                        math.log(level.value),
                        level.last / newest,
                        math.log(level.end_value or level.value),
                    )
                    for level in one.levels
                ),
            )
        )
    return found
