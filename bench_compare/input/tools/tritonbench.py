"""tritonbench: ``--output FILE`` (a table with semicolons), ``--output-json FILE``. Both hold the
median of each backend for each input, and no scatter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bench_schema.document import Outcome, Work

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.lines import cells_of, titles_of
from bench_compare.input.tools.values import number, samples, summary, table, text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench_schema.document import Document

KEY = re.compile(
    r"tritonbench_(?P<name>.+?)\[x_(?P<x>.*)-(?P<backend>[^-\]]*)\](?:_(?P<metric>\w+))?$"
)
Points = dict[tuple[str, str], dict[str, Any]]
"""(case, backend) → metric → value."""


def sniff_json(tree: Any) -> str | None:
    return "json" if any(KEY.match(key) for _, metrics in _sides(tree) for key in metrics) else None


def _sides(tree: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the metrics by key, with the side of an A/B run; otherwise the file of one operator,
    or a summary."""
    found = table(tree)
    sides = {f" ({name})": table(found.get(name)) for name in ("side-a", "side-b") if name in found}
    return [
        (name, table(one.get("metrics")) or one) for name, one in (sides or {"": found}).items()
    ]


def read_json(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    points: Points = {}
    for side, metrics in _sides(tree):
        for key, value in metrics.items():
            match = KEY.match(key)
            if match is None or match["x"] == "average":
                continue
            name = f"{match['name']} [{match['x']}]", match["backend"] + side
            held = value if isinstance(value, dict) else {match["metric"] or "": value}
            points.setdefault(name, {}).update(held)
    env = table(table(tree).get("env"))
    libraries = {k: str(v) for k, v in env.items() if k.endswith(("_version", "_commit"))}
    about = About("tritonbench", layout, timer="do_bench", libraries=libraries)
    return document(about, _cases(points))


def sniff_text(found: str) -> str | None:
    return "csv" if any(title.endswith("-latency") for title in titles_of(found)[1:]) else None


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
    values = said if isinstance(said, list) else []  # repetitions of an A/B run
    centre = number(values[0] if values else said)
    if centre is None or centre <= 0:
        outcome = Outcome("failed", text(said) or "no latency")
        return Measured(name, engine=backend, outcome=outcome)
    one = None if values else summary({"median": centre}, "ms")
    rates = ((number(held.get(key)), unit) for key, unit in (("tflops", 1e12), ("gbps", 1e9)))
    done = [None if rate is None else whole(rate * unit * centre / 1e3) for rate, unit in rates]
    found = series("device_ns", [samples(values, "ms")], one)
    return Measured(name, **found, engine=backend, device_index=0, work=Work(*done))
