"""A pipeline as the table knows it: which rows its layers are, and what passes between them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from bench_schema.errors import PipelineError
from bench_schema.pipeline import Link, read_pipeline

from bench_compare.compose.forms import GraphTensors, read_tensors
from bench_compare.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_schema.pipeline import Layer, Pipeline

    from bench_compare.compose.rows import LayerTable, TableRow


@dataclass(frozen=True)
class Station:
    """A layer in its place."""

    number: int
    layer: Layer
    fingerprint: str | None
    """None if neither the file nor the table knows it."""
    tensors: GraphTensors | None
    entry: int | None
    """Number of the layer whose seam with this one counts: the one that runs right before it; where
    that pair was not measured the last one that it reads. None: there is none."""
    seam: tuple[str, str] | None
    """Ids of the pair that was measured for this seam, alike ones share one."""


@dataclass(frozen=True)
class Edge:
    """A link between layers. `writer` is None for an input of the pipeline; `reader` is None for
    its output, which keeps the form of the pipeline."""

    writer: int | None
    output: str
    reader: int | None
    input: str
    is_view: bool
    """It does not start where the memory starts."""


@dataclass(frozen=True)
class Network:
    pipeline: Pipeline
    path: Path
    stations: tuple[Station, ...]
    """Stations in execution order."""
    edges: tuple[Edge, ...]
    """Links of activations; weights that several layers share are not included."""

    @property
    def shared_weights(self) -> frozenset[str]:
        """Inputs of the pipeline that are weights."""
        return frozenset(each.name for each in self.pipeline.inputs if each.weight)


def read_network(path: Path, table: LayerTable) -> Network:
    """Read a pipeline. Raises `InputError` for a file that is not one."""
    try:
        pipeline = read_pipeline(path)
    except PipelineError as error:
        raise InputError(str(error)) from error
    known = dict(_by_op(table)) | dict(_by_chain(pipeline, path, table))
    hashes = {row.sha256: row.fingerprint for row in table.rows if not row.is_rewritten}
    tensors: dict[Path, GraphTensors | None] = {}
    numbers = {layer.id: number for number, layer in enumerate(pipeline.order)}
    # Each pair of neighbours to the first that is like it, which is the one that was measured.
    seams: dict[tuple[str, str], tuple[str, str]] = {}
    first: dict[object, tuple[str, str]] = {}
    for one, other in pipeline.neighbours:
        links = {n: link for n, link in other.links.items() if link.layer == one.id}
        wiring = tuple(sorted((n, link.tensor, link.offset) for n, link in links.items()))
        variants = tuple(tuple(sorted(each.variant.items())) for each in (one, other))
        key = (content(one), content(other), variants, wiring)
        seams[one.id, other.id] = first.setdefault(key, (one.id, other.id))
    stations: list[Station] = []
    pairs = {prints for prints, _, _ in table.pairs}
    for number, layer in enumerate(pipeline.order):
        if layer.file is not None and layer.file not in tensors:
            tensors[layer.file] = read_tensors(layer.file)
        fingerprint = layer.fingerprint or _fingerprint(layer, hashes, known)
        before = stations[-1].fingerprint if stations and pipeline.is_linked else None
        entry = number - 1 if before is not None else None
        if (before, fingerprint) not in pairs:
            # The layer right before where it reads that one or none, else the last that it reads.
            read = [link.layer for link in layer.links.values() if link.layer is not None]
            writers = [numbers[one] for one in read]
            entry = entry if number - 1 in writers else max(writers, default=entry)
        writer = None if entry is None else pipeline.order[entry].id
        stations.append(
            Station(
                number=number,
                layer=layer,
                fingerprint=fingerprint,
                tensors=None if layer.file is None else tensors[layer.file],
                entry=entry,
                seam=None if writer is None else seams[writer, layer.id],
            )
        )
    _check_links(pipeline, path, stations, numbers)
    return Network(pipeline, path, tuple(stations), tuple(_edges(pipeline, stations, numbers)))


def _check_links(
    pipeline: Pipeline, path: Path, stations: Sequence[Station], numbers: Mapping[str, int]
) -> None:
    """Raise `InputError` for a tensor that a graph's file does not have."""
    for station in stations:
        where = f"{path}: {station.layer.id}: tensor"
        for name, link in station.layer.links.items():
            _check_tensor(where, name, "input", station.tensors)
            if link.layer is not None:
                writer = stations[numbers[link.layer]]
                _check_tensor(f"{where}.{name}", link.tensor, "output", writer.tensors)
    for link in pipeline.outputs:
        if link.layer is not None:
            writer = stations[numbers[link.layer]]
            _check_tensor(f"{path}: output {link.text}", link.tensor, "output", writer.tensors)


