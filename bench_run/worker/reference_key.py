"""A name for what a float64 reference is computed from and by what.

Equal keys mean equal outputs: in the key are the graph (all but names), every bit of its inputs,
the source code that computes, the versions of the libraries below it and the processor's model.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.machine.host import cpu_model

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.tensors.storage import Storages

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
