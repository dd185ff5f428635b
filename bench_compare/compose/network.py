"""The pipeline that is composed: layers, the graphs they are, the tensors between them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_schema.errors import PipelineError
from bench_schema.pipeline import read_pipeline

from bench_compare.compose.forms import Form, form_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_schema.pipeline import Layer, Link, Pipeline

    from bench_compare.compose.table import Row


WRITTEN = ("y_", "out", "index_")
"""Beginnings of the keys of outputs, in nodes without a table of them."""


@dataclass(frozen=True)
class Ports:
    """Inputs and outputs of a graph by name, with their forms."""

    inputs: Mapping[str, Form]
    outputs: Mapping[str, Form]


@dataclass(frozen=True, eq=False)
class Passed:
    """A tensor that layers hand over. `writer` None: an input of the pipeline."""

    writer: int | None
    name: str
    form: Form
    readers: tuple[tuple[int | None, Form], ...]
    """Layers that read it, each with the form of its input; None: a result of the pipeline."""


@dataclass(frozen=True, eq=False)
class Network:
    pipeline: Pipeline
    layers: tuple[Layer, ...]
    """Layers in execution order."""
    prints: tuple[str | None, ...]
    """Fingerprint of each layer's graph; None if no document has the layer."""
    ports: tuple[Ports | None, ...]
    """None for a layer whose graph is not in a file."""
    seams: tuple[tuple[int, ...], ...] = field(default=())
    """Layers that may stand before each, as far as pairs of them were measured, the best first:
    that which runs right before, then the last one that it reads."""

    @property
    def chain(self) -> tuple[str | None, ...]:
        """Fingerprints of all executions in a pass."""
        pairs = zip(self.layers, self.prints, strict=True)
        return tuple(one for layer, one in pairs for _ in range(layer.repeat))

    def passed(self) -> Iterator[Passed]:
        """Yield the activations between layers of which both forms are known."""
        place = {layer.id: index for index, layer in enumerate(self.layers)}
        readers: dict[tuple[int | None, str], list[tuple[int | None, Form]]] = {}
        for index, (layer, ports) in enumerate(zip(self.layers, self.ports, strict=True)):
            for name, link in layer.links.items():
                if ports is not None and not self._is_weight(link):
                    source = (None if link.layer is None else place[link.layer], link.tensor)
                    readers.setdefault(source, []).append((index, ports.inputs[name]))
        for link in self.pipeline.outputs:
            if link.layer is not None and (ports := self.ports[place[link.layer]]) is not None:
                source = (place[link.layer], link.tensor)
                readers.setdefault(source, []).append((None, ports.outputs[link.tensor]))
        for (writer, name), found in readers.items():
            own = None if writer is None else self.ports[writer]
            form = found[0][1] if own is None else own.outputs[name]
            same = [each for each in found if each[1] == form]
            views = [each for each in found if each[1] != form]
            if same or writer is not None:
                fixed = [(None, form)] if views else []
                yield Passed(writer, name, form, (*same, *fixed))
            for reader, other in views:  # it sees the memory in the form that the file has
                yield Passed(None, name, other, ((reader, other),))

    def weights(self, index: int) -> Iterator[Form]:
        """Yield the forms of the inputs that a layer reads and no other layer writes."""
        ports, layer = self.ports[index], self.layers[index]
        for name, form in () if ports is None else ports.inputs.items():
            link = layer.links.get(name)
            if link is None or self._is_weight(link):
                yield form

    def _is_weight(self, link: Link) -> bool:
        weights = {each.name for each in self.pipeline.inputs if each.weight}
        return link.layer is None and link.tensor in weights


