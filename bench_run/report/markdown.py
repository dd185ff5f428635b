"""Markdown: a table for a ticket or a pull request, and where it was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from bench_run.report.labels import footnotes, marked, plan_labels
from bench_run.text import percent_text, rate_text, time_text

if TYPE_CHECKING:
    from bench_schema.document import Case, Document

HEADERS = ("graph", "engine", "outcome", "time", "±", "TFLOP/s", "GB/s", "peak", "validation")


def markdown(document: Document) -> str:
    """One row per case, with a column for plans where there are any; names are data, so what
    Markdown would read as markup is escaped."""
    labels = plan_labels(document)
    rows = [
        _row(case, label) if any(labels) else _row(case)
        for case, label in zip(document.cases, labels, strict=True)
    ]
    headers = (*HEADERS[:2], "plan", *HEADERS[2:]) if any(labels) else HEADERS
    table = tabulate(rows, headers, tablefmt="github", disable_numparse=True)
    where = f"{document.machine.host}, {document.machine.cpu.model or 'unknown processor'}"
    engines = ", ".join(f"{e.key} on {e.device_kind}" for e in document.engines)
    started = document.run.started
    notes = "".join(f"\n\n{escape(line)}" for line in footnotes(document.cases))
    return f"{table}{notes}\n\nMeasured {started} on {escape(where)}; {escape(engines)}.\n"


def _row(case: Case, *labels: str) -> tuple[str, ...]:
    from bench_schema.numbers.estimate import case_time
    from bench_schema.numbers.summary import rates

    from bench_run.report.console import peak_text, validation_text

    time = case_time(case)
    return (
        escape(case.graph.name),
        escape(case.engine),
        *map(escape, labels),
        case.outcome.status,
        "–" if time is None else escape(marked(time_text(time.ns), case)),
        "–" if time is None else percent_text(time.half_width_ratio),
        *map(rate_text, (None, None) if time is None else rates(case.work, time.ns)),
        peak_text(case.memory),
        validation_text(case.validation, case.implausible),
    )


def escape(text: str) -> str:
    """Text that stands in a Markdown table as it is."""
    plain = " ".join(text.split())
    for sign in "\\`*_{}[]<>#|~":
        plain = plain.replace(sign, "\\" + sign)
    return plain
