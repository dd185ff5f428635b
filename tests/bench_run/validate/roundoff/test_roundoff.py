import math
from dataclasses import replace

import numpy as np
import pytest

from bench_run.graph.layouts import packed
from bench_run.graph.make import make_graphs
from bench_run.graph.model import Graph, Tensor
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES, make_node
from bench_run.reference import evaluate
from bench_run.reference.pointwise import MODES, parameters
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.roundoff import RULES, output_errors


def tensor(uid, data_type, *dims, **fields):
    return Tensor(uid, f"t{uid}", data_type, dims, packed(dims), **fields)


def graph(nodes, *tensors):
    return Graph("g", "float", "float", "float", tensors, tuple(nodes))


def operands(of):
    made = make_inputs(of, 0)
    return {uid: logical_view(storage, of.by_uid[uid]) for uid, storage in made.items()}


def wrong(of, result, uid):
    """Whether some element is further from the reference than the estimate says."""
    data = operands(of)
    output, error = of.by_uid[uid], output_errors(of)[uid]
    expected = evaluate(of, data)[uid]
    actual = logical_view(to_storage(result(data), output), output).astype("f8")
    return bool((np.abs(actual - expected) > error.atol + error.rtol * np.abs(expected)).any())


def test_every_operation_but_the_custom_one_has_a_rule():
    assert set(OPERATIONS) - set(RULES) == {"CustomOpAttributes"}


def pointwise(mode, data_type):
    arity = POINTWISE_MODES[mode].arity
    tensors = [tensor(uid, data_type, 5000) for uid in range(arity)]
    attributes = {"operation": mode, "axis_tensor_uid": 0 if mode == "gen_index" else None}
    node = make_node(
        "pointwise", {f"in_{uid}": uid for uid in range(arity)}, {"out_0": 9}, attributes
    )
    return graph([node], *tensors, tensor(9, data_type, 5000))


@pytest.mark.parametrize("data_type", ["float", "half", "bfloat16"])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_float_arithmetic_is_within_the_bounds_of_every_mode(mode, data_type):
    of = pointwise(mode, data_type)

    def in_float(data):
        given = [data[uid].astype(np.float32) for uid in range(POINTWISE_MODES[mode].arity)]
        return np.asarray(MODES[mode][1](parameters(of.nodes[0]), *given), np.float32)

    assert not wrong(of, in_float, 9)


@pytest.mark.parametrize("mode", ["add", "mul", "neg", "relu_fwd", "max_op"])
@pytest.mark.parametrize("data_type", ["float", "half", "bfloat16"])
def test_one_unit_too_much_is_found_in_exact_modes(mode, data_type):
    of = pointwise(mode, data_type)

    def biased(data):
        given = [data[uid] for uid in range(POINTWISE_MODES[mode].arity)]
        result = np.asarray(MODES[mode][1](parameters(of.nodes[0]), *given)).astype(given[0].dtype)
        return result + np.spacing(result)

    assert wrong(of, biased, 9)


def layernorm(data_type, width=768):
    node = make_node(
        "layernorm",
        {"x": 0, "scale": 1, "bias": 2, "epsilon": 3},
        {"y": 4},
        {"normalized_dim_count": 1},
    )
    ends = (tensor(1, data_type, width), tensor(2, data_type, width))
    epsilon = tensor(3, "float", 1, value=1e-5)
    return graph(
        [node], tensor(0, data_type, 64, width), *ends, epsilon, tensor(4, data_type, 64, width)
    )


def normalised(data, compute):
    x, scale, bias = (data[uid].astype(compute) for uid in range(3))
    mean = np.add.accumulate(x, axis=1, dtype=compute)[:, -1:] / compute(x.shape[1])
    square = np.add.accumulate(x * x, axis=1, dtype=compute)[:, -1:] / compute(x.shape[1])
    inv = compute(1) / np.sqrt(square - mean * mean + compute(1e-5))
    return (x - mean) * inv * scale + bias


@pytest.mark.parametrize("data_type", ["float", "half", "bfloat16"])
def test_single_pass_statistics_in_float_are_right(data_type):
    assert not wrong(layernorm(data_type), lambda data: normalised(data, np.float32), 4)


@pytest.mark.parametrize("data_type", ["float", "half"])
def test_statistics_in_half_are_found(data_type):
    assert wrong(layernorm(data_type), lambda data: normalised(data, np.float16), 4)


def batchnorm(data_type):
    """Statistics over 802,816 elements."""
    ports = {"y": 4, "mean": 5, "inv_variance": 6}
    node = make_node("batchnorm_training", {"x": 0, "scale": 1, "bias": 2, "epsilon": 3}, ports)
    channel = [tensor(uid, "float", 1, 2, 1, 1) for uid in (1, 2, 5, 6)]
    epsilon = tensor(3, "float", 1, value=1e-5)
    x, y = (tensor(uid, data_type, 64, 2, 112, 112) for uid in (0, 4))
    return graph([node], x, *channel, epsilon, y)


def inverse_deviation(data, compute):
    """1/√(variance + ε) of each channel from squares added one after another."""
    x = np.swapaxes(data[0], 0, 1).reshape(2, -1).astype("f4")
    centred = x - x.mean(axis=1, dtype="f8", keepdims=True).astype("f4")
    total = np.add.accumulate(centred * centred, axis=1, dtype="f4")[:, -1]
    variance = total.astype("f8") / x.shape[1]
    return (1 / np.sqrt(variance + 1e-5)).astype(compute).reshape(1, 2, 1, 1)


