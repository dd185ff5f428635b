"""Graphs that run one after another as one: what a pipeline file stands for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the fields' types
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.model import Graph, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from bench_schema.pipeline import Layer, Link, Pipeline

    from bench_run.graph.model import Node


# A chain as a value: a graph whose nodes run as several graphs, one after another.
#
# To everything that only asks what goes in and what comes out, a chain is a graph: its nodes are
# those of its places, its outputs every tensor that some place writes. What an engine runs are the
# places, each a graph of its own, which pass memory to each other.


@dataclass(frozen=True)
class Alias:
    """A tensor that lies in the memory of another one."""

    uid: int
    offset: int
    """Elements between the start of that memory and its own."""


@dataclass(frozen=True)
class Place:
    """One of the graphs. Graphs of one file are the same object in all their places."""

    id: str
    graph: Graph
    uids: Mapping[int, int]
    """The graph's uids to the chain's."""
    variant: Mapping[str, str] = field(default_factory=dict)
    init: tuple[str, ...] = ()
    """Fill of inputs, in the words of ``--init``."""

    @cached_property
    def placed(self) -> Graph:
        """The graph with the chain's uids and names."""
        return renumbered(self.graph, self.uids, f"{self.id}:")

    def placed_tensor(self, tensor: Tensor) -> Tensor:
        """Return the chain's tensor for a tensor of the graph."""
        return self.placed.by_uid[self.uids[tensor.uid]]


@dataclass(frozen=True)
class ChainGraph(Graph):
    """`places` in the order in which they run; `aliases` by the uid of the reader's tensor."""

    places: tuple[Place, ...] = ()
    aliases: Mapping[int, Alias] = field(default_factory=dict)
    weights: frozenset[int] = frozenset()
    """Uids of the inputs that are weights."""

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors that nothing writes, each once: readers of one memory share the first's."""
        read = self.consumed.difference(self.produced, self.aliases)
        return tuple(t for t in self.tensors if t.uid in read and t.value is None)

    @cached_property
    def where(self) -> Mapping[int, tuple[int, int]]:
        """Return the place of each uid, and the uid in that place's graph."""
        return {
            uid: (index, own)
            for index, place in enumerate(self.places)
            for own, uid in place.uids.items()
        }

    @cached_property
    def sources(self) -> frozenset[int]:
        """Uids of the tensors whose memory others read."""
        return frozenset(alias.uid for alias in self.aliases.values())


@dataclass(frozen=True)
class PassContext:
    """Layers that run around a graph in a pass of its pipeline."""

    chain: ChainGraph
    """The layers near it and the graph itself, in their order in the pipeline."""
    own: tuple[int, ...]
    """Places of the chain where the graph is; of a pair two."""
    left_bytes: int
    """Bytes that a pass touches before these layers."""

    @property
    def before(self) -> tuple[int, ...]:
        """Places of the others, as they run before it in one pass after another."""
        last = max(self.own)
        every = (*range(last + 1, len(self.chain.places)), *range(last))
        return tuple(place for place in every if place not in self.own)


def renumbered(graph: Graph, uids: Mapping[int, int], prefix: str = "") -> Graph:
    """Return the graph with other uids; `uids` has all of its own. `prefix` goes before every
    name."""

    def ports(rows: Mapping[str, int]) -> dict[str, int]:
        return {port: uids[uid] for port, uid in rows.items()}

    tensors = tuple(
        replace(
            t,
            uid=uids[t.uid],
            name=f"{prefix}{t.name or t.uid}",
            ragged_offset_uid=None if t.ragged_offset_uid is None else uids[t.ragged_offset_uid],
        )
        for t in graph.tensors
    )
    nodes = tuple(
        replace(
            node,
            name=f"{prefix}{node.name}",
            inputs=ports(node.inputs),
            outputs=ports(node.outputs),
            input_lists={p: tuple(uids[u] for u in row) for p, row in node.input_lists.items()},
        )
        for node in graph.nodes
    )
    return replace(graph, tensors=tensors, nodes=nodes)


def layer_fingerprints(chain: ChainGraph) -> tuple[str, ...]:
    """Return the fingerprints of the graphs in execution order."""
    from bench_run.graph.fingerprint import fingerprint  # it loads all operations

    known = {id(place.graph): place.graph for place in chain.places}
    made = {key: fingerprint(graph) for key, graph in known.items()}
    return tuple(made[id(place.graph)] for place in chain.places)


