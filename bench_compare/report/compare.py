"""A comparison as a report."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from bench_schema import units
from bench_schema.names import safe
from bench_schema.report import model as m
from bench_schema.report.cells import counts_text

from bench_compare.comparison.reasons import conclude
from bench_compare.metrics import METRICS
from bench_compare.model import MetricComparison, Verdict
from bench_compare.report import words
from bench_compare.report.defaults import default_texts
from bench_compare.report.figures.palette import LOOKS
from bench_compare.report.rows import QUIET, SORTS, panels_text, rows, with_panels
from bench_compare.report.why import case_changes, kinds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from bench_compare.model import (
        BadNews,
        CaseComparison,
        CaseSide,
        Comparison,
        Conclusion,
        Side,
        View,
    )
    from bench_compare.report.figures.rows import Mark
    from bench_compare.report.why import SideChange

COMPARE_VERSION = 3
BRIEF_FACTS = ("host", "device", "engine", "sampling")
APPEARED = (Verdict.FIXED, Verdict.ADDED)
NO_NUMBERS = frozenset({*words.VANISHED, *APPEARED})
"""Verdicts printed as a sentence, without numbers to put side by side."""
STATES: dict[Verdict, m.State] = {
    Verdict.BROKEN: m.State("broken", "fatal", "❌", "bad"),
    Verdict.NEWLY_WRONG: m.State("newly wrong", "fatal", "❌", "bad"),
    Verdict.REMOVED: m.State("removed", "fatal", "❌", "bad"),
    Verdict.NEWLY_UNSUPPORTED: m.State("newly unsupported", "bad", "❌", "bad"),
    Verdict.WRONG: m.State("wrong", "bad", "❌", "bad"),
    Verdict.LOST: m.State("lost", "bad", "❌", "bad"),
    Verdict.INCOMPARABLE: m.State("incomparable", "odd", "⚠️", "bad"),
    Verdict.SLOWER: m.State("slower", "bad", "🔺", "bad"),
    Verdict.WORSE: m.State("worse", "bad", "🔺", "bad"),
    Verdict.CLOCK: m.State("clock", "odd", "⏱️", "bad"),
    Verdict.FASTER: m.State("faster", "good", "🔹", "good"),
    Verdict.BETTER: m.State("better", "good", "🔹", "good"),
    Verdict.FIXED: m.State("fixed", "good", "✅", "good"),
    Verdict.ADDED: m.State("added", "plain", "", "good"),
    Verdict.UNCLEAR: m.State("unclear", "open"),
    Verdict.UNMEASURED: m.State("not measured"),
    Verdict.SAME: m.State("same"),
}
NO_ANSWER = frozenset({Verdict.UNCLEAR, Verdict.INCOMPARABLE, Verdict.UNMEASURED})
NOTHING = m.Amount(None, "")
MOST_WARNINGS = 50
MOST_UNCLEAR = 40
METRIC_FIELDS = tuple(
    "reason" if name == "make_reason" else name
    for name in MetricComparison.__struct_fields__
    if name != "metric"
)
metric_values = attrgetter(*METRIC_FIELDS)
CASE_HEADS = (
    *("id", "verdict", "name", "variant", "engine", "other_label", "family", "data_type"),
    *("fingerprint", "reason", "changes", "notes", "unfinished", "allowed"),
)
"""``unfinished``: the sides of which a run did not reach its end; ``allowed``: the verdict is bad
news that ``--allow`` names."""
METRIC_HEADS = (
    *("metric", "unit", "base", "other", "ratio", "ci_low", "ci_high", "p", "q"),
    *("metric_verdict", "threshold_ratio", "base_rounds", "other_rounds", "unit_of_rounds"),
    *("provisional", "rounds_needed", "seen_from_ratio"),
)
WARNINGS = "comparison_warnings"
"""The last column, the same in every row: what a reader must know of the whole comparison."""


def report_of(comparison: Comparison, view: View) -> m.Report:
    conclusion = conclude(comparison)
    return m.Report(
        conclusion=conclusion,
        body=partial(body_of, comparison, view),
        payload=partial(payload_of, comparison, conclusion),
        page=partial(page_of, comparison, view),
        records=partial(records_of, comparison, view),
        suite=partial(suite_of, comparison),
    )


MOST_NAMED = 40
"""Cases that the first figure names; more are in a second one."""
EDGE = 1.08


def page_of(comparison: Comparison, view: View) -> m.Page:
    from bench_compare.report.html.panel import Panels

    changes = [case_changes(case) for case in comparison.cases]
    about = {
        case.id: _about(case, own) for case, own in zip(comparison.cases, changes, strict=True)
    }
    panels = Panels(comparison, ("base", "other"), STATES)
    order = sorted(comparison.cases, key=SORTS[view.sort])
    first = [*rows(comparison, view), *sorted(order, key=SORTS["news"])]
    opened = with_panels(case.id for case in first)
    tables = [_matrix(comparison, opened)] if words.many_others(comparison) else []
    return m.Page(
        kind="compare",
        title=words.title(comparison),
        tables=(*tables, _table(comparison, order, (), about, opened)),
        charts=tuple(_charts(comparison)),
        panels=(
            panels.of(case, STATES[case.verdict], about[case.id], own)
            for case, own in zip(comparison.cases, changes, strict=True)
            if case.id in opened
        ),
        facts=[("How it was judged", [*comparison.policy.items()]), *_notes_of(comparison)],
        filter=view.filter or "",
    )


def _about(case: CaseComparison, changes: Sequence[SideChange]) -> str:
    """Return the line below the name of a case: what it is, what else differs, its notes."""
    variant = ", ".join(f"{k}={v}" for k, v in case.variant.items())
    different = ", ".join(kinds(changes))
    noted = dict.fromkeys(note.kind for note in case.notes)
    parts = (
        case.family,
        case.data_type,
        variant,
        f"was {case.base.name}" if case.renamed and case.base else "",
        f"different {different}" if different else "",
        ", ".join(noted),
    )
    return " · ".join(part for part in parts if part and part != words.UNKNOWN)


def _notes_of(comparison: Comparison) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield what the documents say of themselves; a note of several documents comes once."""
    owners: dict[str, dict[str, None]] = {}
    for side in (comparison.base, *comparison.others):
        for source in side.sources:
            for text in source.notes:
                owners.setdefault(text, {})[side.label] = None
    rows = [(", ".join(labels), text) for text, labels in owners.items()]
    if rows:
        yield "Notes in the documents", rows


