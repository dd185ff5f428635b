"""CSV: one row per case, or per iteration. RFC 4180, a header line, times in nanoseconds.

``time_ns`` is the case's time over its rounds (`numbers.estimate`); columns that begin with
``pooled_`` are statistics of the samples of all rounds together.
"""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, fields
from typing import Any

from bench_schema.csv_cells import plain_cell
from bench_schema.document import PAID_ONCE, Case, Document, Summary
from bench_schema.numbers.estimate import case_time, main_series
from bench_schema.numbers.summary import rates

from bench_run.report.labels import device_timing

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


def _text(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: plain_cell(v) if isinstance(v, str) else v for k, v in row.items()})
    return out.getvalue()


def cases_csv(document: Document) -> str:
    """One row for each case and series; a case without samples has one row without times."""
    return _text(CASE_COLUMNS, [row for case in document.cases for row in _case_rows(case)])


def _case_rows(case: Case) -> list[dict[str, Any]]:
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
    if case.init:
        base["init_ns"] = _init_ns(case)
    rows = []
    for name, summary in case.summary.items():
        row = base | {"series": name}
        row |= {f"pooled_{field}": value for field, value in asdict(summary).items()}
        row["device_timing"] = device_timing(case) if name == DEVICE else None
        time = case_time(case, name)
        if time is not None:
            row |= {"time_ns": time.ns, "time_low_ns": time.low_ns, "time_high_ns": time.high_ns}
            if name == main_series(case.summary):
                row["tflops"], row["gbps"] = rates(case.work, time.ns)
        rows.append(row)
    return rows or [base]


def _init_ns(case: Case) -> int:
    """The median round's total, and what is paid once."""
    usual = [values.tolist() for name, values in case.init.items() if name not in PAID_ONCE]
    totals = sorted(map(sum, zip(*usual, strict=True)))
    once = sum(int(case.init[name][0]) for name in PAID_ONCE if name in case.init)
    return (totals[len(totals) // 2] if totals else 0) + once


def samples_csv(document: Document) -> str:
    """One row for each iteration of each series, warm-up iterations marked."""
    return _text(SAMPLE_COLUMNS, [row for case in document.cases for row in _sample_rows(case)])


def _sample_rows(case: Case) -> list[dict[str, Any]]:
    rows = []
    for each in case.rounds:
        for warmup, group in ((1, each.warmup), (0, each.series)):
            for name, values in group.items():
                cut = 0 if warmup else each.cut.get(name, 0)
                for i, value in enumerate(values.tolist()):
                    rows.append(
                        {
                            "id": case.id,
                            "graph": case.graph.name,
                            "engine": case.engine,
                            "round": each.index,
                            "series": name,
                            "device_timing": each.device_timing if name == DEVICE else None,
                            "iteration": i,
                            "warmup": warmup,
                            "cut": int(i < cut),
                            "time_ns": value,
                        }
                    )
    return rows
