"""Triton: the table that ``perf_report`` writes. Its first columns are the shapes, the others one
provider each, with the unit in the title: ``triton (GB/s)``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench_schema.document import Outcome, Work
from bench_schema.errors import DocumentError

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.lines import cells_of, titles_of
from bench_compare.input.tools.values import NS_PER, number, summary

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

TITLE = re.compile(r"(?P<name>[^(\[]*)[(\[](?P<label>.+)[)\]](?P<end>-min|-max)?$")
RATES = {"gb/s": ("moved_bytes", 10**9), "gbps": ("moved_bytes", 10**9)}
RATES |= {"tb/s": ("moved_bytes", 10**12), "tbps": ("moved_bytes", 10**12)}
RATES |= dict.fromkeys(("gflops", "gflop/s", "gflops/s"), ("flops", 10**9))
RATES |= dict.fromkeys(("tflops", "tflop/s", "tflops/s"), ("flops", 10**12))
"""Unit of a rate to the kind of work, and how much of it a rate of 1 does in one second."""
AMOUNTS = {10**9: "1 G", 10**12: "1 T"}


def sniff(text: str) -> str | None:
    return "csv" if any(map(_column, titles_of(text))) else None


def read(text: str, layout: str, path: Path) -> Document:
    head, *body = cells_of(text)
    columns = {n: found for n, title in enumerate(head) if (found := _column(title))}
    first = min(columns)
    measured = []
    for line in body:
        if len(line) != len(head):
            raise DocumentError(str(path), f"a row of {len(line)} values under {len(head)} titles")
        shapes = zip(head[:first], line, strict=False)
        # pandas writes a whole number as 128.0
        shape = " ".join(f"{t}={re.sub(r'[.,]0+$', '', one.strip())}" for t, one in shapes if t)
        held: dict[tuple[str, str], dict[str, float | None]] = {}
        for place, (provider, unit, kind) in columns.items():
            held.setdefault((provider, unit), {})[kind] = number(line[place])
        measured += [_case(shape or path.stem, *key, stats) for key, stats in held.items()]
    rated = sorted({unit for _, unit, _ in columns.values() if unit in RATES})
    notes = [
        f"rates in {unit} are shown as the time of {AMOUNTS[RATES[unit][1]]}"
        f"{'B' if RATES[unit][0] == 'moved_bytes' else 'FLOP'}"
        for unit in rated
    ]
    about = About("triton", layout, timer="do_bench", notes=tuple(notes))
    return document(about, measured)


def _column(title: str) -> tuple[str, str, str] | None:
    """Return the provider of a title, its unit, and ``median``, ``min`` or ``max``; None for a
    title without a unit. The label of an axis may have more words: ``Runtime, ms``."""
    found = TITLE.match(title.strip())
    if found is None:
        return None
    words = re.split(r"[^\w/µμ]+", found["label"].lower())
    unit = next((word for word in reversed(words) if word in NS_PER or word in RATES), None)
    if unit is None:
        return None
    name, kind = found["name"].strip() or title, (found["end"] or "").strip("-")
    for end in ("min", "max"):
        if name.endswith(f"-{end}"):
            name, kind = name.removesuffix(f"-{end}"), end
    return name, unit, kind or "median"


def _case(name: str, provider: str, unit: str, stats: dict[str, float | None]) -> Measured:
    centre = stats.get("median")
    if centre is None or centre <= 0:
        outcome = Outcome("unsupported", "the table does not have a time")
        return Measured(name, engine=provider, outcome=outcome)
    if unit in NS_PER:
        return Measured(name, **series("device_ns", [], summary(stats, unit)), engine=provider)
    kind, amount = RATES[unit]
    # The highest rate is the shortest time.
    swapped = {"min": stats.get("max"), "max": stats.get("min"), "median": centre}
    times = {key: 1 / value for key, value in swapped.items() if value}
    work = Work(**{kind: amount})
    return Measured(
        name, **series("device_ns", [], summary(times, "s")), engine=provider, work=work
    )
