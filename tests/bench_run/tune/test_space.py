"""Axes, and the graphs that they make of a graph."""

from __future__ import annotations

import pytest
from bench_schema.identity import REWRITES, CaseIdentity, original

from bench_run.errors import UsageError
from bench_run.graph.chain import ChainGraph
from bench_run.graph.make import make_graphs
from bench_run.options.read import read_options, read_span
from bench_run.plan.cases import plan_graph
from bench_run.plan.load import make_graph
from bench_run.plan.tuned import GRAPH_AXES, rewritten
from bench_run.tune.settings import parse_space, read_limits, read_size, read_tuning

CONV = "conv_fwd+bias+relu: n=2 c=4 h=8 w=8 k=4 r=3 s=3 pad=1"


def planned(spec):
    return plan_graph(make_graph(next(iter(make_graphs(spec)))))


def test_engines_of_the_axis_come_after_those_of_the_flag():
    assert ("torch", "numpy") == parse_space(["engine=numpy,torch"], ["torch"]).engines


def test_a_space_can_be_given_again_as_it_is_kept():
    space = parse_space(["layout=nchw,nhwc", "plan=all", "engine=numpy,torch"], [])
    assert space == parse_space(space.texts, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=red", "no axis 'colour'"),
        ("layout=chwn", "no value 'chwn'"),
        ("layout=", "expected AXIS=VALUE"),
        ("layout", "expected AXIS=VALUE,... or a file; layout: No such file"),
        ("dtype=half,,float", "an empty value"),
        ("knob:=all", "no axis"),
        ("engine=nosuch", "no engine 'nosuch'"),
        ("dtype=int4", "no engine here has int4"),
        ("approx=perf:1/2", "expected none, perf:1/2:row:0"),
        ("approx=samp:1/2:2", "expected none, perf:1/2:row:0"),
        ("no_such_file.toml", "no_such_file.toml: No such file"),
    ],
)
def test_an_axis_that_means_nothing_is_refused_by_name(text, said):
    with pytest.raises(UsageError, match=said):
        parse_space([text], [])


def test_an_axis_given_twice_is_refused():
    with pytest.raises(UsageError, match="given twice"):
        parse_space(["layout=nchw", "layout=nhwc"], [])


def test_all_stands_for_every_value():
    space = parse_space(["dtype=all", "layout=all"], [])
    assert ("double", "float", "half", "bfloat16", "int8") == space.values("dtype")
    assert ("nchw", "nhwc") == space.values("layout")


def test_a_space_may_be_a_file(tmp_path):
    (tmp_path / "space.toml").write_text('dtype = ["float", "half"]\napprox = "samp:1/4:1"\n')
    space = parse_space([str(tmp_path / "space.toml"), "layout=nhwc"], [])
    axes = {"dtype": ("float", "half"), "approx": ("samp:1/4:1",), "layout": ("nhwc",)}
    assert axes == space.axes


def test_a_space_may_be_a_table_of_knobs(tmp_path):
    text = "fp32,11\nfp16,12\nperf,21 2,1,1,0\nsamp,31 1,1,2,0 1.88 tensorHalfConvolution new\n"
    (tmp_path / "knobs.txt").write_text(text)
    space = parse_space([str(tmp_path / "knobs.txt")], [])
    assert ("float", "half") == space.values("dtype")
    assert ("none", "perf:1/2:row:0", "samp:1/2:0") == space.values("approx")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fp16 12", "line 1: 'fp16 12': expected TYPE,ID"),
        ("fp16,12\nbf16,12", "line 2: id 12 is there twice"),
        ("promise,1", "line 1: no type 'promise'"),
        ("samp,31 1,1,2", "line 1: samp has 4 parameters"),
        ("perf,21 1,1,1,0", "line 1: perf 1,1,1,0: expected one step above 1"),
    ],
)
def test_a_table_of_knobs_is_refused_by_line(text, said, tmp_path):
    (tmp_path / "knobs.txt").write_text(text)
    with pytest.raises(UsageError, match=said):
        parse_space([str(tmp_path / "knobs.txt")], [])


@pytest.mark.parametrize("space", ["approx=perf:1/2:row:0", "dtype=float,int8"])
def test_approximations_need_a_limit_of_the_error(space):
    words = {"--space": [space], "--engine": ["numpy"], "--output": "t.json"}
    options = read_options(words)
    with pytest.raises(UsageError, match="approximations need --limit error=X"):
        read_tuning(words, options)
    limited = {**words, "--limit": ["error=0.1"]}
    assert space in read_tuning(limited, options).space.texts


def test_all_types_are_the_exact_ones_without_a_limit():
    words = {"--space": ["dtype=all"], "--engine": ["numpy"], "--output": "t.json"}
    tuning = read_tuning(words, read_options(words))
    assert ("double", "float", "half", "bfloat16") == tuning.space.values("dtype")


def test_documents_know_every_axis_that_makes_another_graph():
    assert set(REWRITES) == set(GRAPH_AXES)


