"""Factors of attention are one number, or one for each batch and group of heads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.format.hipdnn_json import read_graph
from bench_run.reference import evaluate
from tests.conformance.opening import opened

GRAPH = Path("tests/data/graphs/sdpa_fp8_descaled_bottom_right.json")
STRANGE = ([1, 1, 2, 1], [2], [2, 3, 1, 1], [2, 4, 2, 1])


def graph(dims):
    """Of two batches and four heads."""
    content = json.loads(GRAPH.read_bytes())
    (factor,) = (t for t in content["tensors"] if t["name"] == "descale_v")
    factor["dims"] = dims
    factor["strides"] = [int(np.prod(dims[i + 1 :])) for i in range(len(dims))]
    return read_graph(json.dumps(content).encode(), "g")


@pytest.mark.parametrize("dims", STRANGE, ids=str)
@pytest.mark.parametrize("name", ["numpy", "torch:cpu"])
def test_engines_refuse_others(name, dims):
    with (
        opened(name) as engine,
        pytest.raises(UnsupportedGraphError, match=r"descale_v .*is neither"),
    ):
        engine.plan(engine.build(graph(dims), {}))


@pytest.mark.parametrize("dims", STRANGE, ids=str)
def test_the_reference_refuses_others(dims):
    strange = graph(dims)
    arrays = {tensor.uid: np.ones(tensor.dims) for tensor in strange.inputs}
    with pytest.raises(UnsupportedGraphError, match="descale_v of"):
        evaluate(strange, arrays)
