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
MAGNITUDES = (1e-3, 1e3)
RANGE = 16.0
"""Largest value that a type must hold for inputs that are multiplied by 1000."""

Change = Callable[["Tensor", "Array"], "Array"]


FREE_HINTS = OPEN_HINTS - {"attention_bias"}
"""Hints of inputs that may have any values."""


def adversarial_sets(graph: Graph, data: Data, usual: Storages) -> Iterator[tuple[str, Storages]]:
    """Yield the name and inputs of each kind. `usual`: the inputs of the run, by uid."""
    for seed in SEEDS:
        try:
            yield (
                f"seed {seed}",
                inputs_of(graph, replace(data, seed=seed, golden=None, cache=None)),
            )
        except BenchRunError:  # golden inputs of a graph for which none can be drawn
            break
    if isinstance(graph, ChainGraph):
        return
    hints = {uid: role.hint for uid, role in roles(graph).items()}
    free = [
        t
        for t in graph.inputs
        if hints[t.uid] in FREE_HINTS and DTYPES[t.data_type].kind == "float" and t.elements > 1
    ]
    if not free or not DERIVED_HINTS.isdisjoint(hints.values()):
        return
    for factor in MAGNITUDES:
        if all(DTYPES[t.data_type].largest > RANGE * factor for t in free):
            yield f"magnitude {factor:g}", _changed(usual, free, _scaled(factor))
    for tensor in free:
        yield f"one-hot rows of {_name(tensor)}", _changed(usual, [tensor], _one_hot)
    yield "zeros but at the borders", _changed(usual, free, _borders)
    padded = [t for t in graph.inputs if t.span > t.elements and DTYPES[t.data_type].bits >= 8]
    if padded:
        yield "NaN between the elements", dict(usual) | {t.uid: _padded(t, usual) for t in padded}


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
