"""Sets of inputs: the usual one, and others on which a plan runs in between.

An engine that keeps an answer, leaves work out or reads a stale copy is right as long as its inputs
never change. So some iterations run on another set, and what they leave is held against that set's
own reference. From the graph and the usual inputs the same sets are made everywhere.

Set 1 holds the values of each input at other places, so that every element differs; set 2 differs
from the usual one in a quarter of each input, set 3 in a few scattered elements. Where inputs
follow from one another, as those of a backward pass do, and in chains, each set is drawn from a
seed of its own.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import BenchRunError
from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.work import flops
from bench_run.tensors.data import inputs_of
from bench_run.tensors.layout import logical_view, same_bytes
from bench_run.tensors.seeded.derived import DERIVED_HINTS
from bench_run.tensors.seeded.draws import MAKERS
from bench_run.tensors.seeded.roles import roles

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.data import Data
    from bench_run.tensors.layout import Array, Storage, Storages

SETS = 4
LIMITS = ((64 << 20, 10_000_000_000, SETS), (1 << 30, math.inf, 2))
"""Bytes of inputs, and operations, up to which there are so many sets: each is kept beside the
plan, and its reference is computed."""
AFFORDABLE = 200_000_000_000
"""Operations up to which other sets than the usual one have a reference. Beyond, outputs on these
are only held against the usual reference, which they must not fit."""
QUARTER, FEW = 4, 512
"""Elements of an input, of which one differs in sets 2 and 3."""


def most_sets(graph: Graph) -> int:
    """Count the sets that memory and the reference allow for a graph."""
    size, work = sum(tensor.bytes for tensor in graph.inputs), flops(graph) or 0
    return next((n for most, many, n in LIMITS if size <= most and work <= many), 1)


def has_references(graph: Graph) -> bool:
    """Tell whether the references of other sets are computed before they are needed."""
    return (flops(graph) or 0) <= AFFORDABLE


def input_sets(graph: Graph, data: Data, inputs: Storages) -> tuple[Storages, ...]:
    """Return the sets, the usual inputs first: storages by uid; those of an input that is the same
    in all sets are one object. Only one set where no other is known."""
    count = most_sets(graph)
    if isinstance(graph, ChainGraph):
        return (inputs, *_drawn(graph, data, inputs, count))
    hints = {uid: role.hint for uid, role in roles(graph).items()}
    if not DERIVED_HINTS.isdisjoint(hints.values()):
        return (inputs, *_drawn(graph, data, inputs, count))
    movable = [t for t in graph.inputs if hints[t.uid] not in MAKERS and _is_movable(graph, t)]
    moved = {tensor.uid: _moved(tensor, inputs[tensor.uid]) for tensor in movable}
    if count == 1 or all(same_bytes(moved[uid], inputs[uid]) for uid in moved):
        return (inputs,)
    others = [dict(inputs) | moved]
    for parts in (_quarter, _few)[: count - 2]:
        mixed = dict(inputs)
        for tensor in movable:
            mixed[tensor.uid] = storage = inputs[tensor.uid].copy()
            chosen = parts(tensor)
            _flat(tensor, storage)[chosen] = _flat(tensor, moved[tensor.uid])[chosen]
        others.append(mixed)
    return (inputs, *others)


def _drawn(graph: Graph, data: Data, inputs: Storages, count: int) -> list[Storages]:
    """Draw inputs from seeds that follow that of the usual inputs."""
    sets: list[Storages] = []
    for place in range(1, count):
        cache = None if data.cache is None else f"{data.cache}-{place}"
        try:
            other = inputs_of(
                graph, replace(data, seed=data.seed + place, golden=None, cache=cache)
            )
        except BenchRunError:  # golden inputs of a graph for which none can be drawn
            break
        if all(same_bytes(other[uid], inputs[uid]) for uid in other):
            break
        sets.append(other)
    return sets


def _is_movable(graph: Graph, tensor: Tensor) -> bool:
    """Tell whether any order of its values is as good: masks, lengths and indices have rules.
    Integers are ordinary numbers where only pointwise nodes read them."""
    row = DTYPES[tensor.data_type]
    if row.array_type is None or row.bits < 8 or tensor.elements < 2 or tensor.runtime_scalar:
        return False
    readers = {node.type for node in graph.nodes if tensor.uid in node.inputs.values()}
    return row.kind == "float" or readers == {"PointwiseAttributes"}


def _flat(tensor: Tensor, storage: Storage) -> Array:
    """Return its elements as one dimension, for writing: all of the memory if it has no gaps."""
    if tensor.span == tensor.elements:
        return storage
    view = logical_view(storage, tensor)
    return view.flat  # type: ignore[return-value]  # takes the same indices


def _moved(tensor: Tensor, storage: Storage) -> Storage:
    """Move each value by a number of places that differs from tensor to tensor."""
    by = 1 + zlib.crc32(b"%d" % tensor.uid) % (tensor.elements - 1)
    moved = storage.copy()
    _flat(tensor, moved)[:] = np.roll(np.asarray(_flat(tensor, storage)[:]), by)
    return moved


def _quarter(tensor: Tensor) -> slice:
    """Return a block from anywhere."""
    count = max(1, tensor.elements // QUARTER)
    begin = zlib.crc32(b"%d quarter" % tensor.uid) % (tensor.elements - count + 1)
    return slice(begin, begin + count)


def _few(tensor: Tensor) -> slice:
    begin = zlib.crc32(b"%d few" % tensor.uid) % min(FEW, tensor.elements)
    return slice(begin, None, FEW)
