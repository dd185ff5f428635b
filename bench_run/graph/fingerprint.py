"""A name for what a graph means: equal for equal work, independent of names in the file.

Dims, strides, types, flags, constants, parameters and wiring count. Names, uids, the order of
tensors and of independent nodes, engine preferences and unknown keys do not; neither do tensors
that no node touches, the strides of dims of length 1, nor the spelling of one and the same mask.

Method: colour refinement (Weisfeiler and Leman, 1968). Each tensor and node starts with its own
description and takes in those of its neighbours by port, until no round tells more of them apart.
Small graphs are refined all at once, round by round, which is what the fingerprints in existing
documents were made of; that costs as many rounds as a chain is long, so larger graphs are refined
a colour at a time.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING, Any

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_run.graph.model import Graph, Node, Tensor


# Canonical colour refinement: the coarsest stable colouring of a labelled graph, and the names of
# its colours, in O((n + m) log n) steps.
#
# Two elements have one colour where nothing that can be walked to from them tells them apart: equal
# descriptions and, by label, equally many neighbours of each colour (Weisfeiler and Leman, 1968). A
# colour's name is a number that depends on the graph only, not on the order in which it is written.
#
# Method: Berkholz, Bonsma and Grohe, Tight lower and upper bounds for the complexity of canonical
# colour refinement, 2013, after Hopcroft's "process the smaller half". A colour at a time refines
# all others by how its members are joined to theirs; of the parts that a colour falls into, the
# largest keeps the name and need not be looked at again.

Link = tuple[str, int]
"""Label, index of the neighbour."""
Row = tuple[str, int, tuple[tuple[str, int], ...]]
"""A colour: description and number of its members; label and colour of each one's neighbours."""
_Joints = tuple[str, ...]


def quotient(descriptions: Sequence[str], links: Sequence[Sequence[Link]]) -> tuple[Row, ...]:
    """Return the colours of the stable colouring in canonical order: equal for graphs that differ
    in the order of their elements only.

    `links` holds the neighbours of each element; for each link there is one back.
    """
    colours = _Colours(descriptions)
    while colours.waiting:
        colours.refine(links)
    rows: list[Row] = []
    for members in colours.members:
        one = next(iter(members))  # all of a colour are alike
        around = sorted((label, colours.of[other]) for label, other in links[one])
        rows.append((descriptions[one], len(members), tuple(around)))
    return tuple(rows)


class _Colours:
    """A partition of the elements that grows finer."""

    def __init__(self, descriptions: Sequence[str]) -> None:
        names = {text: name for name, text in enumerate(sorted(set(descriptions)))}
        self.of = [names[text] for text in descriptions]
        self.members: list[set[int]] = [set() for _ in names]
        for element, colour in enumerate(self.of):
            self.members[colour].add(element)
        self.waiting = deque(range(len(names)))

    def refine(self, links: Sequence[Sequence[Link]]) -> None:
        """Tell all elements apart by how they are joined to the next waiting colour."""
        colour = self.waiting.popleft()
        joints: dict[int, list[str]] = {}
        for element in self.members[colour]:
            for label, other in links[element]:
                joints.setdefault(other, []).append(label)
        parts: dict[int, dict[_Joints, list[int]]] = {}
        for element, labels in joints.items():
            key = tuple(sorted(labels))
            parts.setdefault(self.of[element], {}).setdefault(key, []).append(element)
        for divided in sorted(parts):
            self._divide(divided, parts[divided])

    def _divide(self, colour: int, parts: dict[_Joints, list[int]]) -> None:
        """Divide a colour; its elements that are in no part are not joined at all: one more
        part."""
        whole = self.members[colour]
        joined = sum(map(len, parts.values()))
        if joined == len(whole) and len(parts) == 1:
            return
        keys = sorted(parts)
        if joined < len(whole):
            keys = [(), *keys]
        sizes = {key: len(parts[key]) if key else len(whole) - joined for key in keys}
        keeper = max(keys, key=sizes.__getitem__)  # the first of equals
        for key in keys:
            if key != keeper:
                # They get a new colour, which waits for its turn.
                new = len(self.members)
                self.members.append(set(parts[key]) if key else whole.difference(*parts.values()))
                whole -= self.members[new]
                for element in self.members[new]:
                    self.of[element] = new
                self.waiting.append(new)


