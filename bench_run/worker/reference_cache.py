"""Expected outputs of earlier runs, in a folder of bounded size.

An entry is a ZIP file named by its key (see the second half of this module): the files of all
outputs, unpacked, with the checksums that the format has. It appears whole or not at all. One that
is damaged is removed and computed again, which is said. Several processes, on several hosts too,
may use the folder at the same time.
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import platform
import re
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from bench_run.files import BoundedFolder, replacing
from bench_run.machine.host import cpu_model

if TYPE_CHECKING:
    from collections.abc import Collection

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
KEY = re.compile("[0-9a-f]{64}")
"""The beginning of an entry's name, and of what a killed process left of one."""


DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, KeyError, RuntimeError, ValueError),
)
"""Errors of a ZIP file in which some bits have changed."""


Found: TypeAlias = Literal["read", "missing", "damaged"]


class ReferenceCache:
    """One folder, made when something is stored."""

    def __init__(self, folder: str | Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self._most_bytes = Path(folder), most_bytes
        least = most_bytes // MOST_ENTRIES
        self._bounded = BoundedFolder(self.folder, most_bytes, KEY.match, least)

    def fetch(self, key: str, names: Collection[str], target: Path) -> Found:
        """Copy the files of these names to a new folder `target`, unless an entry is missing or
        damaged; a damaged one is removed."""
        entry = self.folder / f"{key}.zip"
        try:
            with zipfile.ZipFile(entry) as packed:
                # None is empty: nothing would be compared with the checksum of no bytes.
                kept = {f.filename for f in packed.infolist() if f.file_size == f.compress_size > 0}
                if kept != set(names):
                    raise zipfile.BadZipFile
                target.mkdir(parents=True)
                packed.extractall(target)
            with suppress(OSError):  # a folder that may only be read
                os.utime(entry)
        except (*DAMAGED, OSError) as error:
            shutil.rmtree(target, ignore_errors=True)
            # EINVAL: a damaged list of files has sent the reader to before the file's beginning.
            if not isinstance(error, OSError) or error.errno == errno.EINVAL:
                with suppress(OSError):
                    entry.unlink()
                return "damaged"
            return "missing"
        return "read"

    def store(self, key: str, source: Path) -> None:
        """Keep the files of a folder, if there is room. Raises `OSError`."""
        entry = self.folder / f"{key}.zip"
        paths = sorted(path for path in source.iterdir() if path.suffix in (".npy", ".noise"))
        size = sum(path.stat().st_size for path in paths)
        if entry.is_file() or size > self._most_bytes // LARGEST_SHARE:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if size > shutil.disk_usage(self.folder).free // LARGEST_SHARE:
            return
        self._bounded.make_room(size)
        # FileNotFoundError: another process made room with the part.
        missing = suppress(FileNotFoundError)
        with missing, replacing(entry) as part, zipfile.ZipFile(part, "w") as packed:
            for path in paths:
                packed.write(path, path.name)

    def usage(self) -> tuple[int, int]:
        """Return the number of entries, and their bytes."""
        found = self._bounded.entries()
        return len(found), sum(size for _, _, size in found)


@lru_cache(maxsize=4)
def cache_at(folder: str, most_bytes: int) -> ReferenceCache:
    """Return the cache of a folder, one in a process: its first entry that is stored lists it."""
    return ReferenceCache(folder, most_bytes)


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


def key_of(graph: Graph, inputs: Storages, math: str) -> str | None:
    """Return the key, 64 hex digits; None if the code that would compute cannot be read."""
    ours = provenance()
    if ours is None:
        return None
    parts = (ours, graph_digest(graph), inputs_digest(inputs), math)
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
