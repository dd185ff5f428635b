"""Functions by a GPU's own instructions: wrong in strict float, right where they were asked for."""

from dataclasses import replace

import numpy as np
import pytest

from bench_run.graph.model import Graph, Tensor
from bench_run.graph.operations import POINTWISE_MODES, make_node
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.outputs import OutputChecker, validation
from bench_run.validate.roundoff.pointwise import ERRORS
from bench_run.validate.tolerance import Circumstances, tolerances

MEASURED_TANH = 1.1e-5
"""Relative error of tanh.approx.f32 on Turing; PTX promises 2^-11."""


def graph_of(mode, compute="float"):
    arity = POINTWISE_MODES[mode].arity
    tensors = [Tensor(uid, f"t{uid}", "float", (20_000,), (1,)) for uid in range(arity + 1)]
    ports = {f"in_{uid}": uid for uid in range(arity)}
    node = make_node("pointwise", ports, {"out_0": arity}, {"operation": mode})
    node = replace(node, compute_data_type=compute)
    return Graph("g", compute, compute, compute, tuple(tensors), (node,))


def verdict(mode, actual, math):
    """Of what `actual` makes of the float64 operands."""
    graph = graph_of(mode)
    data = make_inputs(graph, 0)
    views = {uid: logical_view(s, graph.by_uid[uid]).astype("f8") for uid, s in data.items()}
    (output,) = graph.outputs
    allowed = tolerances(graph, circumstances=Circumstances(data, math))
    storage = to_storage(actual(*(views[uid] for uid in sorted(views))), output)
    result = OutputChecker(graph, evaluate(graph, views), allowed).check({output.uid: storage})
    return validation("numpy", graph, [result])


def approximate_tanh(x, error):
    return np.tanh(x) * (1 + error * np.cos(1e4 * x))


def gelu(x, error):
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + approximate_tanh(inner, error))


FUNCTIONS = {
    "tanh_fwd": approximate_tanh,
    "gelu_approx_tanh_fwd": gelu,
    "sigmoid_fwd": lambda x, error: 0.5 + 0.5 * approximate_tanh(x / 2, error),
    "swish_fwd": lambda x, error: x * (0.5 + 0.5 * approximate_tanh(x / 2, error)),
    "tanh_bwd": lambda dy, x, error: dy * (1 - approximate_tanh(x, error) ** 2),
}


@pytest.mark.parametrize("mode", sorted(FUNCTIONS))
def test_an_approximated_tanh_is_wrong_in_strict_float_and_the_reason_says_what_takes_it(mode):
    found = verdict(mode, lambda *x: FUNCTIONS[mode](*x, MEASURED_TANH), "fp32")
    assert (found.status, found.reason[-27:]) == ("failed", "; accepted with --math tf32")


@pytest.mark.parametrize("math", ["tf32", "fast"])
@pytest.mark.parametrize("error", [MEASURED_TANH, 0.99 * 2.0**-11])
@pytest.mark.parametrize("mode", sorted(FUNCTIONS))
def test_an_approximated_tanh_is_right_where_it_was_asked_for(mode, error, math):
    assert verdict(mode, lambda *x: FUNCTIONS[mode](*x, error), math).status == "passed"


@pytest.mark.parametrize("mode", sorted(FUNCTIONS))
def test_what_errs_more_than_tanh_approx_is_wrong_in_fast_math_too(mode):
    found = verdict(mode, lambda *x: FUNCTIONS[mode](*x, 2.0**-8), "fast")
    assert (found.status, "accepted" in found.reason) == ("failed", False)


def bounds(mode, math, compute="float"):
    (row,) = tolerances(graph_of(mode, compute), circumstances=Circumstances(math=math)).values()
    return row.rtol, row.atol


@pytest.mark.parametrize("mode", ["add", "mul", "erf", "gelu_fwd", "sqrt", "relu_fwd"])
def test_what_has_no_approximating_instruction_is_as_strict_in_fast_math(mode):
    assert bounds(mode, "fast") == bounds(mode, "fp32")


@pytest.mark.parametrize("mode", sorted(ERRORS))
def test_double_arithmetic_has_no_approximating_instructions(mode):
    assert bounds(mode, "fast", "double") == bounds(mode, "fp32", "double")


@pytest.mark.parametrize("mode", sorted(ERRORS))
def test_float_arithmetic_has_and_fast_math_allows_them(mode):
    assert sum(bounds(mode, "fast")) > sum(bounds(mode, "fp32"))
