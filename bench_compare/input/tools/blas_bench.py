"""hipblaslt-bench and rocblas-bench: two lines a problem on stdout, names and values with commas.
A time is the mean of the hot calls, without scatter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench_schema.document import Work

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.values import number, summary, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench_schema.document import Document

HEAD = re.compile(
    r"^(?:[ \t]*\[\d+\]:?)?(?P<names>[\w ,/-]*\b(?P<tool>hipblaslt|rocblas)-G(?:flops|B/s).*)$",
    re.M,
)
RATES = ("-Gflops", "-GB/s")
HOW = {"alpha", "beta", "cold_iters", "hot_iters", "rotating_buffer", "flush", "use_gpu_timer"}
"""Columns that are not the problem: factors, and how it was measured."""
SOLUTION = re.compile(r"\s*--Solution index:\s*(\d+)")


def sniff(text: str) -> str | None:
    found = HEAD.search(text)
    return None if found is None else f"{found['tool']}-bench"


def read(text: str, layout: str, path: Path) -> Document:  # noqa: ARG001
    lines = text.splitlines()
    about = About(layout, "text", timer="mean of calls")
    return document(about, list(_cases(lines)))


def _cases(lines: Sequence[str]) -> Iterator[Measured]:
    names: list[str] = []
    for number_, line in enumerate(lines):
        match = HEAD.match(line)
        if match is not None:
            names = [name.strip() for name in match["names"].split(",")]
            continue
        values = [value.strip() for value in line.split(",")]
        if not names or len(values) != len(names) or len(values) < 2:
            continue
        after = SOLUTION.match(lines[number_ + 1]) if number_ + 1 < len(lines) else None
        yield _case(names, values, after and after[1])


def _case(names: Sequence[str], values: Sequence[str], solution: str | None) -> Measured:
    results = next(n for n, name in enumerate(names) if re.search(r"-G(flops|B/s)$", name))
    problem = " ".join(
        f"{name}={value}"
        for name, value in zip(names[:results], values, strict=False)
        if name not in HOW
    )
    held = dict(reversed(list(zip(names[results:], values[results:], strict=True))))
    time = number(held.get("us"))
    rates = (number(next((held[n] for n in held if n.endswith(kind)), None)) for kind in RATES)
    done = [whole(rate * 1e3 * (time or 0.0)) if rate else None for rate in rates]
    return Measured(
        problem,
        **series("device_ns", [], summary({"mean": time}, "us")),
        device_index=0,
        work=Work(*done),
        facts={"plan": {} if solution is None else {"plan": solution}},
    )
