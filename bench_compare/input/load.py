"""Files, folders and globs → documents; other tools' results are read into the same model."""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema import codec, files, packing
from bench_schema.errors import DocumentError, FutureVersionError

from bench_compare.errors import InputError
from bench_compare.model import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIXES = (".json", ".json.gz", ".json.zst", ".json.journal")
"""Endings of the files to read in a folder."""
NOT_JSON = object()


def load(patterns: Iterable[str]) -> tuple[list[Source], list[str]]:
    """Return the documents behind file names, folders and globs, in that order, each file once; and
    sentences about files in folders that are none, or cannot be read. Raises `InputError`, of a
    file that was named also `DocumentError`."""
    sources: list[Source] = []
    remarks: list[str] = []
    found: dict[Path, tuple[Path, bool]] = {}
    for path, named in _paths(patterns):
        found.setdefault(path.resolve(), (path, named))
    known: dict[object, Any] = {}
    for path, named in found.values():
        try:
            source = read_source(path) if named else _read_found(path)
        except DocumentError as error:
            if named:
                raise
            remarks.append(f"{error}; passed over")
            continue
        if source is None:
            remarks.append(f"{path}: passed over, it holds no results")
        else:
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


def _paths(patterns: Iterable[str]) -> Iterator[tuple[Path, bool]]:
    """Yield (path, True if it was named as a file)."""
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            yield from ((found, False) for found in _in_folder(path))
        elif path.exists() or not glob.has_magic(pattern):
            yield path, True
        else:
            matches = sorted(glob.glob(pattern, recursive=True))
            if not matches:
                raise InputError(f"{pattern}: no file matches")
            for match in map(Path, matches):
                if match.is_dir():
                    yield from ((found, False) for found in _in_folder(match))
                else:
                    yield match, True


def _in_folder(folder: Path) -> list[Path]:
    """Return the files of a folder, sorted, sub-folders included, without a journal next to its
    finished document."""
    found = sorted(
        path for path in folder.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file()
    )
    names = {str(path) for path in found}
    found = [
        path for path in found if str(path).removesuffix(".journal") not in names - {str(path)}
    ]
    if not found:
        raise InputError(f"{folder}: no results in this folder ({', '.join(SUFFIXES)})")
    return found


def read_source(path: Path) -> Source:
    """Read one document, ours or another tool's. Raises `DocumentError`."""
    try:
        return Source(str(path), files.read(path), "bench")
    except DocumentError as error:
        from bench_compare.input.foreign import FORMATS, TABLE, read_foreign, read_foreign_table

        if path.suffix == TABLE and path.is_file():
            return read_foreign_table(path.read_text("utf-8", "replace"), path)
        tree = _tree(path)
        source = None if tree is NOT_JSON else read_foreign(tree, path)
        if source is not None:
            return source
        if tree is NOT_JSON or isinstance(error, FutureVersionError) or _is_ours(tree):
            raise error
        what = f"no results of a tool that is known: bench-run, {FORMATS}"
        raise DocumentError(str(path), what) from None


def _read_found(path: Path) -> Source | None:
    """Return a file found in a folder: None if it is JSON of something else."""
    try:
        return read_source(path)
    except DocumentError:
        tree = _tree(path)
        if tree is not NOT_JSON and not _is_ours(tree):
            return None
        raise


def _is_ours(tree: Any) -> bool:
    """Return True for a document of bench-run, whole or not."""
    return isinstance(tree, dict) and "schema_version" in tree and "machine" in tree


def _tree(path: Path) -> Any:
    """Return the file's content as plain values; `NOT_JSON` if it cannot be read."""
    try:
        return codec.parse(packing.read_bytes(path), str(path))
    except DocumentError:
        return NOT_JSON
