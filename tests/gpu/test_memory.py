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
