"""Folders of graph files from a list of op specs, so that the files can be made again.

One line of the list is ``FOLDER SPEC``, for files that have the names of their graphs, or
``FILE.json SPEC``; blank lines and lines that start with ``#`` are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make.spec import make_graphs

if TYPE_CHECKING:
    from pathlib import Path


def collection_files(text: str, where: str) -> dict[str, bytes]:
    """Return each path below the collection's folder with the content of its file; nothing is
    written."""
    files: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        folder, _, spec = line.strip().partition(" ")
        if not spec:
            raise UsageError(f"{where}:{number}: expected FOLDER SPEC, got {line.strip()!r}")
        for graph in make_graphs(spec.strip()):
            path = folder if folder.endswith(".json") else f"{folder}/{graph.name}.json"
            files[path] = write_graph(graph)
    return files


def write_collection(list_path: Path, folder: Path) -> int:
    """Write the files of a list below `folder` and return their number."""
    files = collection_files(list_path.read_text(encoding="utf-8"), str(list_path))
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return len(files)