def _charts(comparison: Comparison) -> Iterator[m.Chart]:
    """Yield a figure of the cases by name, worst first, and of all cases if they are too many."""
    from bench_compare.report.figures.base import ratio_axis
    from bench_compare.report.figures.rows import named_rows
    from bench_compare.report.figures.spread import spread

    measured = [c for c in sorted(comparison.cases, key=SORTS["news"]) if _ratio(c) is not None]
    if not measured:
        return
    many = words.many_others(comparison)
    marks = [_mark(case, many) for case in measured]
    shown = marks[:MOST_NAMED]
    ends = [1.0, 0.98, 1.02, *(end for one in shown for end in (one.low, one.high) if end)]
    limit = comparison.threshold_ratio
    if limit is None:  # graphs have separate thresholds, or it was not judged
        found = {c.metrics[c.gate].threshold_ratio for c in measured if c.gate}
        limit = found.pop() if len(found) == 1 else None
    band = None if limit is None else (1 / (1 + limit), 1 + limit)
    title = {"title": {"text": f"{_gate_title(measured)}, other against base"}}
    axis = ratio_axis(min(ends) / EDGE, max(ends) * EDGE) | title
    within = "" if limit is None else f"; grey: within the threshold of {units.share_text(limit)}"
    more = len(marks) > MOST_NAMED
    which = f"the first {MOST_NAMED} of {len(marks)} measured" if more else "every measured case"
    yield m.Chart(
        named_rows(shown, axis, band=band, line=1.0),
        "Change of each case",
        f"worst first, with 95 % intervals{within} ({which})",
        "Change of each case with its interval; the table below has the same numbers",
        id="overview",
    )
    if more:
        yield m.Chart(
            spread(marks, band),
            f"All {len(marks)} measured cases",
            "sorted by change; press one to open it",
            "Changes of all cases with their intervals, sorted",
            id="spread",
        )


