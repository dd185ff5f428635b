"""``--save-suite``: what was gathered as a suite, graphs of one meaning once, with their count.

Applications that log their graphs (`HIPDNN_LOG_GRAPH_DIR`, `MIOPEN_ENABLE_LOGGING_CMD`) write the
same one over and over; names and numbering differ, meaning does not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.files import writing
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.sources.suites import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_run.graph.sources.load import LoadedGraph


@dataclass(frozen=True)
class Repeated:
    """A graph, and how often one of its meaning occurs."""

    loaded: LoadedGraph
    repeat: int


def merge_duplicates(graphs: Iterable[LoadedGraph]) -> tuple[Repeated, ...]:
    """One for each meaning, the first of them, in order of their first."""
    found: dict[str, Repeated] = {}
    for loaded in graphs:
        key = fingerprint(loaded.graph)
        known = found.get(key)
        first = loaded if known is None else known.loaded
        repeat = loaded.repeat + (0 if known is None else known.repeat)
        found[key] = Repeated(first, repeat)
    return tuple(found.values())


def save_suite(graphs: Sequence[LoadedGraph], path: str) -> str:
    """Write the suite file, and its graphs into a folder of its name beside it. Returns what was
    done, in a line."""
    if not path.endswith(SUFFIX):
        raise UsageError(f"--save-suite: {path} should end in {SUFFIX}")
    merged = merge_duplicates(graphs)
    folder = Path(path).with_suffix("")
    names = _file_names(merged)
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        for name, each in zip(names, merged, strict=True):
            (folder / name).write_bytes(each.loaded.text)
        Path(path).write_text(_suite_text(folder.name, names, merged), encoding="utf-8")
    total = sum(each.repeat for each in merged)
    return f"--save-suite: {len(merged)} graphs for {total} occurrences in {path}"


def _file_names(merged: Sequence[Repeated]) -> list[str]:
    """Of the files they came from; what is there already gets a number."""
    names: dict[str, None] = {}
    for each in merged:
        stem = Path(each.loaded.path.rpartition("!")[2]).name.partition(".json")[0]
        stem = stem.replace("#", "_") or "graph"
        name, number = f"{stem}.json", 2
        while name in names:
            name, number = f"{stem}_{number}.json", number + 1
        names[name] = None
    return list(names)


def _suite_text(folder: str, names: Sequence[str], merged: Sequence[Repeated]) -> str:
    total = sum(each.repeat for each in merged)
    head = f'about = "{total} graphs as they were logged, {len(merged)} different ones"\n'
    rows = (
        f"\n[[graph]]\nrepeat = {each.repeat}\nfile = {json.dumps(f'{folder}/{name}')}\n"
        for name, each in zip(names, merged, strict=True)
    )
    return head + "".join(rows)
