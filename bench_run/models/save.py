"""A model's layers as files: a graph for each that differs, and the pipeline that links them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.pipeline import Input, Layer, LeftOut, Link, Pipeline, pipeline_text

from bench_run.files import writing
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make import make_graphs
from bench_run.graph.work import flops
from bench_run.models.lower import TYPES, linkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_run.graph.model import Graph
    from bench_run.models.lower import Lowered, ModelLowering
    from bench_run.models.model import Array

WEIGHTS = "weights"
"""Folder of the arrays, beside the pipeline."""
BIAS = "uniform:-0.1:0.1"


@dataclass(frozen=True)
class Imported:
    """Result of importing a model."""

    path: Path
    pipeline: Pipeline
    graphs: int
    """Different ones."""
    backward: int
    forward_only: Mapping[str, int]
    """Kinds of calls whose layers have no backward graph, with how many layers these are."""


def save_model(lowering: ModelLowering, folder: Path, *, weights: bool, backward: bool) -> Imported:
    """Write the pipeline ``NAME.toml`` and its graphs. With `weights` the model's own values are
    beside them, otherwise rules that keep the size of activations. Raises `OutputError`."""
    name = lowering.model.name
    gradients = _gradients(lowering) if backward else {}
    shared = shared_weights(lowering.layers)
    read = dict(_read_inputs(lowering))
    floats = {
        read[each.id, tensor.name].tensor
        for each in lowering.layers
        for tensor in each.graph.inputs
        if (each.id, tensor.name) in read and tensor.data_type in TYPES
    }
    layers = [
        *(_layer(each, folder, read, shared, weights=weights) for each in lowering.layers),
        *(  # without links: each runs on data of its own
            Layer(
                id=f"backward.{number}",
                file=folder / f"{graph.name}.json",
                repeat=count,
                fingerprint=fingerprint(graph),
            )
            for number, (graph, count) in enumerate(gradients.values(), start=1)
        ),
    ]
    pipeline = Pipeline(
        name=name,
        about=f"{name}, imported: {len(lowering.layers)} layers, {lowering.model.data_type}.",
        layers=tuple(layers),
        inputs=(
            *(
                Input(each, "normal" if each in floats else None)
                for each in dict.fromkeys(link.tensor for link in read.values())
            ),
            *(
                Input(own, _filled(each, tensor, array, weights=weights), weight=True)
                for each in lowering.layers
                for tensor, array in each.weights.items()
                if shared.get((each.id, tensor)) == (own := f"{each.id}.{tensor}")
            ),
        ),
        outputs=tuple(
            Link(view.tensor, view.layer, view.offset)
            for view in map(lowering.views.get, lowering.model.outputs)
            if view is not None and view.layer is not None
        ),
        left_out=_left_out(lowering),
    )
    graphs = {each.graph.name: each.graph for each in lowering.layers}
    graphs |= {graph.name: graph for graph, _ in gradients.values()}
    path = folder / f"{name}.toml"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for graph in graphs.values():
            (folder / f"{graph.name}.json").write_bytes(write_graph(graph))
        if weights:
            (folder / WEIGHTS).mkdir(exist_ok=True)
            for each in lowering.layers:
                for tensor, array in each.weights.items():
                    first = f"{each.id}.{tensor}"
                    if shared.get((each.id, tensor), first) == first:  # what layers share once
                        file = folder / WEIGHTS / _file_name(each, tensor)
                        np.save(file, np.ascontiguousarray(array))
        path.write_text(pipeline_text(pipeline, folder), encoding="utf-8")
    alone = Counter(each.kind for each in lowering.layers if backward and not each.gradients)
    return Imported(path, pipeline, len(graphs), len(gradients), alone)


def _read_inputs(lowering: ModelLowering) -> Iterator[tuple[tuple[str, str], Link]]:
    """Yield (layer, tensor) of readers of the model's inputs, with their links. Memory is that of a
    reader: if each reads a part and none the whole, these are separate inputs."""
    taken: set[str] = set()
    for name in lowering.inputs:
        plain = linkable(name) or "input"
        numbered = (f"{plain}_{number}" for number in itertools.count(2))
        own = next(one for one in itertools.chain((plain,), numbered) if one not in taken)
        taken.add(own)
        # First element, minus the one behind the last: the largest comes first.
        readers: list[tuple[int, int, tuple[str, str]]] = []
        for layer in lowering.layers:
            spans = {tensor.name: tensor.span for tensor in layer.graph.inputs}
            for tensor, view in layer.links.items():
                if view.layer is None and view.tensor == name:
                    end = view.offset + spans[tensor]
                    readers.append((view.offset, -end, (layer.id, tensor)))
        parts: list[tuple[int, int]] = []
        links: list[tuple[tuple[str, str], int, int]] = []
        for offset, less, reader in sorted(readers):
            end = -less
            if not parts or end > parts[-1][1]:
                parts.append((offset, end))
            links.append((reader, len(parts) - 1, offset))
        for reader, part, offset in links:
            start = parts[part][0]
            if len(parts) == 1:
                yield reader, Link(own, None, offset)
            else:
                yield reader, Link(f"{own}.{start}", None, offset - start)


def shared_weights(layers: Sequence[Lowered]) -> Mapping[tuple[str, str], str]:
    """Return (layer, tensor) of weights that several layers read, with the pipeline's input that
    has them. Scalars are not weights."""
    readers: dict[object, list[tuple[str, str]]] = {}
    for each in layers:
        by_name = {tensor.name: tensor for tensor in each.graph.inputs}
        for name, array in each.weights.items():
            tensor = by_name[name]
            place = array.__array_interface__["data"][0], array.shape, array.strides
            form = tensor.dims, tensor.strides, tensor.data_type
            if array.size > 1 and not tensor.runtime_scalar:
                readers.setdefault((place, form), []).append((each.id, name))
    return {
        reader: ".".join(group[0])
        for group in readers.values()
        for reader in group
        if len(group) > 1
    }


def _filled(each: Lowered, tensor: str, array: Array, *, weights: bool) -> str | None:
    if weights:
        return f"file:{WEIGHTS}/{_file_name(each, tensor)}"
    # Filters and matrices that keep the variance of what they read, small biases; a number
    # as it is, the rest by its role.
    if array.size == 1:
        return f"constant:{float(array.reshape(-1)[0])!r}"
    custom = each.graph.nodes[0].custom
    if custom is not None and (tensor in custom.init or array.dtype.kind not in "f"):
        return None
    if tensor == "w" or (tensor == "b" and len(array.shape) > 1):
        dims = next(t.dims for t in each.graph.inputs if t.name == tensor)
        fan_in = math.prod(dims[1:]) if tensor == "w" else dims[-2]
        bound = math.sqrt(3 / max(1, fan_in))
        return f"uniform:-{bound:.6f}:{bound:.6f}"
    return BIAS if tensor in ("bias", "b") else None


def _layer(
    each: Lowered,
    folder: Path,
    read: Mapping[tuple[str, str], Link],
    shared: Mapping[tuple[str, str], str],
    *,
    weights: bool,
) -> Layer:
    rules = {
        tensor: _filled(each, tensor, array, weights=weights)
        for tensor, array in each.weights.items()
        if (each.id, tensor) not in shared
    }
    links = {
        name: read.get((each.id, name)) or Link(view.tensor, view.layer, view.offset)
        for name, view in each.links.items()
    }
    of_inputs = {t: Link(shared[each.id, t]) for t in each.weights if (each.id, t) in shared}
    return Layer(
        id=each.id,
        file=folder / f"{each.graph.name}.json",
        links=links | of_inputs,
        init={tensor: rule for tensor, rule in rules.items() if rule is not None},
        weights=tuple(each.weights),
        fingerprint=fingerprint(each.graph),
    )


def _file_name(each: Lowered, tensor: str) -> str:
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in each.id)
    return f"{safe}.{tensor}.npy"


def _left_out(lowering: ModelLowering) -> tuple[LeftOut, ...]:
    """Return a row for each operation and reason; those with an unknown share of the model's work
    first, then the largest shares."""
    groups: dict[tuple[str, str], list[int | None]] = {}
    for each in lowering.refused:
        key = each.call.operation or each.call.kind, each.reason
        groups.setdefault(key, []).append(each.work)
    done = sum(flops(each.graph) or 0 for each in lowering.layers)
    total = max(1, done + sum(each.work or 0 for each in lowering.refused))
    rows = (
        LeftOut(operation, len(work), None if None in work else sum(map(int, work)) / total, reason)  # type: ignore[arg-type]
        for (operation, reason), work in groups.items()
    )
    return tuple(sorted(rows, key=lambda row: -2.0 if row.share is None else -row.share))


def _gradients(lowering: ModelLowering) -> Mapping[str, tuple[Graph, int]]:
    """Return backward graphs by name, with their number of occurrences."""
    counts: Counter[str] = Counter()
    made: dict[str, Graph] = {}
    for each in lowering.layers:
        for spec in each.gradients:
            (graph,) = make_graphs(f"{spec} dtype={each.graph.outputs[0].data_type}")
            counts[graph.name] += 1
            made[graph.name] = graph
    return {name: (graph, counts[name]) for name, graph in made.items()}
