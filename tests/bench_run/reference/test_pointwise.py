"""Every pointwise mode against PyTorch or by hand; gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.operations import POINTWISE_MODES
from bench_run.reference import pointwise
from bench_run.reference.pointwise import MODES
from tests.support import examples

TYPE = "PointwiseAttributes"
PARAMETERS = {
    "relu_fwd": {"relu_lower_clip": -0.5, "relu_upper_clip": 0.75, "relu_lower_clip_slope": 0.1},
    "elu_fwd": {"elu_alpha": 0.7},
    "swish_fwd": {"swish_beta": 1.3},
    "softplus_fwd": {"softplus_beta": 2.5},
}
GRADIENTS = sorted(mode for mode in MODES if mode.endswith("_bwd"))


def by_torch(torch, mode):
    """Modes without parameters as PyTorch has them, which the engine's table says."""
    from bench_run.engines.torch_engine.pointwise import BINARY, UNARY

    f = torch.nn.functional
    table = {
        **UNARY,
        **BINARY,
        "add_square": lambda a, b: a + b**2,
        "binary_select": lambda a, b, t: torch.where(t != 0, a, b),
        "elu_fwd": lambda x: f.elu(x, 0.7),
        "gelu_approx_tanh_fwd": lambda x: f.gelu(x, approximate="tanh"),
        "gelu_fwd": f.gelu,
        "relu_fwd": lambda x: torch.where(x <= -0.5, 0.1 * (x + 0.5) - 0.5, x.clamp(max=0.75)),
        "softplus_fwd": lambda x: f.softplus(x, 2.5, 1e9),
        "swish_fwd": lambda x: x * torch.sigmoid(1.3 * x),
    }
    return table[mode]


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def shrunk(shape, mask):
    """A shape that broadcasts to `shape`: bits of the mask set dims to 1, or drop leading ones."""
    dims = tuple(1 if mask >> i & 1 else n for i, n in enumerate(shape))
    return dims[1:] if mask & 16 and dims[0] == 1 and len(dims) > 1 else dims


@pytest.mark.needs("torch:cpu")
@pytest.mark.parametrize("mode", sorted(set(MODES) - set(GRADIENTS)))
@settings(max_examples=examples(8), deadline=None)
@given(shape=shapes, masks=st.tuples(st.integers(0, 31), st.integers(0, 31)), order=st.integers(0))
def test_forward_modes_agree_with_torch(mode, shape, masks, order, run_node, normal, permuted):
    import torch

    dims = [shape, shrunk(shape, masks[0]), shrunk(shape, masks[1])][: MODES[mode][0]]
    operands = [np.round(2 * normal(*d, seed=i), 1) for i, d in enumerate(dims)]
    if "positive" in POINTWISE_MODES[mode].hints:
        operands = [np.abs(x) + 0.1 for x in operands]
    expected = by_torch(torch, mode)(*map(torch.tensor, operands)).numpy()
    inputs = {f"in_{i}": permuted(x, order) for i, x in enumerate(operands)}
    parameters = PARAMETERS.get(mode, {})
    y = run_node(TYPE, inputs, {"out_0": shape}, operation=mode, **parameters)["out_0"]
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mode", GRADIENTS)
def test_gradients_are_dy_times_the_slope_of_the_forward_mode(mode, run_node, normal):
    x, dy = 2.0 * normal(500), normal(500, seed=1)
    forward = mode.replace("_bwd", "_fwd")
    parameters = PARAMETERS.get(forward, {})

    def f(at):
        return run_node(TYPE, {"in_0": at}, {"out_0": (500,)}, operation=forward, **parameters)[
            "out_0"
        ]

    h = 1e-6
    slope = (f(x + h) - f(x - h)) / (2 * h)
    inputs = {"in_0": dy, "in_1": x}
    dx = run_node(TYPE, inputs, {"out_0": (500,)}, operation=mode, **parameters)["out_0"]
    np.testing.assert_allclose(dx, dy * slope, rtol=1e-6, atol=1e-8)


def unary(run_node, mode, values, out="double", **parameters):
    x = np.asarray(values)
    outputs = {"out_0": (x.shape, out)}
    return run_node(TYPE, {"in_0": x}, outputs, operation=mode, **parameters)["out_0"].tolist()


def test_plain_relu_is_the_default(run_node):
    assert unary(run_node, "relu_fwd", [-1.0, 0.0, 2.0]) == [0.0, 0.0, 2.0]


def test_relu6_clips_above_and_its_gradient_stops_past_the_clip(run_node):
    assert unary(run_node, "relu_fwd", [5.0, 6.0, 7.0], relu_upper_clip=6.0) == [5.0, 6.0, 6.0]
    inputs = {"in_0": np.ones(4), "in_1": np.array([0.0, 5.0, 6.0, 7.0])}
    dx = run_node(TYPE, inputs, {"out_0": (4,)}, operation="relu_bwd", relu_upper_clip=6.0)
    assert dx["out_0"].tolist() == [0.0, 1.0, 1.0, 0.0]


def test_blocks_do_not_change_the_result(run_node, normal, monkeypatch):
    x, bias = normal(1, 7, 5), normal(7, 1, seed=1)
    inputs = {"in_0": x, "in_1": bias}
    for size in (1, 6, 11, 1000):
        monkeypatch.setattr("bench_run.reference.pointwise.BLOCK_ELEMENTS", size)
        y = run_node(TYPE, inputs, {"out_0": (1, 7, 5)}, operation="sub")["out_0"]
        np.testing.assert_array_equal(y, x - bias)


