"""What a case takes of the device's memory is told of that case alone."""

from __future__ import annotations

from contextlib import closing

import pytest

from bench_run.graph.make import make_graphs
from bench_run.tensors.seeded.inputs import make_inputs
from tests.conformance.opening import opened

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def engine():
    with opened("torch:cuda") as engine:
        yield engine


def peak_bytes(engine, spec):
    (graph,) = make_graphs(spec)
    with closing(engine.plan(engine.build(graph, {}))) as plan:
        plan.upload(make_inputs(graph, 0))
        plan.run()
        engine.stream.synchronize()
        return engine.peak_bytes()


def test_a_peak_does_not_depend_on_the_cases_before_it(engine):
    add = "add: dims=256x256 dtype=half"
    first = peak_bytes(engine, add)
    peak_bytes(engine, "matmul: m=512 n=512 k=512 dtype=half")
    peak_bytes(engine, "conv_fwd: n=8 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc")
    assert peak_bytes(engine, add) == first


@pytest.mark.parametrize("replay", [False, True])
def test_copies_with_cold_weights_take_memory_for_their_weights_alone(replay):
    (graph,) = make_graphs("conv_fwd: n=32 c=64 h=56 w=56 k=64 r=1 s=1 dtype=half layout=nhwc")
    inputs = make_inputs(graph, 0)
    with (
        opened("torch:cuda", cache="weights-cold", replay=replay) as engine,
        closing(engine.plan(engine.build(graph, {}))) as plan,
    ):
        plan.upload(inputs)
        found = []
        for _ in range(5):
            plan.poison()
            plan.run()
            engine.stream.synchronize()
            ((uid, place),) = plan.locate_outputs(upcoming=False).items()
            found.append((place, plan.download()[uid].tobytes()))
        assert engine.peak_bytes() < 400 << 20
    assert len(set(found)) == 1
