"""Other tools' result files, read into our document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bench_schema.errors import DocumentError

from bench_compare.input.foreign import dnn_benchmarking, gpu_tools, host_tools
from bench_compare.model import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench_schema.document import Document


class Reader(NamedTuple):
    sniff: Callable[[Any], str | None]
    """Layout of a tree that the tool wrote; None of any other."""
    read: Callable[[Any, str, Path], Document]
    """Tree, layout and path to the document."""
    flag: str
    """Words of the tool's command line that write such a file."""


READERS: dict[str, Reader] = {
    "dnn-benchmarking": Reader(dnn_benchmarking.sniff, dnn_benchmarking.read, "results"),
    "nvbench": Reader(gpu_tools.is_nvbench, gpu_tools.read_nvbench, "--json, --jsonbin"),
    "primbench": Reader(gpu_tools.is_primbench, gpu_tools.read_primbench, "--json-out"),
    "Google Benchmark": Reader(
        host_tools.is_google_benchmark, host_tools.read_google_benchmark, "--benchmark_out"
    ),
    "pytest-benchmark": Reader(
        host_tools.is_pytest_benchmark, host_tools.read_pytest_benchmark, "--benchmark-json"
    ),
    "hyperfine": Reader(host_tools.is_hyperfine, host_tools.read_hyperfine, "--export-json"),
    "pyperf": Reader(host_tools.is_pyperf, host_tools.read_pyperf, "-o"),
}
TABLE = ".csv"
"""Suffix of tables as Triton's perf_report writes them."""
FORMATS = ", ".join([*(f"{tool} ({one.flag})" for tool, one in READERS.items()), "Triton (.csv)"])


def read_foreign(tree: Any, path: Path) -> Source | None:
    """Return the document in another tool's JSON; None if no reader knows it."""
    for tool, reader in READERS.items():
        layout = reader.sniff(tree)
        if layout is None:
            continue
        try:
            return Source(str(path), reader.read(tree, layout, path), f"{tool} {layout}")
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            what = f"looks like a file of {tool}, but is damaged: {type(error).__name__} {error}"
            raise DocumentError(str(path), what) from None
    return None


def read_foreign_table(text: str, path: Path) -> Source:
    """Return the document in a table of another tool."""
    return Source(str(path), gpu_tools.read_table(text, path), "Triton csv")