def read_network(path: Path, rows: Sequence[Row]) -> Network:
    """Return a pipeline with the graphs of its layers. Raises `PipelineError` if it contradicts
    them."""
    pipeline = read_pipeline(path)
    layers = pipeline.order
    ports = tuple(map(_ports, layers))
    known = {layer.id: each for layer, each in zip(layers, ports, strict=True)}
    for layer in layers:
        where = f"{path}: {layer.id}: tensor"
        for name, link in layer.links.items():
            own, writer = known[layer.id], known.get(link.layer or "")
            if own is not None and name not in own.inputs:
                raise PipelineError(where, _absent("input", name, own.inputs))
            if writer is not None and link.tensor not in writer.outputs:
                what = _absent("output", link.tensor, writer.outputs)
                raise PipelineError(f"{where}.{name}", what)
    for link in pipeline.outputs:
        writer = known.get(link.layer or "")
        if writer is not None and link.tensor not in writer.outputs:
            what = _absent("output", link.tensor, writer.outputs)
            raise PipelineError(f"{path}: output {link.text}", what)
    prints = tuple(_fingerprint(layer, rows) for layer in layers)
    return Network(pipeline, layers, prints, ports, tuple(_before(layers)))


def _absent(kind: str, name: str, known: Mapping[str, Form]) -> str:
    return f"the graph has no {kind} {name!r}; there are {', '.join(known)}"


def _before(layers: Sequence[Layer]) -> Iterator[tuple[int, ...]]:
    place = {layer.id: index for index, layer in enumerate(layers)}
    is_linked = any(layer.links for layer in layers)
    for index, layer in enumerate(layers):
        read = [place[link.layer] for link in layer.links.values() if link.layer is not None]
        near = [index - 1] if index and is_linked else []
        yield tuple(dict.fromkeys((*near, *sorted(read, reverse=True)[:1])))


def _fingerprint(layer: Layer, rows: Sequence[Row]) -> str | None:
    """Return the fingerprint that the file names, or that of the only measured graph which was made
    from its op spec or read from its file."""
    if layer.fingerprint is not None:
        return layer.fingerprint
    alone = [row for row in rows if not row.graph.layers]
    if layer.op is not None:
        found = {row.base for row in alone if row.graph.op == layer.op}
    else:
        digest = hashlib.sha256(_bytes(layer)).hexdigest()
        found = {row.base for row in alone if row.graph.sha256 == digest}
    return found.pop() if len(found) == 1 else None


def _bytes(layer: Layer) -> bytes:
    assert layer.file is not None
    try:
        return layer.file.read_bytes()
    except OSError as error:
        raise PipelineError(str(layer.file), f"cannot be read: {error.strerror}") from error


def _ports(layer: Layer) -> Ports | None:
    """Return the ports of a graph file; None for an op spec, and for a file of another form."""
    if layer.file is None:
        return None
    try:
        return _read_ports(json.loads(_bytes(layer)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _read_ports(tree: Any) -> Ports:
    tensors = {tensor["uid"]: tensor for tensor in tree["tensors"]}
    sides: list[list[Any]] = [[], []]
    for node in tree["nodes"]:
        for place, side in enumerate(("inputs", "outputs")):
            sides[place] += _uids(node.get(side, {}))
        # Pools, reductions and custom operations name their tensors themselves.
        for key, value in node.items():
            sides[key.startswith(WRITTEN)] += _uids({key: value})
    read, written = (dict.fromkeys(uid for uid in side if uid in tensors) for side in sides)

    def named(uids: Sequence[int]) -> dict[str, Form]:
        found = [tensors[uid] for uid in uids if not tensors[uid].get("virtual")]
        return {
            str(one.get("name") or one["uid"]): form_of(
                tuple(map(int, one["dims"])), tuple(map(int, one["strides"])), str(one["data_type"])
            )
            for one in found
        }

    return Ports(named([uid for uid in read if uid not in written]), named([*written]))


def _uids(ports: Any) -> Iterator[Any]:
    for key, value in ports.items():
        if key.endswith(("tensor_uid", "tensor_uids")):
            yield from value if isinstance(value, list) else [value]