def _gate_title(cases: Sequence[CaseComparison]) -> str:
    """Return the compared quantity in words: ``device time, median``."""
    names = dict.fromkeys(case.gate for case in cases if case.gate)
    return " or ".join(f"{METRICS[name].title}, {METRICS[name].statistic}" for name in names)


def _ratio(case: CaseComparison) -> float | None:
    metric = case.gate_metric
    return None if metric is None or not metric.ratio or metric.ratio <= 0 else metric.ratio


def _mark(case: CaseComparison, many: bool) -> Mark:
    from bench_compare.report.figures.rows import Mark

    metric, name = case.gate_metric, words.case_name(case)
    assert metric is not None
    known, state = METRICS[metric.metric], STATES[case.verdict]
    low = metric.ci_low if metric.ci_low and metric.ci_low > 0 else None
    noisy = units.is_too_noisy(metric.ci_low, metric.ci_high)
    change = "too noisy to tell" if noisy else units.change_text(metric.ratio, known.words)
    shown = _in_words(change, case.verdict)
    values = " → ".join(units.value_text(v, known.unit) for v in (metric.base, metric.other))
    interval = (
        "" if low is None else f"; 95 % {units.interval_text(low, metric.ci_high, known.words)}"
    )
    return Mark(
        f"{name} · {case.other_label}" if many else name,
        metric.ratio,
        shown,
        low,
        None if low is None else metric.ci_high,
        state.tone,
        LOOKS[case.verdict.value].symbol,
        case.id,
        f"{name}: {shown}, {values}{interval}",
    )


def _in_words(change: str, verdict: Verdict) -> str:
    """Return a change with the word of its verdict, if it does not say it itself."""
    if verdict in (Verdict.FASTER, Verdict.SLOWER) and change.endswith("%"):
        return f"{change.lstrip('+-')} {verdict}"
    return change if change.endswith(str(verdict)) else f"{change} {verdict}"


def _matrix(comparison: Comparison, opened: Container[str]) -> m.Table:
    """Return a table with a row for each graph of the base, and a column for each other side."""
    groups: dict[object, dict[str, CaseComparison]] = {}
    for case in comparison.cases:
        key = id(case.base.cases[0]) if case.base else (case.name, *case.variant.items())
        groups.setdefault(key, {})[case.other_label] = case
    labels = [side.label for side in comparison.others]
    rows = []
    for held in groups.values():
        first = next(iter(held.values()))
        cells: list[m.Cell] = [m.Name(words.case_name(first)), words.values(first)[0]]
        cells += [_matrix_cell(held[label], opened) if label in held else "-" for label in labels]
        rows.append(m.ReportRow(tuple(cells), link=first.id if first.id in opened else ""))
    columns = (m.Column("case"), m.Column("base", "right"), *(m.Column(label) for label in labels))
    return m.Table(columns, tuple(rows), title="Each case on every side")


