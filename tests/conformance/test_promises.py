"""What every engine promises, whatever it is made of. See `bench_run/engines/base.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_run.engines.base import EngineFacts, PlanFacts
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.model import Graph, Node
from bench_run.tensors.layout import empty_storage, logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from tests.conformance.data import case, compute_expected, misses
from tests.conformance.graphs import FAMILIES, FLOATS
from tests.conformance.opening import outputs, planned
from tests.conformance.sketch import LAYOUTS, Sketch
from tests.conformance.typed import TYPED

TYPICAL = ("conv_fwd_2d", "matmul_batched", "pointwise_add", "bn_inference", "conv_bias_relu")


SELECTIVE = ("cublaslt", "cudnn", "hipdnn", "onnxruntime:cpu", "onnxruntime:cuda", "torch:cuda")
"""Engines that may refuse a graph of this list. Any other takes them all: a refusal fails."""


@pytest.fixture
def may_refuse(engine_spec):
    """Whether the engine may refuse a graph with such words."""
    return lambda words: engine_spec in SELECTIVE


@pytest.fixture
def supported(engine, may_refuse):
    """Skips what the engine says it does not take, if it may."""

    def check(graph):
        try:
            engine.plan(engine.build(graph, engine.variants(graph)[0])).close()
        except UnsupportedGraphError as error:
            if not may_refuse(str(error)):
                raise
            pytest.skip(str(error))

    return check


@pytest.mark.parametrize("family", FAMILIES)
def test_results_agree_with_the_reference_in_every_type_and_layout(engine, may_refuse, family):
    found, ran, refused = [], 0, []
    for dtype in FLOATS:
        for layout in LAYOUTS:
            graph, inputs, expected = case(family, dtype, layout)
            try:
                result = outputs(engine, graph, inputs)
            except UnsupportedGraphError as error:
                refused.append(str(error))
                continue
            ran += 1
            found += [f"{dtype} {layout}: {miss}" for miss in misses(graph, result, expected)]
    assert [] == found + [words for words in refused if not may_refuse(words)]
    if ran == 0:
        pytest.skip(refused[0])


@pytest.mark.parametrize("name", TYPED)
def test_results_agree_with_the_reference_in_other_types(engine, supported, name):
    graph, inputs, expected = compute_expected(TYPED[name]())
    supported(graph)
    assert [] == misses(graph, outputs(engine, graph, inputs), expected)


@pytest.mark.parametrize("family", TYPICAL)
def test_the_same_values_in_another_layout_give_the_same_result(engine, supported, family):
    results = {}
    for layout in LAYOUTS:
        graph = FAMILIES[family]("float", layout)
        supported(graph)
        first = FAMILIES[family]("float", "packed")
        packed = make_inputs(first, 3)
        inputs = {}
        for tensor, original in zip(graph.inputs, first.inputs, strict=True):
            inputs[tensor.uid] = np.zeros(tensor.span, np.float32)
            values = logical_view(packed[original.uid], original)
            logical_view(inputs[tensor.uid], tensor)[...] = values
        found = outputs(engine, graph, inputs)
        tensor = graph.outputs[0]
        results[layout] = np.array(logical_view(found[tensor.uid], tensor))
    scale = np.abs(results["packed"]).max()
    assert max(np.abs(r - results["packed"]).max() for r in results.values()) <= 1e-5 * scale


@pytest.mark.parametrize("family", TYPICAL)
def test_a_second_upload_gives_its_own_result(engine, supported, family):
    graph = FAMILIES[family]("float", "packed")
    supported(graph)
    once = outputs(engine, graph, make_inputs(graph, 5))
    with planned(engine, graph, make_inputs(graph, 4)) as plan:
        plan.run()
        plan.upload(make_inputs(graph, 5))
        plan.run()
        twice = plan.download()
    assert all(np.array_equal(once[uid], twice[uid]) for uid in once)


@pytest.mark.parametrize("family", TYPICAL)
def test_running_again_gives_the_same_bytes(engine, supported, family):
    graph = FAMILIES[family]("half", "packed")
    supported(graph)
    with planned(engine, graph, make_inputs(graph, 6)) as plan:
        plan.run()
        first = plan.download()
        plan.poison()
        for _ in range(3):
            plan.run()
        last = plan.download()
    assert all(first[uid].tobytes() == last[uid].tobytes() for uid in first)


@pytest.mark.parametrize("dtype", ["float", "half", "bfloat16"])
def test_a_poisoned_output_that_nothing_wrote_is_nan_everywhere(engine, supported, dtype):
    graph = FAMILIES["pointwise_add"](dtype, "packed")
    supported(graph)
    with planned(engine, graph, make_inputs(graph, 0)) as plan:
        plan.run()
        plan.poison()
        found = plan.download()[graph.outputs[0].uid]
    assert np.isnan(found.astype(np.float32)).all()


@pytest.mark.parametrize("dtype", ["int32", "int8", "boolean"])
def test_integers_are_poisoned_with_something_that_is_no_result(engine, supported, dtype):
    s = Sketch("to_integer", "float")
    x, y = s.tensor(2, 3, 4, 5), s.tensor(2, 3, 4, 5, dtype=dtype)
    graph = s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="identity").graph()
    supported(graph)
    with planned(engine, graph, make_inputs(graph, 0)) as plan:
        found = plan.download()[y]
    assert np.all(found.view(np.uint8) == 0xA5)


@pytest.mark.parametrize("family", ["conv_fwd_2d", "bn_training", "sdpa_stats", "quantize"])
def test_every_element_of_every_output_is_written(engine, supported, family):
    graph = FAMILIES[family]("float", "packed")
    supported(graph)
    found = outputs(engine, graph, make_inputs(graph, 2))
    values = [np.asarray(found[t.uid]).astype(np.float64) for t in graph.outputs]
    assert all(np.isfinite(value).all() for value in values)


@pytest.mark.parametrize("family", TYPICAL)
def test_inputs_are_not_modified(engine, supported, family):
    graph = FAMILIES[family]("half", "last")
    supported(graph)
    inputs = make_inputs(graph, 7)
    before = {uid: value.tobytes() for uid, value in inputs.items()}
    first = outputs(engine, graph, inputs)
    with planned(engine, graph, inputs) as plan:
        for _ in range(3):
            plan.run()
        again = plan.download()
    assert before == {uid: value.tobytes() for uid, value in inputs.items()}
    assert all(first[uid].tobytes() == again[uid].tobytes() for uid in first)


def test_read_only_inputs_are_taken(engine, supported):
    graph = FAMILIES["pointwise_add"]("float", "packed")
    supported(graph)
    inputs = make_inputs(graph, 8)
    for value in inputs.values():
        value.setflags(write=False)
    assert graph.outputs[0].uid in outputs(engine, graph, inputs)


def test_download_waits_for_the_run(engine, supported):
    s = Sketch("slow", "float")
    a, b, c = s.tensor(512, 512), s.tensor(512, 512), s.tensor(512, 512)
    graph = s.node("MatmulAttributes", {"a": a, "b": b}, {"c": c}).graph()
    supported(graph)
    ones = np.ones(512 * 512, np.float32)
    with planned(engine, graph, {a: ones, b: ones}) as plan:
        for _ in range(5):
            plan.run()
        found = plan.download()[c]
    assert np.all(found == 512)


def test_downloaded_outputs_are_the_callers_own(engine, supported):
    graph = FAMILIES["pointwise_add"]("float", "packed")
    supported(graph)
    with planned(engine, graph, make_inputs(graph, 0)) as plan:
        plan.run()
        first = plan.download()
        kept = {uid: value.copy() for uid, value in first.items()}
        plan.poison()
        plan.run()
    assert all(np.array_equal(first[uid], kept[uid]) for uid in kept)


def test_storages_have_the_tensors_own_type_and_span(engine, supported):
    graph = FAMILIES["pointwise_add"]("bfloat16", "gaps")
    supported(graph)
    found = outputs(engine, graph, make_inputs(graph, 0))
    tensor = graph.outputs[0]
    wanted = empty_storage(tensor)
    have = found[tensor.uid]
    assert (wanted.shape, wanted.dtype) == (have.shape, have.dtype)


def unknown_node():
    s = Sketch("unknown", "float")
    x, y = s.tensor(2, 3), s.tensor(2, 3)
    node = Node("FutureAttributes", "from tomorrow", "float", {"x": x}, {"y": y}, {})
    return Graph("unknown", "float", "float", "float", tuple(s.tensors), (node,))


def unknown_mode():
    graph = FAMILIES["pointwise_add"]("float", "packed")
    node = replace(graph.nodes[0], name="odd one", attributes={"operation": "add_cubed"})
    return replace(graph, nodes=(node,))


def packed_type():
    s = Sketch("packed", "fp4_e2m1")
    x, y = s.tensor(4, 8), s.tensor(4, 8)
    return s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="identity").graph()


def dropout():
    graph = FAMILIES["sdpa_plain"]("half", "packed")
    node = replace(graph.nodes[0], attributes={"dropout_probability": 0.5})
    return replace(graph, nodes=(node,))


def contradictory_pages():
    graph = FAMILIES["sdpa_paged"]("half", "packed")
    attributes = {**graph.nodes[0].attributes, "max_seq_len_kv": 4}
    return replace(graph, nodes=(replace(graph.nodes[0], attributes=attributes),))


@pytest.mark.parametrize(
    "make", [unknown_node, unknown_mode, packed_type, dropout, contradictory_pages]
)
def test_a_graph_it_does_not_take_is_refused_with_the_nodes_name(engine, make):
    graph = make()
    with pytest.raises(UnsupportedGraphError) as caught:
        engine.plan(engine.build(graph, {}))
    assert graph.nodes[0].name in str(caught.value)


def test_a_refused_graph_leaves_the_engine_usable(engine, supported):
    with pytest.raises(UnsupportedGraphError):
        engine.plan(engine.build(unknown_node(), {}))
    graph, inputs, expected = case("pointwise_add", "float", "packed")
    supported(graph)
    assert [] == misses(graph, outputs(engine, graph, inputs), expected)


def test_closing_a_plan_twice_is_allowed(engine, supported):
    graph = FAMILIES["pointwise_add"]("float", "packed")
    supported(graph)
    plan = engine.plan(engine.build(graph, engine.variants(graph)[0]))
    plan.close()
    assert plan.close() is None


def test_plans_of_one_engine_do_not_disturb_each_other(engine, supported):
    first, inputs, expected = case("conv_fwd_2d", "float", "packed")
    supported(first)
    second = FAMILIES["matmul_2d"]("float", "packed")
    with (
        planned(engine, first, inputs) as one,
        planned(engine, second, make_inputs(second, 0)) as two,
    ):
        one.run()
        two.run()
        found = one.download()
    assert [] == misses(first, found, expected)


@pytest.mark.parametrize("family", TYPICAL)
def test_buffers_that_move_keep_their_contents_and_give_the_same_bytes(engine, supported, family):
    graph, inputs, _ = case(family, "float", "packed")
    supported(graph)
    with planned(engine, graph, inputs) as plan:
        if plan.abilities.relocate is None:
            pytest.skip("the engine does not move buffers")
        run = plan.run
        run()
        first, places = plan.download(), where(plan)
        for gap_bytes in (4096, 65536):
            plan.abilities.relocate(gap_bytes)
            plan.poison()
            run()
            engine.stream.synchronize()
            assert all(np.array_equal(plan.download()[uid], first[uid]) for uid in first)
            assert where(plan).keys() == places.keys()
            assert all(where(plan)[uid] != place for uid, place in places.items())
            places = where(plan)


def where(plan):
    """Addresses of the inputs."""
    found = {} if plan.abilities.locate_inputs is None else plan.abilities.locate_inputs()
    return {
        uid: place if isinstance(place, int) else np.asarray(place).ctypes.data
        for uid, place in found.items()
    }


def test_the_engine_says_what_it_is(engine):
    facts = engine.facts
    assert isinstance(facts, EngineFacts)
    assert facts.libraries
    assert all(isinstance(v, str) and v for v in facts.libraries.values())
    assert facts.device
    assert facts.device_kind


def test_the_plan_says_how_large_its_buffers_are(engine, supported):
    graph = FAMILIES["pointwise_add"]("half", "packed")
    supported(graph)
    with planned(engine, graph) as plan:
        facts = plan.facts
    assert isinstance(facts, PlanFacts)
    assert facts.buffer_bytes == 3 * 2 * graph.outputs[0].elements


def test_variants_name_at_least_one_case(engine):
    graph = FAMILIES["conv_fwd_2d"]("float", "packed")
    variants = engine.variants(graph)
    assert len(variants) >= 1
    assert all(isinstance(value, str) for variant in variants for value in variant.values())


def test_memory_held_is_unknown_or_positive(engine, supported):
    graph = FAMILIES["conv_fwd_2d"]("float", "packed")
    supported(graph)
    outputs(engine, graph, make_inputs(graph, 0))
    peak_bytes = engine.peak_bytes()
    assert peak_bytes is None or peak_bytes > 0


def test_the_stream_measures_time_that_does_not_run_backwards(engine):
    stream = engine.stream
    begin = stream.mark()
    end = stream.mark()
    stream.synchronize()
    assert stream.clock in ("host", "events")
    assert stream.elapsed_ns(begin, end) >= 0
    assert isinstance(stream.elapsed_ns(begin, end), int)


def test_work_behind_a_gate_is_done_after_it(engine, supported):
    graph, inputs, expected = case("matmul_2d", "float", "packed")
    supported(graph)
    with planned(engine, graph, inputs) as plan:
        plan.run()
        engine.stream.synchronize()
        plan.poison()
        with engine.stream.gate():
            for _ in range(min(3, max(1, engine.stream.gate_depth))):
                engine.stream.flush()
                plan.run()
        engine.stream.synchronize()
        assert [] == misses(graph, plan.download(), expected)


def test_a_gate_opens_when_its_block_fails(engine):
    with pytest.raises(ZeroDivisionError), engine.stream.gate():
        _ = 1 / 0
    marks = engine.stream.mark(), engine.stream.mark()
    engine.stream.synchronize()
    assert engine.stream.elapsed_ns(*marks) >= 0
