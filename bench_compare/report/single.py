"""One document as a report: its cases with their times, rates and validation, what ran them, and
what a reader should know of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from bench_schema import units
from bench_schema.estimate import Time, case_time, time_series
from bench_schema.names import safe
from bench_schema.report import model as m
from bench_schema.report.tuning import tuning_tables

from bench_compare.comparison.circumstances.notes import disturbed_rounds
from bench_compare.model import (
    CaseComparison,
    CaseSide,
    Comparison,
    Conclusion,
    Invocation,
    Side,
    Verdict,
)
from bench_compare.report import words
from bench_compare.report.rows import matches, panels_text, with_panels
from bench_compare.report.tuning_chart import tuning_chart

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from bench_schema.document import Case

    from bench_compare.model import Source, View

KIND, VERSION = "bench-compare run", 1
STATES: dict[str, m.State] = {
    "implausible": m.State("implausible", "fatal", "❌", "bad"),
    "wrong": m.State("wrong", "fatal", "❌", "bad"),
    "crashed": m.State("crashed", "fatal", "❌", "bad"),
    "failed": m.State("failed", "fatal", "❌", "bad"),
    "timed out": m.State("timed out", "fatal", "❌", "bad"),
    "unsupported": m.State("unsupported", "odd", "⚠️", "bad"),
    "skipped": m.State("skipped", "open", "", "quiet"),
    "completed": m.State("completed", "plain", "", "quiet"),
}
"""Worst first; a case that ran with outputs unlike the reference is ``wrong``, one whose time is
not believed ``implausible``."""
JUDGED = ("implausible", "wrong")
"""States of cases that have times."""
FAILED = (*JUDGED, "crashed", "failed", "timed out")
UNGATED = "events"
SORTS = {
    "ratio": "time",
    "difference": "time",
}
"""Orders of a comparison that a single document does not have, and what comes closest."""
HEADS = (
    *("id", "name", "variant", "engine", "family", "data_type", "outcome", "reason", "series"),
    *("time_ns", "ci_low_ns", "ci_high_ns", "tflops", "gbps", "ceiling_share", "validation"),
    *("workspace_bytes", "notes"),
)


@dataclass(frozen=True, eq=False)
class ShownCase:
    """One case of the document."""

    id: str
    case: Case
    notes: tuple[str, ...]

    @cached_property
    def state(self) -> str:
        validation = self.case.validation
        if validation is not None and validation.status == "failed":
            return "wrong"
        if self.case.implausible is not None:
            return "implausible"
        return self.case.outcome.status

    @property
    def name(self) -> str:
        variant = ", ".join(f"{key}={value}" for key, value in self.case.variant.items())
        return f"{self.case.graph.name} [{variant}]" if variant else self.case.graph.name

    @cached_property
    def series(self) -> str | None:
        return time_series(self.case)

    @cached_property
    def time(self) -> Time | None:
        return case_time(self.case)

    @property
    def time_ns(self) -> float | None:
        return None if self.time is None else self.time.ns

    @property
    def interval_ns(self) -> tuple[float | None, float | None]:
        return (None, None) if self.time is None else (self.time.low_ns, self.time.high_ns)

    @property
    def validation(self) -> str:
        if self.case.implausible is not None:
            return "implausible"
        return "" if self.case.validation is None else self.case.validation.status

    @property
    def rates(self) -> tuple[float | None, float | None, float | None]:
        """TFLOP/s, GB/s, share of the ceiling: those of the document, which are at the pooled
        median, at the time."""
        found, time = self.case.achieved, self.time
        if found is None or time is None:
            return (None,) * 3
        pooled = self.case.summary.get(found.series)
        factor = 1.0 if pooled is None or time.ns <= 0 else pooled.median / time.ns
        known = (found.tflops, found.gbps, found.ceiling_share)
        tflops, gbps, share = (None if one is None else one * factor for one in known)
        return tflops, gbps, share

    @property
    def reason(self) -> str:
        """Why there is nothing to hold against others."""
        if self.state == "wrong":
            validation = self.case.validation
            assert validation is not None
            wrong = [one for one in validation.outputs if one.mismatched]
            texts = [f"{o.mismatched} of {o.elements} elements of {o.name}" for o in wrong]
            return validation.reason or f"{', '.join(texts)} differ from {validation.reference}"
        if self.state == "implausible":
            return f"implausible: {self.case.implausible}"
        outcome = self.case.outcome
        where = "" if outcome.phase is None else f"in {outcome.phase.replace('_', ' ')}: "
        return f"{where}{outcome.reason or outcome.status}"


@dataclass(frozen=True, eq=False)
class ShownRun:
    source: Source
    invocation: Invocation = field(default_factory=Invocation)

    @cached_property
    def cases(self) -> tuple[ShownCase, ...]:
        document = self.source.document
        return tuple(
            ShownCase(f"c{place:04}", case, tuple(self._notes(case)))
            for place, case in enumerate(document.cases, start=1)
        )

    def _notes(self, case: Case) -> Iterator[str]:
        """Yield kinds of notes on the samples, each with its text."""
        if case.implausible is not None:
            yield f"implausible: {case.implausible}"
        ungated = sum(one.device_timing == UNGATED for one in case.rounds)
        if ungated:
            yield f"ungated: {ungated} of {len(case.rounds)} rounds were timed without a gate"
        disturbed = disturbed_rounds(case, self.source.document)
        if disturbed:
            what = ", ".join(dict.fromkeys(disturbed.values()))
            yield f"disturbed: {len(disturbed)} of {len(case.rounds)} rounds, {what}"
        yield from (f"note: {text}" for text in case.notes)

    @cached_property
    def side(self) -> Side:
        run = self.source.document.run
        keys = tuple(engine.key for engine in self.source.document.engines)
        return Side(run.label or self.source.path, (self.source,), keys)

    @cached_property
    def counts(self) -> list[tuple[m.State, int]]:
        found = Counter(one.state for one in self.cases)
        return [(state, found[word]) for word, state in STATES.items() if found[word]]

    @property
    def problems(self) -> tuple[str, ...]:
        if not any(one.time_ns for one in self.cases):
            return (f"{self.source.path}: nothing was measured",)
        without = [one for one in self.cases if one.state == "completed" and not one.time_ns]
        if not without:
            return ()
        more = "" if len(without) == 1 else f" and {len(without) - 1} more"
        count = f"{len(without)} of {units.count_text(len(self.cases), 'case')}"
        return (f"{count} completed without a time ({without[0].name}{more})",)

    @property
    def warnings(self) -> tuple[str, ...]:
        complete = self.source.document.run.complete
        return () if complete else ("the run was not finished: cases or rounds may be missing",)

    @property
    def notes(self) -> tuple[str, ...]:
        """Each kind with its cases; a note of one case in full."""
        kinds: dict[str, list[tuple[ShownCase, str]]] = {}
        for one in self.cases:
            for note in one.notes:
                kind, _, text = note.partition(": ")
                kinds.setdefault(kind, []).append((one, text))
        return tuple(
            f"{kind}: {held[0][0].name}: {held[0][1]}"
            if len(held) == 1
            else f"{kind}: {len(held)} cases, {held[0][0].name} among them ({held[0][1]})"
            for kind, held in kinds.items()
        )

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        return tuple(words.side_facts(self.side).items())


def conclude(run: ShownRun) -> Conclusion:
    """Return the conclusion: FAIL if a case failed, outputs differ from the reference or a time is
    implausible."""
    failed = [one for word in FAILED for one in run.cases if one.state == word]
    total = len(run.cases)
    if failed:
        kinds = Counter(one.state for one in failed)
        parts = [f"{kinds[word]} {word}" for word in FAILED if kinds[word]]
        more = "" if len(failed) == 1 else f" and {len(failed) - 1} more"
        return Conclusion(
            "FAIL",
            f"{', '.join(parts)} of {units.count_text(total, 'case')} ({failed[0].name}{more})",
        )
    passed_over = run.invocation.passed_over
    if run.problems or passed_over:
        doubts = "; ".join((*run.problems, *passed_over[:1]))
        return Conclusion("UNDECIDED", doubts, allowed=run.invocation.allow_no_answer)
    left = [f"{count} {state.word}" for state, count in run.counts if state.word != "completed"]
    unchecked = sum(one.state == "completed" and one.validation != "passed" for one in run.cases)
    if unchecked:
        left.append(f"outputs of {unchecked} not checked")
    return Conclusion("PASS", ", ".join([units.count_text(total, "case"), "none failed", *left]))


def report_of(run: ShownRun, view: View) -> m.Report:
    conclusion = conclude(run)
    return m.Report(
        conclusion=conclusion,
        body=partial(body_of, run, view),
        payload=partial(payload_of, run, conclusion),
        page=partial(page_of, run, view),
        records=partial(records_of, run, view),
        suite=partial(suite_of, run),
    )


def _shown(run: ShownRun, view: View) -> list[ShownCase]:
    """Return the cases that pass the filter, in the requested order."""
    order = SORTS.get(view.sort, view.sort)
    ranks = {word: rank for rank, word in enumerate(STATES)}
    keys: dict[str, Any] = {
        "name": lambda one: one.name,
        "family": lambda one: (one.case.graph.family, one.name),
        "time": lambda one: -(one.time_ns or 0.0),
        "news": lambda one: ranks[one.state] if one.state in FAILED else len(ranks),
        "document": lambda _one: 0,
    }
    cases = []
    for one in run.cases:
        graph = one.case.graph
        texts = [graph.name, graph.family, one.case.engine, graph.data_type, one.state]
        texts += [f"{name}={value}" for name, value in one.case.variant.items()]
        if view.filter is None or matches(texts, view.filter):
            cases.append(one)
    return sorted(cases, key=keys[order])


def body_of(run: ShownRun, view: View) -> m.Body:
    total = sum(one.time_ns or 0.0 for one in run.cases)
    measured = sum(one.time_ns is not None for one in run.cases)
    tuned = run.source.document.tuned
    together = f"{measured} measured, {units.value_text(total, 'ns')} one after the other"
    return m.Body(
        headline=run.side.label,
        counted=len(run.cases),
        counts=tuple(run.counts),
        problems=run.problems,
        warnings=run.warnings,
        facts=run.facts,
        statements=(together,) if measured else (),
        tables=(*([] if tuned is None else tuning_tables(tuned)), _table(run, _shown(run, view))),
        notes=run.notes,
        most_notes=12,
    )


def _table(
    run: ShownRun,
    shown: Sequence[ShownCase],
    about: Mapping[str, str] | None = None,
    opened: Container[str] = (),
) -> m.Table:
    """Return the table of cases. `about`: on the page, lines below their names; `opened`: the ids
    of cases that have a panel."""
    engines = len({one.case.engine for one in run.cases}) > 1
    columns = (
        m.Column("outcome", head=""),
        m.Column("case", least=18),
        *([m.Column("engine", share=7)] if engines else ()),
        m.Column("time", "right", optional=True),
        m.Column("95 % CI", "right", optional=True, spare=4),
        m.Column("compute", "right", optional=True, spare=2),
        m.Column("memory", "right", optional=True, spare=1),
        m.Column("of ceiling", "right", optional=True, spare=3),
        m.Column("validation", optional=True),
    )
    rows = []
    for one in shown:
        tflops, gbps, share = one.rates
        (low, high), time_ns = one.interval_ns, one.time_ns
        interval = m.RatioInterval(None, None, None)
        if low is not None and high is not None and time_ns:
            interval = m.RatioInterval(1.0, low / time_ns, high / time_ns)
        numbers = (
            m.Amount(one.time_ns, "ns"),
            interval,
            m.Amount(tflops, "TFLOP/s"),
            m.Amount(gbps, "GB/s"),
            m.Amount(None if share is None else 100 * share, "%"),
            one.validation,
        )
        name = safe(one.name)
        state = STATES[one.state]
        rows.append(
            m.ReportRow(
                (state, m.Name(name), *([m.Name(one.case.engine)] if engines else ()), *numbers),
                state,
                name=f"{name} on {safe(one.case.engine)}" if engines else name,
                reason=one.reason if one.time_ns is None or one.state in JUDGED else None,
                link=one.id if one.id in opened else "",
                about="" if about is None else about[one.id],
            )
        )
    folded = ("More that failed", "", "Cases that ran")
    stacked = "{time} {95_percent_CI} {validation}"
    foot = "" if about is None else panels_text(len(rows))
    return m.Table(columns, tuple(rows), ranked=True, folded=folded, stacked=stacked, foot=foot)


def payload_of(run: ShownRun, conclusion: Conclusion) -> m.Payload:
    """Return the payload; its schema is `single_v1.json` next to this file."""
    return m.Payload(
        {
            "kind": KIND,
            "version": VERSION,
            "exit_code": conclusion.exit_code,
            "document": run.source.path,
            "label": run.side.label,
            "complete": run.source.document.run.complete,
            "problems": list(run.problems),
            "warnings": list(run.warnings),
            "notes": list(run.notes),
            "facts": dict(run.facts),
            "counts": {state.word: count for state, count in run.counts},
            "cases": [],
        },
        "cases",
        len(run.cases),
        lambda part: [_record(one) for one in run.cases[part.start : part.stop]],
    )


def _record(one: ShownCase) -> dict[str, Any]:
    case, (low, high), (tflops, gbps, share) = one.case, one.interval_ns, one.rates
    return {
        "id": one.id,
        "name": case.graph.name,
        "variant": dict(case.variant),
        "engine": case.engine,
        "family": case.graph.family,
        "data_type": case.graph.data_type,
        "fingerprint": case.graph.fingerprint,
        "path": case.graph.path,
        "outcome": case.outcome.status,
        "reason": case.outcome.reason,
        "series": one.series,
        "time_ns": one.time_ns,
        "ci_low_ns": low,
        "ci_high_ns": high,
        "tflops": tflops,
        "gbps": gbps,
        "ceiling_share": share,
        "validation": None if case.validation is None else case.validation.status,
        "workspace_bytes": None if case.memory is None else case.memory.workspace_bytes,
        "notes": list(one.notes),
    }


def records_of(run: ShownRun, view: View) -> m.Records:
    shown = _shown(run, view)

    def groups(part: range) -> Iterator[tuple[Sequence[Any], list[Sequence[Any]]]]:
        for one in shown[part.start : part.stop]:
            record = _record(one)
            variant = " ".join(f"{key}={value}" for key, value in one.case.variant.items())
            told = record | {"variant": variant, "notes": "; ".join(one.notes)}
            cells = [told[name] for name in HEADS]
            yield cells[:1], [cells[1:]]

    return m.Records(HEADS, len(shown), groups)


def suite_of(run: ShownRun) -> m.TestSuite:
    """Return the test suite of a run: a failed case is an error, wrong outputs are a failure, a
    case that was not run is skipped."""
    return m.TestSuite(f"bench-compare {run.side.label}", _tests(run), dict(run.facts), run.notes)


def _tests(run: ShownRun) -> Iterator[m.Test]:
    for number, problem in enumerate(run.problems, start=1):
        yield m.Test("run", f"problem {number}", "error", problem, "not measured", problem)
    for one in run.cases:
        result: dict[str, Any] = {}
        if one.state in FAILED:
            tag = "failure" if one.state in JUDGED else "error"
            message = f"{one.state}: {one.reason}"
            result = {"result": tag, "message": message, "kind": one.state, "text": one.reason}
        elif one.state != "completed":
            result = {"result": "skipped", "message": f"{one.state}: {one.reason}"}
        facts = {"id": one.id, "fingerprint": one.case.graph.fingerprint, "outcome": one.state}
        if one.validation:
            facts["validation"] = one.validation
        if one.time_ns is not None:
            low, high = one.interval_ns
            facts |= {
                "time": units.value_text(one.time_ns, "ns"),
                "interval_95": units.span_text(low, high),
            }
        group = f"{one.case.engine}.{one.case.graph.family}"
        yield m.Test(group, one.name, **result, properties=facts, output=one.notes)


def page_of(run: ShownRun, view: View) -> m.Page:
    """Return the page of a run, whose details are those of a comparison with only a base."""
    from bench_compare.report.html.panel import Panels

    comparison = Comparison(
        base=run.side,
        others=(),
        gate=None,
        metrics=(),
        differences=(),
        cases=tuple(map(_alone, run.cases)),
        suite=(),
        movements=(),
        counts={},
        bad_news=(),
        problems=(),
    )
    panels = Panels(comparison, ("run",), {})
    shown = _shown(run, replace(view, filter=None))
    first = [*_shown(run, view), *_shown(run, replace(view, filter=None, sort="news"))]
    opened = with_panels(one.id for one in first)
    many = len({one.case.engine for one in run.cases}) > 1
    about = {one.id: _about(one, many) for one in run.cases}
    tuned, label, path = run.source.document.tuned, run.side.label, run.source.path
    tuning = [] if tuned is None else tuning_tables(tuned)
    gains = None if tuned is None else tuning_chart(tuned)
    return m.Page(
        kind="single",
        title=label if label == path else f"{label} · {path}",
        tables=(*tuning, _table(run, shown, about, opened)),
        charts=(*([] if gains is None else [gains]), *_charts(run)),
        panels=(
            panels.of(alone, STATES[one.state], about[one.id], ())
            for alone, one in zip(comparison.cases, run.cases, strict=True)
            if one.id in opened
        ),
        filter=view.filter or "",
    )


def _about(one: ShownCase, many: bool) -> str:
    graph = one.case.graph
    noted = dict.fromkeys(note.partition(":")[0] for note in one.notes)
    engine = one.case.engine if many else ""
    texts = (graph.family, graph.data_type, engine, *(kind for kind in noted if kind != "note"))
    return " · ".join(text for text in texts if text and text != words.UNKNOWN)


def _percent(share: float) -> str:
    return f"{units.significant(100 * share, 3)} %"


def _color(state: m.State) -> str:
    return "other" if state.tone == "plain" else state.tone


MOST_NAMED = 40
"""Cases that the first figure names."""


def _charts(run: ShownRun) -> Iterator[m.Chart]:
    """Yield the slowest cases, and all cases under the ceilings of the device."""
    from bench_compare.report.figures.base import time_scale
    from bench_compare.report.figures.palette import LOOKS
    from bench_compare.report.figures.rows import Mark, named_rows

    measured = [(time, one) for one in run.cases if (time := one.time_ns)]
    slowest = sorted(measured, key=lambda pair: -pair[0])[:MOST_NAMED]
    if not slowest:
        return
    factor, unit = time_scale(slowest[0][0])
    marks = []
    for time, one in slowest:
        low, high = (None if end is None else end / factor for end in one.interval_ns)
        share = one.rates[2]
        of = "" if share is None else f", {_percent(share)} of ceiling"
        state = STATES[one.state]
        wrong = "" if one.state == "completed" else f" {one.state}"
        tone = _color(state)
        text = f"{units.value_text(time, 'ns')}{of}{wrong}"
        marks.append(
            Mark(one.name, time / factor, text, low, high, tone, LOOKS[one.state].symbol, one.id)
        )
    more = "" if len(measured) <= MOST_NAMED else f" ({MOST_NAMED} of {len(measured)})"
    axis = {"rangemode": "tozero", "title": {"text": f"time of one execution, {unit}"}}
    title = "Slowest cases"
    told = f"with 95 % intervals{more}"
    yield m.Chart(
        named_rows(marks, axis, bars=True),
        title,
        told,
        id="slowest",
        label="Time of each case; the table below has the same numbers",
    )
    yield from _roofline(run, [one for _, one in measured])


def _roofline(run: ShownRun, measured: Sequence[ShownCase]) -> Iterator[m.Chart]:
    """Yield the cases under the ceilings of their device, if these were measured."""
    from bench_compare.report.figures.roofline import RooflinePoint, roofline

    devices = [d for d in run.source.document.machine.devices if d.ceiling_gbps]
    points, types = [], set()
    for one in measured:
        tflops, _, share = one.rates
        intensity = one.case.work.intensity
        if tflops and intensity:
            of = "" if share is None else f", {_percent(share)} of the ceiling"
            text = f"{units.value_text(tflops, 'TFLOP/s')}{of}"
            color = _color(STATES[one.state])
            points.append(RooflinePoint(one.name, intensity, tflops, text, color, one.id))
            types.add(one.case.graph.data_type.lower())
    if points and devices:
        peaks = {n: v for n, v in devices[0].ceiling_tflops.items() if n.lower() in types}
        figure = roofline(points, devices[0].ceiling_gbps or 0.0, peaks)
        told = "the lines are ceilings that were measured on this device"
        about = "Compute rate over arithmetic intensity of each case"
        yield m.Chart(figure, "Roofline", told, about, id="roofline")


def _alone(one: ShownCase) -> CaseComparison:
    case = one.case
    return CaseComparison(
        id=one.id,
        name=case.graph.name,
        fingerprint=case.graph.fingerprint,
        family=case.graph.family,
        data_type=case.graph.data_type,
        engine=case.engine,
        variant=case.variant,
        other_label="",
        base=CaseSide(case.graph.name, case.engine, (case,), (0,)),
        other=None,
        verdict=Verdict.UNMEASURED,
        make_reason=partial(_told, one),
        gate=one.series,
        metrics={},
    )


def _told(one: ShownCase) -> str:
    """Return the head of the panel."""
    if one.time_ns is None or one.state in JUDGED:
        return one.reason
    low, high = one.interval_ns
    interval = "" if low is None else f" (95 % {units.span_text(low, high)})"
    return ", ".join([f"{units.value_text(one.time_ns, 'ns')}{interval}", *_rate_texts(one)])


def _rate_texts(one: ShownCase) -> list[str]:
    tflops, gbps, share = one.rates
    parts = [
        "" if tflops is None else units.value_text(tflops, "TFLOP/s"),
        "" if gbps is None else units.value_text(gbps, "GB/s"),
        "" if share is None else f"{_percent(share)} of the ceiling",
    ]
    return [part for part in parts if part]
