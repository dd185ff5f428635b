"""Other tools' result files, read into our document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_compare.input.foreign import dnn_benchmarking
from bench_compare.model import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench_schema.document import Document

READERS: dict[str, tuple[Callable[[Any], str | None], Callable[[Any, str, Path], Document]]] = {
    "dnn-benchmarking": (dnn_benchmarking.sniff, dnn_benchmarking.read),
}
"""Tool → what tells its layout by the content, and what reads it."""


def read_foreign(tree: Any, path: Path) -> Source | None:
    """The document in another tool's JSON; None where no reader knows it."""
    for tool, (sniff, read) in READERS.items():
        layout = sniff(tree)
        if layout is not None:
            return Source(str(path), read(tree, layout, path), f"{tool} {layout}")
    return None
