"""Changes of inputs that are drawn from a secret: they make the inputs of each sample its own.

An engine that keeps an answer, leaves work out or reads a stale copy is right as long as its inputs
stay. So before each sample a few elements of the inputs take the values of other elements, and they
keep them: samples run on inputs that drift. Now and then a quarter of each input changes. The
secret and the numbers of the changes give the same inputs again, bit for bit.

Changed are inputs whose values may stand in any order. Masks, lengths and indices have rules, and
so have inputs that follow from one another, as those of a backward pass do.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.seeded.derived import DERIVED_HINTS, FORWARDS
from bench_run.tensors.seeded.draws import MAKERS
from bench_run.tensors.seeded.roles import roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.layout import Storage, Storages

FEW = 2
"""Elements that change before a sample: more would be seen in the time of a short one."""
STEPS = struct.Struct(">HQQ")
SHARE, LARGEST_BYTES = 4, 16 << 20
"""A large change takes this part (1/4) of an input, and at most so many bytes."""


@dataclass(frozen=True)
class Change:
    """Elements of an input that take the values of others, by their places in its storage."""

    uid: int
    to: int
    source: int
    count: int


class Changes:
    """The changes of one secret, by number: few elements for a positive one, much of each input for
    a negative one."""

    def __init__(self, graph: Graph, secret: str, uids: Iterable[int] | None = None) -> None:
        """`uids`: inputs that can be reached; None: all that may change."""
        self._secret = secret.encode()
        wanted = changeable(graph) if uids is None else tuple(uids)
        self._tensors = [graph.by_uid[uid] for uid in wanted]
        self._gapless = [t.span == t.elements for t in self._tensors]
        self._elements = [t.elements for t in self._tensors]
        self.uids = wanted

    def of(self, number: int) -> tuple[Change, ...]:
        """Return the changes of a number, in their order."""
        if not self._tensors:
            return ()
        drawn = hashlib.blake2b(b"%d" % number, key=self._secret[:64], digest_size=64).digest()
        if number < 0:
            draw = Random(drawn)  # noqa: S311 - repeatable
            return tuple(_large(tensor, draw) for tensor in self._tensors)
        found = []
        for begin in range(0, FEW * 18, 18):
            which, first, second = STEPS.unpack_from(drawn, begin)
            which %= len(self._tensors)
            tensor, elements = self._tensors[which], self._elements[which]
            to, source = first % elements, second % elements
            if not self._gapless[which]:
                to, source = _place(tensor, to), _place(tensor, source)
            found.append(Change(tensor.uid, to, source, 1))
        return tuple(found)

    def apply(self, inputs: Storages, numbers: Sequence[Sequence[int]]) -> dict[int, Storage]:
        """Return the inputs after changes. `numbers`: those of each input, in the order of `uids`,
        in which they were made."""
        changed = dict(inputs) | {uid: inputs[uid].copy() for uid in self.uids}
        known = {number: self.of(number) for number in {n for each in numbers for n in each}}
        for uid, own in zip(self.uids, numbers, strict=True):
            for each in (c for number in own for c in known[number] if c.uid == uid):
                values = changed[uid][each.source : each.source + each.count]
                changed[uid][each.to : each.to + each.count] = values
        return changed


def changeable(graph: Graph) -> tuple[int, ...]:
    """Return the uids of the inputs whose values may stand in any order. Of a chain they are those
    for which that holds in each graph that reads them."""
    if not isinstance(graph, ChainGraph):
        free = _free(graph)
        return tuple(tensor.uid for tensor in graph.inputs if tensor.uid in free)
    bound = set()
    for place in graph.places:
        free = _free(place.placed)
        for tensor in place.placed.inputs:
            alias = graph.aliases.get(tensor.uid)
            if tensor.uid not in free:
                bound.add(tensor.uid if alias is None else alias.uid)
    return tuple(tensor.uid for tensor in graph.inputs if tensor.uid not in bound)


def _free(graph: Graph) -> set[int]:
    hints = {uid: role.hint for uid, role in roles(graph).items()}
    bound: set[int] = set()
    for node in graph.nodes:
        row = FORWARDS.get(node.type)
        if row is not None and any(hints.get(u) in DERIVED_HINTS for u in node.inputs.values()):
            bound |= {
                uid for port, uid in node.inputs.items() if port in (*row.shared, *row.results)
            }
    return {
        tensor.uid
        for tensor in graph.inputs
        if tensor.uid not in bound
        if hints[tensor.uid] not in MAKERS and hints[tensor.uid] not in DERIVED_HINTS
        if _is_movable(graph, tensor)
    }


def _is_movable(graph: Graph, tensor: Tensor) -> bool:
    """Return True if any order of its values is as good. Integers are ordinary numbers where only
    pointwise nodes read them."""
    row = DTYPES[tensor.data_type]
    if row.array_type is None or row.bits < 8 or tensor.elements < 2 or tensor.runtime_scalar:
        return False
    readers = {node.type for node in graph.nodes if tensor.uid in node.inputs.values()}
    return row.kind == "float" or readers == {"PointwiseAttributes"}


def _place(tensor: Tensor, number: int) -> int:
    """Return the place in the storage of element `number`, counted without the gaps."""
    index = np.unravel_index(number, tensor.dims)
    return int(sum(i * stride for i, stride in zip(index, tensor.strides, strict=True)))


def _large(tensor: Tensor, draw: Random) -> Change:
    """Draw a block and another one that does not overlap it; of a storage with gaps an element."""
    if tensor.span != tensor.elements:
        to, source = (_place(tensor, draw.randrange(tensor.elements)) for _ in range(2))
        return Change(tensor.uid, to, source, 1)
    most = LARGEST_BYTES // DTYPES[tensor.data_type].bytes
    count = max(1, min(tensor.elements // SHARE, most))
    first = draw.randrange(tensor.elements - 2 * count + 1)
    second = draw.randrange(first + count, tensor.elements - count + 1)
    to, source = draw.sample((first, second), 2)
    return Change(tensor.uid, to, source, count)
