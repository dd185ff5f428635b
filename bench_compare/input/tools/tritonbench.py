"""tritonbench: ``--output FILE`` (a table with semicolons), ``--output-json FILE``. Both hold the
median of each backend for each input, and no scatter."""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING, Any

from bench_schema.document import Outcome, Work

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.lines import cells_of
from bench_compare.input.tools.values import number, summary, table, text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench_schema.document import Document

KEY = re.compile(
    r"tritonbench_(?P<name>.+?)\[x_(?P<x>.*)-(?P<backend>[^-\]]*)\](?:_(?P<metric>\w+))?$"
)
TIME = re.compile(r"\s*(?P<time>[\d.eE+-]+)(?:\s*\(±(?P<half>[\d.]+)%\))?\s*$")
"""The terminal's form of a latency has half of the range behind it."""
Points = dict[tuple[str, str], dict[str, Any]]
"""(case, backend) → metric → value."""
METRICS = ("latency", "tflops", "gbps", "walltime")


def sniff_json(tree: Any) -> str | None:
    metrics = _metrics(tree)
    return "json" if any(KEY.match(key) for key in metrics) else None


def _metrics(tree: Any) -> dict[str, Any]:
    """Return the metrics by key: the file of one operator, a summary, both sides of an A/B run."""
    found = table(tree)
    if "side-a" in found:
        return dict(table(table(found["side-a"]).get("metrics")))
    return dict(table(found.get("metrics")) or found)


def read_json(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    points: Points = {}
    for key, value in _metrics(tree).items():
        match = KEY.match(key)
        if match is None or match["x"] == "average":
            continue
        held = points.setdefault((f"{match['name']} [{match['x']}]", match["backend"]), {})
        held.update(value if isinstance(value, dict) else {match["metric"] or "": value})
    env = table(table(tree).get("env"))
    libraries = {k: str(v) for k, v in env.items() if k.endswith(("_version", "_commit"))}
    about = About("tritonbench", layout, timer="do_bench", libraries=libraries)
    return document(about, _cases(points))


def sniff_text(found: str) -> str | None:
    head = cells_of(found.lstrip().partition("\n")[0] or "-")
    titles = head[0][1:] if head else []
    return "csv" if any(title.endswith("-latency") for title in titles) else None


def read_text(found: str, layout: str, path: Path) -> Document:
    head, *body = cells_of(found)
    points: Points = {}
    for line in body:
        if line[0] == "average" or len(line) < 2:
            continue
        for title, value in zip(head[1:], line[1:], strict=False):
            backend, _, metric = title.rpartition("-")
            held = points.setdefault((f"{path.stem} [{head[0]}={line[0]}]", backend), {})
            held[metric] = value
    about = About("tritonbench", layout, timer="do_bench")
    return document(about, _cases(points))


def _cases(points: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[Measured]:
    timed = {key: held for key, held in points.items() if "latency" in held}
    return [_case(name, backend, held) for (name, backend), held in timed.items()]


def _case(name: str, backend: str, held: Mapping[str, Any]) -> Measured:
    said = held["latency"]
    values = said if isinstance(said, list) else [said]
    match = TIME.match(str(values[0]))
    centre = None if match is None else number(match["time"])
    if centre is None or centre <= 0:
        outcome = Outcome("failed", text(said) or "no latency")
        return Measured(name, engine=backend, outcome=outcome)
    several = len(values) > 1  # of an A/B run
    stats = {"median": statistics.median(map(float, values)) if several else centre}
    if match is not None and match["half"] is not None:
        stats["iqr"] = centre * float(match["half"]) / 100
    seconds = centre / 1e3
    tflops, gbps = number(held.get("tflops")), number(held.get("gbps"))
    flops = None if tflops is None else whole(tflops * 1e12 * seconds)
    moved = None if gbps is None else whole(gbps * 1e9 * seconds)
    time = summary(stats, "ms")
    return Measured(
        name, **series("device_ns", [], time), engine=backend, work=Work(flops, moved, None)
    )
