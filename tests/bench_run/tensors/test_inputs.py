import hashlib

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError, UsageError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.layouts import packed
from bench_run.graph.make import make_graphs
from bench_run.graph.model import Graph, Tensor
from bench_run.graph.operations import make_node
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs, parse_init

FLOATS = [n for n, row in DTYPES.items() if row.kind == "float" and row.array_type is not None]


def tensor(uid, data_type, *dims, **fields):
    return Tensor(uid, f"t{uid}", data_type, dims, packed(dims), **fields)


def graph(nodes, *tensors):
    return Graph("g", "float", "float", "float", tensors, tuple(nodes))


def pointwise(mode, data_type="float", count=4096, arity=1):
    operands = [tensor(uid, data_type, count) for uid in range(arity)]
    inputs = {f"in_{uid}": uid for uid in range(arity)}
    node = make_node("pointwise", inputs, {"out_0": 9}, {"operation": mode})
    return graph([node], *operands, tensor(9, data_type, count))


def values(storage):
    return storage.astype(np.float64)


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("text", ["uniform", "uniform:0:1", "uniform:-0.5:1", "normal"])
def test_floats_are_never_zero_and_never_denormal(data_type, text):
    storage = make_inputs(pointwise("relu_fwd", data_type, 200_000), 0, parse_init([text]))[0]
    assert np.abs(values(storage)).min() >= DTYPES[data_type].smallest


@pytest.mark.parametrize("data_type", FLOATS)
def test_floats_are_uniform_between_minus_one_and_one(data_type):
    data = values(make_inputs(pointwise("relu_fwd", data_type, 100_000), 3)[0])
    assert np.abs(data).max() <= 1
    assert abs(data.mean()) < 0.01
    assert data.std() == pytest.approx(3**-0.5, rel=0.01)


def test_normal_numbers_have_the_asked_mean_and_deviation():
    plan = parse_init(["normal:2:0.5"])
    data = values(make_inputs(pointwise("relu_fwd", "float", 100_000), 3, plan)[0])
    assert (data.mean(), data.std()) == pytest.approx((2, 0.5), rel=0.01)


@pytest.mark.parametrize(("reach", "share"), [(1, 0.3173105), (2, 0.0455003), (3, 0.0026998)])
def test_normal_numbers_go_as_far_as_a_normal_distribution(reach, share):
    data = values(
        make_inputs(pointwise("relu_fwd", "float", 400_000), 3, parse_init(["normal"]))[0]
    )
    beyond = int((np.abs(data) > reach).sum())
    assert abs(beyond - 400_000 * share) < 5 * (400_000 * share) ** 0.5
    assert 8 <= int((np.abs(data) > 4).sum()) <= 45  # 25 of 400,000 are expected
    assert abs(int((data > reach).sum()) - beyond / 2) < 5 * beyond**0.5


@pytest.mark.parametrize("spec", ["conv_fwd: n=2 c=3 h=5 w=4 k=2", "relu: n=2 c=3 h=5 w=4"])
@pytest.mark.parametrize("text", ["uniform", "normal", "integers:-3:3"])
def test_a_seed_is_one_problem_in_every_memory_order(spec, text):
    made = []
    for layout in ("nchw", "nhwc"):
        (whole,) = make_graphs(f"{spec} layout={layout}")
        inputs = make_inputs(whole, 7, parse_init([text]))
        made.append([logical_view(inputs[t.uid], t) for t in whole.inputs])
    for one, other in zip(*made, strict=True):
        assert (one == other).all()


def test_special_values_are_among_uniform_numbers():
    data = values(make_inputs(pointwise("neg", "float", 8_000), 3, parse_init(["special"]))[0])
    for share in (np.isnan(data), data == np.inf, data == -np.inf):
        assert 200 < share.sum() < 500
    assert np.abs(data[np.isfinite(data)]).max() <= 1


@pytest.mark.parametrize(("text", "value"), [("zeros:1:2", 0), ("nan:1:2", np.nan)])
def test_one_number_in_eight_is_the_one_that_was_asked_for(text, value):
    data = values(make_inputs(pointwise("neg", "half", 8_000), 3, parse_init([text]))[0])
    chosen = np.isnan(data) if np.isnan(value) else data == value
    assert 800 < chosen.sum() < 1_200
    assert data[~chosen].min() >= 1


