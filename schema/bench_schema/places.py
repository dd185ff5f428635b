"""Files that a command reads and writes: it does not write over a file that it reads, write a file
twice, or replace a finished document.

A command lists its places once, before it reads or writes anything (`check_places`). Two names are
one place if their paths without links and ``..`` are equal.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from bench_schema.errors import DocumentError, UnwritableError
from bench_schema.journal import is_journal, journal_path
from bench_schema.packing import GZIP_MAGIC, ZSTD_MAGIC, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

STDOUT = "-"
STREAMS = (STDOUT, "/dev/stdin", "/dev/stdout", "/dev/stderr")
RESULTS = (".json", ".json.gz", ".json.zst", ".json.journal")
"""Endings of the files that are read where a folder of result documents is named."""


@dataclass(frozen=True)
class Place:
    """A file, or the files of a folder, and the words of the command line that name it."""

    flag: str
    path: str
    endings: tuple[str, ...] = ()
    """Endings of the files of the folder that are read or written; empty if the path is a file."""
    is_report: bool = False
    """True if it is made from documents: a new one may replace an old one."""

    def __str__(self) -> str:
        return f"{self.flag} {self.path}"

    @cached_property
    def real(self) -> str:
        """Its path without links."""
        try:
            return os.path.realpath(self.path)
        except (OSError, ValueError):  # a name that no file can have
            return self.path

    @property
    def is_stream(self) -> bool:
        """True for places that take any number of texts: stdout, a device, a pipe."""
        if self.path in STREAMS or self.path.startswith("/dev/fd/"):
            return True
        is_known = os.path.isfile(self.path) or os.path.isdir(self.path)
        return not is_known and os.path.exists(self.path)

    def meets(self, other: Place) -> bool:
        """Return True if some file may belong to both."""
        names = [each.endings or (os.path.basename(each.real),) for each in (self, other)]
        if not any(x.endswith(y) or y.endswith(x) for x in names[0] for y in names[1]):
            return False
        return self.real == other.real or self._is_below(other) or other._is_below(self)

    def _is_below(self, folder: Place) -> bool:
        return bool(folder.endings) and self.real.startswith(f"{folder.real}{os.sep}")


def journaled(flag: str, path: str) -> Iterator[Place]:
    """Yield a result document, and what a run keeps next to it."""
    yield Place(flag, path)
    if path != STDOUT:
        yield Place(flag, str(journal_path(path)))
        yield Place(flag, f"{path}.lock")


def result_places(flag: str, pattern: str) -> Iterator[Place]:
    """Yield result documents that are read: a file, those of a folder, or what a glob matches."""
    matches = [] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
    for path in matches or [pattern]:
        yield Place(flag, path, RESULTS if os.path.isdir(path) else ())


def pipeline_files(path: Path) -> Iterator[Path]:
    """Yield the files that a suite or pipeline names: graphs and values of tensors. Yield none if
    it cannot be read; its reader reports that."""
    from bench_schema.pipeline import read_pipeline  # its reader of TOML is for few commands

    try:
        pipeline = read_pipeline(path)
    except (DocumentError, OSError):
        return
    yield from (layer.file for layer in pipeline.layers if layer.file is not None)
    rules = [rule for layer in pipeline.layers for rule in layer.init.values()]
    for rule in (*rules, *(each.init or "" for each in pipeline.inputs)):
        if rule.startswith("file:"):
            yield path.parent / rule.removeprefix("file:")


def check_places(inputs: Iterable[Place], outputs: Iterable[Place]) -> None:
    """Refuse outputs that are an input, lie where an input would read them, or are written twice;
    and reports that would replace a result document, a record or a graph.

    Raises `UnwritableError`, which names both places.
    """
    written = [each for each in outputs if not each.is_stream]
    read = [each for each in inputs if not each.is_stream] if written else []
    for output in written:
        refuse_flag(output)
        met = next((source for source in read if output.meets(source)), None)
        if met is not None:
            what = f"lies where {met} reads" if met.endings else f"{met} is read"
            raise UnwritableError(str(output), f"{what}: choose another place")
    for other, output in combinations(written, 2):
        if output.meets(other):
            raise UnwritableError(str(output), f"{other} writes there, too: choose another place")
    for report in written:
        kind = content_kind(report.path) if report.is_report else None
        if kind is not None:
            what = f"holds {kind}: choose another file for the report"
            raise UnwritableError(str(report), what)


def refuse_flag(output: Place) -> None:
    """Raise `UnwritableError` if a path begins as a flag does: ``ls *`` and the like would take its
    name for one."""
    if output.path.startswith("-") and output.path != STDOUT:
        what = f"it begins with '-', as a flag does: write ./{output.path} if it is a name"
        raise UnwritableError(str(output), what)


Kept: TypeAlias = Literal[
    "a finished run", "an unfinished run", "a tuning record", "an operation graph"
]


def content_kind(path: str) -> Kept | None:
    """Return the kind of content that a report must not replace; None for any other content, or
    without a file."""
    try:
        with open(path, "rb") as file:
            if not file.read(64).lstrip().startswith((b"{", GZIP_MAGIC, ZSTD_MAGIC)):
                return None
        data = read_bytes(path)
        if is_journal(data):
            return "an unfinished run"
        top = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if {"schema_version", "machine", "run"} <= top.keys():
            run = msgspec.json.decode(top["run"], type=dict[str, msgspec.Raw])
            is_cut = bytes(run.get("complete", b"")) == b"false"
            return "an unfinished run" if is_cut else "a finished run"
    except (OSError, ValueError, DocumentError, msgspec.MsgspecError):
        return None
    if bytes(top.get("kind", b"")) == b'"bench-run tune"':
        return "a tuning record"
    return "an operation graph" if {"tensors", "nodes"} <= top.keys() else None


def refuse_replacing(
    path: str, *, force: bool, resume: bool = False, flag: str = "-o", journal: str | None = None
) -> None:
    """Raise `UnwritableError` if a result document or a record may not replace the content of the
    file: never that of a graph, and of anything else only with ``--force``. `journal`: of an
    unfinished run, if it does not lie beside the file as that of a document does."""
    place = Place(flag, path)
    if place.is_stream:
        return
    kind = content_kind(path)
    if kind == "an operation graph":
        raise UnwritableError(str(place), "holds an operation graph: choose another output")
    if force or resume:
        return
    if os.path.lexists(journal or journal_path(path)) or kind == "an unfinished run":
        what = "an unfinished run is there: continue it with --resume, or replace it with --force"
        raise UnwritableError(str(place), what)
    if os.path.isfile(path) and os.path.getsize(path):
        what = kind or "something else"
        raise UnwritableError(
            str(place), f"holds {what}: replace it with --force, or choose another output"
        )