def test_gen_index_counts_along_its_axis(run_node):
    x = np.zeros((2, 3), np.float32)
    for axis, expected in ((0, [[0, 0, 0], [1, 1, 1]]), (1, [[0, 1, 2], [0, 1, 2]])):
        outputs = {"out_0": ((2, 3), "int32")}
        y = run_node(TYPE, {"in_0": x}, outputs, operation="gen_index", axis_tensor_uid=axis)
        assert y["out_0"].tolist() == expected


def test_gen_index_without_an_axis_is_refused(run_node):
    with pytest.raises(UnsupportedGraphError, match="axis from 0 to 1") as caught:
        unary(run_node, "gen_index", [[0.0]])
    assert TYPE in str(caught.value)


def test_comparisons_fill_boolean_and_float_tensors(run_node):
    inputs = {"in_0": np.array([1.0, 2.0]), "in_1": np.array([2.0])}
    for data_type, expected in (("boolean", [True, False]), ("float", [1.0, 0.0])):
        outputs = {"out_0": ((2,), data_type)}
        y = run_node(TYPE, inputs, outputs, operation="cmp_lt")["out_0"]
        assert y.tolist() == expected


def test_nan_propagates_through_maxima_and_activations(run_node):
    inputs = {"in_0": np.array([np.nan, 1.0]), "in_1": np.array([1.0, np.nan])}
    for mode in ("max_op", "min_op", "add", "mul"):
        y = run_node(TYPE, inputs, {"out_0": (2,)}, operation=mode)["out_0"]
        assert np.isnan(y).all()
    for mode in sorted(m for m in MODES if m.endswith("_fwd")):
        assert np.isnan(unary(run_node, mode, [np.nan])).all()


def test_infinities_have_their_limits(run_node):
    ends = [-np.inf, np.inf]
    assert unary(run_node, "sigmoid_fwd", ends) == [0.0, 1.0]
    assert unary(run_node, "tanh_fwd", ends) == [-1.0, 1.0]
    assert unary(run_node, "relu_fwd", ends) == [0.0, np.inf]
    assert unary(run_node, "elu_fwd", ends) == [-1.0, np.inf]
    assert unary(run_node, "softplus_fwd", ends) == [0.0, np.inf]
    assert unary(run_node, "reciprocal", [0.0]) == [np.inf]
    assert unary(run_node, "log", [0.0]) == [-np.inf]


def test_gelu_keeps_its_digits_far_below_zero(run_node):
    (y,) = unary(run_node, "gelu_fwd", [-10.0])
    np.testing.assert_allclose(y, -7.619853024160527e-23, rtol=1e-12)


def test_integers_are_exact(run_node):
    big = np.array([2**60 + 1])
    outputs = {"out_0": ((1,), "int64")}
    inputs = {"in_0": big, "in_1": np.array([1])}
    assert run_node(TYPE, inputs, outputs, operation="add")["out_0"].item() == 2**60 + 2
    assert unary(run_node, "relu_fwd", [-3, 4], "int64") == [0, 4]


def test_integer_division_cuts_the_fraction_off(run_node):
    inputs = {"in_0": np.array([7, -7]), "in_1": np.array([2, 2])}
    y = run_node(TYPE, inputs, {"out_0": ((2,), "int64")}, operation="div")["out_0"]
    assert y.tolist() == [3, -3]


def test_booleans_add_as_numbers(run_node):
    x = np.array([True, False])
    y = run_node(TYPE, {"in_0": x, "in_1": x}, {"out_0": ((2,), "int32")}, operation="add")
    assert y["out_0"].tolist() == [2, 0]


def test_a_missing_operand_is_refused(run_node):
    with pytest.raises(UnsupportedGraphError, match="in_0, in_1") as caught:
        unary(run_node, "add", [1.0])
    assert TYPE in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "a", "b", "expected"),
    [
        ("add", 2**63 - 1, 1, 2**63 - 1),
        ("add", -(2**63), -(2**63), -(2**63)),
        ("add", 2**62, 2**62 - 1, 2**63 - 1),
        ("sub", -(2**63), 1, -(2**63)),
        ("sub", -(2**63) + 5, 4, -(2**63) + 1),
        ("mul", 2**40, 2**40, 2**63 - 1),
        ("mul", -(2**32), 2**32, -(2**63)),
        ("mul", 2**31 + 1, 2**31 - 1, 2**62 - 1),
        ("add_square", 1, 2**32, 2**63 - 1),
    ],
)
def test_integers_of_64_bits_saturate(run_node, mode, a, b, expected):
    inputs = {"in_0": np.array([a], np.int64), "in_1": np.array([b], np.int64)}
    found = run_node(TYPE, inputs, {"out_0": ((1,), "int64")}, operation=mode)
    assert expected == int(found["out_0"][0])


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_blocks_along_any_memory_order_give_what_the_whole_gives(data):
    dims = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4), label="dims"))
    order = data.draw(st.permutations(range(len(dims))), label="memory order")
    axis = data.draw(st.integers(0, len(dims) - 1), label="axis that the second operand lacks")
    memory = np.arange(np.prod(dims), dtype=np.float32).reshape([dims[i] for i in order])
    x = memory.transpose(np.argsort(order))
    b = np.ones([1 if i == axis else n for i, n in enumerate(dims)], np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pointwise, "BLOCK_ELEMENTS", data.draw(st.integers(1, 40), label="block"))
        found = pointwise._in_blocks(np.subtract, [x, b], dims)
    assert (found.shape, found.dtype) == (dims, np.float32)
    assert np.array_equal(found, x - b)
