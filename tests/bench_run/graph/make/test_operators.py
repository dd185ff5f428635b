"""The table of operators: its rows are right, and its graphs are files like any other."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_run.errors import GraphError, UsageError
from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from bench_run.graph.make import OPS, make_graphs
from bench_run.graph.make.names import table
from bench_run.graph.make.operators import OPERATORS, with_operators
from bench_run.graph.make.operators.row import BACKWARD, JOINT, SUFFIXES
from bench_run.operators.formulas import evaluate_operator
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.expected import custom_overrides
from bench_run.validate.outputs import OutputChecker, validation
from bench_run.validate.tolerance import tolerances

EVERY = [
    f"{row.name}{SUFFIXES[direction]}" for row in OPERATORS.values() for direction in row.directions
]
GRADIENTS = [row.name for row in OPERATORS.values() if row.gradients]


def graph_of(spec, shapes="small", **choices):
    return make_graphs(spec, shapes, **choices)[0]


def inputs_of(graph):
    made = make_inputs(graph, 3)
    return {uid: logical_view(storage, graph.by_uid[uid]) for uid, storage in made.items()}


@pytest.mark.parametrize("name", EVERY)
def test_the_reference_of_an_operator_has_the_dims_and_types_of_its_row(name):
    for kind in OPS[name].dtypes:
        graph = graph_of(f"{name}: dtype={kind}")
        found = evaluate(graph, inputs_of(graph))
        assert {t.uid: t.dims for t in graph.outputs} == {u: a.shape for u, a in found.items()}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_is_the_slope_of_the_operator(name):
    row = OPERATORS[name]
    graph = graph_of(f"{name}_fwd_bwd: dtype=double")
    (node,) = graph.nodes
    names = node.custom.inputs
    arrays = inputs_of(graph)
    given = {
        n: arrays[uid].astype(float) if arrays[uid].dtype.kind == "f" else arrays[uid]
        for n, uid in zip(names, node.inputs.values(), strict=True)
    }
    found = evaluate_operator(node, given)
    draw, step = np.random.default_rng(1), 1e-6
    for port in row.gradients:
        way = draw.standard_normal(given[port].shape)
        ends = [
            np.sum(
                evaluate_operator(node, {**given, port: given[port] + sign * step * way})[
                    next(iter(row.outputs))
                ]
                * given["dy"].reshape(found["y"].shape)
            )
            for sign in (1, -1)
        ]
        slope, wanted = (ends[0] - ends[1]) / (2 * step), np.sum(found[f"d{port}"] * way)
        assert abs(slope - wanted) <= 1e-5 * (1 + np.abs(found[f"d{port}"] * way).sum())


@pytest.mark.long
@pytest.mark.parametrize("shapes", ["common", "large", "skewed", "random:2"])
def test_every_operator_has_a_graph_in_every_class_of_shapes(shapes):
    assert [] == [name for name in EVERY if not make_graphs(name, shapes)]


def test_forward_backward_and_both_have_the_same_random_shape():
    graphs = make_graphs("softmax", "random:1", "both", seed=4)
    assert 3 == len(graphs)
    assert 1 == len({graph.tensors[0].dims for graph in graphs})
    assert graphs == make_graphs("softmax", "random:1", "both", seed=4)
    assert graphs != make_graphs("softmax", "random:1", "both", seed=5)


def test_an_operator_keeps_its_meaning_in_a_file():
    graph = graph_of("take: n=10 c=4 k=3 index=int32")
    again = with_operators(read_graph(write_graph(graph), "file"), "file")
    assert graph == again


def test_a_file_whose_tensors_are_not_the_operators_is_refused():
    content = json.loads(write_graph(graph_of("take: n=10 c=4 k=3")))
    content["tensors"][2]["dims"] = content["tensors"][2]["strides"] = [3, 5]
    graph = read_graph(json.dumps(content).encode(), "file")
    with pytest.raises(GraphError, match=r"take: its tensors are not y"):
        with_operators(graph, "file")


def test_random_values_outside_of_their_range_are_wrong():
    graph = graph_of("random_uniform")
    expected = evaluate(graph, {})
    limits = tolerances(graph, overrides=dict(custom_overrides(graph)))
    drawn = np.random.default_rng(1).random(1024, np.float32)
    wrong = {}
    for value in (drawn[7], 1.5, -0.25, np.nan):
        drawn[7] = value
        checker = OutputChecker(graph, expected, limits, 1, {})
        wrong[value] = checker.check({graph.outputs[0].uid: drawn}).mismatched
    assert [0, 1, 1, 1] == list(wrong.values())


@pytest.mark.parametrize("value", [0.0, 0.5, 0.999])
def test_random_values_that_are_all_alike_are_wrong_together(value):
    graph = graph_of("random_uniform")
    limits = tolerances(graph, overrides=dict(custom_overrides(graph)))
    checker = OutputChecker(graph, evaluate(graph, {}), limits, 1, {})
    found = checker.check({graph.outputs[0].uid: np.full(1024, value, np.float32)})
    assert found.mismatched == 1024
    assert "the mean or the spread of y" in validation("numpy", graph, [found]).reason


@pytest.mark.parametrize("spec", ["random_exponential", "random_gamma: alpha=0.1", "bernoulli"])
@pytest.mark.parametrize("count", [1, 300, 4096])
def test_draws_of_the_right_distribution_are_never_wrong(spec, count):
    (graph,) = make_graphs(f"{spec}{' ' if ':' in spec else ': '}dims={count}")
    limits = tolerances(graph, overrides=dict(custom_overrides(graph)))
    checker = OutputChecker(graph, evaluate(graph, {}), limits, 1, {})
    draw = np.random.default_rng(5)
    make = {
        "random_exponential": lambda: draw.standard_exponential(count),
        "random_gamma: alpha=0.1": lambda: draw.standard_gamma(0.1, count),
        "bernoulli": lambda: draw.random(count) < 0.5,
    }[spec]
    uid = graph.outputs[0].uid
    found = [checker.check({uid: np.asarray(make(), np.float32)}).mismatched for _ in range(200)]
    assert set(found) == {0}


SWEEPS = {
    "nn.Conv2d: kernel_size=3x3,5x5 h=8": ["r3s3", "r5s5"],
    "nn.Conv2d: kernel_size=1..5+2 h=8": ["r1s1", "r3s3", "r5s5"],
    "nn.Conv2d: bias=0,1 h=8": ["conv_fwd_n", "conv_fwd+bias_n"],
    "F.avg_pool2d: count_include_pad=0,1 h=8": ["avgpool_n", "avgpool_padded_n"],
    "onnx.MaxPool: kernel_shape=2x2,3x3 pads=0x0x1x1": ["r2q1", "r3q1"],
}


@pytest.mark.parametrize("spec", SWEEPS)
def test_each_value_of_a_frameworks_key_is_a_graph(spec):
    graphs = [graph.name for graph in make_graphs(spec)]
    assert len(graphs) == len(SWEEPS[spec])
    assert all(part in name for part, name in zip(SWEEPS[spec], graphs, strict=True))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", ["nn.Conv", "nn.ConvTranspose", "nn.MaxPool", "nn.BatchNorm"])
def test_a_name_with_a_number_has_so_many_spatial_axes(name, rank):
    graphs = make_graphs(f"{name}{rank}d", "all")
    assert {len(graph.tensors[0].dims) - 2 for graph in graphs} == {rank}
    with pytest.raises(UsageError):
        make_graphs(f"{name}{rank}d: spatial={rank % 3 + 1}")


def test_hipdnns_operations_get_gradients_of_the_table():
    graphs = make_graphs("add: dims=4x8", direction="bwd") + make_graphs("add: dims=4x8")
    assert ["CustomOpAttributes", "PointwiseAttributes"] == [g.nodes[0].type for g in graphs]


@pytest.mark.parametrize("name", ["conv_fwd", "relu", "batchnorm_training", "sdpa", "maxpool"])
def test_both_directions_of_hipdnns_operations_are_one_graph(name):
    both = graph_of(OPS[name].joint)
    parts = [graph_of(each) for each in (name, *OPS[name].backward)]
    assert sum(len(part.nodes) for part in parts) == len(both.nodes)
    names = [tensor.name for tensor in both.tensors]
    assert len(set(names)) == len(names)


SPELLINGS = {
    "mm: m=4 n=5 k=6": "matmul: m=4 n=5 k=6",
    "conv2d: in_channels=3 kernel_size=3": "conv_fwd: c=3 r=3 s=3",
    "nn.Conv2d: c=3 out_channels=8 kernel_size=3x5 padding=1": (
        "conv_fwd+bias: c=3 k=8 r=3 s=5 pad=1"
    ),
    "nn.Conv2d: in_channels=3 bias=False": "conv_fwd: c=3",
    "Conv3D: kernel_size=3": "conv_fwd+bias: spatial=3 t=3 r=3 s=3",
    "MaxPool1D: pool_size=3 strides=2": "maxpool: spatial=1 window=3 stride=2",
    "torch.softmax: dims=4x8 dim=0": "softmax: dims=4x8 axis=0",
    "gluon.loss.SoftmaxCrossEntropyLoss": "softmax_cross_entropy_loss: reduction=rows",
    "F.linear: in_features=4 out_features=8 bias=1": "dense: c=4 k=8",
    "clip: a_min=-0.25 a_max=0.25": "clip: low=-0.25 high=0.25",
    "lesser: dims=4x8": "cmp_lt: dims=4x8",
    "nn.ConvTranspose2d: in_channels=3 h=8,16 kernel_size=3 bias=0": (
        "conv_transpose: c=3 h=8,16 r=3 s=3"
    ),
    "cat: dims=4x8": "concat: axis=0 dims=4x8",
    "kl_div": "kl_div_loss: reduction=mean",
    "linear: in_features=4 out_features=8 n=2": "matmul: m=2 n=8 k=4 layout=nt",
    "Conv+Relu": "conv_fwd+relu",
    "Log_Softmax: dims=4x8": "log_softmax: dims=4x8",
}


@pytest.mark.parametrize("spec", SPELLINGS)
def test_names_and_keys_of_other_frameworks_mean_ours(spec):
    assert make_graphs(SPELLINGS[spec], "small") == make_graphs(spec, "small")


def test_what_cannot_be_measured_alone_has_a_reason():
    for name, reason in table()["refused"].items():
        with pytest.raises(UsageError, match=reason.split(";")[0]):
            make_graphs(name.replace("mxnet.", "mx.nd."))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("softmux", "did you mean softmax, softmin or softplus"),
        ("softmax: dims=4x8 axis=2", "axis=2: dims=4x8 has 2 axes"),
        ("transpose: dims=4x8x2", "transpose: dims=4x8x2: expected 2 lengths"),
        ("split: dims=4x7", "split: axis -1 of dims=4x7: expected an even length"),
        ("topk: dims=4x8 k=9", "topk: k=9 of dims=4x8: more than the axis has"),
        ("pow: dims=4x8 rhs_dims=3x8", "rhs_dims=3x8 do not broadcast to dims=4x8"),
        ("flip: direction=joint dtype=int64", "expected one of float, half"),
        ("topk: direction=joint", "topk has no joint operation"),
        ("conv_dgrad: spatial=1 direction=fwd", "nothing has the direction fwd"),
        ("torch.sum: dims=4x8", "give dim: what PyTorch does without it cannot be said here"),
        ("mx.nd.topk: k=3", "give ret_typ=value: .* in our words: topk"),
        ("nn.MaxPool2d: kernel_size=3 dilation=2", "dilation=2: here only dilation=1"),
        ("nn.Conv2d: colour=1", "nn.Conv2d: no key 'colour'; choose from in_channels"),
        ("nn.Conv2d: in_chanels=3", r"no key 'in_chanels'; did you mean in_channels\?"),
        ("L1Loss", r"write nn.L1Loss \(l1_loss\), gluon.loss.L1Loss"),
        ("torch.nope", "not one of PyTorch's names here"),
        ("tf.nn.relu", "no names of 'tf.nn' here; known: torch."),
        ("onnx.MaxPool: pads=1x1x1", "expected as many before as after"),
    ],
)
def test_what_does_not_fit_names_parameter_and_rule(spec, said):
    with pytest.raises(UsageError, match=said):
        make_graphs(spec)


def test_gradients_are_of_floats_only():
    assert ("int64" in OPS["sum"].dtypes, "int64" in OPS["sum_bwd"].dtypes) == (True, False)
    assert {BACKWARD, JOINT} <= set(OPERATORS["sum"].directions)
