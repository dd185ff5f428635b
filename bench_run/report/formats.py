"""Other forms of a document: CSV and Markdown, one row of `FORMATS` each, document in, text out.

CSV has a header line, times in nanoseconds, and texts as `bench_schema.packing.csv_line` has them.
``time_ns`` is the case's time over its rounds (`bench_schema.estimate`); columns that begin with
``pooled_`` are statistics of the samples of all rounds together. The table in Markdown is for a
ticket or a pull request, and says where it was measured.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from bench_schema.document import Summary
from bench_schema.estimate import case_time, main_series
from bench_schema.packing import csv_line
from bench_schema.report.markdown import body_text
from bench_schema.report.model import Body
from bench_schema.summary import init_total_ns, rates

from bench_run.report.console import cases_table
from bench_run.report.labels import (
    device_timing,
    footnotes,
    implausible_first,
    implausible_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_schema.document import Document

DEVICE = "device_ns"
CASE_COLUMNS = (
    "id",
    "graph",
    "path",
    "fingerprint",
    "family",
    "data_type",
    "engine",
    "variant",
    "plan",
    "outcome",
    "reason",
    "validation",
    "mismatched",
    "series",
    "device_timing",
    "time_ns",
    "time_low_ns",
    "time_high_ns",
    *(f"pooled_{f.name}" for f in fields(Summary)),
    "init_ns",
    "flops",
    "moved_bytes",
    "tflops",
    "gbps",
    "peak_bytes",
    "workspace_bytes",
    "buffer_bytes",
    "implausible",
)
SAMPLE_COLUMNS = (
    "id",
    "graph",
    "engine",
    "round",
    "series",
    "device_timing",
    "iteration",
    "warmup",
    "cut",
    "time_ns",
)


def _csv(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    lines = [csv_line(columns), *(csv_line(map(row.get, columns)) for row in rows)]
    return "\n".join([*lines, ""])


def cases_csv(document: Document) -> str:
    """Return CSV with a row for each case and series; a case without samples has one row without
    times."""
    rows: list[dict[str, Any]] = []
    for case in document.cases:
        base: dict[str, Any] = {
            "id": case.id,
            "graph": case.graph.name,
            "path": case.graph.path,
            "fingerprint": case.graph.fingerprint,
            "family": case.graph.family,
            "data_type": case.graph.data_type,
            "engine": case.engine,
            "variant": " ".join(f"{k}={v}" for k, v in sorted(case.variant.items())),
            "plan": case.plan.get("plan"),
            "outcome": case.outcome.status,
            "reason": case.outcome.reason,
            "flops": case.work.flops,
            "moved_bytes": case.work.moved_bytes,
            "implausible": case.implausible,
        }
        if case.validation is not None:
            base["validation"] = case.validation.status
            base["mismatched"] = sum(output.mismatched for output in case.validation.outputs)
        if case.memory is not None:
            base["peak_bytes"] = case.memory.peak_bytes
            base["workspace_bytes"] = case.memory.workspace_bytes
            base["buffer_bytes"] = case.memory.buffer_bytes
        base["init_ns"] = init_total_ns(case)
        for name, summary in case.summary.items():
            row = base | {"series": name}
            row |= {f"pooled_{field}": value for field, value in asdict(summary).items()}
            row["device_timing"] = device_timing(case) if name == DEVICE else None
            time = case_time(case, name)
            if time is not None:
                row |= {
                    "time_ns": time.ns,
                    "time_low_ns": time.low_ns,
                    "time_high_ns": time.high_ns,
                }
                if name == main_series(case.summary):
                    row["tflops"], row["gbps"] = rates(case.work, time.ns)
            rows.append(row)
        if not case.summary:
            rows.append(base)
    return _csv(CASE_COLUMNS, rows)


def samples_csv(document: Document) -> str:
    """Return CSV text with a row for each iteration of each series, warm-up iterations marked."""
    rows = [
        {
            "id": case.id,
            "graph": case.graph.name,
            "engine": case.engine,
            "round": each.index,
            "series": name,
            "device_timing": each.device_timing if name == DEVICE else None,
            "iteration": i,
            "warmup": warmup,
            "cut": int(i < (0 if warmup else each.cut.get(name, 0))),
            "time_ns": value,
        }
        for case in document.cases
        for each in case.rounds
        for warmup, group in ((1, each.warmup), (0, each.series))
        for name, values in group.items()
        for i, value in enumerate(values.tolist())
    ]
    return _csv(SAMPLE_COLUMNS, rows)


def markdown(document: Document) -> str:
    """Return a table in Markdown with a row per case, for a ticket or a pull request."""
    document = implausible_first(document)
    where = f"{document.machine.host}, {document.machine.cpu.model or 'unknown processor'}"
    engines = ", ".join(f"{e.key} on {e.device_kind}" for e in document.engines)
    lines = (*implausible_lines(document.cases), *footnotes(document.cases))
    measured = f"Measured {document.run.started} on {where}; {engines}."
    table = cases_table(document, whole=True)
    return f"{body_text(Body(tables=(table,), notes=(*lines, measured)))}\n"


FORMATS: Mapping[str, Callable[[Document], str]] = {
    "csv": cases_csv,
    "csv_samples": samples_csv,
    "markdown": markdown,
}
"""Writers by their option."""
