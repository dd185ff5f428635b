"""Expected outputs of earlier runs, in a folder of bounded size.

An entry is a folder named by its key (see the second half of this module): a file for each output,
and a list of them with their sizes and CRC-32. It appears whole or not at all, and is believed
where key, names, sizes and sums agree; one that is damaged is removed and computed again.

An index (SQLite) has a row for each entry with its bytes and the order of use, so that neither a
store nor a look-up lists the folder. The entries are the truth: the index is rebuilt from them if
it is missing, damaged or another version's. A row is written before its entry appears and goes
after the entry has gone, so that a process that is killed in between leaves at most a row too many:
that counts as room taken until its turn to make room comes. Several processes, on several hosts
too, may use the folder at the same time.
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
from contextlib import closing, suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.machine.host import cpu_model

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable

    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages


MOST_BYTES = 8 << 30
"""Size limit of all entries; the least recently used ones are removed."""
LARGEST_SHARE = 4
"""An entry takes at most this part (1/4) of that, and of the space that is left on the disk."""
FORGOTTEN_S = 3600.0
"""Age from which a half-written file of another process counts as abandoned."""
BUSY_S = 30.0
"""Longest wait for another process that writes to the index, or rebuilds it."""
LIST = "files.json"
INDEX = "index.sqlite"
PARTS = "unfinished"
"""Folder of entries that are being written or removed."""
FORMER_PARTS = ".reference-*"
"""Former names of these files among the entries."""
KEY = re.compile("[0-9a-f]{64}")
CHUNK = 1 << 20

VERSION = 1
SCHEMA = (
    "DROP TABLE IF EXISTS entries",
    "DROP TABLE IF EXISTS total",
    "CREATE TABLE entries (key TEXT PRIMARY KEY, bytes INTEGER NOT NULL, used INTEGER NOT NULL)",
    "CREATE INDEX by_use ON entries (used)",
    "CREATE TABLE total (bytes INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0)",
    "CREATE TRIGGER stored AFTER INSERT ON entries BEGIN"
    " UPDATE total SET bytes = bytes + NEW.bytes; END",
    "CREATE TRIGGER removed AFTER DELETE ON entries BEGIN"
    " UPDATE total SET bytes = bytes - OLD.bytes; END",
    f"PRAGMA user_version = {VERSION}",
)
"""`used` numbers the uses in their order, whatever the clocks of several hosts say."""
UNUSABLE = ("locked", "unable to open", "disk I/O error", "is full")
"""Messages of SQLite in which the index is not to blame; otherwise it is damaged."""

_numbers = itertools.count()


class ReferenceCache:
    """One folder, made when something is stored."""

    def __init__(self, folder: str | Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = Path(folder)
        self._most_bytes = most_bytes

    def fetch(self, key: str, names: Collection[str], target: Path) -> bool:
        """Put the files of these names into a new folder `target`; return True if all exist."""
        entry = self.folder / key
        if not entry.is_dir():
            return False
        try:
            size = _check_files(entry, key, names)
        except (ValueError, FileNotFoundError):
            self._remove_entry(key)
            with suppress(OSError):
                self._with_index(lambda index: _forget(index, key))
            return False
        except OSError:
            return False
        try:
            target.mkdir(parents=True)
            for name in names:
                _link_or_copy(entry / name, target / name)
        except OSError:  # removed meanwhile, or no space left
            shutil.rmtree(target, ignore_errors=True)
            return False
        with suppress(OSError):  # a folder that may only be read
            os.utime(entry)  # for an index that is rebuilt
            self._with_index(lambda index: _note_use(index, key, size))
        return True

    def store(self, key: str, source: Path) -> None:
        """Keep the files of a folder, if there is room. Raises `OSError`."""
        entry = self.folder / key
        paths = sorted(path for path in source.iterdir() if path.suffix in (".npy", ".noise"))
        size = sum(path.stat().st_size for path in paths)
        if entry.is_dir() or size > self._most_bytes // LARGEST_SHARE:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if size > shutil.disk_usage(self.folder).free // LARGEST_SHARE:
            return
        part = self._new_part()
        part.mkdir(parents=True)
        try:
            rows = {path.name: _sums(path) for path in paths}
            for path in paths:
                _link_or_copy(path, part / path.name)
            listed = json.dumps({"key": key, "files": rows})
            (part / LIST).write_text(listed, encoding="utf-8")
            self._with_index(lambda index: self._make_room(index, key, size + len(listed)))
            part.rename(entry)
        except OSError as error:
            # Another process was faster: what it stored is the same, even where a third one has
            # removed it meanwhile.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
            _remove_forgotten((self.folder / PARTS).iterdir())

    def _make_room(self, index: sqlite3.Connection, key: str, size: int) -> None:
        """Count a new entry of so many bytes, and remove those that were used longest ago. Raises
        `ValueError` if the index is damaged."""
        _note_use(index, key, size)
        while True:
            (total,) = index.execute("SELECT bytes FROM total").fetchone() or (None,)
            if not isinstance(total, int) or total < size:
                raise ValueError("the sum is damaged")
            if total <= self._most_bytes:
                return
            (oldest,) = index.execute("SELECT key FROM entries ORDER BY used LIMIT 1").fetchone()
            if oldest == key or KEY.fullmatch(str(oldest)) is None:
                raise ValueError("a row is damaged")
            self._remove_entry(oldest)
            _forget(index, oldest)

    def _remove_entry(self, key: str) -> None:
        """Remove an entry at once for all processes; open files stay readable."""
        entry, part = self.folder / key, self._new_part()
        with suppress(OSError):
            part.parent.mkdir(exist_ok=True)
            entry.rename(part)
            shutil.rmtree(part, ignore_errors=True)

    def _new_part(self) -> Path:
        """Return a new name for what is not an entry yet, or no longer."""
        name = f"{os.getpid()}-{next(_numbers)}-{time.monotonic_ns()}"
        return self.folder / PARTS / name

    def _with_index(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Work on the index in one transaction. Raises `OSError` if it cannot be written."""
        try:
            import sqlite3
        except ImportError as error:  # a Python that was built without it
            raise OSError(f"no index: {error}") from error
        path = self.folder / INDEX
        for is_last in (False, True):
            try:
                # A rollback journal, not a write-ahead log: that needs memory that all processes
                # share, which those of several hosts do not have. Nothing is synchronised with the
                # disk: what a power failure damages is rebuilt.
                with closing(sqlite3.connect(path, BUSY_S, isolation_level=None)) as index:
                    index.execute("PRAGMA synchronous = OFF")
                    index.execute("BEGIN IMMEDIATE")
                    if index.execute("PRAGMA user_version").fetchone() != (VERSION,):
                        self._rebuild(index)
                    work(index)
                    index.execute("COMMIT")
                    return
            except (sqlite3.DatabaseError, ValueError) as error:
                unusable = any(words in str(error) for words in UNUSABLE)
                if is_last or unusable or not os.access(path, os.W_OK):
                    raise OSError(f"{INDEX}: {error}") from error
            for damaged in (path, path.with_name(f"{INDEX}-journal")):
                damaged.unlink(missing_ok=True)

    def _rebuild(self, index: sqlite3.Connection) -> None:
        """Rebuild the index from the entries' files and the times of their last use; other files in
        the folder are ignored."""
        for statement in SCHEMA:
            index.execute(statement)
        entries = []
        for path in self.folder.iterdir():
            with suppress(OSError):
                if KEY.fullmatch(path.name) and (path / LIST).is_file():
                    size = sum(file.stat().st_size for file in path.iterdir())
                    entries.append((path.stat().st_mtime, path.name, size))
        for _, key, size in sorted(entries):
            _note_use(index, key, size)
        _remove_forgotten(self.folder.glob(FORMER_PARTS))