def body_of(comparison: Comparison, view: View) -> m.Body:
    many = words.many_others(comparison)
    sides = [("base", comparison.base), *(("other", side) for side in comparison.others)]
    numbers = [
        (f"{safe(number.other_label)}: " if many else "") + words.suite_text(number)
        for number in words.headline_numbers(comparison)
    ]
    statements = [
        *numbers,
        *words.movement_texts(comparison),
        *default_texts(comparison),
        *words.sensitivity_texts(comparison),
        words.why_text(comparison),
        *words.launch_texts(comparison),
    ]
    shown, hidden = split_rows(comparison, view)
    told = []
    for role, side in sides:
        facts, number = words.side_facts(side), len(side.sources)
        lead = f"{number} documents" if number > 1 else facts["documents"]
        told.append(m.SideFacts(role, side.label, lead, facts))
    return m.Body(
        labels=tuple(side.label for _, side in sides),
        problems=comparison.problems,
        warnings=comparison.warnings,
        sides=tuple(told),
        brief=BRIEF_FACTS,
        differences=tuple(
            m.FactDifference(d.name, d.base, d.other, d.other_label, d.must_agree)
            for d in comparison.differences
        ),
        counted=len(comparison.cases),
        counts=tuple((STATES[verdict], count) for verdict, count in words.counts(comparison)),
        statements=tuple(text for text in statements if text),
        tables=(_table(comparison, shown, hidden),),
        also=tuple(words.news_text(news) for news in words.other_bad_news(comparison)),
        closing=tuple(_closing(comparison, shown, view)),
    )


def split_rows(
    comparison: Comparison, view: View
) -> tuple[list[CaseComparison], list[CaseComparison]]:
    """Return the cases that the terminal shows, and the others: unasked those with news, and
    suspects; where all that was measured is unclear, these rows are the answer."""
    order = rows(comparison, view)
    quiet = [case for case in order if case.verdict in QUIET and not case.is_suspect]
    if view.all or not quiet:
        return list(order), []
    shown = [case for case in order if case.verdict not in QUIET or case.is_suspect]
    if not comparison.counts.get(Verdict.SAME) and all(case.verdict in QUIET for case in shown):
        shown = [case for case in order if case.verdict is Verdict.UNCLEAR][:MOST_UNCLEAR]
        kept = {case.id for case in shown}
        quiet = [case for case in order if case.id not in kept]
    return shown, quiet


def _matrix_cell(case: CaseComparison, opened: Container[str]) -> m.State:
    link = case.id if case.id in opened else ""
    metric, state = case.gate_metric, STATES[case.verdict]._replace(link=link)
    if metric is None or metric.ratio is None or units.is_too_noisy(metric.ci_low, metric.ci_high):
        return state
    word = _in_words(units.change_text(metric.ratio), case.verdict)
    return state._replace(word=word, mark=LOOKS[case.verdict.value].sign)


def _table(
    comparison: Comparison,
    shown: Sequence[CaseComparison],
    hidden: Sequence[CaseComparison],
    about: Mapping[str, str] | None = None,
    opened: Container[str] = (),
) -> m.Table:
    """Return the table of cases. `about`: on the page, lines below their names; there it has a
    column more. `opened`: the ids of cases that have a panel."""
    engines, others = words.many_engines(comparison), words.many_others(comparison)
    allowed = words.allowed_cases(comparison)
    columns = (
        m.Column("verdict", head=""),
        m.Column("case", least=18),
        *([m.Column("engine", share=7)] if engines else ()),
        *([m.Column("of", group=True)] if others else ()),
        m.Column("base", "right"),
        m.Column("other", "right"),
        *([m.Column("difference", "right")] if about is not None else ()),
        m.Column("change", "right"),
        m.Column("95 % CI", "center" if about is None else "right"),
    )

    def row(case: CaseComparison) -> m.ReportRow:
        metric = case.gate_metric
        state = STATES[case.verdict]._replace(doubt="?" if words.provisional(case) else "")
        if case.id in allowed:
            state = state._replace(word=f"{state.word}, allowed", tone="plain", mark="")
        name = words.case_name(case)
        numbers: tuple[m.Cell, ...] = (NOTHING, NOTHING, "", "")
        moved: tuple[m.Cell, ...] = () if about is None else (m.Amount(None, ""),)
        if metric is not None:
            known = METRICS[metric.metric]
            is_noise = units.is_too_noisy(metric.ci_low, metric.ci_high)
            if about is not None and metric.base is not None and metric.other is not None:
                moved = (m.Amount(metric.other - metric.base, known.unit),)
            numbers = (
                m.Amount(metric.base, known.unit),
                m.Amount(metric.other, known.unit),
                m.RatioCell(None if is_noise else metric.ratio, known.words),
                m.RatioInterval(metric.ratio, metric.ci_low, metric.ci_high, known.words),
            )
        cells: tuple[m.Cell, ...] = (
            state,
            m.Name(name),
            *([m.Name(case.engine)] if engines else ()),
            *([m.Name(case.other_label)] if others else ()),
            *numbers[:2],
            *moved,
            *numbers[2:],
        )
        return m.ReportRow(
            cells,
            state,
            name=f"{name} on {safe(case.engine)}" if engines else name,
            reason=case.reason if case.verdict in NO_NUMBERS else None,
            link=case.id if case.id in opened else "",
            about="" if about is None else about[case.id],
        )

    return m.Table(
        columns,
        tuple(map(row, shown)),
        lambda: tuple(map(row, hidden)),
        ranked=True,
        foot="" if about is None else panels_text(len(shown)),
        stacked="{base} → {other}, {change} {95_percent_CI}",
    )


