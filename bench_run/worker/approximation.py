"""Errors of a graph that approximates another one: its outputs against the outputs of that one.

The other graph may have other types and memory layouts: it is computed in its own, on the values
that the approximating graph reads. What the engine adds to the errors is judged against the
approximating graph's own reference.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from bench_run.files import writing
from bench_run.graph.chain import ChainGraph
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.validate.expected import APPROXIMATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bench_run.graph.model import Graph
    from bench_run.reference.common import Array
    from bench_run.tensors.layout import Storages

    Compute = Callable[[Graph, Storages], Mapping[int, Array]]


def store_errors(
    exact: Graph, graph: Graph, inputs: Storages, folder: Path, compute: Compute
) -> None:
    """Write the relative L2 error of each output beside what is expected."""
    expected = {int(path.stem): np.load(path) for path in folder.glob("*.npy")}
    origins = origins_of(graph)
    given = {
        uid: to_storage(logical_view(inputs[own], graph.by_uid[own]), exact.by_uid[uid])
        for own, uid in origins.items()
        if own in inputs and uid in exact.by_uid
    }
    wanted = compute(exact, given)
    errors = {
        uid: relative_l2(expected[uid], wanted[origins[uid]])
        for uid in expected
        if origins[uid] in wanted
    }
    with writing(folder):
        (folder / APPROXIMATION).write_text(json.dumps(errors), encoding="utf-8")


def origins_of(graph: Graph) -> dict[int, int]:
    """Return, for the uid of each tensor, the one it had before the graph was split into places."""
    if not isinstance(graph, ChainGraph):
        return {tensor.uid: tensor.uid for tensor in graph.tensors}
    return {own: uid for place in graph.places for uid, own in place.uids.items()}


def relative_l2(found: Array, wanted: Array) -> float:
    """Return the root of the sum of squared differences over that of `wanted`."""
    size = float(np.linalg.norm(np.asarray(wanted, np.float64)))
    gap = float(np.linalg.norm(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)))
    return gap / size if size else gap
