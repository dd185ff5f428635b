"""Chains on engines: the composed reference, whatever is shared, in every cache state."""

import itertools

import numpy as np
import pytest

from bench_run.engines import chain
from bench_run.engines.arrange import arrange
from bench_run.engines.base import EngineAbilities, EngineFacts, PlanAbilities, PlanFacts
from bench_run.engines.chain import ChainPlan
from bench_run.errors import UnsupportedGraphError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.kernel_pass import record_kernels
from bench_run.measure.loop import Measured
from bench_run.streams.host import HostStream
from bench_run.tensors.computed import compute_expected
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_chain_inputs
from tests.bench_run.graph.chain.pipelines import ALL, RESIDUAL, SLICED, VIEWS
from tests.bench_run.graph.chain.pipelines import chain as chain_of
from tests.conformance.opening import engine_params, opened
from tests.doubles.slowed.slowed_engine import Slowed

SPECS = engine_params("numpy", "torch:cpu", "cudnn", "torch:cuda")


def largest_error(made, outputs, expected):
    """Over the largest magnitude of each output."""
    errors = []
    for tensor in made.outputs:
        wanted = np.asarray(expected[tensor.uid])
        found = logical_view(outputs[tensor.uid], tensor).astype(np.float64)
        errors.append(np.abs(found - wanted).max() / np.abs(wanted).max())
    return max(errors)


ROUNDED = {"fp32": 1e-5, "tf32": 2e-3}
"""Largest error by what a plan says of its arithmetic."""


def arithmetic(plan):
    """The coarsest that the chain's plans name; strict where they name none."""
    parts = getattr(plan, "parts", None) or plan._plans[0].parts
    return max((part.facts.chosen.get("math", "fp32") for part in parts), key=ROUNDED.get)


def check(engine, text, runs=1):
    """Each of the runs on poisoned outputs."""
    made = chain_of(text)
    inputs = make_chain_inputs(made, 0, ())
    expected = compute_expected(made, inputs)
    plan = chain.plan(engine, chain.build(engine, made, {}))
    plan.upload(inputs)
    for _ in range(runs):
        plan.poison()
        plan.run()
        assert largest_error(made, plan.download(), expected) < ROUNDED[arithmetic(plan)]
    plan.close()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", ALL)
def test_every_output_is_the_composed_references(spec, name):
    with opened(spec) as engine:
        check(engine, ALL[name])


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("cache", ["cold", "rotate", "weights-cold"])
@pytest.mark.parametrize("text", [RESIDUAL, SLICED], ids=["residual", "sliced"])
def test_the_cache_state_does_not_change_the_results(spec, cache, text):
    with opened(spec, cache=cache) as engine:
        check(engine, text, runs=3)


@pytest.mark.parametrize("spec", engine_params("cudnn", "torch:cuda"))
@pytest.mark.parametrize("cache", ["hot", "rotate", "weights-cold"])
@pytest.mark.parametrize("name", ALL)
def test_a_chain_is_captured_and_replayed_as_a_whole(spec, cache, name):
    with opened(spec, replay=True, cache=cache) as engine:
        check(engine, ALL[name], runs=3)


@pytest.mark.parametrize("spec", engine_params("cudnn", "torch:cuda"))
def test_captured_chains_of_one_engine_do_not_disturb_each_other(spec):
    """Each keeps the memory that it was captured with, whichever is made or closed meanwhile."""
    made = [chain_of(RESIDUAL), chain_of(VIEWS)]
    with opened(spec, replay=True) as engine:
        plans = [chain.plan(engine, chain.build(engine, each, {})) for each in made]
        for graph, plan in zip(made, plans, strict=True):
            inputs = make_chain_inputs(graph, 0, ())
            plan.upload(inputs)
            plan.poison()
            plan.run()
            error = largest_error(graph, plan.download(), compute_expected(graph, inputs))
            assert error < ROUNDED[arithmetic(plan)]
            plan.close()


