"""Expected outputs of earlier runs, in a folder of bounded size.

An entry is a folder named by its key (see the second half of this module): a file for each output,
and a list of them with their sizes and CRC-32. It appears whole or not at all, and is believed
where key, names, sizes and sums agree; one that is damaged is removed and computed again. Several
processes, on several hosts too, may use the folder at the same time.
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

from bench_run.files import BoundedFolder
from bench_run.machine.host import cpu_model

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages


MOST_BYTES = 2 << 30
"""Size limit of all entries unless ``--reference-cache`` gives one."""
MOST_ENTRIES = 16_384
"""An entry counts for at least this part of the limit, so that a full folder of small entries is
listed in 0.4 s (measured with the files in the system's cache)."""
LARGEST_SHARE = 4
"""An entry takes at most this part (1/4) of the limit, and of the space that is left on the
disk."""
FORGOTTEN_S = 3600.0
"""Age from which a half-written entry of another process counts as abandoned."""
LIST = "files.json"
PARTS = "unfinished"
"""Folder of entries that are being written."""
KEY = re.compile("[0-9a-f]{64}")
CHUNK = 1 << 20

_numbers = itertools.count()


class ReferenceCache:
    """One folder, made when something is stored."""

    def __init__(self, folder: str | Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = Path(folder)
        self._most_bytes = most_bytes
        least_bytes = most_bytes // MOST_ENTRIES
        self._bounded = BoundedFolder(self.folder, most_bytes, KEY.fullmatch, least_bytes)

    def fetch(self, key: str, names: Collection[str], target: Path) -> bool:
        """Put the files of these names into a new folder `target`; return True if all exist."""
        entry = self.folder / key
        if not entry.is_dir():
            return False
        try:
            _check_files(entry, key, names)
        except (ValueError, FileNotFoundError):
            shutil.rmtree(entry, ignore_errors=True)
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
            os.utime(entry)
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
        part = self.folder / PARTS / f"{os.getpid()}-{next(_numbers)}-{time.monotonic_ns()}"
        part.mkdir(parents=True)
        try:
            rows = {path.name: _sums(path) for path in paths}
            for path in paths:
                _link_or_copy(path, part / path.name)
            listed = json.dumps({"key": key, "files": rows})
            (part / LIST).write_text(listed, encoding="utf-8")
            self._bounded.make_room(size + len(listed))
            part.rename(entry)
        except OSError as error:
            # Another process was faster: what it stored is the same, even where a third one has
            # removed it meanwhile.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
            _remove_forgotten((self.folder / PARTS).iterdir())

    def usage(self) -> tuple[int, int]:
        """Return the number of entries, and their bytes."""
        found = self._bounded.entries()
        return len(found), sum(size for _, _, size in found)


@lru_cache(maxsize=4)
def cache_at(folder: str, most_bytes: int) -> ReferenceCache:
    """Return the cache of a folder, one in a process: its first entry that is stored lists it."""
    return ReferenceCache(folder, most_bytes)


def _remove_forgotten(parts: Iterable[Path]) -> None:
    """Remove what a process that was killed has left."""
    with suppress(OSError):
        for path in parts:
            if time.time() - path.stat().st_mtime > FORGOTTEN_S:
                shutil.rmtree(path, ignore_errors=True)


def _check_files(entry: Path, key: str, names: Collection[str]) -> None:
    """Raise `ValueError` if the entry is not that of this key and these files, as they were
    stored."""
    listed = json.loads((entry / LIST).read_bytes())
    if not isinstance(listed, dict) or listed.get("key") != key:
        raise ValueError("another key")
    rows = listed.get("files")
    if not isinstance(rows, dict) or rows.keys() != set(names):
        raise ValueError("other files")
    for name in names:
        if _sums(entry / name) != rows[name]:
            raise ValueError(f"{name} is damaged")


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
