"""hipDNN's own graphs: the reference gives finite outputs, or refuses by name with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.load import load
from bench_run.graph.work import flops
from bench_run.reference import evaluate
from bench_run.tensors.inputs import make_inputs
from bench_run.tensors.layout import logical_view

FOLDER = Path(__file__).parents[4] / "shared" / "hipdnn" / "graphs"
LARGE_FLOPS = 5e9
LARGE_BYTES = 100e6
CONTRADICTORY = "ckdsl_paged_varlen_fp16.json"


def graphs():
    return load([str(FOLDER)]).graphs if FOLDER.is_dir() else ()


def is_large(graph):
    return (flops(graph) or 0) > LARGE_FLOPS or sum(t.bytes for t in graph.tensors) > LARGE_BYTES


def cases():
    for loaded in graphs():
        marks = [pytest.mark.slow] if is_large(loaded.graph) else []
        yield pytest.param(loaded, marks=marks, id=Path(loaded.path).stem)


def outputs(loaded):
    inputs = make_inputs(loaded.graph, seed=1)
    by_uid = {t.uid: logical_view(inputs[t.uid], t) for t in loaded.graph.inputs}
    return evaluate(loaded.graph, by_uid)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="hipDNN's graphs are not beside the checkout")
@pytest.mark.parametrize("loaded", list(cases()))
def test_every_graph_has_a_finite_meaning_or_a_reason(loaded):
    if Path(loaded.path).name == CONTRADICTORY:
        with pytest.raises(UnsupportedGraphError, match="contradict"):
            outputs(loaded)
        return
    results = outputs(loaded)
    assert set(results) == {t.uid for t in loaded.graph.outputs}
    assert all(np.isfinite(value).all() for value in results.values())
