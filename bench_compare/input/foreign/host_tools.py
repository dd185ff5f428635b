"""Result files of benchmarks of code on the host: Google Benchmark, pytest-benchmark, hyperfine,
pyperf."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from bench_schema.document import Outcome, Work

import bench_compare.input.foreign.parts as parts
from bench_compare.input.foreign.build import (
    LEAST_SAMPLES,
    NS_PER,
    About,
    Measured,
    document,
    samples,
    series,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench_schema.document import Document

    from bench_compare.input.foreign.parts import Table

# --- Google Benchmark: --benchmark_out ---
#
# A repetition is the mean of many iterations. Kernels of GPUs are timed by hand
# ("/manual_time"), which is device time.


def is_google_benchmark(tree: Any) -> str | None:
    found = parts.table(tree)
    rows = parts.rows(found.get("benchmarks"))
    if not isinstance(found.get("context"), dict) or not rows or "run_name" not in rows[0]:
        return None
    return str(found["context"].get("json_schema_version", "json"))


def read_google_benchmark(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    context = parts.table(tree["context"])
    groups: dict[str, list[Table]] = defaultdict(list)
    for row in parts.rows(tree["benchmarks"]):
        groups[parts.text(row.get("run_name")) or parts.words(row.get("name"))].append(row)
    about = About(
        "google-benchmark",
        parts.text(context.get("library_version")) or layout,
        started=parts.text(context.get("date")),
        host=parts.text(context.get("host_name")),
        timer="real time",
        libraries=_texts(context, "library_build_type"),
    )
    measured = [_google_case(name, rows) for name, rows in groups.items() if _is_measured(rows)]
    return document(about, measured, tree)


def _is_measured(rows: list[Table]) -> bool:
    """Return False for a fit of complexity (BigO, RMS), which does not have a time."""
    return any(
        "real_time" in row or row.get("error_occurred") or row.get("skipped") for row in rows
    )


def _google_case(name: str, rows: list[Table]) -> Measured:
    wrong = next((row for row in rows if row.get("error_occurred") or row.get("skipped")), None)
    if wrong is not None:
        skipped = bool(wrong.get("skipped"))
        reason = parts.text(wrong.get("error_message")) or parts.text(wrong.get("skip_message"))
        outcome = Outcome("unsupported" if skipped else "failed", reason or "no message")
        return Measured(name, outcome=outcome)
    unit = parts.text(rows[0].get("time_unit")) or "ns"
    single = [row for row in rows if row.get("run_type") != "aggregate"]
    taken = samples([row.get("real_time") for row in single], unit)
    aggregates = {row.get("aggregate_name"): row.get("real_time") for row in rows}
    count = parts.whole((single or rows)[0].get("iterations"))
    if aggregates.get("stddev") is not None:  # that of the repetitions
        count = parts.whole(rows[0].get("repetitions")) or len(single)
    stats = {
        "median": aggregates.get("median", single[0].get("real_time") if single else None),
        "mean": aggregates.get("mean"),
        "std": aggregates.get("stddev"),
        "n": count,
    }
    timed = "device_ns" if name.endswith("/manual_time") else "e2e_ns"
    few = taken.size < LEAST_SAMPLES
    found = series(timed, [] if few else [taken], summary(stats, unit))
    rate, time = parts.number(rows[0].get("bytes_per_second")), parts.number(stats["median"])
    moved = None if rate is None or time is None else round(rate * time * NS_PER[unit] / 1e9)
    return Measured(name, **found, work=Work(None, moved, None))


def _texts(found: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: text for name in names if (text := parts.text(found.get(name))) is not None}


def is_pytest_benchmark(tree: Any) -> str | None:
    found = parts.table(tree)
    if "machine_info" not in found or not isinstance(found.get("benchmarks"), list):
        return None
    return parts.text(found.get("version")) or "json"


def read_pytest_benchmark(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    machine = parts.table(tree["machine_info"])
    commit = _texts(parts.table(tree.get("commit_info")), "id", "branch")
    about = About(
        "pytest-benchmark",
        layout,
        started=parts.text(tree.get("datetime")),
        host=parts.text(machine.get("node")),
        cpu=parts.text(parts.table(machine.get("cpu")).get("brand_raw")),
        os=parts.text(machine.get("system")),
        python=parts.text(machine.get("python_version")),
        tags={"commit" if key == "id" else key: text for key, text in commit.items()},
        timer="perf_counter",
    )
    measured = []
    for one in parts.rows(tree["benchmarks"]):
        stats = parts.table(one.get("stats"))
        known = {name: stats.get(name) for name in ("median", "mean", "min", "max", "iqr")}
        whole = summary({**known, "std": stats.get("stddev"), "n": stats.get("rounds")}, "s")
        taken = samples(stats.get("data") or (), "s")
        name = parts.text(one.get("fullname")) or parts.words(one.get("name"))
        measured.append(Measured(name, **series("e2e_ns", [taken] if taken.size else [], whole)))
    return document(about, measured, tree)


# --- hyperfine: --export-json ---
#
# Each time is that of a process of its own. Commands are what is compared: a command is an engine,
# its parameters are the case.


def is_hyperfine(tree: Any) -> str | None:
    results = parts.table(tree).get("results")
    rows = parts.rows(results)
    return "json" if rows and all("command" in row and "mean" in row for row in rows) else None


def read_hyperfine(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    measured = []
    for one in parts.rows(tree["results"]):
        given = parts.table(one.get("parameters"))
        name = " ".join(f"{key}={value}" for key, value in given.items()) or "command"
        known = {key: one.get(key) for key in ("median", "mean", "min", "max")}
        whole = summary({**known, "std": one.get("stddev")}, "s")
        codes = one.get("exit_codes") or ()
        failed = next((code for code in codes if code), None)
        times = samples(one.get("times") or (), "s")
        command = parts.words(one.get("command")).replace("@", " at ").strip()
        if failed is not None:
            outcome = Outcome("failed", f"a run ended with exit code {failed}")
            measured.append(Measured(name, engine=command, outcome=outcome))
            continue
        found = series("e2e_ns", [times[n : n + 1] for n in range(times.size)], whole)
        measured.append(Measured(name, **found, engine=command))
    return document(About("hyperfine", layout, timer="wall time"), measured, tree)


# --- pyperf: -o ---
#
# Each run is a process of its own with several values.


def is_pyperf(tree: Any) -> str | None:
    found = parts.table(tree)
    rows = parts.rows(found.get("benchmarks"))
    if not rows or not isinstance(rows[0].get("runs"), list):
        return None
    return parts.text(found.get("version")) or "json"


def read_pyperf(tree: Any, layout: str, path: Path) -> Document:
    shared = parts.table(tree.get("metadata"))
    measured = []
    started = None
    for one in parts.rows(tree["benchmarks"]):
        about_it = {**shared, **parts.table(one.get("metadata"))}
        name = parts.text(about_it.get("name")) or path.stem
        if about_it.get("unit", "second") != "second":
            reason = f"measured in {about_it['unit']} and not in seconds"
            measured.append(Measured(name, outcome=Outcome("unsupported", reason)))
            continue
        runs = [run for run in parts.rows(one["runs"]) if run.get("values")]
        dates = [parts.table(run.get("metadata")).get("date") for run in runs]
        started = started or next(filter(None, map(parts.text, dates)), None)
        found = series("e2e_ns", [samples(run["values"], "s") for run in runs], None)
        measured.append(Measured(name, **found))
    about = About(
        "pyperf",
        parts.text(shared.get("perf_version")) or layout,
        started=started,
        host=parts.text(shared.get("hostname")),
        cpu=parts.text(shared.get("cpu_model_name")),
        os=parts.text(shared.get("platform")),
        python=parts.text(shared.get("python_version")),
        timer="perf_counter",
    )
    return document(about, measured, tree)
