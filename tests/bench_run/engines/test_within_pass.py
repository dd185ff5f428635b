"""``--cache pass`` on the processor: what runs before each iteration, and what is said of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from bench_run.engines.base import EngineAbilities, PlanAbilities
from bench_run.engines.within_pass import FACT, within_pass
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.chain import PassContext
from bench_run.streams.host import HostStream
from bench_run.tensors.seeded.init_plan import parse_init
from bench_run.tensors.seeded.inputs import make_inputs
from tests.bench_run.graph.chain.pipelines import RESIDUAL, chain
from tests.conformance.opening import engine_params, opened


class Refuses:
    """An engine that takes no layer, or has no memory for any."""

    abilities = EngineAbilities()

    def __init__(self, error):
        self._error, self.stream = error, HostStream("pass", pass_bytes=4096)

    def build(self, _graph, _variant):
        raise self._error


def request(*own, left_bytes=0, text=RESIDUAL):
    """A case at these places of a pipeline: one graph, or two as a chain."""
    whole = chain(text)
    asked = PassContext(whole, own, left_bytes)
    graph = whole.places[own[0]].graph
    return SimpleNamespace(surroundings=asked, graph=graph)


def placed(engine, asked, plan, inputs):
    return within_pass(engine, plan, asked.graph, inputs, asked.surroundings)


def open_plan(engine, asked):
    """The case's plan after its first run, and its inputs."""
    plan = engine.plan(engine.build(asked.graph, {}))
    inputs = make_inputs(asked.graph, 7, parse_init(()))
    plan.upload(inputs)
    plan.run()
    return plan, inputs


@pytest.fixture(params=engine_params("numpy", "torch:cpu"))
def engine(request):
    with opened(request.param, cache="pass", pass_bytes=1 << 20) as made:
        yield made


def test_the_layers_before_run_in_place_of_the_flush_and_only_within_the_case(engine):
    alone, asked = engine.stream.flush, request(1)
    with placed(engine, asked, *open_plan(engine, asked)) as within:
        assert engine.stream.flush != alone
        engine.stream.flush()
    assert {FACT: "2 layers of the pipeline run, linked with it"} == within.facts
    assert alone == engine.stream.flush


def test_what_a_pass_touches_before_these_layers_is_read(engine):
    asked = request(1, left_bytes=100_000)
    with placed(engine, asked, *open_plan(engine, asked)) as within:
        engine.stream.flush()
    said = "100000 bytes are read, then 2 layers of the pipeline run, linked with it"
    assert {FACT: said} == within.facts


def test_a_case_reads_what_the_layer_before_it_wrote_in_that_ones_memory(engine):
    """Its outputs are then other ones than those of its own inputs."""
    asked = request(1)
    plan, inputs = open_plan(engine, asked)
    own = plan.download()
    with placed(engine, asked, plan, inputs) as within:
        timed = within.run_in_place()
        again = within.run_in_place()
    (uid,) = own
    assert not np.array_equal(own[uid], timed[uid])
    assert np.array_equal(timed[uid], again[uid])


def test_the_case_has_its_own_inputs_back_for_what_is_checked(engine):
    asked = request(1)
    plan, inputs = open_plan(engine, asked)
    own = plan.download()
    with placed(engine, asked, plan, inputs) as within:
        engine.stream.flush()
        within.restore()
        plan.run()
        after = plan.download()
    assert all(np.array_equal(own[uid], after[uid]) for uid in own)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (UnsupportedGraphError("no pooling"), "layers conv, sum: no pooling"),
        (EngineError("out of handles"), "layer conv: out of handles"),
        (MemoryError(), "out of memory"),
    ],
)
def test_where_the_engine_cannot_run_them_bytes_are_read_and_the_case_says_why(error, why):
    engine = Refuses(error)
    alone = engine.stream.flush
    plan = SimpleNamespace(upload=None, abilities=PlanAbilities(locate_outputs=lambda **_: {}))
    with placed(engine, request(1), plan, {}) as within:
        assert engine.stream.flush == alone
    told = within.facts
    assert told[FACT].startswith("as many bytes are read; the layers before do not run: ")
    assert why in told[FACT]


def test_elsewhere_nothing_is_said():
    plan = SimpleNamespace(upload=None, abilities=PlanAbilities())
    with within_pass(Refuses(MemoryError()), plan, None, {}, None) as within:
        assert ({}, None) == (within.facts, within.restore)
