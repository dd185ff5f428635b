"""Google Benchmark: ``--benchmark_out``. A repetition is the mean of many iterations; kernels of
GPUs are timed by hand (``/manual_time``), which is device time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bench_schema.document import Outcome, Work

import bench_compare.input.tools.values as v
from bench_compare.input.tools.build import LEAST_SAMPLES, About, Measured, document, series

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

    from bench_compare.input.tools.values import Table

AGGREGATE = re.compile(r"(?P<name>.+)_(?P<kind>mean|median|stddev|cv|min|max|BigO|RMS)$")
NAMES = {"median": "median", "mean": "mean", "stddev": "std", "min": "min", "max": "max"}


def sniff(tree: Any) -> str | None:
    found = v.table(tree)
    every = v.rows(found.get("benchmarks"))
    if not isinstance(found.get("context"), dict) or not every or "name" not in every[0]:
        return None
    timed = ("real_time", "cpu_time", "error_occurred", "skipped", "big_o", "run_name")
    if not any(key in row for row in every for key in timed):
        return None
    return str(found["context"].get("json_schema_version", "json"))


def read(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    context = v.table(tree["context"])
    about = About(
        "google-benchmark",
        v.text(context.get("library_version")) or layout,
        started=v.text(context.get("date")),
        host=v.text(context.get("host_name")),
        timer="real time",
        libraries=v.texts(context, library_build_type="library_build_type"),
    )
    groups = _groups(v.rows(tree["benchmarks"]))
    measured = [_case(name, singles, totals) for name, singles, totals in groups]
    return document(about, [one for one in measured if one is not None])


def _groups(every: list[Table] | Any) -> list[tuple[str, list[Table], dict[str, Table]]]:
    """Return (name, repetitions, aggregates by kind) of each benchmark. Two benchmarks of one name
    differ by their family, or by an index of a repetition that comes again."""
    plain = {v.text(row.get("run_name"), row.get("name")) for row in every if not _kind(row)}
    found: list[tuple[str, list[Table], dict[str, Table]]] = []
    open_: dict[tuple[Any, ...], int] = {}
    for row in every:
        name, kind = v.text(row.get("run_name"), row.get("name")) or "", _kind(row)
        match = AGGREGATE.match(name)
        if "run_name" not in row and match and (kind or match["name"] in plain):
            name, kind = match["name"], match["kind"]
        key = (name, row.get("family_index"), row.get("per_family_instance_index"))
        at = open_.get(key)
        seen = [] if at is None else [one.get("repetition_index") for one in found[at][1]]
        again = not kind and "repetition_index" in row and row["repetition_index"] in seen
        if at is None or again or (kind and kind in found[at][2]):
            at = open_[key] = len(found)
            found.append((name, [], {}))
        if kind:
            found[at][2][kind] = row
        else:
            found[at][1].append(row)
    return found


def _kind(row: Table) -> str | None:
    """Return the kind of an aggregate: ``median``; None for a repetition."""
    if row.get("run_type") != "aggregate":
        return None
    match = AGGREGATE.match(str(row.get("name")))
    return v.text(row.get("aggregate_name")) or (match["kind"] if match else "other")


def _case(name: str, singles: list[Table], totals: dict[str, Table]) -> Measured | None:
    """Return the case; None for a fit of complexity (BigO, RMS), which does not have a time."""
    every = [*singles, *totals.values()]
    wrong = next((row for row in every if row.get("error_occurred") or row.get("skipped")), None)
    if wrong is not None:
        reason = v.text(wrong.get("error_message"), wrong.get("skip_message")) or "no message"
        return Measured(
            name, outcome=Outcome("unsupported" if wrong.get("skipped") else "failed", reason)
        )
    timed = [row for row in every if "real_time" in row]
    if not timed:
        return None
    unit = v.text(timed[0].get("time_unit")) or "ns"
    taken = v.samples([row.get("real_time") for row in singles], unit)
    stats = {NAMES[k]: row.get("real_time") for k, row in totals.items() if k in NAMES}
    if taken.size == 1:
        stats.setdefault("median", singles[0].get("real_time"))
    count = v.whole(timed[0].get("iterations"))
    if "std" in stats:  # that of the repetitions
        count = v.whole(timed[0].get("repetitions")) or len(singles)
    found = series(
        "device_ns" if name.endswith("/manual_time") else "e2e_ns",
        [] if stats and taken.size < LEAST_SAMPLES else [taken],
        v.summary({**stats, "n": count}, unit),
    )
    rate, time = v.number(timed[0].get("bytes_per_second")), v.number(timed[0].get("real_time"))
    moved = None if rate is None or time is None else round(rate * time * v.NS_PER[unit] / 1e9)
    return Measured(name, **found, work=Work(None, moved, None))
