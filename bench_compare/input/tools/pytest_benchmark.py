"""pytest-benchmark: ``--benchmark-json``, its storage (``--benchmark-save``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.values import rows, samples, summary, table, text, texts

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document


def sniff(tree: Any) -> str | None:
    found = table(tree)
    if "machine_info" not in found or not isinstance(found.get("benchmarks"), list):
        return None
    return text(found.get("version")) or "json"


def read(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    machine = table(tree["machine_info"])
    about = About(
        "pytest-benchmark",
        layout,
        started=text(tree.get("datetime")),
        host=text(machine.get("node")),
        cpu=text(table(machine.get("cpu")).get("brand_raw")),
        os=text(machine.get("system")),
        python=text(machine.get("python_version")),
        tags=texts(table(tree.get("commit_info")), commit="id", branch="branch"),
        timer="perf_counter",
    )
    measured = []
    for one in rows(tree["benchmarks"]):
        stats = table(one.get("stats"))
        known = {name: stats.get(name) for name in ("median", "mean", "min", "max", "iqr")}
        total = summary({**known, "std": stats.get("stddev"), "n": stats.get("rounds")}, "s")
        taken = samples(stats.get("data") or (), "s")
        # The folder of a test depends on the folder that pytest ran in: it is the path of a case,
        # and no part of its name.
        file, _, name = (text(one.get("fullname"), one.get("name")) or "").rpartition("::")
        measured.append(Measured(name, **series("e2e_ns", [taken], total), path=file))
    return document(about, measured)
