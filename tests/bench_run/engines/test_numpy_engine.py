"""What is its own about the numpy engine."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bench_run.engines import numpy_engine
from bench_run.engines.base import EngineOptions
from bench_run.engines.host_plan import LINE_BYTES
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineError, UsageError
from tests.conformance.data import case, misses
from tests.conformance.opening import opened, planned
from tests.conformance.sketch import Sketch


@pytest.fixture
def engine():
    with opened("numpy") as engine:
        yield engine


@pytest.mark.parametrize("text", ["numpy:cpu", "numpy+compile", "numpy@/x.so"])
def test_what_it_does_not_know_in_a_spec_is_refused(text):
    with pytest.raises(UsageError, match="numpy"):
        numpy_engine.open(parse_spec(text), EngineOptions())


def unary(mode, dtype, dims=(2, 3, 4, 5), **attributes):
    s = Sketch(mode, dtype)
    x, y = s.tensor(*dims), s.tensor(*dims)
    ports = {"in_0": x}, {"out_0": y}
    return x, y, s.node("PointwiseAttributes", *ports, operation=mode, **attributes).graph()


@pytest.mark.parametrize("dtype", ["float", "half", "fp8_e4m3"])
def test_every_buffer_begins_on_a_cache_line(engine, dtype):
    _, _, graph = unary("exp", dtype)
    with planned(engine, graph) as plan:
        homes = plan.homes.values()
        assert {0} == {array.ctypes.data % LINE_BYTES for array in homes}


def test_overflow_is_infinity_and_warns_nobody(engine):
    x, y, graph = unary("exp", "half", (1, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with planned(engine, graph, {x: np.full(4, 1000, np.float16)}) as plan:
            plan.run()
            found = plan.download()[y]
    assert np.isinf(found).all()


def test_warnings_are_as_before_once_it_is_closed():
    before = np.geterr()
    with opened("numpy"):
        inside = np.geterr()
    assert before == np.geterr()
    assert {"ignore"} == set(inside.values())


def test_integers_are_cut_off_and_clipped(engine):
    s = Sketch("to_int8", "float")
    x, y = s.tensor(1, 4), s.tensor(1, 4, dtype="int8")
    graph = s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="identity").graph()
    with planned(engine, graph, {x: np.array([1.9, -1.9, 300, -300], np.float32)}) as plan:
        plan.run()
        found = plan.download()[y]
    assert [1, -1, 127, -128] == found.tolist()


def test_eight_bit_floats_saturate(engine):
    s = Sketch("to_fp8", "float")
    x, y = s.tensor(1, 3), s.tensor(1, 3, dtype="fp8_e4m3")
    graph = s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="identity").graph()
    with planned(engine, graph, {x: np.array([1e6, -1e6, 1.0], np.float32)}) as plan:
        plan.run()
        found = plan.download()[y].astype(np.float32)
    assert [448.0, -448.0, 1.0] == found.tolist()


def test_virtual_tensors_are_rounded_to_their_type(engine):
    s = Sketch("chain", "float")
    x, y = s.tensor(1, 1), s.tensor(1, 1)
    middle = s.tensor(1, 1, dtype="bfloat16", virtual=True)
    s.node("PointwiseAttributes", {"in_0": x}, {"out_0": middle}, operation="identity")
    s.node("PointwiseAttributes", {"in_0": middle}, {"out_0": y}, operation="identity")
    with planned(engine, s.graph(), {x: np.array([1.00390625], np.float32)}) as plan:
        plan.run()
        assert [1.0] == plan.download()[y].tolist()


def test_a_tensor_too_large_is_an_engine_error(engine):
    _, _, graph = unary("abs", "float", (2**22, 2**22))
    with pytest.raises(EngineError, match="out of memory on the host"):
        engine.plan(engine.build(graph, {}))


def test_sequence_lengths_may_change_between_runs(engine):
    graph, inputs, expected = case("sdpa_lengths", "float", "packed")
    node = graph.nodes[0]
    lengths = {node.inputs[port] for port in ("seq_len_q", "seq_len_kv")}
    ones = {uid: np.ones_like(v) if uid in lengths else v for uid, v in inputs.items()}
    with planned(engine, graph, ones) as plan:
        plan.run()
        plan.upload(inputs)
        plan.run()
        assert [] == misses(graph, plan.download(), expected)


def test_a_sequence_length_out_of_range_is_an_engine_error(engine):
    graph, inputs, _ = case("sdpa_lengths", "float", "packed")
    uid = graph.nodes[0].inputs["seq_len_kv"]
    wrong = {**inputs, uid: np.full_like(inputs[uid], 1000)}
    with planned(engine, graph, wrong) as plan, pytest.raises(EngineError, match="1000"):
        plan.run()
    assert graph.by_uid[uid].data_type == "int32"


@pytest.mark.parametrize("rows", [1009, 1024, 999])
def test_columns_of_any_length_are_added_accurately(rows):
    s = Sketch("columns", "float")
    x, y = s.tensor(rows, 4), s.tensor(1, 4)
    graph = s.node("ReductionAttributes", {"in": x}, {"out": y}, mode="add").graph()
    values = np.arange(rows * 4, dtype=np.float32)
    with opened("numpy") as engine, planned(engine, graph, {x: values}) as plan:
        plan.run()
        expected = values.reshape(rows, 4).sum(0, dtype=np.float64)
        np.testing.assert_allclose(plan.download()[y], expected, rtol=3e-7)
