"""trtexec: ``--exportTimes``. One object an inference; those of its warm-up are among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_compare.input.tools.build import About, Measured, both, document, series
from bench_compare.input.tools.values import number, rows, samples

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

WARMUP_MS = 200.0
"""Default of ``--warmUp``, which the file does not state: inferences that start earlier."""


def sniff(tree: Any) -> str | None:
    every, keys = rows(tree), {"computeMs", "latencyMs"}
    return "times" if every and all(keys <= row.keys() for row in every) else None


def read(tree: Any, layout: str, path: Path) -> Document:  # noqa: ARG001
    every = rows(tree)
    warm = [row for row in every if (number(row.get("startComputeMs")) or 0) >= WARMUP_MS]
    kept = warm if len(warm) * 2 >= len(every) else every
    times = {"device_ns": "computeMs", "e2e_ns": "latencyMs"}
    found = both(
        *(
            series(name, [samples([r.get(k) for r in kept], "ms")], None)
            for name, k in times.items()
        )
    )
    left = len(every) - len(kept)
    notes = (f"left out: {left} inferences in the first {WARMUP_MS:g} ms",) if left else ()
    about = About("trtexec", layout, timer="events", notes=notes)
    return document(about, [Measured("inference", **found, device_index=0)])
