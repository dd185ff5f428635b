"""Go: the text of ``go test -bench``. Lines of one name (``-count``) are its repetitions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from bench_schema.document import Work

from bench_compare.input.tools.build import LEAST_SAMPLES, About, Measured, document, series
from bench_compare.input.tools.values import NS_PER, number, samples, summary, whole

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

RESULT = re.compile(r"^(?P<name>Benchmark(?![a-z])\S*)\s+(?P<count>\d+)\s+(?P<values>\S.*)$")
SETTING = re.compile(r"^(?P<key>[a-z][^\sA-Z:]*):\s*(?P<value>.*)$")
TIMED = re.compile(r"^(?P<unit>ns|us|µs|ms|s|sec)/op$")


def sniff(text: str) -> str | None:
    text = _of_events(text) if text.startswith("{") else text
    return (
        "text" if any(RESULT.match(line) and "/op" in line for line in text.splitlines()) else None
    )


def _of_events(text: str) -> str:
    """Return what ``go test -json`` wraps: the output of each package, piece by piece."""
    parts: dict[str, list[str]] = {}
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            return ""
        if isinstance(event, dict) and isinstance(event.get("Output"), str):
            parts.setdefault(str(event.get("Package")), []).append(event["Output"])
    return "\n".join("".join(said) for said in parts.values())


def read(text: str, layout: str, path: Path) -> Document:  # noqa: ARG001
    text = _of_events(text) if text.startswith("{") else text
    settings: dict[str, str] = {}
    held: dict[tuple[str, str], list[dict[str, float]]] = {}
    for line in text.splitlines():
        match = RESULT.match(line)
        if match is None:
            if found := SETTING.match(line):
                settings[found["key"]] = found["value"]
            continue
        words = match["values"].split()
        pairs = zip(words[1::2], words[::2], strict=False)
        values = {unit: got for unit, value in pairs if (got := number(value)) is not None}
        name = match["name"].removeprefix("Benchmark")
        held.setdefault((settings.get("pkg", ""), name), []).append(
            {**values, "count": float(match["count"])}
        )
    measured = [_case(package, name, lines) for (package, name), lines in held.items()]
    about = About(
        "go",
        layout,
        cpu=settings.get("cpu"),
        os=settings.get("goos"),
        timer="wall time",
        libraries={key: settings[key] for key in ("goarch",) if key in settings},
    )
    return document(about, measured)


def _case(package: str, name: str, lines: list[dict[str, float]]) -> Measured:
    found = next(((unit, match["unit"]) for unit in lines[0] if (match := TIMED.match(unit))), None)
    if found is None:
        return Measured(name, path=package)
    key, unit = found
    taken = samples([line.get(key) for line in lines], unit)
    total = summary({"median": lines[0].get(key), "n": lines[0]["count"]}, unit)
    rate = lines[0].get("MB/s")
    moved = None if rate is None else whole(rate * 1e6 * lines[0][key] * NS_PER[unit] / 1e9)
    return Measured(
        name,
        **series("e2e_ns", [taken] if taken.size >= LEAST_SAMPLES else [], total),
        path=package,
        work=Work(None, moved, None),
    )
