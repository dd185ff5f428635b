"""Matrix products, batches in consecutive groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bench_run.engines.numpy_engine.common import Array
    from bench_run.graph.operations import NodeView


def matmul(node: NodeView, a: Array, b: Array) -> dict[str, Array]:
    """C = A·B; a batch dim of A or B divides C's, each of its matrices serving as many in a row."""
    batch = node["c"].dims[:-2]
    return {"c": _served(a, batch) @ _served(b, batch)}


def _served(matrices: Array, batch: tuple[int, ...]) -> Array:
    """A batch of 1 is left to broadcasting."""
    for axis, length in enumerate(batch):
        if matrices.shape[axis] not in (1, length):
            matrices = np.repeat(matrices, length // matrices.shape[axis], axis)
    return matrices
