"""What the format leaves open is refused with a sentence; what the user names is run, and said."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import bench_run
from bench_run.errors import UnsupportedGraphError, UsageError
from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from tests.conformance.graphs import FAMILIES, resample, sdpa

PLAIN = FAMILIES["sdpa_plain"]("float", "packed")


@pytest.fixture
def attention(tmp_path, release):
    """Runs the plain attention graph, which stores no scale, on hipdnn."""
    release()
    path = tmp_path / "attention.json"
    path.write_bytes(write_graph(PLAIN))

    def run(**options):
        document = bench_run.run([str(path)], engine=["hipdnn"], rounds=1, iterations=1, **options)
        return document.cases[0]

    return run


def test_attention_without_a_scale_is_refused_with_what_settles_it(attention):
    outcome = attention().outcome
    assert "unsupported" == outcome.status
    assert "attn_scale_value is not set" in outcome.reason
    assert "--sdpa-scale one or --sdpa-scale rsqrt" in outcome.reason


@pytest.mark.parametrize("meaning", ["one", "rsqrt"])
def test_a_scale_that_is_named_is_run_validated_and_said_in_the_case(attention, meaning):
    case = attention(sdpa_scale=meaning)
    size = PLAIN.by_uid[PLAIN.nodes[0].inputs["q"]].dims[3]
    value = 1.0 if meaning == "one" else 1 / math.sqrt(size)
    assert ("completed", "passed") == (case.outcome.status, case.validation.status)
    assert f"taken as {value:.6g} (--sdpa-scale {meaning})" in " ".join(case.notes)


@pytest.mark.long
def test_the_named_meanings_are_different_graphs(attention):
    prints = {attention(sdpa_scale=meaning).graph.fingerprint for meaning in ("one", "rsqrt")}
    assert 2 == len(prints)


def test_a_scale_that_is_stored_is_left_alone(attention, open_engine):
    graph = sdpa("float", "packed", attn_scale_value=0.25)
    engine = open_engine()
    assert 0.25 == engine.build(graph, {}).graph.nodes[0].attributes["attn_scale_value"]


@pytest.mark.parametrize(
    ("bounds", "named"),
    [
        ({"left_bound": 2}, "left_bound"),
        ({"right_bound": 1}, "right_bound"),
        ({"diagonal_alignment": "bottom_right"}, "diagonal_alignment bottom_right"),
    ],
)
def test_a_causal_flag_beside_other_bounds_is_refused(open_engine, bounds, named):
    graph = sdpa("float", "packed", attn_scale_value=1.0, causal_mask=True, **bounds)
    with pytest.raises(UnsupportedGraphError, match=f"causal_mask with {named}: .*bounds alone"):
        open_engine().build(graph, {})


@pytest.mark.parametrize("bound", ["left_bound", "right_bound"])
def test_the_other_causal_flag_is_no_clearer_beside_bounds(open_engine, bound):
    masks = {"causal_mask_bottom_right": True, bound: 1}
    graph = sdpa("float", "packed", attn_scale_value=1.0, **masks)
    with pytest.raises(UnsupportedGraphError, match=f"causal_mask_bottom_right with {bound}: .*al"):
        open_engine().build(graph, {})


BOTTOM = {"causal_mask_bottom_right": True, "diagonal_alignment": "bottom_right"}


@pytest.mark.parametrize(
    "masks", [{"causal_mask": True}, BOTTOM, {"left_bound": 2, "right_bound": 0}]
)
def test_masks_with_one_meaning_are_taken(open_engine, masks):
    graph = sdpa("float", "packed", attn_scale_value=1.0, **masks)
    assert open_engine().build(graph, {}).selection.wanted is None


def test_a_meaning_that_is_none_is_refused_with_the_choices(attention):
    from bench_run.options import read_options

    with pytest.raises(UsageError, match=r"--sdpa-scale: no choice 'two'; choose from one, rsqrt"):
        read_options({"--sdpa-scale": "two", "GRAPH": ["x"]})


def test_a_multiplier_of_ragged_offsets_is_refused_by_name(open_engine):
    graph = sdpa("float", "packed", attn_scale_value=1.0)
    extras = {"ragged_offset_multiplier": 4}
    tensors = (replace(graph.tensors[0], extras=extras), *graph.tensors[1:])
    with pytest.raises(UnsupportedGraphError, match="ragged_offset_multiplier 4: only 1 can"):
        open_engine().build(replace(graph, tensors=tensors), {})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"resample_mode": "bilinear"}, "'bilinear'"),
        ({"resample_mode": "nearest"}, "'nearest'"),
        ({"padding_mode": "edge_val_pad"}, "'edge_val_pad'"),
    ],
)
def test_newer_enumerators_load_and_are_unsupported_by_name(open_engine, change, named):
    graph = resample("avgpool_include_padding", "2d", "float", "packed")
    node = graph.nodes[0]
    newer = replace(graph, nodes=(replace(node, attributes={**node.attributes, **change}),))
    again = read_graph(write_graph(newer), "graph")
    assert {**again.nodes[0].attributes, **change} == again.nodes[0].attributes
    with pytest.raises(UnsupportedGraphError, match=named):
        open_engine().build(again, {})