def test_quarters_are_multiples_of_a_quarter_with_zero_and_both_ends():
    data = values(
        make_inputs(pointwise("neg", "float", 4_000), 3, parse_init(["quarters:-1:1"]))[0]
    )
    assert sorted(set(data)) == [n / 4 for n in range(-4, 5)]


def test_a_type_without_infinities_takes_no_special_values():
    with pytest.raises(UsageError, match="special -1 1 does not fit fp8_e4m3"):
        make_inputs(pointwise("neg", "fp8_e4m3", 8), 3, parse_init(["special"]))


@pytest.mark.parametrize(
    ("data_type", "text", "digest"),
    [
        ("float", "uniform", "b2d82005416913e6"),
        ("half", "uniform", "82c188c1ee931e4a"),
        ("bfloat16", "normal", "c3c8c46b29226b96"),
        ("int8", "integers", "ae91fffb070710a2"),
        ("double", "uniform:0:3", "1bc5d689a7eb2eac"),
    ],
)
def test_the_values_of_a_seed_are_the_same_for_ever(data_type, text, digest):
    storage = make_inputs(pointwise("abs", data_type, 70_000), 42, parse_init([text]))[0]
    assert hashlib.sha256(storage.view(np.uint8)).hexdigest()[:16] == digest


def test_tensors_and_seeds_differ():
    two = pointwise("add", arity=2)
    first, second = make_inputs(two, 0), make_inputs(two, 1)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], second[0])


def test_a_tensor_does_not_depend_on_its_neighbours():
    alone, paired = make_inputs(pointwise("abs"), 7), make_inputs(pointwise("add", arity=2), 7)
    assert np.array_equal(alone[0], paired[0])


@pytest.mark.parametrize(("mode", "operand"), [("log", 0), ("sqrt", 0), ("rsqrt", 0), ("div", 1)])
@pytest.mark.parametrize("data_type", ["float", "half", "fp8_e4m3"])
def test_operands_that_must_be_positive_are(mode, operand, data_type):
    made = make_inputs(pointwise(mode, data_type, arity=operand + 1), 0)
    assert values(made[operand]).min() >= 0.5


def test_positive_is_followed_back_through_a_virtual_sum():
    nodes = [
        make_node("pointwise", {"in_0": 0, "in_1": 1}, {"out_0": 2}, {"operation": "add"}),
        make_node("pointwise", {"in_0": 2}, {"out_0": 3}, {"operation": "log"}),
    ]
    inner = tensor(2, "float", 64, virtual=True)
    chain = graph(
        nodes, tensor(0, "float", 64), tensor(1, "float", 64), inner, tensor(3, "float", 64)
    )
    assert min(values(storage).min() for storage in make_inputs(chain, 0).values()) > 0


@pytest.mark.parametrize("data_type", ["float", "half", "int32"])
def test_factors_of_a_long_product_stay_near_one(data_type):
    node = make_node("reduction", {"in": 0}, {"out": 1}, {"mode": "mul"})
    of = graph([node], tensor(0, data_type, 10_000), tensor(1, data_type, 1))
    assert 0.1 < abs(values(make_inputs(of, 0)[0]).prod()) < 10


def test_conditions_are_both_true_and_false():
    made = make_inputs(pointwise("logical_not", "boolean"), 0)[0]
    assert set(made.tolist()) == {False, True}


def test_integers_leave_zero_out_unless_it_is_an_end():
    both = make_inputs(pointwise("abs", "int32"), 0, parse_init(["integers:-2:2"]))[0]
    from_zero = make_inputs(pointwise("abs", "int32"), 0, parse_init(["integers:0:2"]))[0]
    assert ({-2, -1, 1, 2}, {0, 1, 2}) == (set(both.tolist()), set(from_zero.tolist()))


def test_a_named_tensor_takes_its_own_distribution():
    made = make_inputs(pointwise("add", arity=2), 0, parse_init(["t1=constant:3", "uniform:5:6"]))
    assert set(made[1].tolist()) == {3.0}
    assert made[0].min() >= 5


def test_a_default_leaves_variances_alone():
    ports = ("x", "mean", "variance", "scale", "bias")
    tensors = [tensor(uid, "float", *((2, 3, 4) if uid == 0 else (1, 3, 1))) for uid in range(5)]
    node = make_node(
        "batchnorm_inference_variance",
        {**{port: uid for uid, port in enumerate(ports)}, "epsilon": 5},
        {"y": 6},
    )
    epsilon = tensor(5, "float", 1, value=1e-5)
    made = make_inputs(
        graph([node], *tensors, epsilon, tensor(6, "float", 2, 3, 4)),
        0,
        parse_init(["uniform:-9:-8"]),
    )
    assert made[0].max() <= -8
    assert made[2].min() >= 0.5