def chain_fingerprint(chain: ChainGraph) -> str:
    """Return a hash that is equal for chains that run graphs of the same meaning, linked in the
    same way."""
    digest = hashlib.sha256(b"chain 1\n")
    where = {
        uid: f"{index}.{number}"
        for index, place in enumerate(chain.places)
        for number, uid in enumerate(place.uids.values())
    }
    for text, place in zip(layer_fingerprints(chain), chain.places, strict=True):
        digest.update(f"{text}\n".encode())
        for uid in place.uids.values():
            alias = chain.aliases.get(uid)
            if alias is not None:
                digest.update(f"{where[uid]}<{where[alias.uid]}@{alias.offset}\n".encode())
    return digest.hexdigest()


# Which inputs of a graph are weights: read in every pass, written in none.
#
# By the ports of the nodes: filters, scales, biases and statistics, the second operand of a matrix
# product that all batches share, and what is broadcast in a pointwise operation. A tensor that some
# node reads as data is none.


_NORM = ("scale", "bias", "mean", "inv_variance", "variance")
PORTS: dict[str, tuple[str, ...]] = {
    "ConvolutionFwdAttributes": ("w",),
    "ConvolutionBwdAttributes": ("w",),
    "BatchnormInferenceAttributes": _NORM,
    "BatchnormInferenceAttributesVarianceExt": _NORM,
    "BatchnormAttributes": ("scale", "bias", "prev_running_mean", "prev_running_variance"),
    "BatchnormBackwardAttributes": ("scale",),
    "LayernormAttributes": ("scale", "bias"),
    "LayernormBackwardAttributes": ("scale",),
    "RMSNormAttributes": ("scale", "bias"),
    "RMSNormBackwardAttributes": ("scale",),
    "MoeGroupedMatmulAttributes": ("weight",),
}
"""Node type to the ports that take weights, where the type alone says it."""

_PASSES_ON = ("BlockScaleDequantizeAttributes",)
"""Nodes whose output is a weight if their inputs are weights."""


def weights_of(graph: Graph) -> frozenset[int]:
    """Return uids of the inputs that are weights."""
    if isinstance(graph, ChainGraph):
        return graph.weights
    weights: set[int] = set()
    data: set[int] = set()
    for node in reversed(graph.nodes):
        mine = set(_weights(graph, node))
        if node.type in _PASSES_ON and weights.issuperset(node.outputs.values()):
            mine = set(node.inputs.values())
        weights |= mine
        data |= {uid for uid in node.inputs.values() if uid not in mine}
    return frozenset(t.uid for t in graph.inputs if t.uid in weights - data)


def _weights(graph: Graph, node: Node) -> Iterator[int]:
    if node.type == "MatmulAttributes":
        b = graph.by_uid[node.inputs["b"]]
        if all(length == 1 for length in b.dims[:-2]):
            yield b.uid
    elif node.type == "PointwiseAttributes":
        whole = graph.by_uid[node.outputs["out_0"]].elements
        yield from (u for u in node.inputs.values() if graph.by_uid[u].elements < whole)
    else:
        yield from (node.inputs[p] for p in PORTS.get(node.type, ()) if p in node.inputs)


FILE = "file:"


@dataclass(frozen=True)
class _LinkReader:
    """An input of a place that a link names."""

    where: str
    place: Place
    tensor: Tensor
    """Tensor with the chain's uid."""
    link: Link


def compose(pipeline: Pipeline, graphs: Mapping[str, Graph], path: Path) -> ChainGraph:
    """Return the chain of a pipeline; `graphs` by layer id. Raises `GraphError` that names the
    layer.

    `path` is the pipeline's file: messages name it, and files of data lie beside it.
    """
    places = list(_places(pipeline, graphs, path))
    last = {layer.id: place for layer, place in places}
    readers = [r for layer, place in places for r in _readers(layer, place, path)]
    for link in pipeline.outputs:
        if link.layer is not None:
            find(last[link.layer].graph.outputs, link.tensor, f"{path}: output {link.text}")
    # Readers of each input of the pipeline: first the one with the largest memory, which
    # has it for all.
    groups: dict[str, list[_LinkReader]] = {}
    for reader in readers:
        if reader.link.layer is None:
            groups.setdefault(reader.link.tensor, []).append(reader)
    for group in groups.values():
        group.sort(key=lambda reader: (reader.link.offset, -reader.tensor.span))
    aliases = {
        **_between(readers, last),
        **{
            reader.tensor.uid: _alias(reader, owner.tensor, reader.link.offset - owner.link.offset)
            for owner, *others in groups.values()
            for reader in others
        },
    }
    weights = frozenset(_compose_weights(pipeline, places, readers))
    # How inputs of the pipeline are filled, by id of the place that has their memory.
    rules: dict[str, tuple[str, ...]] = {}
    for each in pipeline.inputs:
        if each.init is not None and each.name in groups:
            owner = groups[each.name][0]
            rule = _rule(owner.tensor, each.init, path)
            rules[owner.place.id] = (*rules.get(owner.place.id, ()), rule)
    placed = [replace(p, init=(*p.init, *rules.get(p.id, ()))) for _, p in places]
    first = placed[0].graph
    return ChainGraph(
        name=pipeline.name,
        io_data_type=first.io_data_type,
        intermediate_data_type=first.intermediate_data_type,
        compute_data_type=first.compute_data_type,
        tensors=tuple(tensor for place in placed for tensor in place.placed.tensors),
        nodes=tuple(node for place in placed for node in place.placed.nodes),
        weights=weights,
        places=tuple(placed),
        aliases=aliases,
    )


