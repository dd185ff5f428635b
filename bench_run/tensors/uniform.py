"""Tensors whose elements are nearly all equal: memory that compresses moves them faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.tensors.layout import plain_array

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storage, Storages

LEAST_BYTES = 1 << 20
"""Smaller tensors stay in a cache."""
SAMPLED = 1 << 16
SHARE = 0.9


def equal_share(storage: Storage) -> tuple[float, object]:
    """Share of the most frequent element among `SAMPLED` ones, and this element."""
    array = plain_array(storage).reshape(-1)
    some = array[:: max(1, array.size // SAMPLED)]
    raw = np.ascontiguousarray(some).view(np.dtype((np.void, some.dtype.itemsize)))
    _, first, counts = np.unique(raw, return_index=True, return_counts=True)
    most = int(np.argmax(counts))
    return float(counts[most] / some.size), some[first[most]].item()


def uniform_notes(graph: Graph, inputs: Storages, outputs: Storages) -> tuple[str, ...]:
    """Return a note for each large input or output of which `SHARE` is one value."""
    found = []
    for kind, tensors, storages in (
        ("input", graph.inputs, inputs),
        ("output", graph.outputs, outputs),
    ):
        for tensor in tensors:
            storage = storages.get(tensor.uid)
            if storage is None or storage.nbytes < LEAST_BYTES:
                continue
            share, value = equal_share(storage)
            if share >= SHARE:
                of = f"{kind} {tensor.name}: {100 * share:.0f} % of it is {value}"
                found.append(f"{of}; memory that compresses makes this faster than other values")
    return tuple(found)
