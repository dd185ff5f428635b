"""The record of a tuning as a report, and winners that were measured again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench_schema.report import model as m
from bench_schema.report.text import body_text
from bench_schema.report.tuning import gain_text, tuning_tables, whole_text
from bench_schema.units import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Document
    from bench_schema.tuning import Ratio

VIEW = m.View(width=120)


def tuning_table(document: Document) -> str:
    """Return all entries, the whole, how good the default is, and what was tried."""
    tuned = document.tuned
    assert tuned is not None, "it is a record"
    every = [candidate for entry in tuned.entries for candidate in entry.candidates]
    counts = Counter(candidate.status for candidate in every)
    kinds = ", ".join(f"{count} {status}" for status, count in counts.items())
    rounds = {candidate.rounds for candidate in every if candidate.case is not None}
    confirmed = sum(candidate.case is not None for candidate in every)
    spread = f"{min(rounds)} to {max(rounds)}" if len(rounds) > 1 else f"{max(rounds, default=0)}"
    tried = (
        f"{count_text(len(every), 'candidate')}: {kinds}; {confirmed} in {spread} ordinary rounds"
    )
    notes = [f"note: {note}" for note in document.run.notes]
    closing = (*whole_text(tuned), *notes, tried)
    return body_text(m.Body(tables=tuple(tuning_tables(tuned)), closing=closing), VIEW)


def verified_table(
    rows: Sequence[tuple[str, Ratio | None, Ratio | None, str | None]], holds: Sequence[bool]
) -> str:
    """Return the table of winners' present gains next to those of the record."""
    lines = [
        m.ReportRow(
            (
                m.Name(name),
                "–" if recorded is None else gain_text(recorded),
                gain_text(measured),
                "holds" if fine else (problem or "not shown to be faster"),
            )
        )
        for (name, recorded, measured, problem), fine in zip(rows, holds, strict=True)
    ]
    heads = ("recorded", "measured now", "")
    columns = (m.Column("graph", least=16), *(m.Column(head) for head in heads))
    return body_text(m.Body(tables=(m.Table(columns, tuple(lines)),)), VIEW)
