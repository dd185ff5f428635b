"""Other tools' result files, read into our document: a table of tools, a file for each."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from bench_schema.errors import DocumentError

from bench_compare.input.tools import (
    benchdnn,
    blas_bench,
    criterion,
    dnn_benchmarking,
    go,
    google_benchmark,
    hyperfine,
    miopen_driver,
    nvbench,
    primbench,
    pyperf,
    pytest_benchmark,
    triton,
    tritonbench,
    trtexec,
)
from bench_compare.model import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench_schema.document import Document


class Reader(NamedTuple):
    tool: str
    sniff: Callable[[Any], str | None]
    """Layout of a JSON value, or of text, that the tool wrote; None of any other."""
    read: Callable[[Any, str, Path], Document]
    """Value or text, layout and path to the document."""


JSON: tuple[Reader, ...] = (
    Reader("dnn-benchmarking", dnn_benchmarking.sniff, dnn_benchmarking.read),
    Reader("nvbench", nvbench.sniff, nvbench.read),
    Reader("primbench", primbench.sniff, primbench.read),
    Reader("pytest-benchmark", pytest_benchmark.sniff, pytest_benchmark.read),
    Reader("Google Benchmark", google_benchmark.sniff, google_benchmark.read),
    Reader("hyperfine", hyperfine.sniff, hyperfine.read),
    Reader("pyperf", pyperf.sniff, pyperf.read),
    Reader("tritonbench", tritonbench.sniff_json, tritonbench.read_json),
    Reader("trtexec", trtexec.sniff, trtexec.read),
    Reader("criterion", criterion.sniff_json, criterion.read_json),
)
TEXT: tuple[Reader, ...] = (
    Reader("criterion", criterion.sniff_text, criterion.read_text),
    Reader("hipblaslt-bench, rocblas-bench", blas_bench.sniff, blas_bench.read),
    Reader("benchdnn", benchdnn.sniff, benchdnn.read),
    Reader("MIOpenDriver", miopen_driver.sniff, miopen_driver.read),
    Reader("Go", go.sniff, go.read),
    Reader("tritonbench", tritonbench.sniff_text, tritonbench.read_text),
    Reader("Triton", triton.sniff, triton.read),
)
TOOLS = ", ".join(dict.fromkeys(one.tool for one in (*JSON, *TEXT)))
UNITS = "no column of this table has a unit ({}); name it as in 'triton (ms)' or 'triton (GB/s)'"


class NotKnownError(DocumentError):
    """The file is not one of a tool in the table."""


def read_tool(data: bytes, path: Path) -> Source:
    """Return the document in a file of another tool. Raises `NotKnownError` if no reader knows it,
    `DocumentError` if it is damaged."""
    text = data.decode("utf-8", "replace")
    try:
        found, readers = json.loads(text), JSON  # also with the NaN that Google Benchmark writes
    except (ValueError, RecursionError):
        found, readers = text, TEXT
    for reader in readers:
        layout = reader.sniff(found)
        if layout is None:
            continue
        try:
            document = reader.read(found, layout, path)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            what = f"looks like a file of {reader.tool}, but is damaged: "
            raise DocumentError(str(path), f"{what}{type(error).__name__} {error}") from None
        run = replace(document.run, id=_identity(data, path))
        return Source(str(path), replace(document, run=run), f"{reader.tool} {layout}")
    head = text.lstrip().partition("\n")[0].strip()
    if found is text and path.suffix == ".csv" and re.search(r"[;,\t]", head):
        raise NotKnownError(str(path), UNITS.format(head))
    raise NotKnownError(
        str(path),
        f"no results of a tool that is known: bench-run, {TOOLS} (bench-compare help tools)",
    )


def _identity(data: bytes, path: Path) -> str:
    """Return a hash of a file: under two names it is one run. criterion gives all of its files one
    name, and their content does not say which benchmark they are of."""
    place = path.resolve().parent if path.name == "estimates.json" else ""
    return hashlib.sha256(f"{place} {path.stat().st_size} ".encode() + data).hexdigest()
