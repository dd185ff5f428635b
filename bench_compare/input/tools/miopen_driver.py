"""MIOpenDriver: what it prints with ``-t 1``. A time is the mean of its iterations, without
scatter; batch normalisation has their minimum too."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_schema.document import Validation, Work

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.values import UNKNOWN, number, summary, whole

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

COMMAND = re.compile(r"^.*?\bMIOpenDriver:?\s+(?P<words>[a-z]\w*\s+-.*)$")
TIME = re.compile(
    r"^GPU Kernel (?:(?P<kind>Min|Avg) )?Time (?P<what>.+?)\.? Elapsed: (?P<ms>[\d.eE+-]+) ms"
)
WALL = re.compile(r"^Wall-clock Time (?P<what>.+?)\.? Elapsed: (?P<ms>[\d.eE+-]+) ms")
SOLUTION = re.compile(
    r"^MIOpen (?P<what>.+?)\. Algorithm: (?P<algorithm>\d+)(?:, Solution: (.*))?$"
)
CHECK = re.compile(r"^(?P<what>(?:Forward|Backward).*?) (?P<word>Verifies|FAILED)\b")
HOW = re.compile(r"\s-(?:t|i|V|w|s|-time|-iter|-verify|-wall|-search)\s+\S+")
"""Flags that say how it is run."""


@dataclass
class Found:
    name: str
    device: dict[str, Any] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, str] = field(default_factory=dict)
    flops: int | None = None
    moved: int | None = None
    status: Any = None


def sniff(text: str) -> str | None:
    return "stdout" if re.search(r"^GPU Kernel (Min |Avg )?Time .* Elapsed: ", text, re.M) else None


def read(text: str, layout: str, path: Path) -> Document:
    command = path.stem
    names: list[str] = []
    held: dict[tuple[int, str], Found] = {}
    number_ = 0
    last: Found | None = None
    for line in map(str.strip, text.splitlines()):
        if match := COMMAND.match(line):
            number_, command, names = number_ + 1, HOW.sub("", f" {match['words']}").strip(), []
            continue
        match = TIME.match(line) or WALL.match(line) or SOLUTION.match(line)
        if match is not None:
            last = held.setdefault((number_, _step(match["what"])), Found(command))
            if match.re is TIME:
                last.device["min" if match["kind"] == "Min" else "mean"] = match["ms"]
            elif match.re is WALL:
                last.host["mean"] = match["ms"]
            else:
                last.plan |= {"algorithm": match["algorithm"], "solution": match[3] or UNKNOWN}
        elif line.startswith("stats: name"):
            names = [name.strip() for name in line[7:].split(",")]
        elif line.startswith("stats:") and names and last is not None:
            values = [value for value in re.split(r",\s*|\s{2,}", line[7:]) if value]
            stats = dict(zip(reversed(names), reversed(values), strict=False))
            moved = [whole(stats.get(name)) or 0 for name in ("bytesRead", "bytesWritten")]
            last.flops, last.moved = whole(stats.get("flopCnt")) or None, sum(moved) or None
        elif match := CHECK.match(line):
            checked = held.get((number_, _step(match["what"])))
            if checked is not None:
                checked.status = "passed" if match["word"] == "Verifies" else "failed"
    measured = [_case(f"{one.name} ({step})", one) for (_, step), one in held.items()]
    return document(About("MIOpenDriver", layout, timer="events"), measured)


def _step(what: str) -> str:
    """Return ``forward``, ``backward data``, ``backward weights`` or another name of a step."""
    words = re.sub(r"\bconv(olution)?\b", "", what.lower().replace("backwards", "backward")).split()
    return " ".join(words[:2]) if words[1:2] in (["data"], ["weights"]) else words[0]


def _case(name: str, one: Found) -> Measured:
    stats = {key: number(value) for key, value in one.device.items()}
    found = series("device_ns", [], summary(stats, "ms"))
    host = series("e2e_ns", [], summary(one.host, "ms"))
    checked = {"validation": Validation(one.status, UNKNOWN, None, (), 0, 0, None)}
    return Measured(
        name,
        summary={**found.get("summary", {}), **host.get("summary", {})},
        device_index=0,
        work=Work(one.flops, one.moved, None),
        facts={"plan": one.plan, **(checked if one.status else {})},
    )
