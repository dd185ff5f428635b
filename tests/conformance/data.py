"""How far an engine's outputs are from the reference's."""

from __future__ import annotations

import functools

import numpy as np

from bench_run.graph.dtypes import DTYPES
from bench_run.reference import evaluate
from bench_run.reference.rounding import rounded
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from tests.conformance.graphs import FAMILIES

ALLOWED_ROUNDOFFS = 16
"""Unit roundoffs of the graph's coarsest type, of the largest magnitude of an output."""


@functools.cache
def case(family, dtype, layout):
    """Graph, inputs as storages, and the reference's outputs rounded to their types, by uid."""
    return compute_expected(FAMILIES[family](dtype, layout))


def compute_expected(graph):
    """As `case`, of any graph."""
    inputs = make_inputs(graph, 1)
    arrays = {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs}
    found = evaluate(graph, arrays)
    return graph, inputs, {t.uid: rounded(found[t.uid], t.data_type) for t in graph.outputs}


def roundoff(graph):
    """Of the coarsest type in the graph; fp8 inputs are exact, fp8 scales too."""
    kinds = {t.data_type for t in graph.tensors if t.uid in graph.produced}
    kinds |= {t.data_type for t in graph.tensors if DTYPES[t.data_type].bits > 8}
    return max(DTYPES[kind].unit_roundoff for kind in kinds)


def distance(actual, expected):
    """Largest error over the largest expected magnitude (at least 1), infinity where one is not
    finite. Inputs are of the order of 1."""
    actual, expected = (np.asarray(a).astype(np.float64) for a in (actual, expected))
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(actual - expected))
    return float(np.where(np.isfinite(error), error, np.inf).max(initial=0.0)) / float(scale)


def misses(graph, outputs, expected):
    """What is too far off, in words."""
    found, allowed = [], ALLOWED_ROUNDOFFS * roundoff(graph)
    for tensor in graph.outputs:
        off = distance(logical_view(outputs[tensor.uid], tensor), expected[tensor.uid])
        if not off <= allowed:
            found.append(f"{tensor.data_type} {tensor.name}: off by {off:.2g}, not {allowed:.2g}")
    return found
