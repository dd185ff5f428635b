"""Expected outputs that are kept across runs, in a folder of bounded size.

An entry is a folder named by its key (`reference_key.py`): a file for each output, and a list of
them with their sizes and CRC-32. It appears whole or not at all, and is believed where key, names,
sizes and sums agree; one that is damaged is removed and computed again. Several processes may use
the folder at the same time.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import sys
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.machine.host import cpu_model

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages


MOST_BYTES = 8 << 30
"""Of all entries; those that were not used for longest make room."""
LARGEST_SHARE = 4
"""An entry takes at most this part (1/4) of that, and of the space that is left on the disk."""
FORGOTTEN_S = 3600.0
"""What a process left half written so long ago, nobody writes any more."""
LIST = "files.json"
HIDDEN = ".reference-"
KEY = re.compile("[0-9a-f]{64}")
CHUNK = 1 << 20

_numbers = itertools.count()


class ReferenceCache:
    """One folder, made when something is stored."""

    def __init__(self, folder: str | Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = Path(folder)
        self._most_bytes = most_bytes

    def fetch(self, key: str, names: Collection[str], target: Path) -> bool:
        """Have the files of these names in a new folder `target`; returns whether they are."""
        entry = self.folder / key
        if not entry.is_dir() or not self._is_whole(entry, key, names):
            return False
        try:
            target.mkdir(parents=True)
            for name in names:
                _place(entry / name, target / name)
        except OSError:  # removed meanwhile, or no space left
            shutil.rmtree(target, ignore_errors=True)
            return False
        with suppress(OSError):
            os.utime(entry)
        return True

    def _is_whole(self, entry: Path, key: str, names: Collection[str]) -> bool:
        try:
            rows = _read_list(entry, key, names)
            for name in names:
                _check(entry / name, rows[name])
        except (ValueError, FileNotFoundError):
            self._remove(entry)
            return False
        except OSError:
            return False
        return True

    def store(self, key: str, source: Path) -> None:
        """Keep the files of a folder, if there is room. Raises `OSError`."""
        entry = self.folder / key
        paths = sorted(path for path in source.iterdir() if path.suffix == ".npy")
        size = sum(path.stat().st_size for path in paths)
        if entry.is_dir() or size > self._most_bytes // LARGEST_SHARE:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if size > shutil.disk_usage(self.folder).free // LARGEST_SHARE:
            return
        self._make_room(size)
        part = self._hidden()
        part.mkdir()
        try:
            rows = {path.name: _sums(path) for path in paths}
            for path in paths:
                _place(path, part / path.name)
            (part / LIST).write_text(json.dumps({"key": key, "files": rows}), encoding="utf-8")
            _rename(part, entry)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _hidden(self) -> Path:
        """A new name that is no entry's."""
        return self.folder / f"{HIDDEN}{os.getpid()}-{next(_numbers)}-{time.monotonic_ns()}"

    def _make_room(self, size: int) -> None:
        """For a new entry of so many bytes."""
        for path in self.folder.glob(f"{HIDDEN}*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > FORGOTTEN_S:
                    shutil.rmtree(path, ignore_errors=True)
        rows = sorted(self._entries())
        total = size + sum(taken for _, taken, _ in rows)
        for _, taken, path in rows:
            if total <= self._most_bytes:
                return
            self._remove(path)
            total -= taken

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """When they were used last, their bytes and where they are. Whatever else lies in the
        folder is none of ours."""
        for path in self.folder.iterdir():
            with suppress(OSError):
                if KEY.fullmatch(path.name) and (path / LIST).is_file():
                    size = sum(file.stat().st_size for file in path.iterdir())
                    yield path.stat().st_mtime, size, path

    def _remove(self, entry: Path) -> None:
        """At once for everybody; whoever reads it keeps what is open."""
        gone = self._hidden()
        with suppress(OSError):
            entry.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def _read_list(entry: Path, key: str, names: Collection[str]) -> Mapping[str, Any]:
    """Raises `ValueError` where it is not that of this key and these files."""
    found = json.loads((entry / LIST).read_bytes())
    if not isinstance(found, dict) or found.get("key") != key:
        raise ValueError("another key")
    rows = found.get("files")
    if not isinstance(rows, dict) or rows.keys() != set(names):
        raise ValueError("other files")
    return rows


def _check(path: Path, row: object) -> None:
    if _sums(path) != row:
        raise ValueError(f"{path.name} is damaged")


def _sums(path: Path) -> dict[str, int]:
    crc = size = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            crc, size = zlib.crc32(chunk, crc), size + len(chunk)
    return {"bytes": size, "crc32": crc}


def _place(source: Path, target: Path) -> None:
    """A second name for the file, else a copy of it: nobody writes to it any more."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _rename(part: Path, entry: Path) -> None:
    """Another process may have been faster: what it stored is the same, even where a third one has
    removed it meanwhile."""
    try:
        part.rename(entry)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


# A name for what a float64 reference is computed from and by what.
#
# Equal keys mean equal outputs: in the key are the graph (all but names), every bit of its inputs,
# the source code that computes, the versions of the libraries below it and the processor's model.

PACKAGE = Path(__file__).resolve().parents[1]
LIBRARIES = ("numpy", "scipy", "ml_dtypes")
ROOMS = ("reference", "tensors", "graph")
"""Rooms of this package whose code has a part in what a reference is."""
MODULES = ("worker/evaluate.py",)
NAMES = ("name", "extras", "preferred_engine_id")
"""Fields without a meaning."""


def key_of(graph: Graph, inputs: Storages) -> str | None:
    """64 hex digits; None where the code that would compute is not there to be read."""
    ours = provenance()
    if ours is None:
        return None
    parts = (ours, graph_digest(graph), inputs_digest(inputs))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def graph_digest(graph: Graph) -> str:
    return hashlib.sha256(repr(_plain(graph)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Nested tuples that are equal where the values mean the same."""
    if is_dataclass(value):
        kept = (field.name for field in fields(value) if field.name not in NAMES)
        return type(value).__name__, *((name, _plain(getattr(value, name))) for name in kept)
    if isinstance(value, Mapping):
        return "mapping", *sorted((repr(key), _plain(item)) for key, item in value.items())
    if isinstance(value, (frozenset, set)):
        return "set", *sorted(map(repr, value))
    if isinstance(value, (tuple, list)):
        return "sequence", *map(_plain, value)
    return type(value).__name__, repr(value)


def inputs_digest(inputs: Storages) -> str:
    digest = hashlib.sha256()
    for uid, storage in sorted(inputs.items()):
        digest.update(repr((uid, str(storage.dtype), storage.shape)).encode())
        digest.update(np.ascontiguousarray(storage).view(np.uint8).data)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def provenance(package: Path = PACKAGE) -> str | None:
    """By what is computed here; None where that is unknown."""
    code = code_digest(package)
    if code is None:
        return None
    versions = [(name, _version(name)) for name in LIBRARIES]
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    kernels = sorted((k, v) for k, v in os.environ.items() if k.startswith("OPENBLAS_CORETYPE"))
    machine = platform.machine(), sys.byteorder, cpu_model()
    found = (code, versions, blas.get("name"), blas.get("version"), kernels, machine)
    return hashlib.sha256(repr(found).encode()).hexdigest()


def code_digest(package: Path) -> str | None:
    """Of the sources, by their paths in the package."""
    paths = [path for room in ROOMS for path in sorted((package / room).rglob("*.py"))]
    digest = hashlib.sha256()
    try:
        for path in (*paths, *(package / name for name in MODULES)):
            source = path.read_bytes()
            digest.update(repr((str(path.relative_to(package)), len(source))).encode())
            digest.update(source)
    except OSError:
        return None
    return digest.hexdigest() if paths else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
