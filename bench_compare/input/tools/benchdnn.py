"""benchdnn of oneDNN in the mode of performance: a line a problem, in the order of its template.
It holds the minimum and the mean; lines of one problem are its repetitions."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from bench_schema.document import Work

from bench_compare.input.tools.build import About, Measured, document, series
from bench_compare.input.tools.values import number, samples, summary, whole

if TYPE_CHECKING:
    from pathlib import Path

    from bench_schema.document import Document

DEFAULT = "perf,%engine%,%impl%,%name%,%prb%,%Gops%,%+ctime%,%-time%,%-Gflops%,%0time%,%0Gflops%"
TEMPLATE = re.compile(r"^(?:Output template|Template entries): (.*)$", re.M)
OPTIONS = re.compile(r"\s*--(?:mode|engine|max-ms-per-prb|perf-template|batch)=\S+")


def sniff(text: str) -> str | None:
    return "perf" if re.search(r"^perf,(cpu|gpu)", text, re.M) else None


def read(text: str, layout: str, path: Path) -> Document:  # noqa: ARG001
    found = TEMPLATE.search(text)
    names = [name.strip("%") for name in (found[1] if found else DEFAULT).strip().split(",")]
    ends = next((n for n, name in enumerate(names) if name.endswith("ops")), len(names))
    held = defaultdict(list)
    for line in text.splitlines():
        if not line.startswith("perf,"):
            continue
        cells = line.split(",")
        numbers = dict(zip(names[ends:], cells[len(cells) - (len(names) - ends) :], strict=True))
        words = cells[: len(cells) - len(numbers)]
        # perf, engine, impl, name, and the problem, which may hold commas itself.
        engine, name = words[1], words[3].strip('"') if "impl" in names else words[2].strip('"')
        first = 4 if "impl" in names else 3
        problem = OPTIONS.sub("", ",".join(words[first:])).strip()
        held[engine, name, problem].append((words[2] if "impl" in names else "", numbers))
    measured = [_case(*key, lines) for key, lines in held.items()]
    return document(About("benchdnn", layout, timer="wall time"), measured)


def _case(
    engine: str, name: str, problem: str, lines: list[tuple[str, dict[str, str]]]
) -> Measured:
    impl, first = lines[-1]
    means = samples([numbers.get("0time") for _, numbers in lines], "ms")
    total = summary({"mean": first.get("0time"), "min": first.get("-time")}, "ms")
    ops = number(first.get("Gops"))
    work = Work(whole(ops * 1e9) if ops else None, None, None)
    return Measured(
        problem or name,
        **series("e2e_ns", [means], total),
        engine=f"benchdnn {engine}",
        work=work,
        facts={"plan": {"kernel": impl}},
    )