def _places(
    pipeline: Pipeline, graphs: Mapping[str, Graph], path: Path
) -> Iterator[tuple[Layer, Place]]:
    """Yield the layer and the place of each execution, with uids counted from 1 through all of
    them."""
    used = 0
    for layer in pipeline.order:
        graph = graphs[layer.id]
        for name in (*layer.init, *(layer.weights or ())):
            find(graph.inputs, name, f"{path}: {layer.id}")
        for number in range(layer.repeat):
            name = layer.id if number == 0 else f"{layer.id}#{number + 1}"
            uids = {tensor.uid: used + i for i, tensor in enumerate(graph.tensors, start=1)}
            used += len(uids)
            place = Place(name, graph, uids, layer.variant)
            init = tuple(
                _rule(place.placed_tensor(find(graph.inputs, tensor, layer.id)), text, path)
                for tensor, text in layer.init.items()
            )
            yield layer, replace(place, init=init)


def _rule(tensor: Tensor, text: str, path: Path) -> str:
    """Return the rule in the form of ``--init``."""
    return f"{tensor.name}={seen_from_here(text, path)}"


def seen_from_here(text: str, path: Path) -> str:
    """Return a rule of the pipeline's file, with a file that lies beside it as seen from here."""
    if text.startswith(FILE):
        return f"{FILE}{path.parent / text.removeprefix(FILE)}"
    return text


def find(tensors: Sequence[Tensor], name: str, where: str) -> Tensor:
    """Return the tensor of a name, or of a uid as text. Raises `GraphError` with the known ones."""
    found = [t for t in tensors if t.name == name] or [t for t in tensors if str(t.uid) == name]
    if len(found) != 1:
        known = ", ".join(t.name or str(t.uid) for t in tensors) or "none"
        what = "no tensor" if not found else f"{len(found)} tensors"
        raise GraphError(where, f"{what} {name!r}; choose from {known}")
    return found[0]


def _readers(layer: Layer, place: Place, path: Path) -> Iterator[_LinkReader]:
    for name, link in layer.links.items():
        tensor = place.placed_tensor(find(place.graph.inputs, name, f"{path}: {layer.id}"))
        yield _LinkReader(f"{path}: {place.id}: tensor.{name}", place, tensor, link)


def _between(readers: Iterable[_LinkReader], last: Mapping[str, Place]) -> dict[int, Alias]:
    """Return links to what another layer wrote; of one that repeats, in its last execution."""
    made = {}
    for reader in readers:
        if reader.link.layer is not None:
            writer = last[reader.link.layer]
            source = find(writer.graph.outputs, reader.link.tensor, reader.where)
            made[reader.tensor.uid] = _alias(
                reader, writer.placed_tensor(source), reader.link.offset
            )
    return made


def _alias(reader: _LinkReader, source: Tensor, offset: int) -> Alias:
    tensor = reader.tensor
    if tensor.data_type != source.data_type:
        raise GraphError(
            reader.where,
            f"{tensor.data_type} cannot be read from {source.data_type}; "
            "a graph of the operation convert goes between",
        )
    if tensor.runtime_scalar or source.runtime_scalar:
        raise GraphError(reader.where, "a scalar that is passed by value cannot be linked")
    if offset + tensor.span > source.span:
        raise GraphError(
            reader.where,
            f"{tensor.span} elements from {offset} on do not lie within the {source.span} written",
        )
    return Alias(source.uid, offset)


def _compose_weights(
    pipeline: Pipeline, places: Sequence[tuple[Layer, Place]], readers: Sequence[_LinkReader]
) -> Iterator[int]:
    linked = {reader.tensor.uid: reader.link for reader in readers}
    declared = {each.name for each in pipeline.inputs if each.weight}
    for layer, place in places:
        named = (find(place.graph.inputs, name, layer.id).uid for name in layer.weights or ())
        own = weights_of(place.graph) if layer.weights is None else frozenset(named)
        yield from (place.uids[uid] for uid in own if place.uids[uid] not in linked)
    yield from (u for u, link in linked.items() if link.layer is None and link.tensor in declared)
