"""pyperf: ``-o``. Each run is a process of its own with several values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_schema.document import Outcome

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.values import rows, samples, table, text

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document


def sniff(tree: Any) -> str | None:
    found = table(tree)
    every = rows(found.get("benchmarks"))
    if not every or not isinstance(every[0].get("runs"), list):
        return None
    return text(found.get("version")) or "json"


def read(tree: Any, layout: str, path: Path) -> Document:
    shared = table(tree.get("metadata"))
    measured = []
    dates = []
    for one in rows(tree["benchmarks"]):
        about_it = {**shared, **table(one.get("metadata"))}
        name = text(about_it.get("name")) or path.stem
        if about_it.get("unit", "second") != "second":
            other = Outcome("unsupported", f"measured in {about_it['unit']} and not in seconds")
            measured.append(Measured(name, outcome=other))
            continue
        runs = [run for run in rows(one["runs"]) if run.get("values")]
        dates += [text(table(run.get("metadata")).get("date")) for run in runs]
        taken = [samples(run["values"], "s") for run in runs]
        measured.append(Measured(name, **series("e2e_ns", taken, None)))
    about = About(
        "pyperf",
        text(shared.get("perf_version")) or layout,
        started=next(filter(None, dates), None),
        host=text(shared.get("hostname")),
        cpu=text(shared.get("cpu_model_name")),
        os=text(shared.get("platform")),
        python=text(shared.get("python_version")),
        timer="perf_counter",
    )
    return document(about, measured)
