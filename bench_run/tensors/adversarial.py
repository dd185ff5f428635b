"""Inputs on which mistakes show that ordinary inputs hide.

Each kind has a name for messages. Only inputs whose meaning leaves a choice are changed; lengths,
indices and their like keep values that make sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import BenchRunError
from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.data import inputs_of
from bench_run.tensors.layout import empty_storage, logical_view, poison_byte, to_storage
from bench_run.tensors.seeded.derived import DERIVED_HINTS
from bench_run.tensors.seeded.roles import OPEN_HINTS, roles

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.data import Data
    from bench_run.tensors.layout import Array, Storage, Storages

SEEDS = (101, 102, 103)
SEED = "seed "
"""Beginning of the names of other inputs of the usual kind."""
MAGNITUDES = (1e-3, 1e3)
"""Factors of inputs of float and wider: the steps of an honest kernel leave narrower types."""

Change = Callable[["Tensor", "Array"], "Array"]


FREE_HINTS = OPEN_HINTS - {"attention_bias"}
"""Hints of inputs that may have any values."""


def adversarial_sets(graph: Graph, data: Data, usual: Storages) -> Iterator[tuple[str, Storages]]:
    """Yield the name and inputs of each kind. `usual`: the inputs of the run, by uid."""
    for seed in SEEDS:
        try:
            yield (
                f"{SEED}{seed}",
                inputs_of(graph, replace(data, seed=seed, golden=None, cache=None)),
            )
        except BenchRunError:  # golden inputs of a graph for which none can be drawn
            break
    if not isinstance(graph, ChainGraph):
        yield from _changes(graph, usual)


def _changes(graph: Graph, usual: Storages) -> Iterator[tuple[str, Storages]]:
    """Yield changes of the usual inputs of a single graph."""
    hints = {uid: role.hint for uid, role in roles(graph).items()}
    ruled = _ruled(graph)
    free = [
        t
        for t in graph.inputs
        if hints[t.uid] in FREE_HINTS
        and t.uid not in ruled
        and DTYPES[t.data_type].kind == "float"
        and t.elements > 1
    ]
    if not free or not DERIVED_HINTS.isdisjoint(hints.values()) or _is_random(graph):
        return
    for factor in MAGNITUDES:
        if all(DTYPES[t.data_type].bits >= 32 for t in free):
            yield f"magnitude {factor:g}", _changed(usual, free, _scaled(factor))
    for name, change in SHAPED.items():
        if name != INFINITIES or _takes_infinities(graph):
            yield name, _changed(usual, free, change)
    for tensor in free:
        yield f"one-hot rows of {_name(tensor)}", _changed(usual, [tensor], _one_hot)
    yield "zeros but at the borders", _changed(usual, free, _borders)
    padded = [t for t in graph.inputs if t.span > t.elements and DTYPES[t.data_type].bits >= 8]
    if padded:
        yield "NaN between the elements", dict(usual) | {t.uid: _padded(t, usual) for t in padded}


def _is_random(graph: Graph) -> bool:
    """Return True if what is expected holds for the usual distribution of the inputs alone."""
    return any(n.custom is not None and "drawn" in n.custom.tolerance for n in graph.nodes)


def _ruled(graph: Graph) -> set[int]:
    """Return the inputs whose values the operator's file chooses."""
    found = set()
    for node in graph.nodes:
        if node.custom is not None:
            names = dict(zip(node.custom.inputs, node.inputs.values(), strict=False))
            found |= {names[name] for name in node.custom.init if name in names}
    return found


def _takes_infinities(graph: Graph) -> bool:
    """Return True if nothing is a product, and nothing is converted to whole numbers."""
    return all(DTYPES[t.data_type].kind == "float" for t in graph.outputs) and all(
        node.custom is not None or node.type in DEFINED for node in graph.nodes
    )


DEFINED = ("PointwiseAttributes", "ReductionAttributes", "ResampleFwdAttributes")
"""Operations of which each defines results for infinities."""


def _name(tensor: Tensor) -> str:
    return tensor.name or f"tensor {tensor.uid}"


def _changed(usual: Storages, tensors: list[Tensor], change: Change) -> dict[int, Storage]:
    made = dict(usual)
    for tensor in tensors:
        values = logical_view(usual[tensor.uid], tensor)
        made[tensor.uid] = to_storage(change(tensor, values), tensor)
    return made


def _scaled(factor: float) -> Change:
    return lambda _tensor, values: values.astype(np.float64) * factor


def _signed(sign: float) -> Change:
    return lambda _tensor, values: sign * np.abs(values.astype(np.float64))


def _tied(tensor: Tensor, values: Array) -> Array:  # noqa: ARG001
    """Round to whole numbers, of which few are different."""
    return np.rint(values.astype(np.float64))


def _infinite(tensor: Tensor, values: Array) -> Array:  # noqa: ARG001
    """Put an infinity in the place of every 61st element, of both signs in turn."""
    changed = values.astype(np.float64).reshape(-1)
    places = np.arange(30 % changed.size, changed.size, 61)
    changed[places] = np.where(np.arange(places.size) % 2, -np.inf, np.inf)
    return changed.reshape(values.shape)


INFINITIES = "infinities"
SHAPED: dict[str, Change] = {
    "positive values": _signed(1.0),
    "negative values": _signed(-1.0),
    "ties": _tied,
    INFINITIES: _infinite,
}


def _one_hot(tensor: Tensor, values: Array) -> Array:  # noqa: ARG001
    """Fill row number i with a one in column number 7·i + 3: a wrong index gives another row."""
    rows = values.reshape(-1, values.shape[-1])
    hot = np.zeros(rows.shape, np.float64)
    places = np.arange(len(rows))
    hot[places, (7 * places + 3) % rows.shape[1]] = 1.0
    return hot.reshape(values.shape)


def _borders(tensor: Tensor, values: Array) -> Array:
    """Keep elements that are first or last along an axis; all others become 0."""
    kept = np.zeros(values.shape, bool)
    for axis, length in enumerate(tensor.dims):
        for place in (0, length - 1):
            kept[(slice(None),) * axis + (place,)] = length > 1
    return np.where(kept, values.astype(np.float64), 0.0)


def _padded(tensor: Tensor, usual: Mapping[int, Storage]) -> Storage:
    """Return the usual values, with NaN in the gaps of the strides."""
    storage = empty_storage(tensor)
    storage.view(np.uint8).fill(poison_byte(tensor.data_type))
    logical_view(storage, tensor)[...] = logical_view(usual[tensor.uid], tensor)
    return storage
