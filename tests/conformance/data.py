"""Seeded inputs for a graph, and what comes close enough to the reference."""

from __future__ import annotations

import numpy as np

from bench_run.graph.dtypes import DTYPES, array_type

POSITIVE = ("variance", "inv_variance", "prev_running_variance", "inv_rms")
POSITIVE_MODES = ("log", "rsqrt", "sqrt", "reciprocal", "div")


def logical(storage, tensor):
    """A storage seen with the tensor's dims."""
    steps = tuple(step * storage.itemsize for step in tensor.strides)
    return np.lib.stride_tricks.as_strided(storage, tensor.dims, steps)


def positive(graph):
    """Uids of inputs that must be above zero."""
    ports = [(port, uid) for node in graph.nodes for port, uid in node.inputs.items()]
    found = {uid for port, uid in ports if port in POSITIVE}
    for node in graph.nodes:
        if node.attributes.get("operation") in POSITIVE_MODES:
            found |= set(node.inputs.values())
    return found


def storages(graph, seed=0):
    """Inputs by uid; gaps hold values too, so that reading one shows."""
    above = positive(graph)
    return {t.uid: storage(t, seed, t.uid in above) for t in graph.inputs}


def storage(tensor, seed, above_zero):
    random = np.random.default_rng([seed, tensor.uid])
    dtype, row = array_type(tensor.data_type), DTYPES[tensor.data_type]
    if row.kind == "boolean":
        return random.integers(0, 2, tensor.span).astype(dtype)
    if row.kind == "integer":
        return random.integers(0 if above_zero else -5, 6, tensor.span).astype(dtype)
    values = (
        random.uniform(0.5, 1.5, tensor.span) if above_zero else random.normal(size=tensor.span)
    )
    return values.astype(np.float32 if row.bits < 32 else np.float64).astype(dtype)


def roundoff(graph):
    """Of the coarsest type in the graph."""
    return max(DTYPES[t.data_type].unit_roundoff for t in graph.tensors)


def distance(actual, expected):
    """Largest error over the largest expected magnitude, infinity where one is not finite."""
    actual, expected = (np.asarray(a).astype(np.float64) for a in (actual, expected))
    if actual.size == 0:
        return 0.0
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(actual - expected))
    error = np.where(np.isfinite(error), error, np.inf)
    return float(error.max()) / (scale if scale > 0 else 1.0)


def rounded(array, data_type):
    """What the reference's value looks like in the output's type, in float64."""
    return np.asarray(array).astype(array_type(data_type)).astype(np.float64)