@pytest.mark.parametrize("data_type", ["half", "bfloat16"])
def test_a_batch_norm_may_add_a_million_squares_one_by_one(data_type):
    assert not wrong(batchnorm(data_type), lambda data: inverse_deviation(data, "f4"), 6)


def test_a_batch_norms_statistics_in_half_are_found_however_many_elements_they_have():
    def truncated(data):
        return inverse_deviation(data, "f8") * (1 - 2.0**-11)

    assert wrong(batchnorm("half"), truncated, 6)


def attention(data_type):
    node = make_node("sdpa", {"q": 0, "k": 1, "v": 2}, {"o": 3})
    return graph([node], *(tensor(uid, data_type, 1, 2, 256, 64) for uid in range(4)))


def attended(data, compute, kept):
    """Probabilities are kept in the type `kept` before they meet v."""
    q, k, v = (data[uid].astype(compute) for uid in range(3))
    scores = np.matmul(q, np.swapaxes(k, 2, 3), dtype=compute) * compute(0.125)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    total = np.add.accumulate(weights, axis=3, dtype=compute)[..., -1:]
    return np.matmul(weights.astype(kept).astype(compute), v, dtype=compute) / total


@pytest.mark.parametrize(("data_type", "kept"), [("float", "f4"), ("half", "f2"), ("half", "f4")])
def test_attention_may_keep_probabilities_in_the_operands_type(data_type, kept):
    assert not wrong(attention(data_type), lambda data: attended(data, np.float32, kept), 3)


def test_attention_that_rounds_probabilities_of_float_operands_is_found():
    assert wrong(attention("float"), lambda data: attended(data, np.float32, "f2"), 3)


@pytest.mark.parametrize("data_type", ["float", "half"])
def test_attention_in_half_throughout_is_found(data_type):
    assert wrong(attention(data_type), lambda data: attended(data, np.float16, "f2"), 3)


def reduction(mode, data_type, length):
    node = make_node("reduction", {"in": 0}, {"out": 1}, {"mode": mode})
    return graph([node], tensor(0, data_type, 32, length), tensor(1, data_type, 32, 1))


SUMS = {
    "add": lambda x, t: np.add.accumulate(x, axis=1, dtype=t)[:, -1:],
    "avg": lambda x, t: np.add.accumulate(x, axis=1, dtype=t)[:, -1:] / t(x.shape[1]),
    "norm1": lambda x, t: np.add.accumulate(np.abs(x), axis=1, dtype=t)[:, -1:],
    "norm2": lambda x, t: np.sqrt(np.add.accumulate(x * x, axis=1, dtype=t)[:, -1:]),
    "mul": lambda x, t: np.multiply.accumulate(x, axis=1, dtype=t)[:, -1:],
}


@pytest.mark.parametrize("mode", sorted(SUMS))
@pytest.mark.parametrize("data_type", ["float", "half", "bfloat16"])
def test_reductions_in_float_are_right(mode, data_type):
    of = reduction(mode, data_type, 10_000)
    assert not wrong(of, lambda data: SUMS[mode](data[0].astype("f4"), np.float32), 1)


@pytest.mark.parametrize("mode", sorted(SUMS))
@pytest.mark.parametrize("data_type", ["float", "half"])
def test_reductions_in_half_are_found(mode, data_type):
    of = reduction(mode, data_type, 10_000)
    assert wrong(of, lambda data: SUMS[mode](data[0].astype("f2"), np.float16), 1)


@pytest.mark.parametrize(
    ("data_type", "kernel", "stride", "worse"),
    [
        ("float", 3, 1, True),
        ("float", 1, 1, False),
        ("float", 3, 2, False),
        ("bfloat16", 3, 1, False),
    ],
)
def test_only_dense_three_by_three_float_convolutions_may_be_winograds(
    data_type, kernel, stride, worse
):
    def conv(stride):
        side = (8 - kernel) // stride + 1
        attributes = {
            "pre_padding": (0, 0),
            "post_padding": (0, 0),
            "stride": (stride, stride),
            "dilation": (1, 1),
            "conv_mode": "cross_correlation",
        }
        node = make_node("conv_fwd", {"x": 0, "w": 1}, {"y": 2}, attributes)
        tensors = (tensor(0, data_type, 1, 4, 8, 8), tensor(1, data_type, 4, 4, kernel, kernel))
        return graph([node], *tensors, tensor(2, data_type, 1, 4, side, side))

    direct = output_errors(conv(2))[2].atol
    ratio = output_errors(conv(stride))[2].atol / direct
    assert (ratio > 4) == worse


@pytest.mark.parametrize("spec", ["layernorm: dims=8x16", "rmsnorm: dims=8x16"])
def test_a_norm_with_an_epsilon_of_zero_has_finite_bounds(spec):
    (made,) = make_graphs(spec)
    zero = {uid for node in made.nodes for port, uid in node.inputs.items() if port == "epsilon"}
    tensors = tuple(replace(t, value=0.0) if t.uid in zero else t for t in made.tensors)
    errors = output_errors(replace(made, tensors=tensors))
    assert zero
    assert all(math.isfinite(e.rtol) and math.isfinite(e.atol) for e in errors.values())
