"""An error that all elements share is found in every operation: four half units in the last place
of half and bfloat16, 1 % in attention, 30 units of float, where sums may share more."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.make import make_graphs
from bench_run.reference import evaluate
from bench_run.tensors.difference import Bound, difference
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.outputs import compare
from bench_run.validate.tolerance import Circumstances, SharedError, exceeded, tolerances
from tests.benchmarks.tolerance_slack import SPECS, WAYS

NARROW = ("half", "bfloat16")
SMALLER = {
    "conv": "n=1 c=16 h=14 w=14 k=16 r=3 s=3 pad=1",
    "batchnorm": "n=4 c=16 h=14 w=14",
    "sdpa": "b=1 h=4 s=256 d=64",
    "matmul": "m=64 n=64 k=256",
}


def problem(name, dtype):
    op, _, rest = SPECS[name].partition(":")
    family = op.partition("_")[0]
    mask = " mask=causal" if "causal" in name else ""
    shape = SMALLER[family] + mask if family in SMALLER else rest
    (graph,) = make_graphs(f"{op}: {shape} dtype={dtype}")
    inputs = make_inputs(graph, 3)
    expected = evaluate(graph, {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs})
    allowed = tolerances(graph, circumstances=Circumstances(inputs))
    for tensor in graph.outputs:
        if expected[tensor.uid].size >= 4096:
            yield tensor, np.asarray(expected[tensor.uid], np.float64), allowed[tensor.uid]


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("dtype", NARROW)
def test_four_half_units_of_all_elements_are_found(name, dtype):
    missed = []
    for tensor, expected, allowed in problem(name, dtype):
        off = 4 * DTYPES[dtype].unit_roundoff
        for way, function in WAYS.items():
            wrong = to_storage(function(expected, off), tensor)
            if not compare(wrong, expected, tensor, allowed).mismatched:
                missed.append((tensor.name, way))
    assert [] == missed


@pytest.mark.parametrize("name", [name for name in SPECS if "sdpa" in name])
@pytest.mark.parametrize("dtype", NARROW)
def test_one_percent_of_attention_is_found(name, dtype):
    for tensor, expected, allowed in problem(name, dtype):
        for factor in (1.01, 0.99):
            wrong = to_storage(expected * factor, tensor)
            assert compare(wrong, expected, tensor, allowed).mismatched > 0


@pytest.mark.parametrize("name", [name for name in SPECS if "sdpa" in name])
@pytest.mark.parametrize("dtype", NARROW)
def test_a_single_large_element_of_attention_that_is_nine_percent_off_is_found(name, dtype):
    for tensor, expected, allowed in problem(name, dtype):
        wrong = expected.copy()
        wrong.flat[np.argmax(np.abs(expected))] *= 0.91
        assert compare(to_storage(wrong, tensor), expected, tensor, allowed).mismatched == 1


@pytest.mark.parametrize("name", SPECS)
def test_thirty_half_units_of_all_elements_are_found_in_float(name):
    missed = []
    for tensor, expected, allowed in problem(name, "float"):
        wrong = to_storage(expected * (1 + 30 * 2.0**-24), tensor)
        if not compare(wrong, expected, tensor, allowed).mismatched:
            missed.append(tensor.name)
    assert [] == missed


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("dtype", ["float", *NARROW])
def test_results_that_are_only_rounded_pass(name, dtype):
    for tensor, expected, allowed in problem(name, dtype):
        assert compare(to_storage(expected, tensor), expected, tensor, allowed).mismatched == 0


def test_equal_values_round_alike_and_are_no_bias():
    expected = np.full(100_000, 1.0 + 0.49 * 2**-7)
    actual = expected.astype(np.float32)
    actual[:] = 1.0
    whole = difference(actual.astype(np.float64), expected, Bound(0.0, np.inf), 0)
    allowed = SharedError(rtol=0.8 * 2**-8, atol=0.0, drift=0.0)
    assert exceeded(whole, allowed, expected) is None


def test_independent_roundings_of_the_size_allowed_raise_no_alarm():
    random = np.random.default_rng(5)
    allowed = SharedError(rtol=1e-3, atol=1e-4, drift=0.0)
    for count in (1, 2, 5, 40, 1000):
        for _ in range(2000 // count + 50):
            expected = random.normal(size=count)
            error = random.normal(size=count) * np.hypot(1e-3 * expected, 1e-4)
            whole = difference(expected + error, expected, Bound(0.0, np.inf), 0)
            assert exceeded(whole, allowed, expected) is None


def test_a_bias_far_below_the_noise_is_found_in_many_elements():
    random = np.random.default_rng(6)
    expected = random.normal(size=200_000)
    allowed = SharedError(rtol=1e-3, atol=0.0, drift=0.0)
    actual = expected * (1 + 1e-4 + 1e-3 * random.normal(size=expected.size))
    whole = difference(actual, expected, Bound(0.0, np.inf), 0)
    assert "bias" == exceeded(whole, allowed, expected)[0]
