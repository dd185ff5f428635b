"""Chains on the contract test double: buffers that plans hand on."""

import pytest

from bench_run.engines import chain
from bench_run.graph.make import make_graphs
from bench_run.measure.prepared import prepare_plan
from bench_run.tensors.computed import compute_expected
from bench_run.tensors.seeded.inputs import make_chain_inputs, make_inputs
from tests.bench_run.engines.test_chain import largest_error
from tests.bench_run.graph.chain.pipelines import ALL, RESIDUAL
from tests.bench_run.graph.chain.pipelines import chain as chain_of


@pytest.mark.parametrize("cache", ["hot", "rotate", "weights-cold"])
@pytest.mark.parametrize("name", ALL)
def test_every_output_is_the_composed_references(open_engine, name, cache, monkeypatch):
    monkeypatch.setattr("bench_run.engines.hipdnn.engine.CACHE_BYTES", 1 << 10)
    made = chain_of(ALL[name])
    inputs = make_chain_inputs(made, 0, ())
    with prepare_plan(open_engine(cache=cache), made, inputs) as prepared:
        outputs = prepared.plan.download()
    assert largest_error(made, outputs, compute_expected(made, inputs)) < 1e-5


def test_buffers_are_shared_along_every_link(open_engine):
    made, engine = chain_of(RESIDUAL), open_engine()
    plan = chain.plan(engine, chain.build(engine, made, {}))
    assert "shared: 3 of 3 links" == plan.facts.chosen["activations"]
    plan.close()


def test_a_single_graph_rotates_its_weights_alone(open_engine, monkeypatch):
    monkeypatch.setattr("bench_run.engines.hipdnn.engine.CACHE_BYTES", 1 << 12)
    graph = make_graphs("matmul: m=8 n=8 k=8")[0]
    inputs = make_inputs(graph, 0)
    hot, cold = open_engine(), open_engine(cache="weights-cold")
    plans = [engine.plan(engine.build(graph, {})) for engine in (hot, cold)]
    for plan in plans:
        plan.upload(inputs)
        plan.run()
    size, weights = plans[0].facts.buffer_bytes, 8 * 8 * 4
    copies = (plans[1].facts.buffer_bytes - size) // weights + 1
    assert 3 * (1 << 12) <= copies * weights < 3 * (1 << 12) + weights
    first, second = (plan.download()[graph.outputs[0].uid].tobytes() for plan in plans)
    assert first == second