@pytest.mark.parametrize("variant", [{"approx": "samp:1/2:0"}, {"dtype": "int8"}])
def test_an_approximation_is_a_variant_of_the_graph_that_it_approximates(variant):
    graph = planned(CONV)
    made = rewritten(graph, variant).id
    case = CaseIdentity(made.fingerprint, made.name, made.path, "numpy")
    assert graph.id.fingerprint == original(
        case, {(made.name, graph.id.path): graph.id.fingerprint}
    )


def test_channels_in_blocks_need_more_strides_than_a_tensor_has():
    said = rewritten(planned(CONV), {"layout": "nchwc8"})
    assert said.endswith("a tensor has one stride an axis, and channels in blocks need two")


def test_one_block_of_all_channels_is_channels_last():
    graph = planned(CONV)
    block, last = (rewritten(graph, {"layout": each}) for each in ("nchwc4", "nhwc"))
    assert block.id.fingerprint == last.id.fingerprint


def test_plans_and_knobs_do_not_go_together():
    with pytest.raises(UsageError, match="do not go together"):
        parse_space(["plan=all", "knob:TILE=all"], [])


def test_another_layout_is_another_graph_of_the_same_name():
    graph = planned(CONV)
    made = rewritten(graph, {"layout": "nhwc"})
    assert (graph.id.name, True) == (made.id.name, made.id.fingerprint != graph.id.fingerprint)


def test_the_layout_that_a_graph_has_already_leaves_it_as_it_is():
    graph = planned(CONV)
    assert rewritten(graph, {"layout": "nchw"}) is graph


def test_a_layout_means_nothing_to_a_matrix_product():
    graph = planned("matmul: m=4 n=4 k=4")
    assert rewritten(graph, {"layout": "nhwc"}) is graph


def test_another_type_changes_data_and_not_what_only_exists_inside():
    made = rewritten(planned(CONV), {"dtype": "half"}).loaded.graph
    kinds = {tensor.virtual: tensor.data_type for tensor in made.tensors}
    assert "half" == kinds[False]


def test_layouts_there_and_back_mean_the_same():
    graph = planned(CONV)
    there = rewritten(graph, {"layout": "nhwc"})
    assert graph.id.fingerprint == rewritten(there, {"layout": "nchw"}).id.fingerprint


def test_without_fusion_each_node_is_a_graph_of_a_chain():
    graph = planned(CONV)
    made = rewritten(graph, {"fusion": "off"}).loaded.graph
    assert isinstance(made, ChainGraph)
    assert len(graph.loaded.graph.nodes) == len(made.places)


def test_a_chain_is_given_what_the_fused_graph_was_given():
    graph = planned(CONV)
    chain = rewritten(graph, {"fusion": "off"}).loaded.graph
    assert len(graph.loaded.graph.inputs) == len(chain.inputs)


def test_one_node_has_nothing_to_take_apart():
    graph = planned("relu: n=2 c=4 h=8 w=8")
    assert rewritten(graph, {"fusion": "off"}) is graph


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200)])
def test_a_budget_has_a_unit(text, seconds):
    assert seconds == read_span("--budget", text)


@pytest.mark.parametrize("text", ["0s", "m", "-3s", "nan", "10x", "1ms", ""])
def test_a_budget_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match=f"--budget: expected a time such as .* got '{text}'"):
        read_span("--budget", text)


def test_limits_are_read_together():
    limits = read_limits(["error=1e-3", "workspace=256MiB", "deterministic"])
    assert (1e-3, 256 * 2**20, True) == (
        limits.error,
        limits.workspace_bytes,
        limits.deterministic,
    )


@pytest.mark.parametrize("text", ["error", "workspace=", "speed=3", "deterministic=yes"])
def test_a_limit_of_no_known_form_is_refused(text):
    with pytest.raises(UsageError, match="--limit"):
        read_limits([text])


def test_a_size_without_unit_is_bytes():
    assert 4096 == read_size("--limit workspace", "4096")


@pytest.mark.parametrize(
    ("words", "cache"),
    [({}, "cold"), ({"--cache": "rotate"}, "rotate")],
    ids=["of the file", "of the flag"],
)
def test_the_cache_is_that_of_the_configuration_file_unless_a_flag_says_otherwise(
    tmp_path, words, cache
):
    (tmp_path / "run.toml").write_text('cache = "cold"')
    given = {"--config": str(tmp_path / "run.toml"), "--space": ["layout=nchw,nhwc"], **words}
    assert cache == read_tuning(given, read_options(given)).cache


def test_the_usual_cache_does_not_replace_the_one_of_the_configuration_file(tmp_path):
    (tmp_path / "run.toml").write_text('cache = "hot"\nengine = ["cudnn"]')
    given = {"--config": str(tmp_path / "run.toml"), "--space": ["plan=all"]}
    assert "hot" == read_tuning(given, read_options(given)).cache
