"""Files that a command reads and writes. It does not write to a file that it reads, write a file
twice, or replace measurements with a report.

A command lists its places once, before it reads or writes anything (`check_places`). Two names are
one place if links, ``..`` or hard links lead to one file, or would once it is made.
"""

from __future__ import annotations

import glob
import os
import stat
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
STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr")
DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
RESULTS = (".json", ".json.gz", ".json.zst", ".json.journal")
"""Endings of the files that are read where a folder of result documents is named."""


@dataclass(frozen=True)
class Place:
    """A file, or the files of a folder, and the words of the command line that name it."""

    flag: str
    path: str
    endings: tuple[str, ...] = ()
    """Endings of the files below the folder that are read or written; empty if the path is a
    file."""
    start: str = ""
    """Common start of the names of these files."""
    owner: str = ""
    """The file beside which it lies, where the command itself gives the name."""
    is_report: bool = False
    """Made from documents, so a new one may take the place of an old one."""

    def __str__(self) -> str:
        beside = f"{os.path.join(self.path, self.start)}*" if self.start else self.path
        return f"{self.flag} {beside}"

    @cached_property
    def key(self) -> object:
        return key_of(self.path)

    @cached_property
    def real(self) -> str:
        """Its path without links."""
        return _real(self.path)

    @property
    def is_stream(self) -> bool:
        """True for places that take any number of texts: stdout, a device, a pipe."""
        whole = os.path.abspath(self.path)
        if self.path == STDOUT or whole in STREAMS or whole.startswith(DESCRIPTORS):
            return True
        try:
            mode = os.stat(self.path).st_mode
        except (OSError, ValueError):
            return False
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)

    def holds(self, name: str) -> bool:
        """Return True if a file, by its name relative to the folder, is one of its files."""
        return name.startswith(self.start) and name.endswith(self.endings)


def journaled(flag: str, path: str) -> Iterator[Place]:
    """Yield a result document, and what a run keeps beside it."""
    yield Place(flag, path)
    if path != STDOUT:
        yield Place(flag, str(journal_path(path)), owner=path)
        yield Place(flag, f"{path}.lock", owner=path)


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
    for output in written:
        refuse_flag(output)
    read = [each for each in inputs if not each.is_stream] if written else []
    for output in written:
        met = next((source for source in read if _meet(output, source)), None)
        if met is not None:
            raise UnwritableError(str(output), _overwritten(output, met))
    for other, output in combinations(written, 2):
        if _meet(output, other):
            raise UnwritableError(str(output), _written_twice(output, other))
    for report in written:
        kind = content_kind(report.path) if report.is_report else None
        if kind is not None:
            what = f"holds {kind}: choose another file for the report"
            raise UnwritableError(str(report), what)


def refuse_flag(output: Place) -> None:
    """Raise `UnwritableError` if a path begins as a flag does: ``ls *`` and the like would take its
    name for one."""
    if output.path.startswith("-"):
        what = f"it begins with '-', as a flag does: write ./{output.path} if it is a name"
        raise UnwritableError(str(output), what)


def _written_twice(output: Place, other: Place) -> str:
    if output.endings or other.endings:
        return f"{other} writes there, too: choose another place"
    if output.owner or other.owner:
        owner = other.owner or output.owner
        return f"is a file that is kept beside {owner} for {other.flag}: choose another name"
    return f"{other} would be written to the same file: choose another name"


def _overwritten(output: Place, source: Place) -> str:
    beside = f" (beside {output.owner})" if output.owner else ""
    if source.endings:
        return f"lies where {source} reads{beside}: choose another place"
    return f"{source} is read, and would be overwritten{beside}: choose another place"


def _meet(a: Place, b: Place) -> bool:
    """Return True if some file belongs to both."""
    if not a.endings and not b.endings:
        return a.key == b.key
    if not a.endings or not b.endings:
        file, folder = (b, a) if a.endings else (a, b)
        name = _below(file, folder)
        return name is not None and folder.holds(name)
    if not any(x.endswith(y) or y.endswith(x) for x in a.endings for y in b.endings):
        return False
    if a.key == b.key:
        return a.start.startswith(b.start) or b.start.startswith(a.start)
    nested = ((_below(a, b), b), (_below(b, a), a))
    return any(name is not None and f"{name}/".startswith(outer.start) for name, outer in nested)


def _below(inner: Place, outer: Place) -> str | None:
    """Return the relative name of a place in a folder; None if it lies elsewhere."""
    name = os.path.relpath(inner.real, outer.real)
    return None if name in (".", "..") or name.startswith(f"..{os.sep}") else name


def key_of(path: str) -> object:
    """Return a key that is equal for all names of one file, whether it is there yet or not."""
    real = _real(path)
    try:
        info = os.stat(real)
    except (OSError, ValueError):
        return real
    return info.st_dev, info.st_ino


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a name that no file can have
        return path


# Contents of files that may be needed.


class _Top(msgspec.Struct):
    """Fields that tell one file of JSON from another."""

    schema_version: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    machine: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    run: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    kind: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tensors: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    nodes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Run(msgspec.Struct):
    complete: bool = True


TUNED = b'"bench-run tune"'
"""The kind of a tuning record, as `bench_schema.tuning` has it."""
Kept: TypeAlias = Literal[
    "a finished run",
    "an unfinished run",
    "a tuning record",
    "an operation graph",
]


def content_kind(path: str) -> Kept | None:
    """Return the kind of content that a report must not replace; None for any other content, or
    without a file."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            begin = file.read(64).lstrip()
        if not begin.startswith((b"{", GZIP_MAGIC, ZSTD_MAGIC)):
            return None
        data = read_bytes(path)
        if is_journal(data):
            return "an unfinished run"
        top = msgspec.json.decode(data, type=_Top)
        if msgspec.UNSET not in (top.schema_version, top.machine) and isinstance(
            top.run, msgspec.Raw
        ):
            complete = msgspec.json.decode(top.run, type=_Run).complete
            return "a finished run" if complete else "an unfinished run"
    except (OSError, ValueError, DocumentError, msgspec.MsgspecError):
        return None
    if bytes(top.kind if isinstance(top.kind, msgspec.Raw) else b"") == TUNED:
        return "a tuning record"
    return None if msgspec.UNSET in (top.tensors, top.nodes) else "an operation graph"


def refuse_replacing(
    path: str, *, force: bool, resume: bool = False, flag: str = "-o", journal: str | None = None
) -> None:
    """Raise `UnwritableError` if a result document or a record may not replace the content of the
    file: never that of a graph, and of anything else only with ``--force``. `journal`: of an
    unfinished run, if it does not lie beside the file as that of a document does."""
    place = Place(flag, path)
    if place.is_stream:
        return
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    kind = content_kind(path) if size else None
    if kind == "an operation graph":
        raise UnwritableError(str(place), "holds an operation graph: choose another output")
    if force or resume:
        return
    begun = os.path.lexists(journal or journal_path(path))
    if begun or kind == "an unfinished run":
        what = "an unfinished run is there: continue it with --resume, or replace it with --force"
        raise UnwritableError(str(place), what)
    if size:
        what = kind or "something else"
        raise UnwritableError(
            str(place), f"holds {what}: replace it with --force, or choose another output"
        )
