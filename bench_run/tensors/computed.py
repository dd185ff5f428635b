"""Outputs of a graph from its inputs as they lie in memory; a chain of graphs layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES
from bench_run.reference import evaluate as formulas
from bench_run.tensors.layout import logical_view, to_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.graph.model import Graph, Tensor
    from bench_run.reference.common import Array
    from bench_run.tensors.layout import Storages

    Evaluate = Callable[[Graph, Mapping[int, Array]], dict[int, Array]]


def compute_expected(
    graph: Graph, inputs: Storages, evaluate: Evaluate = formulas
) -> dict[int, Array]:
    """Return logical arrays by uid, not rounded to the output's type.

    Between the graphs of a chain each output is rounded to its type, and read in its memory layout.
    """
    if not isinstance(graph, ChainGraph):
        given = {uid: logical_view(s, graph.by_uid[uid]) for uid, s in inputs.items()}
        return evaluate(graph, given)
    in_memory = dict(inputs)
    results: dict[int, Array] = {}
    for place in graph.places:
        given = {}
        for tensor in place.placed.inputs:
            alias = graph.aliases.get(tensor.uid)
            if alias is None:
                given[tensor.uid] = in_memory[tensor.uid]
            else:
                memory = in_memory[alias.uid]
                given[tensor.uid] = memory[alias.offset : alias.offset + tensor.span]
        found = compute_expected(place.placed, given, evaluate)
        for tensor in place.placed.outputs:
            results[tensor.uid] = lean(found[tensor.uid], tensor)
            if tensor.uid in graph.sources:
                in_memory[tensor.uid] = to_storage(found[tensor.uid], tensor)
    return results


def lean(array: np.ndarray[Any, Any], tensor: Tensor) -> Array:
    """Convert to types that NumPy can store; float32 if the output's own type is far coarser."""
    row = DTYPES[tensor.data_type]
    if row.kind in ("integer", "boolean"):
        return np.asarray(array)
    return np.asarray(array, np.float64 if row.bits >= 32 else np.float32)