@pytest.mark.parametrize("spec", engine_params("cudnn", "torch:cuda"))
@pytest.mark.parametrize("cache", ["hot", "weights-cold"])
def test_the_gap_inside_of_a_device_graph_is_less_than_that_between_two(spec, cache):
    """And what was captured to measure it leaves the results where they were."""
    made = chain_of(RESIDUAL)
    inputs = make_chain_inputs(made, 0, ())
    with opened(spec, replay=True, cache=cache) as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        plan.upload(inputs)
        plan.run()
        short = Measured({}, {"device_ns": [1000] * 20}, "iterations")
        kernels = record_kernels(plan, engine.stream, SamplingBudget(0, 20), short)
        plan.poison()
        plan.run()
        error = largest_error(made, plan.download(), compute_expected(made, inputs))
        assert error < ROUNDED[arithmetic(plan)]
        plan.close()
    assert kernels.gaps is not None
    assert kernels.gaps.inner_ns < kernels.gaps.between_ns


@pytest.mark.parametrize("cache", ["hot", "rotate"])
def test_results_stay_where_they_were_while_a_plan_runs_as_it_was_before_a_capture(cache):
    made = chain_of(RESIDUAL)
    with opened("torch:cpu", cache=cache) as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        plan.upload(make_chain_inputs(made, 0, ()))
        plan.run()
        before = {u: where.ctypes.data for u, where in plan.locate_outputs(upcoming=False).items()}
        with plan.uncaptured() as run:
            run()
            run()
        after = {u: where.ctypes.data for u, where in plan.locate_outputs(upcoming=False).items()}
        plan.close()
    assert before == after


@pytest.mark.parametrize("spec", engine_params("numpy", "torch:cpu"))
def test_memory_is_shared_along_every_link(spec):
    made = chain_of(VIEWS)
    with opened(spec) as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        plan.upload(make_chain_inputs(made, 0, ()))
        plan.run()
        said = plan.facts.chosen["activations"]
        plan.close()
    assert "shared: 4 of 4 links" == said


@pytest.mark.parametrize("spec", engine_params("numpy", "torch:cpu"))
def test_a_second_run_reads_what_the_layers_before_wrote_anew(spec):
    """The inputs of the chain change between two runs; with copies the old results would stay."""
    made = chain_of(RESIDUAL)
    with opened(spec) as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        for seed in (0, 1):
            inputs = make_chain_inputs(made, seed, ())
            plan.upload(inputs)
            plan.poison()
            plan.run()
        expected = compute_expected(made, inputs)
        assert largest_error(made, plan.download(), expected) < 1e-5
        plan.close()


@pytest.mark.slow
@pytest.mark.parametrize("spec", engine_params("numpy", "torch:cpu"))
def test_copies_that_rotate_weights_share_the_rest(spec):
    made = chain_of(RESIDUAL)
    with opened(spec, cache="weights-cold") as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        plan.upload(make_chain_inputs(made, 0, ()))
        plan.run()
        facts = plan.facts.chosen
        plan.close()
    assert "4 tensors" == facts["shared by the copies"]  # the image and three outputs


@pytest.mark.parametrize("spec", engine_params("torch:cuda"))
def test_captured_copies_of_torch_share_inputs_only(spec):
    """Each captured graph has its results in a pool of its own."""
    made = chain_of(RESIDUAL)
    with opened(spec, cache="weights-cold", replay=True) as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        facts = plan.facts.chosen
        plan.close()
    assert "1 tensors" == facts["shared by the copies"]


@pytest.mark.parametrize("spec", engine_params("numpy", "torch:cpu"))
def test_the_outputs_of_all_layers_can_be_located(spec):
    made = chain_of(RESIDUAL)
    with opened(spec) as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        plan.upload(make_chain_inputs(made, 0, ()))
        plan.run()
        found = plan.locate_outputs(upcoming=False)
        left = plan.download()
        assert {t.uid for t in made.outputs} == set(found)
        assert all(found[u].view(np.uint8).tobytes() == left[u].tobytes() for u in found)
        plan.close()


def test_an_input_that_was_written_into_is_found():
    made = chain_of(RESIDUAL)
    inputs = make_chain_inputs(made, 0, ())
    with opened("numpy") as engine:
        plan = chain.plan(engine, chain.build(engine, made, {}))
        plan.upload(inputs)
        home = next(iter(plan.parts[0].homes.values()))
        home[0] += 1
        assert [made.inputs[0].uid] == list(plan.changed_inputs(inputs))
        plan.close()


