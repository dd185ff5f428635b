"""criterion of Rust: ``estimates.json`` with the files next to it, and the lines of
``cargo criterion --message-format=json``."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import Work

import bench_compare.input.tools.values as v
from bench_compare.input.tools.build import About, Measured, document, series

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document, Samples

NAMES = {"median": "median", "mean": "mean", "std_dev": "std"}


def sniff_json(tree: Any) -> str | None:
    found = v.table(tree)
    is_it = {"mean", "median", "std_dev"} <= found.keys()
    return "estimates" if is_it and "point_estimate" in v.table(found["mean"]) else None


def read_json(tree: Any, layout: str, path: Path) -> Document:
    about = _next_to(path, "benchmark.json")
    sample = _next_to(path, "sample.json")
    place = "/".join(path.parts[-4:-2])
    name = v.text(about.get("full_id"), about.get("title"), place) or path.stem
    known = {NAMES[k]: v.table(tree.get(k)).get("point_estimate") for k in NAMES}
    mad = v.number(v.table(tree.get("median_abs_dev")).get("point_estimate"))
    stats = {**known, "iqr": None if mad is None else 2 * mad, "n": len(sample.get("iters") or ())}
    found = series("e2e_ns", [_samples(sample.get("times"), sample.get("iters"), "ns")],
                   v.summary(stats, "ns"))  # fmt: skip
    moved = v.whole(v.table(about.get("throughput")).get("Bytes"))
    return document(
        About("criterion", layout, timer="wall time"),
        [Measured(name, **found, work=Work(None, moved, None))],
    )


def _next_to(path: Path, name: str) -> dict[str, Any]:
    try:
        return dict(v.table(json.loads((path.parent / name).read_text("utf-8"))))
    except (OSError, ValueError):
        return {}


def _samples(times: Any, counts: Any, unit: str) -> Samples:
    """Return the time of one iteration of each sample, in nanoseconds."""
    if not isinstance(times, list) or not isinstance(counts, list):
        return np.array([], np.float64)
    pairs = ((v.number(time), v.number(count)) for time, count in zip(times, counts, strict=False))
    return v.samples([time / count for time, count in pairs if time is not None and count], unit)


def sniff_text(found: str) -> str | None:
    return "messages" if _messages(found) else None


def _messages(found: str) -> list[v.Table]:
    """Return the messages of finished benchmarks; none of text that is not lines of JSON."""
    kept: list[v.Table] = []
    for line in found.splitlines():
        with contextlib.suppress(ValueError):
            one = v.table(json.loads(line) if '"benchmark-complete"' in line else None)
            kept += [one] if one.get("reason") == "benchmark-complete" else []
    return kept


def read_text(found: str, layout: str, path: Path) -> Document:  # noqa: ARG001
    measured = []
    messages = _messages(found)
    for one in messages:
        unit = str(one.get("unit", "ns"))
        unit = unit if unit in v.NS_PER else "ns"
        taken = _samples(one.get("measured_values"), one.get("iteration_count"), unit)
        stats = {key: v.table(one.get(key)).get("estimate") for key in ("median", "mean")}
        bytes_ = [row for row in v.rows(one.get("throughput")) if row.get("unit") == "bytes"]
        moved = v.whole(bytes_[0].get("per_iteration")) if bytes_ else None
        name = v.text(one.get("id")) or "benchmark"
        times = series("e2e_ns", [taken], v.summary(stats, unit))
        measured.append(Measured(name, **times, work=Work(None, moved, None)))
    return document(About("criterion", layout, timer="wall time"), measured)
