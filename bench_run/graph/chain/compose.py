"""Pipelines to chains: graphs in their places, with the links of the file as shared memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.chain.model import Alias, ChainGraph, Place
from bench_run.graph.weights import weights_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench_schema.pipeline.values import Layer, Link, Pipeline

    from bench_run.graph.model import Graph, Tensor

FILE = "file:"


@dataclass(frozen=True)
class _Reader:
    """An input of a place that a link names."""

    where: str
    place: Place
    tensor: Tensor
    """With the chain's uid."""
    link: Link


def compose(pipeline: Pipeline, graphs: Mapping[str, Graph], path: Path) -> ChainGraph:
    """The chain of a pipeline; `graphs` by layer id. Raises `GraphError` that names the layer.

    `path` is the pipeline's file: messages name it, and files of data lie beside it.
    """
    places = list(_places(pipeline, graphs, path))
    last = {layer.id: place for layer, place in places}
    readers = [r for layer, place in places for r in _readers(layer, place, path)]
    for link in pipeline.outputs:
        if link.layer is not None:
            find(last[link.layer].graph.outputs, link.tensor, f"{path}: output {link.text}")
    groups = _groups(readers)
    aliases = {**_between(readers, last), **_shared_inputs(groups)}
    weights = frozenset(_weights(pipeline, places, readers))
    rules = _rules(pipeline, groups, path)
    placed = [replace(p, init=(*p.init, *rules.get(p.id, ()))) for _, p in places]
    return _chain(pipeline.name, placed, aliases, weights)


def _places(
    pipeline: Pipeline, graphs: Mapping[str, Graph], path: Path
) -> Iterator[tuple[Layer, Place]]:
    """One for each execution, with uids counted from 1 through all of them."""
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
    """As ``--init`` has it."""
    return f"{tensor.name}={seen_from_here(text, path)}"


def seen_from_here(text: str, path: Path) -> str:
    """A rule of the pipeline's file, with a file that lies beside it as seen from here."""
    if text.startswith(FILE):
        return f"{FILE}{path.parent / text.removeprefix(FILE)}"
    return text


def find(tensors: Sequence[Tensor], name: str, where: str) -> Tensor:
    """The tensor of a name, or of a uid as text. Raises `GraphError` with the known ones."""
    found = [t for t in tensors if t.name == name] or [t for t in tensors if str(t.uid) == name]
    if len(found) != 1:
        known = ", ".join(t.name or str(t.uid) for t in tensors) or "none"
        what = "no tensor" if not found else f"{len(found)} tensors"
        raise GraphError(where, f"{what} {name!r}; choose from {known}")
    return found[0]


def _readers(layer: Layer, place: Place, path: Path) -> Iterator[_Reader]:
    for name, link in layer.links.items():
        tensor = place.placed_tensor(find(place.graph.inputs, name, f"{path}: {layer.id}"))
        yield _Reader(f"{path}: {place.id}: tensor.{name}", place, tensor, link)


def _between(readers: Iterable[_Reader], last: Mapping[str, Place]) -> dict[int, Alias]:
    """Links to what another layer wrote; of one that repeats, in its last execution."""
    made = {}
    for reader in readers:
        if reader.link.layer is not None:
            writer = last[reader.link.layer]
            source = find(writer.graph.outputs, reader.link.tensor, reader.where)
            made[reader.tensor.uid] = _alias(
                reader, writer.placed_tensor(source), reader.link.offset
            )
    return made


def _groups(readers: Sequence[_Reader]) -> dict[str, list[_Reader]]:
    """Readers of each input of the pipeline: first the one with the largest memory, which has it
    for all."""
    groups: dict[str, list[_Reader]] = {}
    for reader in readers:
        if reader.link.layer is None:
            groups.setdefault(reader.link.tensor, []).append(reader)
    for group in groups.values():
        group.sort(key=lambda reader: (reader.link.offset, -reader.tensor.span))
    return groups


def _shared_inputs(groups: Mapping[str, list[_Reader]]) -> dict[int, Alias]:
    return {
        reader.tensor.uid: _alias(reader, owner.tensor, reader.link.offset - owner.link.offset)
        for owner, *others in groups.values()
        for reader in others
    }


def _rules(
    pipeline: Pipeline, groups: Mapping[str, list[_Reader]], path: Path
) -> dict[str, tuple[str, ...]]:
    """How inputs of the pipeline are filled, by id of the place that has their memory."""
    rules: dict[str, tuple[str, ...]] = {}
    for each in pipeline.inputs:
        if each.init is not None and each.name in groups:
            owner = groups[each.name][0]
            rule = _rule(owner.tensor, each.init, path)
            rules[owner.place.id] = (*rules.get(owner.place.id, ()), rule)
    return rules


def _alias(reader: _Reader, source: Tensor, offset: int) -> Alias:
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


def _weights(
    pipeline: Pipeline, places: Sequence[tuple[Layer, Place]], readers: Sequence[_Reader]
) -> Iterator[int]:
    linked = {reader.tensor.uid: reader.link for reader in readers}
    declared = {each.name for each in pipeline.inputs if each.weight}
    for layer, place in places:
        named = (find(place.graph.inputs, name, layer.id).uid for name in layer.weights or ())
        own = weights_of(place.graph) if layer.weights is None else frozenset(named)
        yield from (place.uids[uid] for uid in own if place.uids[uid] not in linked)
    yield from (u for u, link in linked.items() if link.layer is None and link.tensor in declared)


def _chain(
    name: str, places: Sequence[Place], aliases: Mapping[int, Alias], weights: frozenset[int]
) -> ChainGraph:
    first = places[0].graph
    return ChainGraph(
        name=name,
        io_data_type=first.io_data_type,
        intermediate_data_type=first.intermediate_data_type,
        compute_data_type=first.compute_data_type,
        tensors=tuple(tensor for place in places for tensor in place.placed.tensors),
        nodes=tuple(node for place in places for node in place.placed.nodes),
        weights=weights,
        places=tuple(places),
        aliases=aliases,
    )