def _closing(comparison: Comparison, shown: Sequence[CaseComparison], view: View) -> Iterator[str]:
    """Yield lines on the number of cases in the terminal and the meaning of their marks."""
    total = len(comparison.cases)
    if len(shown) < total:
        more = "" if view.all else "; --all shows the rest"
        wanted = f" that match {safe(view.filter)!r}" if view.filter else ""
        yield f"{len(shown)} of {units.count_text(total, 'case')} shown{wanted}{more}"
    if text := words.provisional_text(shown):
        yield text
    kinds: dict[str, int] = {}
    for case in shown:
        for kind in {note.kind for note in case.notes}:
            kinds[kind] = kinds.get(kind, 0) + 1
    if kinds:
        text = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
        yield f"Notes on the samples of these cases: {text} (--html or --json tell each)"


def payload_of(comparison: Comparison, conclusion: Conclusion) -> m.Payload:
    """Return the payload; numbers that JSON cannot hold become null."""
    cases = comparison.cases
    return m.Payload(
        {
            "kind": "bench-compare",
            "compare_version": COMPARE_VERSION,
            "exit_code": conclusion.exit_code,
            "base": _side(comparison.base),
            "others": [_side(side) for side in comparison.others],
            "policy": dict(comparison.policy),
            "gate": comparison.gate,
            "metrics": {
                name: {"unit": METRICS[name].unit, "title": METRICS[name].title}
                for name in comparison.metrics
            },
            "problems": list(comparison.problems),
            "warnings": list(comparison.warnings),
            "differences": [_values(d) for d in comparison.differences],
            "counts": {verdict.value: number for verdict, number in comparison.counts.items()},
            "suite": [_values(number) for number in comparison.suite],
            "movements": [_values(movement) for movement in comparison.movements],
            "sensitivity": [_values(one) for one in comparison.sensitivity],
            "bad_news": [_values(news) for news in comparison.bad_news],
            "cases": [],
        },
        "cases",
        len(cases),
        lambda part: _cases(cases[part.start : part.stop]),
    )


