"""Golden tensors: inputs and expected outputs that were made once and are kept.

Two conventions. Ours: a folder ``NAME.golden/`` beside ``NAME.json`` with ``tensors.safetensors``
and ``manifest.json`` (`manifest.py`). hipDNN's: raw storages, ``NAME.tensor<uid>.bin``
beside the graph or ``golden/CASE/tensor<uid>.bin`` of a sweep (`binary.py`).

Whatever does not fit the graph is a `GraphError` that names the tensor. Data is fed bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.tensors.golden import binary, manifest
from bench_run.tensors.layout import describe, misfit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph
    from bench_run.tensors.storage import Storage, Storages


@dataclass(frozen=True)
class Bundle:
    """Golden tensors found on disk, not read yet."""

    folder: Path
    prefix: str | None
    """What stands before ``tensor<uid>.bin`` in hipDNN's convention; None in ours."""


@dataclass(frozen=True)
class Golden:
    inputs: Storages
    outputs: Storages
    """As the file holds them: rounded to the outputs' own types."""
    provenance: Mapping[str, Any]


def find_golden(path: str | Path, override: str | Path | None = None) -> Bundle | None:
    """The golden tensors of the graph at ``path`` (a member or case may follow ``!`` or ``#``).

    With ``override`` only that folder is searched: itself, and the graph's name in it.
    """
    for folder, prefix in _candidates(path, override):
        if prefix is None and (folder / manifest.MANIFEST).is_file():
            return Bundle(folder, None)
        if prefix is not None and binary.files(folder, prefix):
            return Bundle(folder, prefix)
    return None


def why_none(path: str | Path, override: str | Path | None = None) -> str:
    """Why `find_golden` finds nothing: there is nothing, or it was not fetched."""
    for folder, prefix in _candidates(path, override):
        if prefix is not None:
            pointer = folder / f"{prefix}{binary.POINTER}"
            if pointer.is_file():
                return (
                    f"the golden tensors have not been fetched: {pointer} points to them (dvc pull)"
                )
    place = "beside the graph" if override is None else f"in {override}"
    return f"there are no golden tensors of {_name(path)} {place}"


def read_golden(graph: Graph, bundle: Bundle) -> Golden:
    """All inputs and outputs of the graph. Raises `GraphError`."""
    if bundle.prefix is None:
        storages, provenance = manifest.read(graph, bundle.folder)
    else:
        storages, provenance = binary.read(graph, bundle.folder, bundle.prefix)
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
    """A bundle of our convention in ``directory`` (by custom ``NAME.golden``): what was written.

    Equal arguments give equal bytes. Raises `OutputError`.
    """
    return manifest.write(graph, {**inputs, **outputs}, Path(directory), provenance)


def write_hipdnn_golden(
    graph: Graph,
    inputs: Storages,
    outputs: Storages,
    graph_path: str | Path,
    provenance: Mapping[str, Any],
) -> tuple[Path, ...]:
    """A bundle of hipDNN's convention beside the graph at ``graph_path``. Raises `OutputError`."""
    return binary.write(graph, {**inputs, **outputs}, Path(graph_path), provenance)


def _name(path: str | Path) -> str:
    """Case id of a sweep, else the graph file's name without its ending."""
    place, _, case = str(path).rpartition("#")
    return case if place else PurePath(str(path).rpartition("!")[2]).stem


def _candidates(
    path: str | Path, override: str | Path | None
) -> tuple[tuple[Path, str | None], ...]:
    """(folder, prefix of hipDNN's convention or None for ours), most specific first."""
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
