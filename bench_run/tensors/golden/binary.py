"""hipDNN's golden bundles: one raw file for each tensor, exactly its memory, little endian.

``NAME.tensor<uid>.bin`` beside the graph (prefix ``NAME.``), or ``tensor<uid>.bin`` in the folder
of a sweep's case (empty prefix); ``NAME.meta.json`` says where they come from. Where the data is
kept outside of version control, ``NAME.tensors.dvc`` points to it, with size and md5 of each file.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.tensors.files import from_bytes, raw, write_bytes
from bench_run.tensors.layout import describe, storage_size, storage_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.storage import Storage, Storages

POINTER = "tensors.dvc"
_ENTRY = re.compile(r"^\s*(?:-\s+)?(path|md5|size):\s*(\S.*?)\s*$", re.MULTILINE)


def files(folder: Path, prefix: str) -> dict[int, Path]:
    """The tensor files of a bundle by uid."""
    pattern = re.compile(re.escape(prefix) + r"tensor(-?\d+)\.bin")
    if not folder.is_dir():
        return {}
    found = ((pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return {int(match[1]): path for match, path in found if match is not None}


def read(graph: Graph, folder: Path, prefix: str) -> tuple[dict[int, Storage], Mapping[str, Any]]:
    """Every input and output, and the metadata. Files of constants are not looked at."""
    found = files(folder, prefix)
    sums = _pointer(folder / f"{prefix}{POINTER}")
    for uid, path in found.items():
        if uid not in graph.by_uid:
            raise GraphError(str(path), f"the graph has no tensor with uid {uid}")
    storages = {}
    for tensor in (*graph.inputs, *graph.outputs):
        if tensor.uid not in found:
            name = f"{prefix}tensor{tensor.uid}.bin"
            raise GraphError(str(folder), f"no golden data for {describe(tensor)}: no {name}")
        storages[tensor.uid] = _storage(tensor, found[tensor.uid], sums)
    return storages, _metadata(folder / f"{prefix}meta.json")


def _storage(tensor: Tensor, path: Path, sums: Mapping[str, str]) -> Storage:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GraphError(str(path), f"{describe(tensor)}: {error.strerror or error}") from None
    wanted = storage_size(tensor) * storage_type(tensor).itemsize
    if len(content) != wanted:
        form = f"{tensor.data_type} with dims {tensor.dims} and strides {tensor.strides}"
        what = f"{describe(tensor)}: expected {wanted} bytes ({form}), got {len(content)}"
        raise GraphError(str(path), what)
    md5 = sums.get(path.name)
    if md5 is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise GraphError(str(path), f"{describe(tensor)}: the md5 differs from the pointer's")
    return from_bytes(content, tensor.data_type)


def _pointer(path: Path) -> dict[str, str]:
    """File name → md5 of a DVC pointer; empty without one. Whole folders (``….dir``) say nothing.

    A pointer is YAML of a fixed plain shape, a list of entries with one key in each line.
    """
    if not path.is_file():
        return {}
    sums: dict[str, str] = {}
    entry: dict[str, str] = {}
    for key, value in _ENTRY.findall(path.read_text(encoding="utf-8", errors="replace")):
        if key in entry:
            entry = {}
        entry[key] = value.strip("'\"")
        if {"path", "md5"} <= set(entry) and not entry["md5"].endswith(".dir"):
            sums[Path(entry["path"]).name] = entry["md5"]
    return sums


def _metadata(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        metadata = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise GraphError(str(path), f"not JSON: {error}") from None
    if not isinstance(metadata, dict):
        raise GraphError(str(path), "expected an object")
    return metadata


def write(
    graph: Graph, storages: Storages, graph_path: Path, provenance: Mapping[str, Any]
) -> tuple[Path, ...]:
    """The tensor files and the metadata beside a graph file."""
    stem = graph_path.with_suffix("")
    written = [
        write_bytes(
            stem.with_name(f"{stem.name}.tensor{tensor.uid}.bin"), raw(storages[tensor.uid])
        )
        for tensor in (*graph.inputs, *graph.outputs)
    ]
    text = json.dumps({"format_version": 1, **provenance}, indent=2, ensure_ascii=False) + "\n"
    return *written, write_bytes(stem.with_name(f"{stem.name}.meta.json"), text.encode())