_VERSION = 1
"""Part of every hash: changes with the rules above, so that old and new never match by accident."""

_SMALL = 256
"""Tensors and nodes up to which a graph is refined round by round."""

_Edge = tuple[int, str, int]
"""Index of the node, port (with its place in a list), uid."""


def fingerprint(graph: Graph) -> str:
    """Return hex SHA-256."""
    lean = graph.connected
    edges = tuple(_edges(lean))
    small = len(lean.tensors) + len(lean.nodes) <= _SMALL
    return _by_rounds(lean, edges) if small else _by_colours(lean, edges)


def _by_rounds(graph: Graph, edges: tuple[_Edge, ...]) -> str:
    """Return a hash of the sorted hashes of all, after the round that tells no more of them
    apart."""
    tensors = {tensor.uid: _hash(_describe_tensor(tensor)) for tensor in graph.tensors}
    nodes = [_hash(_describe_node(node)) for node in graph.nodes]
    apart = 0
    while apart < (count := len({*tensors.values(), *nodes})):
        apart = count
        # Every colour takes in those of its neighbours.
        around_nodes: list[list[tuple[str, str]]] = [[] for _ in nodes]
        around_tensors: dict[int, list[tuple[str, str]]] = {uid: [] for uid in tensors}
        for index, port, uid in edges:
            around_nodes[index].append((port, tensors[uid]))
            around_tensors[uid].append((port, nodes[index]))
        for tensor in graph.tensors:
            offsets = tensor.ragged_offset_uid
            if offsets is not None:
                around_tensors[tensor.uid].append(("offsets", tensors[offsets]))
                around_tensors[offsets].append(("offsets of", tensors[tensor.uid]))
        tensors = {uid: _hash((own, sorted(around_tensors[uid]))) for uid, own in tensors.items()}
        nodes = [_hash((own, sorted(around_nodes[i]))) for i, own in enumerate(nodes)]
    return _hash((_VERSION, sorted(tensors.values()), sorted(nodes)))


def _by_colours(graph: Graph, edges: tuple[_Edge, ...]) -> str:
    """Return a hash of the stable colours and of the edges between them."""
    descriptions = [repr(_describe_node(node)) for node in graph.nodes]
    places = {tensor.uid: len(descriptions) + i for i, tensor in enumerate(graph.tensors)}
    descriptions += [repr(_describe_tensor(tensor)) for tensor in graph.tensors]
    links: list[list[tuple[str, int]]] = [[] for _ in descriptions]
    for index, port, uid in edges:
        links[index].append((port, places[uid]))
        links[places[uid]].append((port, index))
    for tensor in graph.tensors:
        if tensor.ragged_offset_uid is not None:
            place, offsets = places[tensor.uid], places[tensor.ragged_offset_uid]
            links[place].append(("offsets", offsets))
            links[offsets].append(("offsets of", place))
    return _hash((_VERSION, quotient(descriptions, links)))


def _hash(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _edges(graph: Graph) -> Iterator[_Edge]:
    for index, node in enumerate(graph.nodes):
        yield from ((index, f"in {port}", uid) for port, uid in node.inputs.items())
        yield from ((index, f"out {port}", uid) for port, uid in node.outputs.items())
        for port, uids in node.input_lists.items():
            yield from ((index, f"in {port} {place}", uid) for place, uid in enumerate(uids))


def _describe_tensor(tensor: Tensor) -> tuple[Any, ...]:
    strides = (s if d > 1 else 0 for s, d in zip(tensor.strides, tensor.dims, strict=True))
    value = tensor.value
    if value is not None and DTYPES[tensor.data_type].kind in ("float", "scale"):
        value = float(value)
    return (
        "tensor",
        tensor.data_type,
        tensor.dims,
        tuple(strides),
        tensor.virtual,
        value,
        tensor.runtime_scalar,
        tensor.alignment,
    )


def _describe_node(node: Node) -> tuple[Any, ...]:
    row = OPERATIONS[node.type]
    attributes = row.meaning(row.complete(node.attributes))
    return ("node", node.type, node.compute_data_type, sorted(attributes.items()))