class PlainPlan:
    """A plan of an engine that has nothing but what the protocol asks for."""

    facts, abilities = PlanFacts(), PlanAbilities()

    def __init__(self, plan):
        self.plan = plan
        self.upload, self.poison, self.run = plan.upload, plan.poison, plan.run
        self.download, self.close = plan.download, plan.close


class PlainEngine:
    facts, abilities = EngineFacts(None, {}, "cpu", "cpu"), EngineAbilities()

    def __init__(self, engine):
        self.engine, self.stream, self.build = engine, HostStream(), engine.build

    def plan(self, built):
        return PlainPlan(self.engine.plan(built))


@pytest.mark.parametrize("name", ALL)
def test_an_engine_that_cannot_share_memory_gives_the_same_results(name):
    with opened("numpy") as engine:
        check(PlainEngine(engine), ALL[name])


@pytest.mark.parametrize("name", ALL)
def test_an_engine_that_wraps_another_ones_plans_can_share_their_memory(name):
    with opened("numpy") as engine:
        check(Slowed(engine), ALL[name])


def test_what_is_copied_in_place_of_shared_is_said():
    made = chain_of(RESIDUAL)
    with opened("numpy") as engine:
        plain = PlainEngine(engine)
        plan = chain.plan(plain, chain.build(plain, made, {}))
    expected = "shared: 0 of 3 links; copied once, before the samples: again:x, sum:x, sum:b"
    assert expected == plan.facts.chosen["activations"]


class Refusing(PlainEngine):
    """Takes no graph of these operations."""

    def __init__(self, engine, *operations):
        super().__init__(engine)
        self.operations, self.take, self.build = operations, engine.build, self.refuse

    def refuse(self, graph, variant):
        if graph.nodes[0].type in self.operations:
            raise UnsupportedGraphError(f"no {graph.nodes[0].type}")
        return self.take(graph, variant)


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        (["PointwiseAttributes"], "1 of 3 layers are not taken: layer sum: no Pointwise"),
        (["ConvolutionFwdAttributes"], "2 of 3 layers are not taken: layers conv, again: no Con"),
        (
            ["ConvolutionFwdAttributes", "PointwiseAttributes"],
            "3 of 3 layers are not taken: layers conv, again: no ConvolutionFwdAttributes; sum: no",
        ),
    ],
)
def test_every_layer_that_is_not_supported_is_named(operations, said):
    with opened("numpy") as engine, pytest.raises(UnsupportedGraphError, match=said):
        chain.build(Refusing(engine, *operations), chain_of(RESIDUAL), {})


def test_plans_that_were_made_are_closed_when_a_later_one_fails():
    closed = []

    class Failing(PlainEngine):
        made = 0

        def plan(self, built):
            self.made += 1
            if self.made == 3:
                raise UnsupportedGraphError("too many")
            plan = super().plan(built)
            plan.close = lambda: closed.append(plan)
            return plan

    with opened("numpy") as engine:
        failing = Failing(engine)
        built = chain.build(failing, chain_of(RESIDUAL), {})
        with pytest.raises(UnsupportedGraphError, match="layer sum: too many"):
            chain.plan(failing, built)
    assert 2 == len(closed)


def test_memory_is_shared_before_a_plan_is_finished():
    """A device graph that was captured before would keep the addresses of memory given back."""
    made = chain_of(RESIDUAL)
    seen = []
    with opened("numpy") as engine:
        built = chain.build(engine, made, {})
        parts = [engine.part(part) for part in built.parts]
        finish = lambda plan: seen.append(plan.parts[1].homes)  # noqa: E731
        plan = arrange(lambda: ChainPlan(made, parts), made, "hot", 0, finish)
        (homes,) = seen
        written = plan.parts[0].homes
    pairs = itertools.product(homes.values(), written.values())
    assert any(np.shares_memory(*pair) for pair in pairs)


def test_a_captured_chain_launches_once_and_is_closed_once():
    log = []

    class Captured:
        def launch(self):
            log.append("launch")

        def close(self):
            log.append("close")

    with opened("numpy") as engine:
        made = chain_of(RESIDUAL)
        plan = chain.plan(engine, chain.build(engine, made, {}))
        assert isinstance(plan, ChainPlan)
        plan.replay(Captured())
        plan.run()
        plan.close()
        plan.close()
    assert ["launch", "close"] == log