def _note_use(index: sqlite3.Connection, key: str, size: int) -> None:
    """Mark the entry as the last used; the index may not have it."""
    _forget(index, key)
    index.execute(
        "INSERT INTO entries SELECT ?, ?, coalesce(max(used), 0) + 1 FROM entries", (key, size)
    )


def _forget(index: sqlite3.Connection, key: str) -> None:
    index.execute("DELETE FROM entries WHERE key = ?", (key,))


def _remove_forgotten(parts: Iterable[Path]) -> None:
    """Remove what a process that was killed has left."""
    with suppress(OSError):
        for path in parts:
            if time.time() - path.stat().st_mtime > FORGOTTEN_S:
                shutil.rmtree(path, ignore_errors=True)


def _check_files(entry: Path, key: str, names: Collection[str]) -> int:
    """Return the bytes of an entry. Raises `ValueError` if it is not that of this key and these
    files, as they were stored."""
    raw = (entry / LIST).read_bytes()
    listed = json.loads(raw)
    if not isinstance(listed, dict) or listed.get("key") != key:
        raise ValueError("another key")
    rows = listed.get("files")
    if not isinstance(rows, dict) or rows.keys() != set(names):
        raise ValueError("other files")
    size = len(raw)
    for name in names:
        sums = _sums(entry / name)
        if sums != rows[name]:
            raise ValueError(f"{name} is damaged")
        size += sums["bytes"]
    return size


def _sums(path: Path) -> dict[str, int]:
    crc = size = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            crc, size = zlib.crc32(chunk, crc), size + len(chunk)
    return {"bytes": size, "crc32": crc}


def _link_or_copy(source: Path, target: Path) -> None:
    """Link the file to a second name, or copy it: no process writes to it any more."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


# A name for what a float64 reference is computed from and by what.
#
# Equal keys mean equal outputs: in the key are the graph (all but names), every bit of its inputs,
# the source code that computes, the versions of the libraries below it and the processor's model.

PACKAGE = Path(__file__).resolve().parents[1]
LIBRARIES = ("numpy", "scipy", "ml_dtypes")
ROOMS = ("reference", "tensors", "graph", "user")
"""Rooms of this package whose code has a part in what a reference is."""
MODULES = ("worker/evaluate.py",)
NAMES = ("name", "extras", "preferred_engine_id")
"""Fields without a meaning."""


def key_of(graph: Graph, inputs: Storages) -> str | None:
    """Return the key, 64 hex digits; None if the code that would compute cannot be read."""
    ours = provenance()
    if ours is None:
        return None
    parts = (ours, graph_digest(graph), inputs_digest(inputs))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def graph_digest(graph: Graph) -> str:
    return hashlib.sha256(repr(_plain(graph)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return nested tuples that are equal if the values mean the same."""
    if is_dataclass(value):
        names = (field.name for field in fields(value) if field.name not in NAMES)
        return type(value).__name__, *((name, _plain(getattr(value, name))) for name in names)
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
    """Return the digest of the code that computes here; None if it is unknown."""
    code = code_digest(package)
    if code is None:
        return None
    versions = [(name, _version(name)) for name in LIBRARIES]
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    kernels = sorted((k, v) for k, v in os.environ.items() if k.startswith("OPENBLAS_CORETYPE"))
    machine = platform.machine(), sys.byteorder, cpu_model()
    provided = (code, versions, blas.get("name"), blas.get("version"), kernels, machine)
    return hashlib.sha256(repr(provided).encode()).hexdigest()


def code_digest(package: Path) -> str | None:
    """Return the digest of the sources and their paths in the package."""
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
