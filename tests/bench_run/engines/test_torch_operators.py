"""Operators of the table in PyTorch: values, in every type and direction, against NumPy's."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from bench_run.engines import engine_module
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.make import OPS, make_graphs
from bench_run.graph.make.operators import OPERATORS
from bench_run.graph.make.operators.row import SUFFIXES
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.expected import custom_overrides
from bench_run.validate.outputs import OutputChecker
from bench_run.validate.tolerance import Circumstances, tolerances

if find_spec("torch") is not None:
    from bench_run.engines.torch_engine.op import TorchOp
    from bench_run.engines.torch_engine.operators import operator

pytestmark = pytest.mark.needs("torch:cpu")
OFF = {"hard_sigmoid_fwd_bwd double": "PyTorch multiplies by a sixth in float"}
NO_CALL = {"ctc_loss_bwd", *(f"{k}{c}_bwd" for k in ("rnn", "lstm", "gru") for c in ("", "_cell"))}


@pytest.fixture(scope="module")
def engine():
    spec = parse_spec("torch:cpu")
    engine = engine_module("torch").open(spec, EngineOptions(threads=1))
    yield engine
    engine.close()


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_an_operator_and_its_gradient_are_right_in_every_type(engine, name):
    row, refused = OPERATORS[name], []
    for direction in row.directions:
        op = f"{name}{SUFFIXES[direction]}"
        for kind in OPS[op].dtypes:
            (graph, *_) = make_graphs(f"{op}: dtype={kind}", "small")
            try:
                outputs = _run(engine, graph)
            except UnsupportedGraphError:
                refused.append(f"{op} {kind}")
                continue
            wrong = _mismatched(graph, outputs)
            assert (wrong > 0) == (f"{op} {kind}" in OFF), wrong
    wanted = [f"{op} {kind}" for op in NO_CALL for kind in OPS[op].dtypes if op == f"{name}_bwd"]
    narrow = ["lrn half", "lrn bfloat16"] if name == "lrn" else []
    assert wanted + narrow == refused


def _run(engine, graph):
    plan = engine.plan(engine.build(graph, {}))
    plan.upload(make_inputs(graph, 0))
    plan.run()
    return plan.download()


def _mismatched(graph, outputs):
    inputs = make_inputs(graph, 0)
    views = {uid: logical_view(storage, graph.by_uid[uid]) for uid, storage in inputs.items()}
    expected = evaluate(graph, views)
    around = Circumstances(inputs, expected=expected)
    limits = tolerances(graph, circumstances=around, overrides=dict(custom_overrides(graph)))
    found = OutputChecker(graph, expected, limits, 1, {}).check(outputs)
    assert all(np.isfinite(np.asarray(v, float)).any() for v in expected.values())
    return found.mismatched


def test_two_inputs_that_are_one_tensor_have_a_gradient_each():
    import torch

    (graph,) = make_graphs("mul_fwd_bwd: dims=4x8")
    call = operator(TorchOp(graph, graph.nodes[0], torch.device("cpu")))
    with torch.inference_mode():
        x, dy = torch.full((4, 8), 3.0), torch.ones(4, 8)
        y, dx, db = call.function(x, x, dy)
    assert [9.0, 3.0, 3.0] == [float(each.mean()) for each in (y, dx, db)]


def test_copies_of_an_operator_in_place_have_memory_of_their_own():
    import torch

    (graph,) = make_graphs("iadd: dims=4x8")
    call = operator(TorchOp(graph, graph.nodes[0], torch.device("cpu")))
    first, second = (torch.full((4, 8), value) for value in (1.0, 2.0))
    results = [call.function(each, each) for each in (first, second)]
    assert [2.0, 4.0] == [float(each.mean()) for each in results]
    assert call.function(first, first).data_ptr() == results[0].data_ptr()