def test_a_file_is_fed_as_it_is(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(8.0))
    made = make_inputs(pointwise("abs", "half", 8), 0, parse_init([f"file:{tmp_path / 'x.npy'}"]))
    assert made[0].tolist() == list(range(8))


def test_a_raw_file_is_fed_bit_for_bit(tmp_path):
    raw = bytes(range(16))
    (tmp_path / "x.bin").write_bytes(raw)
    made = make_inputs(
        pointwise("abs", "bfloat16", 8), 0, parse_init([f"file:{tmp_path / 'x.bin'}"])
    )
    assert made[0].tobytes() == raw


@pytest.mark.parametrize(
    ("data_type", "text", "words"),
    [
        ("half", "uniform:0:1e6", "does not fit half, the type of t0"),
        ("int8", "constant:0.5", "does not fit int8"),
        ("int8", "integers:0:200", "does not fit int8"),
        ("int64", "constant:9223372036854775808", "does not fit int64"),
        ("float", "file:/nowhere/x.npy", "No such file"),
    ],
)
def test_what_a_tensor_cannot_hold_is_refused(data_type, text, words):
    with pytest.raises(UsageError, match=words):
        make_inputs(pointwise("abs", data_type), 0, parse_init([text]))


def attention(**extra):
    ports = {"q": (2, 4, 8, 16), "k": (2, 2, 32, 16), "v": (2, 2, 32, 16), **extra}
    tensors = [
        tensor(uid, "int32" if port in extra else "half", *dims)
        for uid, (port, dims) in enumerate(ports.items())
    ]
    node = make_node("sdpa", {port: uid for uid, port in enumerate(ports)}, {"o": 99})
    return graph([node], *tensors, tensor(99, "half", 2, 4, 8, 16))


def test_sequence_lengths_lie_between_one_and_the_length():
    made = make_inputs(attention(seq_len_q=(2,), seq_len_kv=(2,)), 0)
    assert all(1 <= q <= 8 and q <= kv <= 32 for q, kv in zip(made[3], made[4], strict=True))


def test_lengths_that_may_be_offsets_are_refused():
    with pytest.raises(UnsupportedGraphError, match="3 sequence lengths for 2 sequences"):
        make_inputs(attention(seq_len_q=(3,)), 0)


def test_pages_are_used_once_each():
    made = make_inputs(attention(page_table_k=(2, 1), page_table_v=(2, 1)), 0)
    assert sorted(made[3].tolist()) == sorted(made[4].tolist()) == [0, 1]


def test_block_scales_are_powers_of_two_near_one():
    node = make_node(
        "block_scale_dequantize", {"x": 0, "scale": 1}, {"y": 2}, {"block_size": (32,)}
    )
    tensors = (tensor(0, "fp8_e4m3", 64, 64), tensor(1, "fp8_e8m0", 64, 2))
    made = make_inputs(graph([node], *tensors, tensor(2, "float", 64, 64)), 0)
    assert set(made[1].view(np.uint8).tolist()) == set(range(124, 131))


def test_saved_statistics_of_a_backward_pass_are_those_of_x():
    dims, channel = (4, 3, 5, 5), (1, 3, 1, 1)
    ports = {"dy": dims, "x": dims, "scale": channel, "mean": channel, "inv_variance": channel}
    node = make_node(
        "batchnorm_backward",
        {port: uid for uid, port in enumerate(ports)},
        {"dx": 7, "dscale": 8, "dbias": 9},
    )
    tensors = [tensor(uid, "float", *shape) for uid, shape in enumerate(ports.values())]
    results = (
        tensor(7, "float", *dims),
        tensor(8, "float", *channel),
        tensor(9, "float", *channel),
    )
    made = make_inputs(graph([node], *tensors, *results), 0)
    x = logical_view(made[1], tensors[1]).astype(np.float64)
    assert made[3] == pytest.approx(x.mean(axis=(0, 2, 3)), rel=1e-5)
    assert made[4] == pytest.approx((x.var(axis=(0, 2, 3)) + 1e-5) ** -0.5, rel=1e-5)
