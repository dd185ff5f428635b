"""Whole numbers stay within the range of their type: every engine's and the reference's."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.reference import evaluate
from tests.conformance.data import misses
from tests.conformance.opening import outputs

BEYOND = {
    "add: dims=4x5 dtype=int8": (100, 127),
    "add: dims=4x5 dtype=int32": (2**30, 2**31 - 1),
    "mul: dims=4x5 dtype=int8": (100, 127),
    "mul: dims=4x5 dtype=int32": (100_000, 2**31 - 1),
    "matmul: m=4 n=5 k=3 dtype=int8 out=int8": (100, 127),
    "matmul: m=4 n=5 k=3 dtype=int8": (100, 30_000),
    "matmul: m=4 n=5 k=3 dtype=half out=int8": (8, 127),
    "matmul: m=4 n=5 k=3 dtype=half out=int32": (200, 120_000),
}
"""Spec → value of every input, value of every output."""


def filled(spec):
    (graph,) = make_graphs(spec)
    value, expected = BEYOND[spec]
    kinds = {"int8": np.int8, "int32": np.int32, "half": np.float16}
    inputs = {t.uid: np.full(t.span, value, kinds[t.data_type]) for t in graph.inputs}
    return graph, inputs, expected


def reference(graph, inputs):
    return evaluate(graph, {t.uid: inputs[t.uid].reshape(t.dims) for t in graph.inputs})


@pytest.mark.parametrize("spec", BEYOND)
def test_the_reference_saturates(spec):
    graph, inputs, expected = filled(spec)
    (found,) = reference(graph, inputs).values()
    assert np.unique(found).tolist() == [expected]


@pytest.mark.parametrize("spec", BEYOND)
def test_engines_agree_with_the_reference_beyond_the_range(engine, spec):
    graph, inputs, _ = filled(spec)
    try:
        found = outputs(engine, graph, inputs)
    except UnsupportedGraphError as error:
        pytest.skip(str(error))
    assert [] == misses(graph, found, reference(graph, inputs))


def test_the_name_of_a_product_says_the_type_of_its_sums():
    types = {}
    for out in ("", " out=int8", " out=float"):
        (graph,) = make_graphs(f"matmul: m=4 n=5 k=3 dtype=int8{out}")
        types[graph.name.removeprefix("matmul_m4n5k3_int8_nn")] = graph.outputs[0].data_type
    assert {"_toint32": "int32", "": "int8", "_tofloat": "float"} == types
