"""Golden tensors: inputs and outputs that were made once and are kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from bench_schema.packing import open_regular

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
from bench_run.tensors.layout import describe, misfit, storage_size, storage_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.layout import Storage, Storages


# hipDNN's golden bundles: one raw file for each tensor, exactly its memory, little endian.
#
# ``NAME.tensor<uid>.bin`` beside the graph (prefix ``NAME.``), or ``tensor<uid>.bin`` in the folder
# of a sweep's case (empty prefix); ``NAME.meta.json`` says where they come from. Where the data is
# kept outside of version control, ``NAME.tensors.dvc`` points to it, with size and md5 of each
# file.

POINTER = "tensors.dvc"
_ENTRY = re.compile(r"^\s*(?:-\s+)?(path|md5|size):\s*(\S.*?)\s*$", re.MULTILINE)


def files(folder: Path, prefix: str) -> dict[int, Path]:
    """Return the tensor files of a bundle by uid."""
    pattern = re.compile(re.escape(prefix) + r"tensor(-?\d+)\.bin")
    if not folder.is_dir():
        return {}
    found = ((pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return {int(match[1]): path for match, path in found if match is not None}


def read_raw(
    graph: Graph, folder: Path, prefix: str
) -> tuple[dict[int, Storage], Mapping[str, Any]]:
    """Return every input and output, and the metadata, without the files of constants."""
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
    wanted = storage_size(tensor) * storage_type(tensor).itemsize
    try:
        with open_regular(path) as file:
            size, content = os.fstat(file.fileno()).st_size, file.read(wanted)
    except OSError as error:
        raise GraphError(str(path), f"{describe(tensor)}: {error.strerror or error}") from None
    if size != wanted:
        form = f"{tensor.data_type} with dims {tensor.dims} and strides {tensor.strides}"
        what = f"{describe(tensor)}: expected {wanted} bytes ({form}), got {size}"
        raise GraphError(str(path), what)
    md5 = sums.get(path.name)
    if md5 is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise GraphError(str(path), f"{describe(tensor)}: the md5 differs from the pointer's")
    return from_bytes(content, tensor.data_type)


def _pointer(path: Path) -> dict[str, str]:
    """Return the md5 of each file name in a DVC pointer; empty without a pointer. Whole folders
    (``….dir``) are left out.

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


def write_raw(
    graph: Graph, storages: Storages, graph_path: Path, provenance: Mapping[str, Any]
) -> tuple[Path, ...]:
    """Write the tensor files and the metadata beside a graph file; return their paths."""
    stem = graph_path.with_suffix("")
    written = [
        write_bytes(
            stem.with_name(f"{stem.name}.tensor{tensor.uid}.bin"), raw(storages[tensor.uid])
        )
        for tensor in (*graph.inputs, *graph.outputs)
    ]
    text = json.dumps({"format_version": 1, **provenance}, indent=2, ensure_ascii=False) + "\n"
    return *written, write_bytes(stem.with_name(f"{stem.name}.meta.json"), text.encode())


# Our golden bundles: ``tensors.safetensors`` and ``manifest.json`` in one folder.
#
# The tensors are storages (one dimension, gaps of the strides included) under their uids; the
# manifest says what each is, and its sha256, so that a changed or cut file is found.

MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
FORMAT = 1


