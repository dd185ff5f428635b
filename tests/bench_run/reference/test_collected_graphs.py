"""Graphs in every dialect: the reference gives finite outputs, or refuses with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.sources.load import load
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs

FOLDER = Path(__file__).parents[3] / "tests" / "data" / "graphs"
CONTRADICTORY = "sdpa_pages_that_contradict.json"
GRAPHS = load([str(FOLDER)]).graphs


def outputs(loaded):
    inputs = make_inputs(loaded.graph, seed=1)
    by_uid = {t.uid: logical_view(inputs[t.uid], t) for t in loaded.graph.inputs}
    return evaluate(loaded.graph, by_uid)


@pytest.mark.parametrize("loaded", GRAPHS, ids=lambda loaded: Path(loaded.path).stem)
def test_every_graph_has_a_finite_meaning_or_a_reason(loaded):
    if Path(loaded.path).name == CONTRADICTORY:
        with pytest.raises(UnsupportedGraphError, match="contradict"):
            outputs(loaded)
        return
    results = outputs(loaded)
    assert set(results) == {t.uid for t in loaded.graph.outputs}
    assert all(np.isfinite(value).all() for value in results.values())
