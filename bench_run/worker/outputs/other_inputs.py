"""Whether outputs follow the inputs: one run on other inputs, at the end of a case's first round.

All iterations have the same inputs, so an engine that gives back what it computed before, or found
somewhere, would look right in every one of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.errors import BenchRunError
from bench_run.tensors.data import Data, inputs_of
from bench_run.validate.outputs import OutputChecker, checksum
from bench_run.worker.evaluate import compute_expected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph
    from bench_run.tensors.storage import Storage, Storages
    from bench_run.validate.tolerance import Tolerance

LARGEST_BYTES = 64 * 1024**2
"""Of inputs; drawing larger ones takes too long."""


def draw_other_inputs(graph: Graph, data: Data) -> Storages | None:
    """Of another seed; None where these are too large, or would be the same."""
    if sum(tensor.bytes for tensor in graph.inputs) > LARGEST_BYTES:
        return None
    try:
        others = inputs_of(graph, replace(data, seed=data.seed + 1, golden=None, cache=None))
        usual = inputs_of(graph, data)
    except BenchRunError:  # golden tensors of a graph for which no data could be drawn
        return None
    same = all(np.array_equal(_bytes(others[uid]), _bytes(usual[uid])) for uid in others)
    return None if same else others


def _bytes(storage: Storage) -> Storage:
    return np.ascontiguousarray(storage).view(np.uint8)


def ignores_inputs(
    graph: Graph,
    others: Storages,
    outputs: tuple[Storages, Storages],
    tolerances: Mapping[int, Tolerance],
) -> bool:
    """Whether the same outputs came of both, and are wrong for the other inputs. `outputs`: on the
    usual inputs and on the others."""
    if checksum(graph, outputs[0]) != checksum(graph, outputs[1]):
        return False
    try:
        expected = compute_expected(graph, others)
    except BenchRunError:  # nobody knows
        return False
    return OutputChecker(graph, expected, tolerances, 0).check(outputs[1]).mismatched > 0