def _check_tensor(where: str, name: str, side: str, tensors: GraphTensors | None) -> None:
    if tensors is None:
        return
    known = tensors.inputs if side == "input" else tensors.outputs
    forms = [tensors.by_name[one] for one in known]
    if name not in known and not any(tensors.by_name.get(name) is form for form in forms):
        raise InputError(f"{where}: the graph has no {side} {name!r}; there are {', '.join(known)}")


def _by_op(table: LayerTable) -> Iterator[tuple[object, str]]:
    """Yield (op spec, fingerprint) of specs that made a single graph."""
    made: dict[str, set[str]] = {}
    for row in table.rows:
        if row.op is not None and not row.is_rewritten:
            made.setdefault(row.op, set()).add(row.fingerprint)
    for op, found in made.items():
        if len(found) == 1:
            yield op, found.pop()


def _by_chain(pipeline: Pipeline, path: Path, table: LayerTable) -> Iterator[tuple[object, str]]:
    """Yield (file or op of a layer, fingerprint of its graph), from chains of this very file, whose
    ids or order name the graphs."""
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    whole = [layer for layer in pipeline.order for _ in range(layer.repeat)]
    for row in table.rows:
        if not row.is_chain or row.sha256 != sha256:
            continue
        ids = PurePath(row.path).name.partition("#")[2].split("+")
        pair = [pipeline.by_id[one] for one in ids if one in pipeline.by_id]
        for layers in (pair, whole):
            if len(layers) == len(row.layers):
                for layer, fingerprint in zip(layers, row.layers, strict=True):
                    yield content(layer), fingerprint
                break


def content(layer: Layer) -> object:
    return layer.file or layer.op


def _fingerprint(
    layer: Layer, hashes: Mapping[str, str], known: Mapping[object, str]
) -> str | None:
    if layer.file is not None:
        try:
            found = hashes.get(hashlib.sha256(layer.file.read_bytes()).hexdigest())
        except OSError:
            found = None
        if found is not None:
            return found
    return known.get(content(layer))


def _edges(
    pipeline: Pipeline, stations: list[Station], numbers: Mapping[str, int]
) -> Iterator[Edge]:
    weights = {each.name for each in pipeline.inputs if each.weight}
    for station in stations:
        for name, link in station.layer.links.items():
            if link.layer is None and link.tensor in weights:
                continue
            writer = None if link.layer is None else numbers[link.layer]
            yield Edge(writer, link.tensor, station.number, name, link.offset > 0)
    # What no other layer reads is what the pipeline gives, where it does not say.
    read = {link.layer for one in stations for link in one.layer.links.values()}
    unread = [
        Link(name, one.layer.id)
        for one in stations
        if one.tensors is not None and one.layer.id not in read
        for name in one.tensors.outputs
    ]
    for link in pipeline.outputs or unread:
        assert link.layer is not None
        yield Edge(numbers[link.layer], link.tensor, None, "", link.offset > 0)


def seam_row(station: Station, rows: Sequence[TableRow]) -> TableRow | None:
    """Return the row of a seam; of several chains of the same two graphs, the one with these
    links."""
    if len(rows) <= 1 or station.seam is None:
        return rows[0] if rows else None
    suffix = "#" + "+".join(station.seam)
    return next((row for row in rows if row.path.endswith(suffix)), rows[0])
