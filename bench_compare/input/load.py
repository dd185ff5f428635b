"""Files, folders and globs → documents; other tools' results are read into the same model."""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema import files, packing
from bench_schema.document import COMPLETED
from bench_schema.errors import DocumentError, FutureVersionError, NotJsonError, UnreadableError

from bench_compare.errors import InputError
from bench_compare.model import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PACKED = ("", ".gz", ".zst")
KINDS = (".json", ".csv", ".txt", ".log", ".jsonl")
JSON = tuple(f".json{one}" for one in PACKED)
SUFFIXES = (".json.journal", *(f"{kind}{one}" for kind in KINDS for one in PACKED))
"""Endings of the files to read in a folder; a file that is named may have any name."""


def load(patterns: Iterable[str], exit_codes: Sequence[str] = ()) -> tuple[list[Source], list[str]]:
    """Return the documents behind file names, folders and globs, in that order, each file once; and
    sentences about files in folders that are none, or cannot be read. A run that ended with one of
    the exit codes is a success. Raises `InputError`, of a file that was named also
    `DocumentError`."""
    sources: list[Source] = []
    remarks: list[str] = []
    known: dict[object, Any] = {}
    for path, named in files_of(list(patterns)):
        try:
            source = read_source(path)
        except DocumentError as error:
            if named:
                raise
            said = passed_over(path, error)
            remarks += [said] if said else []
            continue
        source = _accepting(source, exit_codes) if exit_codes else source
        sources.append(_sharing(source, known))
    return sources, remarks


SHARED = ("id", "graph", "engine", "outcome", "work", "stopped_by")


def _sharing(source: Source, known: dict[object, Any]) -> Source:
    """Return the document with one object for parts that are equal in several cases or
    documents."""
    cases = []
    for case in source.document.cases:
        parts = {name: getattr(case, name) for name in SHARED}
        shared = {name: known.setdefault(part, part) for name, part in parts.items()}
        cases.append(replace(case, **shared))
    return replace(source, document=replace(source.document, cases=tuple(cases)))


def _accepting(source: Source, exit_codes: Sequence[str]) -> Source:
    """Return the document in which commands that ended with these codes only completed."""
    from bench_compare.input.tools.hyperfine import ENDED

    cases = []
    for case in source.document.cases:
        codes = {note.removeprefix(ENDED) for note in case.notes if note.startswith(ENDED)}
        is_meant = codes and codes <= set(exit_codes)
        cases.append(replace(case, outcome=COMPLETED) if is_meant else case)
    return replace(source, document=replace(source.document, cases=tuple(cases)))


def files_of(patterns: Sequence[str]) -> list[tuple[Path, bool]]:
    """Return the files that may hold documents, each once, and whether it was named: named files,
    and those of folders, sorted, sub-folders included, without a journal next to its finished
    document. Raises `InputError`."""
    found: dict[Path, tuple[Path, bool]] = {}
    for pattern in patterns:
        path = Path(pattern)
        named = path.is_dir() or path.exists() or not glob.has_magic(pattern)
        matches = [path] if named else sorted(map(Path, glob.glob(pattern, recursive=True)))
        if not matches:
            raise InputError(f"{pattern}: no file matches")
        for match in matches:
            inside = _in_folder(match) if match.is_dir() else [match]
            for one in inside:
                found.setdefault(one.resolve(), (one, one == match))
    return list(found.values())


def _in_folder(folder: Path) -> list[Path]:
    every = (one for one in folder.rglob("*") if one.name.endswith(SUFFIXES) and one.is_file())
    names = {str(path): path for path in sorted(every) if not _is_of_criterion(path, folder)}
    found = [path for name, path in names.items() if name.removesuffix(".journal") not in names
             or not name.endswith(".journal")]  # fmt: skip
    if not found:
        raise InputError(f"{folder}: no results in this folder ({', '.join(KINDS)}, .gz, .zst)")
    return found


def _is_of_criterion(path: Path, folder: Path) -> bool:
    """Return True for what criterion keeps next to the last estimates: parts of them, and below the
    folder that is read the estimates of the run before and their changes."""
    older = path.parent != folder and path.parent.name in ("base", "change", "report")
    is_extra = older or path.name != "estimates.json"
    return is_extra and (path.parent.parent / "new" / "estimates.json").is_file()


def read_source(path: Path) -> Source:
    """Read one document, ours or another tool's. Raises `DocumentError`."""
    data = packing.read_bytes(path)
    try:
        return Source(str(path), files.document_in(data, str(path)), "bench")
    except DocumentError as error:
        unread = error
    from bench_compare.input.tools import NotKnownError, read_tool

    try:
        return read_tool(data, path)
    except NotKnownError:
        is_json = path.name.endswith((*JSON, ".journal")) or b"\0" in data
        is_json |= data.lstrip()[:1] in (b"", b"{", b"[")
        broken = isinstance(unread, NotJsonError | UnreadableError | FutureVersionError)
        is_ours = b'"schema_version"' in data and b'"machine"' in data
        if (broken and is_json) or is_ours:
            raise unread from None
        raise


def passed_over(path: Path, error: DocumentError) -> str | None:
    """Return a sentence about a file in a folder that is not read; None for text of something
    else, such as a log."""
    from bench_compare.input.tools import NotKnownError

    if not isinstance(error, NotKnownError):
        return f"{error}; passed over"
    return f"{path}: passed over, it holds no results" if path.name.endswith(JSON) else None
