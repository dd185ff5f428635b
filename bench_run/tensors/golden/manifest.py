"""Our golden bundles: ``tensors.safetensors`` and ``manifest.json`` in one folder.

The tensors are storages (one dimension, gaps of the strides included) under their uids; the
manifest says what each is, and its sha256, so that a changed or cut file is told from a good one.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.tensors.files import (
    first_cut,
    from_bytes,
    raw,
    read_tensors,
    type_in_file,
    write_bytes,
    write_tensors,
)
from bench_run.tensors.layout import describe, storage_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.storage import Storage, Storages

MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
FORMAT = 1


def write(
    graph: Graph, storages: Storages, folder: Path, provenance: Mapping[str, str]
) -> tuple[Path, ...]:
    tensors = (*graph.inputs, *graph.outputs)
    manifest = {
        "format": FORMAT,
        "graph": graph.name,
        "provenance": dict(sorted(provenance.items())),
        "tensors": {str(t.uid): _entry(graph, t, storages[t.uid]) for t in tensors},
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    data = write_tensors(folder / TENSORS, {str(t.uid): storages[t.uid] for t in tensors}, {})
    return data, write_bytes(folder / MANIFEST, text.encode())


def _entry(graph: Graph, tensor: Tensor, storage: Storage) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "role": "output" if tensor.uid in graph.produced else "input",
        **_form(tensor),
        "sha256": hashlib.sha256(raw(storage)).hexdigest(),
    }


def _form(tensor: Tensor) -> dict[str, Any]:
    return {
        "data_type": tensor.data_type,
        "dims": list(tensor.dims),
        "strides": list(tensor.strides),
    }


def read(graph: Graph, folder: Path) -> tuple[dict[int, Storage], Mapping[str, Any]]:
    """Every tensor of the graph that the bundle has, and where the bundle comes from."""
    manifest = _manifest(folder / MANIFEST)
    where = str(folder / TENSORS)
    cut = first_cut(folder / TENSORS)
    for tensor in graph.tensors:
        if str(tensor.uid) == cut:
            raise GraphError(where, f"{describe(tensor)}: the file ends before its data does")
    contents = read_tensors(folder / TENSORS)
    storages = {}
    for tensor in (*graph.inputs, *graph.outputs):
        key = str(tensor.uid)
        if key not in manifest["tensors"]:
            raise GraphError(str(folder / MANIFEST), f"no golden data for {describe(tensor)}")
        _check_form(tensor, manifest["tensors"][key], str(folder / MANIFEST))
        if key not in contents:
            raise GraphError(where, f"no golden data for {describe(tensor)}")
        storages[tensor.uid] = _storage(tensor, contents[key], manifest["tensors"][key], where)
    return storages, manifest.get("provenance", {})


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise GraphError(str(path), error.strerror or str(error)) from None
    except ValueError as error:
        raise GraphError(str(path), f"not JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise GraphError(str(path), f"no manifest of golden data in format {FORMAT}")
    entries = manifest.get("tensors")
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        raise GraphError(str(path), "tensors: expected an object with an object for each uid")
    return manifest


def _check_form(tensor: Tensor, entry: Mapping[str, Any], where: str) -> None:
    for key, wanted in _form(tensor).items():
        if entry.get(key) != wanted:
            what = f"{describe(tensor)} has {key} {wanted}, its golden data {entry.get(key)}"
            raise GraphError(where, what)


def _storage(
    tensor: Tensor,
    content: tuple[str, tuple[int, ...], bytes],
    entry: Mapping[str, Any],
    where: str,
) -> Storage:
    kind, shape, data = content
    if kind != type_in_file(tensor.data_type):
        wanted = type_in_file(tensor.data_type)
        raise GraphError(where, f"{describe(tensor)}: expected type {wanted}, got {kind}")
    if shape != (storage_size(tensor),):
        wanted = f"({storage_size(tensor)},)"
        raise GraphError(where, f"{describe(tensor)}: expected shape {wanted}, got {shape}")
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise GraphError(where, f"{describe(tensor)}: the sha256 differs from the manifest's")
    return from_bytes(data, tensor.data_type)