def write_manifest(
    graph: Graph, storages: Storages, folder: Path, provenance: Mapping[str, str]
) -> tuple[Path, ...]:
    tensors = (*graph.inputs, *graph.outputs)
    manifest = {
        "format": FORMAT,
        "graph": graph.name,
        "provenance": dict(sorted(provenance.items())),
        "tensors": {
            str(t.uid): {
                "name": t.name,
                "role": "output" if t.uid in graph.produced else "input",
                **_form(t),
                "sha256": hashlib.sha256(raw(storages[t.uid])).hexdigest(),
            }
            for t in tensors
        },
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    data = write_tensors(folder / TENSORS, {str(t.uid): storages[t.uid] for t in tensors}, {})
    return data, write_bytes(folder / MANIFEST, text.encode())


def _form(tensor: Tensor) -> dict[str, Any]:
    return {
        "data_type": tensor.data_type,
        "dims": list(tensor.dims),
        "strides": list(tensor.strides),
    }


def read_manifest(graph: Graph, folder: Path) -> tuple[dict[int, Storage], Mapping[str, Any]]:
    """Return every tensor of the graph that the bundle has, and the bundle's origin."""
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
        if key not in contents:
            raise GraphError(where, f"no golden data for {describe(tensor)}")
        entry = manifest["tensors"][key]
        storages[tensor.uid] = _checked(tensor, contents[key], entry, folder)
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


def _checked(
    tensor: Tensor,
    content: tuple[str, tuple[int, ...], bytes],
    entry: Mapping[str, Any],
    folder: Path,
) -> Storage:
    """Return one tensor of a bundle after a check against the graph and the manifest."""
    for key, form in _form(tensor).items():
        if entry.get(key) != form:
            what = f"{describe(tensor)} has {key} {form}, its golden data {entry.get(key)}"
            raise GraphError(str(folder / MANIFEST), what)
    (kind, shape, data), where = content, str(folder / TENSORS)
    if kind != type_in_file(tensor.data_type):
        wanted = type_in_file(tensor.data_type)
        raise GraphError(where, f"{describe(tensor)}: expected type {wanted}, got {kind}")
    if shape != (storage_size(tensor),):
        wanted = f"({storage_size(tensor)},)"
        raise GraphError(where, f"{describe(tensor)}: expected shape {wanted}, got {shape}")
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise GraphError(where, f"{describe(tensor)}: the sha256 differs from the manifest's")
    return from_bytes(data, tensor.data_type)


# Golden tensors: inputs and expected outputs that were made once and are kept.
#
# Two conventions. Ours: a folder ``NAME.golden/`` beside ``NAME.json`` with ``tensors.safetensors``
# and ``manifest.json``. hipDNN's: raw storages, ``NAME.tensor<uid>.bin`` beside the graph or
# ``golden/CASE/tensor<uid>.bin`` of a sweep.
#
# Whatever does not fit the graph is a `GraphError` that names the tensor. Data is fed bit for bit.


@dataclass(frozen=True)
class Bundle:
    """Golden tensors found on disk, not read yet."""

    folder: Path
    prefix: str | None
    """Prefix of ``tensor<uid>.bin`` in hipDNN's convention; None in ours."""


@dataclass(frozen=True)
class Golden:
    inputs: Storages
    outputs: Storages
    """Outputs in the file: rounded to the outputs' own types."""
    provenance: Mapping[str, Any]


def find_golden(path: str | Path, override: str | Path | None = None) -> Bundle | None:
    """Return the golden tensors of the graph at ``path`` (a member or case may follow ``!`` or
    ``#``).

    With ``override`` only that folder is searched: itself, and the graph's name in it.
    """
    for folder, prefix in _candidates(path, override):
        if prefix is None and (folder / MANIFEST).is_file():
            return Bundle(folder, None)
        if prefix is not None and files(folder, prefix):
            return Bundle(folder, prefix)
    return None


def why_none(path: str | Path, override: str | Path | None = None) -> str:
    """Return the reason why `find_golden` finds nothing: there is nothing, or it was not
    fetched."""
    for folder, prefix in _candidates(path, override):
        if prefix is not None:
            pointer = folder / f"{prefix}{POINTER}"
            if pointer.is_file():
                return (
                    f"the golden tensors have not been fetched: {pointer} points to them (dvc pull)"
                )
    place = "beside the graph" if override is None else f"in {override}"
    return f"there are no golden tensors of {_name(path)} {place}"


def read_golden(graph: Graph, bundle: Bundle) -> Golden:
    """Return all inputs and outputs of the graph. Raises `GraphError`."""
    if bundle.prefix is None:
        storages, provenance = read_manifest(graph, bundle.folder)
    else:
        storages, provenance = read_raw(graph, bundle.folder, bundle.prefix)
    inputs, outputs = (
        _check(bundle, storages, tensors) for tensors in (graph.inputs, graph.outputs)
    )
    return Golden(inputs, outputs, provenance)


def write_golden(
    graph: Graph,
    inputs: Storages,
    outputs: Storages,
    directory: str | Path,
    provenance: Mapping[str, str],
) -> tuple[Path, ...]:
    """Write a bundle of our convention to ``directory`` (by custom ``NAME.golden``); return the
    paths of the written files.

    Equal arguments give equal bytes. Raises `OutputError`.
    """
    return write_manifest(graph, {**inputs, **outputs}, Path(directory), provenance)


def write_hipdnn_golden(
    graph: Graph,
    inputs: Storages,
    outputs: Storages,
    graph_path: str | Path,
    provenance: Mapping[str, Any],
) -> tuple[Path, ...]:
    """Write a bundle of hipDNN's convention beside the graph at ``graph_path``; return the paths of
    its files. Raises `OutputError`."""
    return write_raw(graph, {**inputs, **outputs}, Path(graph_path), provenance)


def _name(path: str | Path) -> str:
    """Return the case id of a sweep, otherwise the graph file's name without its ending."""
    place, _, case = str(path).rpartition("#")
    return case if place else PurePath(str(path).rpartition("!")[2]).stem


def _candidates(
    path: str | Path, override: str | Path | None
) -> tuple[tuple[Path, str | None], ...]:
    """Return (folder, prefix of hipDNN's convention or None for ours), most specific first."""
    name = _name(path)
    root = Path(path).parent if override is None else Path(override)
    found: list[tuple[Path, str | None]] = [(root / f"{name}.golden", None), (root, f"{name}.")]
    if "#" in str(path):
        found.append((root / "golden" / name, ""))
    if override is not None:
        found += [(root, None), (root / name, None), (root / name, ""), (root, "")]
    return tuple(found)


def _check(bundle: Bundle, storages: Storages, tensors: Any) -> dict[int, Storage]:
    for tensor in tensors:
        if tensor.uid not in storages:
            raise GraphError(str(bundle.folder), f"no golden data for {describe(tensor)}")
        problem = misfit(storages[tensor.uid], tensor)
        if problem is not None:
            raise GraphError(str(bundle.folder), f"golden data: {problem}")
    return {tensor.uid: storages[tensor.uid] for tensor in tensors}