def _values(value: Any) -> dict[str, Any]:
    """Return fields of a flat frozen value, by name."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _side(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "engines": list(side.engines),
        "documents": [
            {
                "path": source.path,
                "format": source.format,
                "notes": list(source.notes),
                "run_id": source.document.run.id,
                "started": source.document.run.started,
                "host": source.document.machine.host,
                "complete": source.document.run.complete,
            }
            for source in side.sources
        ],
    }


def _cases(cases: Sequence[CaseComparison]) -> list[dict[str, Any]]:
    return [_case(case) for case in cases]


def _case(case: CaseComparison) -> dict[str, Any]:
    return {
        "id": case.id,
        "name": case.name,
        "fingerprint": case.fingerprint,
        "family": case.family,
        "data_type": case.data_type,
        "engine": case.engine,
        "variant": dict(case.variant),
        "other_label": case.other_label,
        "verdict": case.verdict.value,
        "reason": case.reason,
        "gate": case.gate,
        "base": _case_side(case.base),
        "other": _case_side(case.other),
        "changes": [{"verdict": c.verdict.value, "reason": c.reason} for c in case.changes],
        "metrics": {
            name: dict(zip(METRIC_FIELDS, metric_values(metric), strict=True))
            for name, metric in case.metrics.items()
        },
        "notes": [_values(note) for note in case.notes],
    }


def _case_side(side: CaseSide | None) -> dict[str, Any] | None:
    if side is None:
        return None
    last = side.cases[-1]
    return {
        "name": side.name,
        "case": last.id,
        "engine": side.engine,
        "variant": dict(last.variant),
        "path": last.graph.path,
        "sha256": last.graph.sha256,
        "documents": list(side.sources),
        "status": last.outcome.status,
        "status_reason": last.outcome.reason,
        "validation": None if last.validation is None else last.validation.status,
    }


def records_of(comparison: Comparison, view: View) -> m.Records:
    """Return records of all cases that pass the filter; a case without metrics keeps one row."""
    order = rows(comparison, view)
    wanted = {case.id for case in order}
    cases = [case for case in comparison.cases if case.id in wanted]
    places = {case.id: place for place, case in enumerate(cases)}
    allowed = words.allowed_cases(comparison)
    unfinished = {
        other.label: " ".join(
            name
            for name, side in (("base", comparison.base), ("other", other))
            if words.unfinished(side)
        )
        for other in comparison.others
    }

    def groups(part: range) -> Iterator[tuple[Sequence[Any], Iterable[Sequence[Any]]]]:
        some = cases[part.start : part.stop]
        for case in some:
            first = (
                *(case.id, case.verdict.value, case.name),
                " ".join(f"{k}={v}" for k, v in case.variant.items()),
                *(case.engine, case.other_label, case.family, case.data_type),
                *(case.fingerprint, case.reason),
                "; ".join(f"{c.verdict}: {c.reason}" for c in case.changes),
                "; ".join(f"{n.side}: {n.text}" for n in case.notes),
                unfinished[case.other_label],
                str(case.id in allowed).lower(),
            )
            yield first, [_cells(m) for m in case.metrics.values()] or [NO_METRIC]

    # It stands in each row: ten thousand of them in as many rows would be gigabytes.
    texts = [
        *comparison.problems,
        *comparison.warnings,
        *(words.news_text(news) for news in comparison.bad_news if news.case is None),
        *words.sensitivity_texts(comparison),
        *(
            f"{d.name}: {d.base} → {d.other}"
            for d in comparison.differences
            if d.must_agree or d.name == "driver"
        ),
    ]
    if len(texts) > MOST_WARNINGS:
        more = f"and {len(texts) - MOST_WARNINGS} more, which --json tells"
        texts = [*texts[:MOST_WARNINGS], more]
    return m.Records(
        (*CASE_HEADS, *METRIC_HEADS, WARNINGS),
        len(cases),
        groups,
        ("; ".join(texts),),
        [places[case.id] for case in order],
    )


NO_METRIC = ("",) * len(METRIC_HEADS)


def _cells(m: MetricComparison) -> tuple[Any, ...]:
    row = METRICS[m.metric]
    return (
        *(m.metric, row.unit, m.base, m.other, m.ratio, m.ci_low, m.ci_high, m.p, m.q),
        *(m.verdict.value, m.threshold_ratio, m.base_rounds, m.other_rounds, m.unit),
        *(str(m.provisional).lower(), m.rounds_needed),
        m.seen_ratio if row.better == "lower" else None,
    )


def suite_of(comparison: Comparison) -> m.TestSuite:
    """Return the test suite of a comparison: broken → error; other bad news (slower, removed, newly
    wrong …) → failure; allowed bad news → passed, noted in system-out; no answer (unclear,
    incomparable, not measured) → skipped; everything else → passed. Bad news of the suite as a
    whole is a test of its own, so are the reasons why nothing could be compared. A document of an
    unfinished run is a skipped test."""
    facts = {
        "counts": counts_text(len(comparison.cases), words.counts(comparison)),
        **comparison.policy,
    }
    for number in words.headline_numbers(comparison):
        facts[f"suite {number.metric} {number.other_label}"] = words.suite_text(number)
    for place, warning in enumerate(comparison.warnings, start=1):
        facts[f"warning {place}"] = warning
    for one in comparison.sensitivity:
        facts[f"sensitivity {one.other_label}"] = one.sentence
    for d in comparison.differences:
        facts[f"differs: {d.name} ({d.other_label})"] = f"{d.base} → {d.other}"
    name = f"bench-compare {words.title(comparison)}"
    return m.TestSuite(name, _tests(comparison), facts, comparison.warnings)


def _tests(comparison: Comparison) -> Iterator[m.Test]:
    unanswered: m.TestResult = "skipped" if comparison.invocation.allow_no_answer else "error"
    for number, problem in enumerate(comparison.problems, start=1):
        message = f"not comparable: {problem}"
        name = f"problem {number}"
        yield m.Test("comparison", name, unanswered, message, "not comparable", problem)
    for side in (comparison.base, *comparison.others):
        for path in words.unfinished(side):
            text = f"{side.label}: this run did not finish, cases or rounds may be missing"
            yield m.Test("documents", path, "skipped", f"unfinished run: {text}")
    news: dict[str | None, list[BadNews]] = {}
    for item in comparison.bad_news:
        news.setdefault(item.case, []).append(item)
    for item in news.get(None, ()):
        yield m.Test("suite", item.name, **_failure([item]))
    allowed = words.allowed_cases(comparison)
    undecided = conclude(comparison).word == "UNDECIDED"
    for case in comparison.cases:
        of_case = news.get(case.id, [])
        base, other, metric = words.values(case)
        facts = {
            "id": case.id,
            "fingerprint": case.fingerprint,
            "verdict": words.verdict_text(case, case.id in allowed),
        }
        if metric is not None:
            known = METRICS[metric.metric]
            facts |= {
                "metric": metric.metric,
                "base": base,
                "other": other,
                "change": units.change_text(metric.ratio, known.words),
                "interval_95": units.interval_text(metric.ci_low, metric.ci_high, known.words),
            }
        result = _failure(of_case)
        if result and undecided:  # nothing to hold it against: not a failure yet
            result = {"result": "skipped", "message": result["message"]}
        if not of_case and case.verdict in NO_ANSWER:
            result = {"result": "skipped", "message": f"{case.verdict}: {case.reason}"}
        notes = (f"{note.side}: {note.text}" for note in case.notes)
        passed = (words.news_text(item) for item in of_case if item.allowed)
        group = ".".join((case.other_label, case.engine, case.family))
        lines = (case.reason, *notes, *passed)
        yield m.Test(group, words.case_name(case), **result, properties=facts, output=lines)


def _failure(news: Sequence[BadNews]) -> dict[str, Any]:
    """Return the fields of one error or failure for all the bad news of a test; empty if all of it
    is allowed."""
    loud = [item for item in news if not item.allowed]
    if not loud:
        return {}
    kinds = ", ".join(dict.fromkeys(str(item.verdict) for item in loud))
    broken = any(item.verdict is Verdict.BROKEN for item in loud)
    text = "\n".join(item.sentence for item in loud)
    result = "error" if broken else "failure"
    return {"result": result, "message": f"{kinds}: {text}", "kind": kinds, "text": text}
