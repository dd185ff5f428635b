"""PyTorch checks the formulas of the reference, which the engine ``numpy`` computes too.

Everything here is computed in float64: a wrong formula shows at 1e-3 or more, rounding at 1e-12.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench_run.graph.make import make_graphs
from bench_run.graph.make.operators import OPERATORS
from bench_run.graph.make.operators.row import SUFFIXES
from bench_run.graph.make.spec import OPS
from bench_run.tensors.layout import logical_view
from tests.conformance.data import compute_expected, distance
from tests.conformance.graphs import FAMILIES
from tests.conformance.opening import opened, outputs

pytestmark = pytest.mark.needs("torch:cpu")
ALLOWED = 1e-10
FLOATS = ("float", "half", "bfloat16", "double")


def in_double(graph):
    """The graph with every float tensor, and its computation, in double."""
    tensors = tuple(
        replace(t, data_type="double") if t.data_type in FLOATS else t for t in graph.tensors
    )
    nodes = tuple(replace(node, compute_data_type="double") for node in graph.nodes)
    return replace(
        graph,
        tensors=tensors,
        nodes=nodes,
        compute_data_type="double",
        intermediate_data_type="double",
    )


@pytest.fixture(scope="module")
def engines():
    with opened("numpy") as numpy, opened("torch:cpu") as torch:
        yield numpy, torch


def disagreements(engines, graph):
    graph = in_double(graph)
    graph, inputs, expected = compute_expected(graph)
    numpy, torch = engines
    checked = outputs(torch, graph, inputs)
    computed = outputs(numpy, graph, inputs)
    errors = {}
    for tensor in graph.outputs:
        want = logical_view(checked[tensor.uid], tensor)
        for name, values in (
            ("reference", expected[tensor.uid]),
            ("numpy", logical_view(computed[tensor.uid], tensor)),
        ):
            off = distance(values, want)
            if not off <= ALLOWED:
                errors[f"{name}: {tensor.name}"] = off
    return errors


@pytest.mark.parametrize("family", FAMILIES)
def test_pytorch_computes_what_the_reference_and_numpy_compute(engines, family):
    assert {} == disagreements(engines, FAMILIES[family]("double", "packed"))


BEYOND_HIPDNN = {f"{name}{suffix}" for name in OPERATORS for suffix in SUFFIXES.values()}
IN_CHAINS_ONLY = {"bias"}


@pytest.mark.parametrize("name", sorted(OPS.keys() - BEYOND_HIPDNN - IN_CHAINS_ONLY))
def test_and_it_does_for_random_shapes_of_every_operation_of_hipdnn(engines, name):
    for graph in make_graphs(f"{name}: shapes=random:3"):
        assert {} == disagreements(engines, graph)
