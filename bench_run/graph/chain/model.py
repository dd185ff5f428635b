"""A chain as a value: a graph whose nodes run as several graphs, one after another.

To everything that only asks what goes in and what comes out, a chain is a graph: its nodes are
those of its places, its outputs every tensor that some place writes. What an engine runs are the
places, each a graph of its own, which pass memory to each other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.model import Graph, Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """How inputs are filled, in the words of ``--init``."""

    @cached_property
    def placed(self) -> Graph:
        """The graph with the chain's uids and names."""
        return renumbered(self.graph, self.uids, f"{self.id}:")

    def placed_tensor(self, tensor: Tensor) -> Tensor:
        """What a tensor of the graph is in the chain."""
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
        return tuple(t for t in _plain_inputs(self) if t.uid not in self.aliases)

    @cached_property
    def where(self) -> Mapping[int, tuple[int, int]]:
        """Of each uid the place, and the uid that its graph has there."""
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
class Surroundings:
    """What runs around a graph in a pass of its pipeline."""

    chain: ChainGraph
    """The layers near it and the graph itself, in their order in the pipeline."""
    own: tuple[int, ...]
    """Places of the chain where the graph is; of a pair two."""
    left_bytes: int
    """What a pass touches before these layers."""
    linked: bool = True
    """Whether these places' graphs are the graph's own, uid by uid."""

    @property
    def before(self) -> tuple[int, ...]:
        """Places of the others, as they run before it in one pass after another."""
        last = max(self.own)
        every = (*range(last + 1, len(self.chain.places)), *range(last))
        return tuple(place for place in every if place not in self.own)


def _plain_inputs(graph: Graph) -> tuple[Tensor, ...]:
    written, read = graph.produced, graph.consumed
    return tuple(
        t for t in graph.tensors if t.uid in read and t.uid not in written and t.value is None
    )


def renumbered(graph: Graph, uids: Mapping[int, int], prefix: str = "") -> Graph:
    """The graph with other uids; `uids` has all of its own. `prefix` goes before every name."""

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
    """Of the graphs, in the order in which they run."""
    known = {id(place.graph): place.graph for place in chain.places}
    made = {key: fingerprint(graph) for key, graph in known.items()}
    return tuple(made[id(place.graph)] for place in chain.places)


def chain_fingerprint(chain: ChainGraph) -> str:
    """Equal for chains that run graphs of the same meaning, linked in the same way."""
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
