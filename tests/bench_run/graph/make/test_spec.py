"""Op specs: sweeps, directions, default shapes, names, and what is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.errors import BenchRunError, GraphError, UsageError
from bench_run.graph.check import check
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make import FAMILIES, OPS, SHAPE_CLASSES, make_graphs
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES


def names(spec: str, shapes: str = "common") -> list[str]:
    return [graph.name for graph in make_graphs(spec, shapes)]


def test_a_spec_makes_the_graph_it_describes() -> None:
    spec = "conv_fwd: n=32 c=128 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half layout=nhwc"
    (graph,) = make_graphs(spec)
    assert graph.name == "conv_fwd_n32c128h28w28k256r3s3p1_half_nhwc"
    assert [tensor.dims for tensor in graph.tensors] == [
        (32, 128, 28, 28),
        (256, 128, 3, 3),
        (32, 256, 28, 28),
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("1,8", [1, 8]),
        ("1..64*4", [1, 4, 16, 64]),
        ("1..10+3", [1, 4, 7, 10]),
        ("2..4", [2, 3, 4]),
        ("5..5", [5]),
        ("1,4..5", [1, 4, 5]),
        ("3..20*2", [3, 6, 12]),
    ],
)
def test_lists_and_ranges_sweep(values: str, expected: list[int]) -> None:
    made = make_graphs(f"relu: n={values} c=3 h=4 w=4")
    assert [graph.tensors[0].dims[0] for graph in made] == expected


def test_several_lists_are_combined_the_last_one_fastest() -> None:
    assert names("relu: n=1,2 c=3 h=4 w=4 dtype=float,half") == [
        "relu_n1c3h4w4_float_nchw",
        "relu_n1c3h4w4_half_nchw",
        "relu_n2c3h4w4_float_nchw",
        "relu_n2c3h4w4_half_nchw",
    ]


def test_intermediates_of_a_fusion_are_virtual_and_float() -> None:
    (graph,) = make_graphs("conv_fwd+bias+relu: n=2 c=4 h=8 w=8 k=4 dtype=half")
    virtual = {t.name: t.data_type for t in graph.tensors if t.virtual}
    assert virtual == {"conv_fwd_y": "float", "bias_y": "float"}


@pytest.mark.parametrize(("op", "port"), [("sdpa", "attn_mask"), ("rmsnorm", "bias")])
def test_a_bias_that_an_operation_has_is_made(op, port) -> None:
    (graph,) = make_graphs(f"{op}: bias=1", "small")[:1]
    assert port in {tensor.name for tensor in graph.inputs}


def test_a_bias_that_an_operation_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="no key 'bias'"):
        make_graphs("mm: m=2 n=3 k=4 bias=1")


def test_a_bias_runs_along_the_last_axis_of_a_matrix_and_the_channels_of_an_image() -> None:
    (matrix,) = make_graphs("matmul+bias: m=2 n=3 k=4")
    (image,) = make_graphs("conv_fwd+bias: n=2 c=4 h=8 w=8 k=5")
    dims = [t.dims for graph in (matrix, image) for t in graph.tensors if t.name == "bias"]
    assert dims == [(1, 3), (1, 5, 1, 1)]


def test_an_operation_can_follow_itself() -> None:
    (graph,) = make_graphs("relu+relu: n=1 c=1 h=2 w=2")
    assert [node.name for node in graph.nodes] == ["relu", "relu_2"]


@pytest.mark.parametrize(
    ("direction", "ops"),
    [
        ("fwd", ["conv_fwd"]),
        ("bwd", ["conv_dgrad", "conv_wgrad"]),
        ("both", ["conv_fwd", "conv_dgrad", "conv_wgrad", "conv_fwd+conv_dgrad+conv_wgrad"]),
        ("joint", ["conv_fwd+conv_dgrad+conv_wgrad"]),
        ("fwd,bwd", ["conv_fwd", "conv_dgrad", "conv_wgrad"]),
    ],
)
def test_directions_choose_the_operation_and_its_gradients(direction: str, ops: list[str]) -> None:
    made = make_graphs(f"conv: n=1 c=2 h=5 w=5 k=2 direction={direction}")
    assert ["+".join(node.name for node in graph.nodes) for graph in made] == ops


def test_a_spec_without_a_shape_takes_the_default_shapes_of_the_class() -> None:
    assert names("matmul", "small") == ["matmul_m5n7k3_float_nn", "matmul_b2m4n3k8_float_nn"]


def test_a_type_alone_keeps_the_default_shapes() -> None:
    assert names("matmul: dtype=half", "small") == [
        "matmul_m5n7k3_half_nn",
        "matmul_b2m4n3k8_half_nn",
    ]


def test_classes_in_the_spec_win_over_the_argument() -> None:
    assert names("matmul: shapes=skewed", "small") == names("matmul", "skewed")


def test_three_axes_follow_from_a_depth() -> None:
    (graph,) = make_graphs("batchnorm_inference: n=1 c=2 d=3 h=4 w=5")
    assert graph.name == "batchnorm_inference_n1c2d3h4w5_float_ncdhw"


def test_a_family_takes_the_items_its_operations_know() -> None:
    made = names("family:activations: n=1 c=1 h=2 w=2 slope=0.5")
    assert {"leaky_relu_n1c1h2w2_float_nchw_slope0.5", "tanh_n1c1h2w2_float_nchw"} <= set(made)


def test_all_makes_every_operation_in_both_directions() -> None:
    made = {graph.nodes[0].type for graph in make_graphs("all", "small")}
    assert made == set(OPERATIONS)


def test_all_covers_every_pointwise_mode() -> None:
    nodes = (node for graph in make_graphs("all", "small") for node in graph.nodes)
    modes = {node.attributes.get("operation") for node in nodes}
    assert set(POINTWISE_MODES) - modes == set()


def test_all_leaves_out_types_that_an_operation_lacks() -> None:
    made = make_graphs("all: dtype=double", "small")
    assert {graph.io_data_type for graph in made} == {"double"}


def test_a_default_shape_that_a_value_does_not_fit_is_passed_over() -> None:
    made = names("conv_fwd: layout=nhwc", "small")
    assert [name.partition("_float_")[2] for name in made] == ["nhwc", "nhwc"]


def test_all_takes_a_layout_where_an_operation_has_it() -> None:
    made = names("all: layout=nhwc", "small")
    assert {name.split("_")[-1] for name in made if "float_n" in name} == {"nhwc"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("all: dtype=nope", "no operation supports this"),
        ("conv_fwd: layout=ncdhw shapes=common", "layout=ncdhw does not fit 2 spatial axes"),
        ("conv_fws", "no operation 'conv_fws'; did you mean conv_fwd, "),
        ("conv_fwd+nope", "no operation 'nope'"),
        ("family:nope", "no family 'nope'; the nearest are"),
        ("", "no operation ''"),
        ("conv_fwd: m=3", "conv_fwd has no parameter 'm'; choose from n, c"),
        ("all: nope=3", "has no parameter 'nope'"),
        ("conv_fwd: n", "'n' is not KEY=VALUE"),
        ("conv_fwd: n=", "is not KEY=VALUE"),
        ("conv_fwd: n=1 n=2", "n is given twice"),
        ("conv_fwd: n=0", "n='0': expected a whole number from 1"),
        ("conv_fwd: n=-1", "expected a whole number from 1"),
        ("conv_fwd: n=1.5", "expected a whole number from 1"),
        ("conv_fwd: n=٣", "expected a whole number"),
        ("conv_fwd: n=9..1", "a range is ascending"),
        ("conv_fwd: n=1..9*1", "a range is ascending"),
        ("conv_fwd: n=1..9+0", "a range is ascending"),
        ("conv_fwd: n=0..8*2", "a range is ascending"),
        ("conv_fwd: n=1..999999", "more than 10000 values"),
        ("relu: n=1..200 c=1..200", "more than 10000 graphs"),
        ("conv_fwd: dtype=int32", "dtype='int32': expected one of float, half"),
        ("conv_fwd: layout=bhsd", "layout='bhsd': expected one of ncw"),
        ("conv_fwd: layout=ncdhw h=4", "layout=ncdhw does not fit 2 spatial axes"),
        ("conv_fwd: spatial=4", "spatial=4: choose from 1, 2, 3"),
        ("conv_fwd: spatial=1 h=3", "h=3 has no meaning with spatial=1"),
        ("conv_fwd: pad=1x1x1", "needs 1 or 2 numbers"),
        ("conv_fwd: groups=3 c=4", "groups=3 does not divide c=4"),
        ("conv_fwd: h=2 w=2", "the filter is larger than the padded input"),
        ("conv_fwd: shapes=tiny", "no shapes 'tiny'; choose from small"),
        ("conv_fwd: direction=up", "direction=up: choose from fwd, bwd, joint, both"),
        ("conv_fwd+relu: direction=bwd", "has no backward operation"),
        ("ceil: direction=bwd", "has no backward operation"),
        ("bias", "bias follows another operation"),
        ("relu+conv_fwd", "conv_fwd cannot follow another operation"),
        ("relu: dims=2x3 h=4", "dims and h exclude each other"),
        ("relu: slope=nan", "expected a finite number"),
        ("add: rhs=row", "expected one of same, channel, scalar"),
        ("add: dims=2x3 rhs_dims=2x2", "do not broadcast"),
        ("layernorm: last=3", "last=3 must be below the rank, 3"),
        ("layernorm: dims=2x4 last=2", "last=2 must be below the rank, 2"),
        ("reduce_add: dims=2x3 axes=2", "axes=2 of 2; choose from 0 to 1"),
        ("reduce_add: dims=1x3 axes=0", "nothing to reduce"),
        ("maxpool: h=2 w=2 window=5", "the window is larger"),
        ("sdpa: h=4 hk=3", "hk=3 does not divide h=4"),
        ("matmul: broadcast=a m=3 n=3 k=3", "needs batch"),
        ("matmul: m=3", "a product has m, n and k, and n and k are not given: m=3 n=3 k=3"),
        ("relu: dims=64,64", "lengths of one shape are joined by x: dims=64x64"),
        ("mx_matmul: m=4 n=4 k=33", "block=32 does not divide k=33"),
        ("block_scale_quantize: n=33", "block=32 does not divide n=33"),
        ("moe_grouped_matmul: top_k=2", "top_k needs mode"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_graphs(spec)
    assert message in str(caught.value)


def test_a_graph_that_cannot_be_is_refused_before_it_is_made() -> None:
    with pytest.raises(GraphError, match="more than any machine"):
        make_graphs("relu: n=999999999 c=999999999 h=999999999 w=9")


def test_the_classes_argument_is_checked() -> None:
    with pytest.raises(UsageError, match=r"no shapes .tiny."):
        make_graphs("relu", "tiny")


@pytest.mark.parametrize("name", OPS)
def test_every_operation_has_sound_default_shapes_of_every_class(name: str) -> None:
    if OPS[name].only_after:
        pytest.skip("it only follows other operations")
    for shape_class in SHAPE_CLASSES:
        assert all(check(graph) is not None for graph in make_graphs(name, shape_class))


@pytest.mark.parametrize("name", [name for name in OPS if not OPS[name].only_after])
def test_every_type_of_an_operation_can_be_made(name: str) -> None:
    made = make_graphs(f"{name}: dtype={','.join(OPS[name].dtypes)}", "small")
    assert {graph.io_data_type for graph in made} == set(OPS[name].dtypes)


def test_every_operation_belongs_to_a_family() -> None:
    assert {name for ops in FAMILIES.values() for name in ops} | {"bias"} == set(OPS)


@pytest.mark.long
def test_default_shapes_of_all_operations_have_distinct_names_and_meanings() -> None:
    made = make_graphs("all: dtype=float,half", "all")
    assert len({graph.name for graph in made}) == len(made)


CONV = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(1, 3),
        # two channels a group or more: with one, both filter layouts are the same memory
        "c": st.sampled_from((4, 8)),
        "k": st.sampled_from((2, 4)),
        "r": st.integers(1, 3),
        "pad": st.sampled_from(("0", "1", "1x0")),
        "pad_post": st.sampled_from(("0", "1", "0x1")),
        "stride": st.sampled_from(("1", "2", "2x1")),
        "dilation": st.sampled_from(("1", "1x2")),
        "groups": st.sampled_from((1, 2)),
        "mode": st.sampled_from(("cross_correlation", "convolution")),
        "dtype": st.sampled_from(("float", "half")),
        "layout": st.sampled_from(("nchw", "nhwc")),
        "wlayout": st.sampled_from(("nchw", "nhwc")),
        "ylayout": st.sampled_from(("nchw", "nhwc")),
    },
)


@given(CONV, CONV)
def test_convolutions_of_one_name_mean_the_same_and_others_do_not(
    one: dict[str, object], two: dict[str, object]
) -> None:
    made = [_conv(items) for items in (one, two)]
    prints = [fingerprint(graph) for graph in made]
    assert (made[0].name == made[1].name) == (prints[0] == prints[1])


def _conv(items: dict[str, object]):  # type: ignore[no-untyped-def]
    text = " ".join(f"{key}={value}" for key, value in items.items())
    (graph,) = make_graphs(f"conv_fwd: h=8 w=7 {text}")
    return graph


@given(st.sampled_from(sorted(OPS)), st.sampled_from(SHAPE_CLASSES))
def test_the_same_spec_gives_the_same_bytes(name: str, shape_class: str) -> None:
    if OPS[name].only_after:
        return
    pairs = itertools.product(*(make_graphs(name, shape_class)[:1] for _ in range(2)))
    assert all(write_graph(one) == write_graph(two) for one, two in pairs)


@pytest.mark.slow
@given(st.text(max_size=40))
def test_no_text_crashes_the_reader_of_specs(text: str) -> None:
    try:
        outcome = len(make_graphs(text, "small"))
    except BenchRunError as error:
        outcome = len(str(error))
    assert outcome > 0


def test_a_member_of_a_family_that_has_no_such_shape_is_named_and_left_out() -> None:
    left_out: list[str] = []
    made = make_graphs("family:arithmetic: dims=64x64", left_out=left_out)
    assert len(made) == 20
    (sentence,) = left_out
    assert sentence.startswith("family:arithmetic: dims=64x64: convert is left out: ")


def test_a_family_of_which_no_member_fits_says_why() -> None:
    with pytest.raises(UsageError, match=r"no operation supports this: .*is left out"):
        make_graphs("family:conv: groups=3")
